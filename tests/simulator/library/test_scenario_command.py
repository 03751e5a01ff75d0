"""`manage.py scenario`: what is in the library, what a file says, what a scenario shows of a fabric, and the exit code a pipeline reads."""

from __future__ import annotations

import io
import json
from xml.etree import ElementTree as ET

import pytest
from django.core.management import call_command

from fabric.core.taxonomy import Tier
from simulator.drills.models import StoredScenario
from simulator.scenarios.chaostoolkit import experiment_of
from simulator.scenarios.journal import read_journal
from simulator.scenarios.reading import read
from simulator.scenarios.shipped import FOLDER, library
from tests.simulator.library.sources import source


def scenario(*arguments: str) -> tuple[int, str, str]:
    out, err = io.StringIO(), io.StringIO()
    try:
        call_command("scenario", *arguments, stdout=out, stderr=err)
    except SystemExit as ended:
        return int(ended.code or 0), out.getvalue(), err.getvalue()
    return 0, out.getvalue(), err.getvalue()


def test_the_library_is_listed_its_own_first(actor):
    StoredScenario.objects.create(
        workspace_id=actor.workspace_id, name="mine", source=source(), made_by="owner", made_at=1, changed_at=1
    )
    code, out, _ = scenario("list", "--json")
    found = json.loads(out)["scenarios"]
    assert code == 0
    assert [one["name"] for one in found] == ["mine", *library()]
    assert found[0] == {
        "name": "mine", "title": "The endpoint is down", "origin": "ours", "enters": "provider_failure", "faults": ["unavailable"],
        "tiers": list(Tier), "seed": 5, "problems": [],
    }  # fmt: skip
    lines = scenario("list")[1].splitlines()
    assert len(lines) == len(found)
    assert lines[0].split() == ["mine", "provider_failure", "all", "tiers", "ours", "The", "endpoint", "is", "down"]
    assert "around a run" in next(line for line in lines if line.startswith("messages-lost "))


def test_one_is_shown_in_words_with_its_source():
    code, out, _ = scenario("show", "rate-limit-then-healthy")
    assert code == 0
    assert "429 with a Retry-After: each model call of the finalizer, 2 times, to come again after 3.0 s" in out
    assert 'state: "completed"' in out
    assert out.endswith((FOLDER / "rate-limit-then-healthy.toml").read_text())


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('name = "x"\n', "mine.toml, line 1, description: is missing; give it a value"),
        (source().replace("finalizer", "finaliser"), "mine.toml, line 12, disturbance.0.role: 'finaliser' is none of"),
        ("name = \n", "mine.toml, line 1, column 8: this is no TOML"),
    ],
)
def test_a_file_is_checked_by_file_line_and_path(tmp_path, text, said):
    path = tmp_path / "mine.toml"
    path.write_text(text)
    code, out, err = scenario("check", str(path))
    assert (code, out) == (2, "")
    assert any(line.startswith(said) for line in err.splitlines())


def test_a_good_file_and_an_experiment_are_told(tmp_path):
    path, experiment = tmp_path / "mine.toml", tmp_path / "mine.json"
    path.write_text(source())
    assert scenario("check", str(path)) == (0, "mine.toml: mine, 1 disturbance, enters provider_failure\n", "")
    tree = experiment_of(read(source())) | {"controls": []}
    experiment.write_text(json.dumps(tree))
    code, out, err = scenario("check", str(experiment))
    assert (code, out.split(":")[0]) == (0, "mine.json")
    assert err == "mine.json, controls: controls are not applied here, and are left out\n"


