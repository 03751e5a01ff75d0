"""`manage.py fabric`: fabrics that live in a repository."""

import json
from datetime import UTC, datetime, timedelta
from typing import get_args, get_type_hints

import pytest
from django.core.management import CommandError, call_command

from fabric.management.output import fabrics as words
from fabric.management.output.fabrics import MARKS
from fabric.models import ChangeRequest, Fabric, Revision
from fabric.selectors.fabrics.differences import SpecChange, spec_changes
from fabric.services.actors import find_actor
from fabric.services.drafts.change_requests import change_approve, change_request_open
from fabric.services.fabrics.checks import MORE_LATER
from fabric.services.fabrics.schema import fabric_schema
from fabric.services.fabrics.yaml.document import fabric_read
from fabric.services.fabrics.yaml.export import written_out
from tests.fabric.management.console import command
from tests.fabric.services.world import EYES, SMALL
from tests.people import member


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
        (SMALL.replace("provider: scripted", "provider: oracle").encode(), "models.0.provider: no provider is named 'oracle'; there are: anthropic, azure, bedrock, fixed, google, openai, scripted, vertex"),
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


def test_a_message_is_kept_with_the_revision(actor, file):
    file.write_text(SMALL)
    assert command("fabric", "publish", str(file), "--message", "The first one.").code == 0
    assert command("fabric", "show", "small", "--json").last["revisions"][0]["message"] == "The first one."


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
    with pytest.raises(CommandError, match="list\\|show.*publish"):
        call_command("fabric")


SECOND = SMALL.replace("A small fabric", "A better fabric")
BAD = SMALL.replace("model: script\n    instructions: Plan.", "model: big\n    instructions: Plan.")


@pytest.fixture
def second(tmp_path):
    path = tmp_path / "second.yaml"
    path.write_text(SECOND)
    return path


@pytest.fixture
def twice(actor, file, second):
    """Two revisions, the second one published."""
    for path in (file, second):
        assert command("fabric", "publish", str(path)).code == 0


def test_show_says_which_revisions_there_are(twice):
    done = command("fabric", "show", "small")
    assert done.out.startswith("small: A better fabric\nrevision 2 (published), content ")
    assert "\n* 2  " in done.out
    assert "\n  1  " in done.out
    old = command("fabric", "show", "small", "--revision", "1", "--json").last
    assert (old["shown"], old["number"], old["has_source"]) == (1, 2, True)
    assert [one["current"] for one in old["revisions"]] == [True, False]
    assert "(revision 2 is published)" in command("fabric", "show", "small", "--revision", "1").out


class TestExport:
    def test_it_is_what_was_published_byte_for_byte(self, actor, tmp_path):
        path, out = tmp_path / "crlf.yaml", tmp_path / "out.yaml"
        path.write_bytes(f"# Über uns.\n{SMALL}# The end".replace("\n", "\r\n").encode())
        assert command("fabric", "publish", str(path)).code == 0
        done = command("fabric", "export", "small", "-o", str(out))
        assert (done.code, done.out) == (0, "")
        assert out.read_bytes() == path.read_bytes()
        assert command("fabric", "export", "small").out == path.read_bytes().decode()

    def test_a_revision_and_written_out(self, twice):
        assert command("fabric", "export", "small", "--revision", "1").out == SMALL
        assert command("fabric", "export", "small", "--written-out").out == written_out(fabric_read(SECOND).spec)
        told = command("fabric", "export", "small", "--json").last
        assert (told["number"], told["as_published"], told["yaml"]) == (2, True, SECOND)

    def test_a_folder_that_is_not_there(self, twice, tmp_path):
        done = command("fabric", "export", "small", "-o", str(tmp_path / "no" / "x.yaml"))
        assert (done.code, done.err.count("\n")) == (2, 1)
        assert "cannot be used: No such file or directory" in done.err


