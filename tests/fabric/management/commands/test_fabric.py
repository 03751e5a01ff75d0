"""`fabric list` and `fabric publish`."""

import pytest
from django.core.management import CommandError, call_command

from fabric.models import Fabric
from tests.fabric.management.console import command
from tests.fabric.services.world import SMALL


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "small.yaml"
    path.write_text(SMALL)
    return path


def test_publish_then_list(actor, file):
    done = command("fabric", "publish", str(file))
    assert (done.code, done.out, done.err) == (0, "small: revision 1 is published\n", "")
    again = command("fabric", "publish", str(file), "--json")
    assert again.last["changed"] is False
    assert (again.last["name"], again.last["number"], len(again.last["digest"])) == ("small", 1, 32)
    (row,) = command("fabric", "list", "--json").last
    assert (row["name"], row["number"], row["tier"], row["published_by"]) == ("small", 1, "interactive", "owner")
    assert command("fabric", "list").out == "small  revision 1  interactive  A small fabric\n"


def test_an_empty_list_says_what_to_do(actor):
    done = command("fabric", "list")
    assert (done.code, done.out) == (0, "")
    assert "publish one with" in done.err


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b"name: small\ntitle: [", "small.yaml, line 2, column "),
        (SMALL.replace("model: script", "model: big").encode(), "small.yaml, line 12, column 12, agents.0.model: no model is named 'big'"),
        (SMALL.replace("provider: scripted", "provider: oracle").encode(), "models.0.provider: no provider is named 'oracle'; there are: anthropic, google, openai, scripted"),
        (b"\xff\xfe", "small.yaml is no UTF-8 text (byte 0 is not)"),
        (b"x" * 300_000, "small.yaml has 300,000 bytes; at most 262,144 are taken as a fabric"),
        (b"", "a fabric is fields with values"),
    ],
)  # fmt: skip
def test_bad_input_is_one_sentence_a_problem_and_exit_code_2(actor, file, text, said):
    file.write_bytes(text)
    done = command("fabric", "publish", str(file))
    assert (done.code, done.out) == (2, "")
    assert said in done.err
    assert "Traceback" not in done.err
    assert not Fabric.objects.exists()


def test_a_file_that_is_not_there(actor, tmp_path):
    done = command("fabric", "publish", str(tmp_path / "none.yaml"))
    assert done.code == 2
    assert done.err.endswith("none.yaml cannot be read: No such file or directory\n")


def test_warnings_and_deviations_are_said_beside_the_result(actor, file):
    file.write_text(
        SMALL.replace("  - name: read_document\n", "  - name: read_document\n  - name: calculator\n")
        + "decision_table:\n  provider_failure:\n    high_stakes: {rungs: [{reaction: surface}], deviation: A pilot.}\n"
    )
    done = command("fabric", "publish", str(file))
    assert done.code == 0
    assert "note: small.yaml, line 10, column 5, tools.1: tool 'calculator' is used nowhere" in done.err
    assert "deviation: decision_table.provider_failure.high_stakes: it ends with surface" in done.err
    assert "(A pilot.)" in done.err


def test_an_action_has_to_be_named(actor):
    with pytest.raises(CommandError, match="list\\|publish"):
        call_command("fabric")