def test_it_is_played_in_the_default_table_and_told_for_a_pipeline(tmp_path):
    report, record = tmp_path / "junit.xml", tmp_path / "journal.json"
    code, out, err = scenario(
        "run",
        "endpoint-down",
        "--set",
        "status=500",
        "--seed",
        "7",
        "--json",
        "--junit",
        str(report),
        "--journal",
        str(record),
    )
    found = json.loads(out)
    assert code == 0
    assert (found["scenario"], found["fabric"], found["passed"], found["failed"]) == (
        "endpoint-down",
        "default-table",
        3,
        0,
    )
    assert [(one["tier"], one["verdict"], one["seed"]) for one in found["tiers"]] == [
        (tier, "pass", 7) for tier in Tier
    ]
    assert len(err.splitlines()) == 3
    suite = ET.parse(report).getroot()[0]
    assert suite.attrib | {"time": ""} == {
        "name": "endpoint-down", "tests": "3", "failures": "0", "errors": "0", "skipped": "0", "time": "",
    }  # fmt: skip
    for tier in Tier:
        journal = read_journal((tmp_path / f"journal-{tier}.json").read_text())
        assert (journal.status, journal.deviated) == ("completed", False)


def test_what_does_not_pass_ends_with_1(tmp_path):
    path, report = tmp_path / "mine.toml", tmp_path / "junit.xml"
    path.write_text(source(failure="unsafe_output"))
    code, out, err = scenario("run", str(path), "--tier", "batch", "--junit", str(report))
    assert code == 1
    assert out.startswith("0 of 1 tiers passed, in ")
    assert "it names the row unsafe_output, and the first decision was provider_failure: retry" in err
    [failure] = ET.parse(report).getroot().iter("failure")
    assert failure.attrib["type"] == "deviated"


def test_a_dry_run_says_what_would_be_struck_and_strikes_nothing():
    code, out, err = scenario("run", "endpoint-down", "--tier", "batch", "--dry")
    assert (code, err) == (0, "")
    assert "batch: default-table ends completed undisturbed" in out
    assert "    writer, finalize, at " in out
    assert "$0.00" in out
    found = json.loads(scenario("run", "messages-lost", "--tier", "batch", "--dry", "--json")[1])
    [tier] = found["tiers"]
    assert tier["undisturbed"]["state"] == "completed"
    assert (tier["struck"][0]["calls"], tier["struck"][0]["first"]) == (None, [])


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("run", "endpoint-dwn"), "there is no scenario 'endpoint-dwn'; did you mean 'endpoint-down'?"),
        (("run", "endpoint-down", "--set", "status"), "parameters: 'status' is no parameter; write name=value"),
        (("run", "endpoint-down", "--set", "status=x"), "'x' is not a whole number"),
        (("run", "endpoint-down", "--tier", "batsh"), "--tier: 'batsh' is none; did you mean batch?"),
        (("run", "endpoint-down", "nosuch"), "no fabric is named 'nosuch'"),
        (("run", "endpoint-down", "--seed", "-1"), "--seed: '-1' is none"),
        (("run", "nosuch.toml"), "nosuch.toml cannot be read: No such file or directory"),
        (("run", "endpoint-down", "--junit", "."), "--junit: . is no file"),
        (("export", "nosuch"), "there is no scenario 'nosuch'"),
    ],
)
def test_what_cannot_be_done_is_one_sentence(actor, arguments, said):
    code, out, err = scenario(*arguments)
    assert (code, out) == (2, "")
    assert said in err
    assert len(err.splitlines()) == 1


def test_export_and_import_give_back_the_same(actor, tmp_path):
    for name, more in (("as.toml", ()), ("as.json", ("--chaostoolkit",))):
        path = tmp_path / name
        assert scenario("export", "endpoint-down", *more, "--output", str(path))[0] == 0
        kept = path.stem + "-" + path.suffix[1:]
        assert scenario("import", str(path), "--name", kept)[:2] == (0, f"{kept} is in the library\n")
        again = read(StoredScenario.objects.get(name=kept).source)
        assert again == library()["endpoint-down"].model_copy(update={"name": kept})
    code, _, err = scenario("import", str(path))
    assert (code, err) == (2, "the name endpoint-down is that of a shipped scenario: give this one another\n")