class TestDiff:
    def test_same_different_and_error(self, twice, file, tmp_path):
        done = command("fabric", "diff", "small@1", "small")
        assert (done.code, done.out) == (1, "  ~ title: A small fabric -> A better fabric\n")
        (tmp_path / "commented.yaml").write_text(f"# Only a comment.\n{SMALL}")
        same = command("fabric", "diff", str(file), str(tmp_path / "commented.yaml"))
        assert (same.code, same.out) == (0, "")
        assert same.err == "small.yaml and commented.yaml are the same content\n"
        assert command("fabric", "diff", str(file), "small@9").code == 2

    def test_line_by_line_and_as_json(self, twice, file):
        done = command("fabric", "diff", str(file), "small", "--text")
        assert "--- small.yaml\n+++ small@2\n" in done.out
        assert "-title: A small fabric\n+title: A better fabric\n" in done.out
        told = command("fabric", "diff", str(file), "small@2", "--json")
        assert (told.code, told.out.count("\n")) == (1, 1)
        change = {"path": "title", "kind": "changed", "before": "A small fabric", "after": "A better fabric"}
        assert told.last == {"from": "small.yaml", "to": "small@2", "same": False, "changes": [change]}

    def test_every_kind_of_change_has_its_mark(self):
        assert set(MARKS) == set(get_args(get_type_hints(SpecChange)["kind"]))

    @pytest.mark.parametrize(
        ("other", "said"),
        [
            ("nosuch", "no fabric is named 'nosuch'; there are: small"),
            ("small@77", "has no version r77"),
            ("small@x", "small@x cannot be read: No such file"),
        ],
    )
    def test_what_there_is_not_is_one_sentence(self, twice, other, said):
        done = command("fabric", "diff", "small", other)
        assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)
        assert said in done.err


class TestLint:
    def test_what_could_be_published_ends_with_0(self, actor, file):
        done = command("fabric", "lint", str(file))
        assert (done.code, done.out) == (0, "small.yaml: can be published\n")
        assert not Fabric.objects.exists()

    def test_every_problem_is_told_with_file_line_column_and_path(self, actor, file):
        file.write_text(BAD.replace("[read_document]", "[read_docment]"))
        done = command("fabric", "lint", str(file))
        assert done.code == 1
        assert done.out.splitlines() == [
            "error: small.yaml, line 12, column 12, agents.0.model: no model is named 'big'; there are: script",
            "error: small.yaml, line 17, column 5, agents.1.tools: no tool is named 'read_docment'; there are: read_document",
            f"note: {MORE_LATER}",
            "small.yaml: cannot be published (2 errors)",
        ]
        told = command("fabric", "lint", str(file), "--json").last
        assert told["problems"][0] == {
            "path": "agents.0.model",
            "line": 12,
            "column": 12,
            "sentence": "no model is named 'big'; there are: script",
        }
        assert (told["publishable"], told["name"]) == (False, None)

    def test_warnings_and_deviations_keep_nothing_from_being_published(self, actor, file):
        file.write_text(
            SMALL.replace("  - name: read_document\n", "  - name: read_document\n  - name: calculator\n")
            + "decision_table:\n  provider_failure:\n    high_stakes: {rungs: [{reaction: surface}], deviation: A pilot.}\n"
        )
        done = command("fabric", "lint", str(file), "--json")
        assert (done.code, done.last["publishable"]) == (0, True)
        assert [(one["path"], one["line"]) for one in done.last["warnings"]] == [("tools.1", 10)]
        assert [(one["path"], one["line"], one["reason"]) for one in done.last["deviations"]] == [
            ("decision_table.provider_failure.high_stakes", 28, "A pilot.")
        ]

    def test_several_files_and_what_is_published(self, twice, file, tmp_path):
        (tmp_path / "bad.yaml").write_text("name: [")
        done = command("fabric", "lint", str(file), "small", "small@1", str(tmp_path / "bad.yaml"), "--json")
        assert done.code == 1
        told = [json.loads(line) for line in done.out.splitlines()]
        assert [(one["file"], one["publishable"]) for one in told] == [
            ("small.yaml", True),
            ("small@2", True),
            ("small@1", True),
            ("bad.yaml", False),
        ]


class TestPublish:
    def test_none_is_published_where_one_cannot_be(self, actor, file, tmp_path):
        bad = tmp_path / "bad.yaml"
        bad.write_text(BAD.replace("name: small", "name: bad"))
        done = command("fabric", "publish", str(file), str(bad))
        assert (done.code, done.out) == (2, "")
        assert "bad.yaml, line 12, column 12" in done.err
        assert done.err.endswith("nothing was published: every file has to be publishable\n")
        assert not Fabric.objects.exists()

    def test_several_each_on_its_line(self, actor, file, tmp_path):
        other = tmp_path / "other.yaml"
        other.write_text(SMALL.replace("name: small", "name: other"))
        done = command("fabric", "publish", str(file), str(other), "--json")
        assert [json.loads(line)["name"] for line in done.out.splitlines()] == ["small", "other"]

    def test_two_files_of_one_fabric_are_refused(self, actor, file, second):
        done = command("fabric", "publish", str(file), str(second))
        assert (done.code, done.err.count("\n")) == (2, 1)
        assert "are both the fabric 'small'; publish one of them" in done.err
        assert not Fabric.objects.exists()

    def test_a_dry_run_says_what_would_change(self, actor, file, second):
        new = command("fabric", "publish", str(file), "--dry-run")
        assert new.out == "small: revision 1 would be published as a new revision, and none is published now\n"
        command("fabric", "publish", str(file))
        done = command("fabric", "publish", str(second), "--dry-run")
        assert done.out == (
            "small: revision 2 would be published as a new revision, in place of revision 1\n"
            "  ~ title: A small fabric -> A better fabric\n"
        )
        assert command("fabric", "publish", str(file), "--dry-run").out.endswith("already; nothing would change\n")
        told = command("fabric", "publish", str(second), "--dry-run", "--json").last
        assert (told["dry_run"], told["number"], told["was"], told["new"]) == (True, 2, 1, True)
        assert Revision.objects.count() == 1

    def test_another_revision_than_expected_is_a_conflict(self, twice, file, second):
        for more in ([], ["--dry-run"]):
            done = command("fabric", "publish", str(file), "--expect-revision", "1", *more)
            assert (done.code, done.out) == (2, "")
            assert "has revision 2 published, and revision 1 was expected" in done.err
        two = command("fabric", "publish", str(file), str(second), "--expect-revision", "1")
        assert (two.code, two.err) == (2, "--expect-revision is about one fabric; give one FILE with it\n")

    def test_an_older_content_and_another_text_are_said_in_words(self, twice, file):
        file.write_text(f"# A comment.\n{SMALL}")
        again = "small: revision 1 is published again, and revision 2 no longer is; a content keeps its number\n"
        assert command("fabric", "publish", str(file)).out == again
        file.write_text(SMALL)
        kept = "small: revision 1 was published already; its text is replaced, its content is the same\n"
        assert command("fabric", "publish", str(file)).out == kept


def test_revert_says_what_happened(twice):
    done = command("fabric", "revert", "small", "1", "--expect-revision", "2")
    assert done.out == (
        "small: revision 1 is published again, and revision 2 no longer is; a content keeps its number, so no new revision was made\n"
    )
    again = command("fabric", "revert", "small", "1", "--json").last
    assert (again["number"], again["changed"]) == (1, False)
    wrong = command("fabric", "revert", "small", "8")
    assert (wrong.code, wrong.err.count("\n")) == (2, 1)


def test_the_schema_is_written_where_an_editor_finds_it(actor, tmp_path):
    path = tmp_path / "fabric.schema.json"
    assert command("fabric", "schema", "-o", str(path)).code == 0
    assert json.loads(path.read_text()) == fabric_schema() == command("fabric", "schema", "--json").last
    assert command("fabric", "schema").out == path.read_text()


NASTY = {
    "a bomb": ("title: &a [x, x]\nexample: [*a, *a]\n", "line 1, column 8: the anchor &a is not read"),
    "an alias": ("title: *a\n", "the alias *a is not read"),
    "a merge": ("<<: {a: 1}\n", "line 1, column 1: merge keys (<<) are not read"),
    "a key twice": (SMALL + "title: Again\n", "line 25, column 1: the key 'title' is there twice"),
    "an unknown field": (SMALL + "colour: red\n", "line 25, column 1, colour: there is no such field"),
    "a wrong type": (SMALL.replace("[reader]", "reader"), "line 20, column 12, topology.workers: 'reader'"),
    "a tag": ("title: !!python/object:os.system x\n", "the tag"),
    "too deep": ("[" * 100 + "]" * 100, "it is nested deeper than 32 levels"),
    "too many": ("a: [" + "1," * 20_000 + "]", "there are more than 10,000 values"),
    "two documents": (SMALL + "---\n" + SMALL, "there is a second document"),
    "a fabric in a list": ("- name: small\n", "a fabric is fields with values"),
}


@pytest.mark.parametrize("what", NASTY)
@pytest.mark.parametrize("action", ["lint", "publish", "diff"])
def test_what_is_no_fabric_is_told_with_its_line_by_every_action(actor, file, what, action):
    text, said = NASTY[what]
    file.write_text(text)
    done = command("fabric", action, str(file), *([str(file)] if action == "diff" else []))
    assert done.code == (1 if action == "lint" else 2)
    assert "small.yaml, line " in done.out + done.err
    assert said in done.out + done.err
    assert "Traceback" not in done.err
    assert not Fabric.objects.exists()


def test_what_two_agree_to_is_asked_for_and_agreed_to_by_a_second_person(actor, file):
    """The command line is the owner's: it approves what others ask for, and nothing of its own."""
    file.write_text(EYES)
    alone = command("fabric", "publish", str(file))
    assert (alone.code, alone.out) == (2, "")
    assert "open a request with python3 manage.py fabric publish FILE --request" in alone.err
    assert "a second person must approve it" in command("fabric", "publish", str(file), "--dry-run").out
    asked = command("fabric", "publish", str(file), "--request", "--message", "More eyes.", "--json").last
    assert (asked["state"], asked["author"], asked["base"], asked["message"]) == ("open", "owner", None, "More eyes.")
    assert asked["id"] in command("fabric", "requests").out
    own = command("fabric", "approve", asked["id"])
    assert (own.code, "cannot approve it" in own.err) == (2, True)
    ana = find_actor(member("ana"))
    assert change_approve(actor=ana, request_id=asked["id"], digest=asked["digest"]).number == 1
    assert command("fabric", "requests").out == ""
    assert "as revision 1 by ana" in command("fabric", "requests", "small", "--all").out
    of_ana = change_request_open(actor=ana, source=SMALL)
    rejected = command("fabric", "reject", of_ana.id, "--reason", "Keep the eyes.")
    assert (rejected.code, "rejected by owner: Keep the eyes." in rejected.out) == (0, True)
    of_ana = change_request_open(actor=ana, source=SMALL)
    unseen = command("fabric", "approve", of_ana.id)
    assert (unseen.code, unseen.out) == (2, "")
    (_, *changes, digest, sentence) = unseen.err.splitlines()
    assert changes == [
        words.change(one).strip() for one in spec_changes(*(fabric_read(text).spec for text in (EYES, SMALL)))
    ]
    assert digest == f"digest {of_ana.digest}"
    assert "an approval names the content it approves" in sentence
    approved = command("fabric", "approve", of_ana.id, "--digest", of_ana.digest[:12])
    assert approved.out == "small: revision 2 is published\n"
    mine = command("fabric", "revert", "small", "1", "--request", "--json").last
    assert (mine["state"], mine["base"]) == ("open", 2)
    assert command("fabric", "revert", "small", "1").code == 2
    assert "withdrawn" in command("fabric", "withdraw", mine["id"]).out
    assert command("fabric", "approve", "none").code == 2


def test_a_publication_is_scheduled_listed_and_cancelled(actor, file):
    command("fabric", "publish", str(file))
    file.write_text(SMALL.replace("A small fabric", "Second"))
    done = command("fabric", "publish", str(file), "--at", "2001-01-01T10:00Z")
    assert (done.code, done.err) == (2, "2001-01-01 10:00 UTC is past: choose a later time\n")
    done = command("fabric", "publish", str(file), "--at", "soon")
    assert (done.code, "'soon' is no date and time: write it as 2026-12-01T18:00" in done.err) == (2, True)
    both = command("fabric", "publish", str(file), str(file), "--at", "2001-01-01T10:00Z")
    assert "--at is about one fabric; give one FILE with it" in both.err
    assert "give one of them" in command("fabric", "publish", str(file), "--at", "soon", "--request").err
    at = f"{datetime.now(UTC) + timedelta(days=1):%Y-%m-%d %H:%M}"
    done = command("fabric", "publish", str(file), "--at", f"{at}Z", "--message", "Later.")
    request = ChangeRequest.objects.get()
    said = f"small: request {request.id} is published at {at} UTC; `python3 manage.py fabric withdraw {request.id}` cancels it\n"
    assert (done.code, done.out) == (0, said)
    (row,) = command("fabric", "requests", "--json").last
    assert (row["publish_at"], row["message"]) == (f"{at} UTC", "Later.")
    assert f"open at {at} UTC" in command("fabric", "requests").out
    assert command("fabric", "withdraw", request.id).code == 0
    assert ChangeRequest.objects.get().state == "withdrawn"
