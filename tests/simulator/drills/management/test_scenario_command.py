"""`manage.py scenario`: what is in the library, what a file says, what a scenario shows of a fabric, and the exit code a pipeline reads."""

from __future__ import annotations

import io
import json
from xml.etree import ElementTree as ET

import pytest
from django.core.management import call_command

from fabric.core.values.taxonomy import Tier
from fabric.models import Incarnation
from fabric.services.errors import Refused
from simulator.drills.batches.batch import drill_claim, drill_end
from simulator.drills.management.live.drills import played_here
from simulator.drills.models.tables import Drill, Status, StoredScenario
from simulator.drills.reports.scenarios import Plays, plays_json, plays_junit
from simulator.scenarios.spec.chaostoolkit import build_experiment
from simulator.scenarios.spec.collection import FOLDER, library
from simulator.scenarios.spec.journal import read_journal
from simulator.scenarios.spec.toml import parse_scenario
from tests.simulator.drills.management.sources import source


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
    assert "infrastructure" in next(line for line in lines if line.startswith("messages-lost "))


def test_one_is_shown_in_words_with_its_source():
    code, out, _ = scenario("show", "rate-limit-then-healthy")
    assert code == 0
    assert (
        "The endpoint answers 429 with a Retry-After: each model call of the finalizer, 2 times, to come again after 3.0 s"
        in out
    )
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
    assert scenario("check", str(path)) == (0, "mine.toml: mine, 1 disturbance, failure type provider_failure\n", "")
    tree = build_experiment(parse_scenario(source())) | {"controls": []}
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
    assert "it names unsafe output, and the first decision was provider failure: retry" in err
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
        (("run", "endpoint-down", "--seed", "-1"), "--seed is '-1'"),
        (("run", "nosuch.toml"), "nosuch.toml cannot be read: No such file or directory"),
        (("run", "endpoint-down", "--junit", "."), "--junit: . is no file"),
        (("export", "nosuch"), "there is no scenario 'nosuch'"),
        (
            ("run", "endpoint-down", "small", "--live"),
            "--live plays a scenario on this installation: give --here as well",
        ),
        (("run", "endpoint-down", "small", "--here"), "--here is of live drills: give --live as well"),
        (("run", "endpoint-down", "small", "--cap-usd", "1"), "--cap-usd is of drills with --live --here"),
        (("run", "endpoint-down", "--live", "--here"), "give the names of both, and no file"),
        (("run", "mine.toml", "small", "--live", "--here"), "give the names of both, and no file"),
        (("run", "endpoint-down", "small", "--live", "--here", "--dry"), "--dry strikes nothing"),
        (("run", "endpoint-down", "small", "--live", "--here", "--cap-s", "1"), "--cap-s is '1'"),
    ],
)
def test_what_cannot_be_done_is_one_sentence(actor, arguments, said):
    code, out, err = scenario(*arguments)
    assert (code, out) == (2, "")
    assert said in err
    assert len(err.splitlines()) == 1


@pytest.mark.parametrize("given", ["0", "-1", "x", "NaN", "1e9", "0.0000001", "1" * 30])
def test_a_cost_cap_that_is_none_is_refused_with_what_may_be_given(actor, given):
    code, out, err = scenario("run", "endpoint-down", "small", "--live", "--here", "--cap-usd", given)
    assert (code, out) == (2, "")
    assert ": give dollars from 0.000001 to 1,000,000, six decimal places at most" in err


def test_what_is_played_here_is_told_as_in_virtual_time(actor, small):
    Incarnation.objects.create(name="w", started_at=0, lease_until=2**53)
    asked, said = [], []
    runs = {"before": "01a2-000000000001", "during": "01a2-000000000002"}

    def worker():
        """A worker that is woken brings each drill of the batch to its end."""
        chain = {"expected": "provider_failure: retry", "observed": "retry > surface > failed"}
        held = [
            {"probe": name, "output": output, "why_not": ""}
            for name, output in (("state", "completed"), ("violations", 0))
        ]
        body = json.dumps(
            {
                "struck": {"unavailable": 2},
                "equipped": ["a finalizer"],
                "steady": {"before": held, "after": held},
                "runs": runs,
            }
        )
        for row, (status, verdict, why) in zip(list(Drill.objects.order_by("place")), CAME, strict=True):
            asked.append((row.mode, row.tier, row.cap_s, row.cap_usd_micros, row.parameters, row.seed))
            assert drill_end(
                drill_claim(row.batch, "h"), "h", status=status, verdict=verdict, why=why, body=body, **chain
            )

    found = list(
        played_here(
            "small", "endpoint-down", list(Tier), parameters={"status": 500}, seed=7, cap_s=30, cap_usd_micros=250_000, wake=worker, say=said.append,
        )
    )  # fmt: skip
    assert asked == [("live", tier, 30, 250_000, '{"status": 500}', 7) for tier in Tier]
    assert said[:3] == [
        "endpoint-down x interactive: waits for a worker",
        "endpoint-down x interactive: the undisturbed run 000000000001 began",
        "endpoint-down x interactive: the disturbed run 000000000002 began",
    ]
    assert [line.partition(":")[0] for line in said[3::3]] == ["endpoint-down x batch", "endpoint-down x high stakes"]
    plays = Plays("endpoint-down", "small", found, 1.0)
    told = plays_json(plays)
    assert (told["fabric"], told["passed"], told["failed"]) == ("small", 1, 2)
    assert [(one["tier"], one["verdict"], one["why"], one["struck"], one["lines"]) for one in told["tiers"]] == [
        ("interactive", "pass", "", {"unavailable": 2}, []),
        ("batch", "deviated", "it did otherwise", {"unavailable": 2}, []),
        ("high_stakes", "unknown", "aborted: it has taken 30 s", {"unavailable": 2}, []),
    ]
    suite = ET.fromstring(plays_junit(plays))[0]
    assert (suite.attrib["tests"], suite.attrib["failures"], suite.attrib["errors"]) == ("3", "1", "1")
    assert [read_journal(one.journal()).status for one in found] == ["completed", "completed", "aborted"]


def test_who_stops_listening_stops_what_is_left(actor, small):
    Incarnation.objects.create(name="w", started_at=0, lease_until=2**53)

    def worker():
        row = Drill.objects.get(place=0)
        drill_end(drill_claim(row.batch, "h"), "h", status=Status.COMPLETED, verdict="pass")

    told = played_here("small", "endpoint-down", list(Tier), parameters={}, seed=None, cap_s=None, cap_usd_micros=None, wake=worker, say=str)  # fmt: skip
    first = next(told)
    assert first.verdict == "pass"
    with pytest.raises(Refused, match="before its steady state was looked at"):
        first.journal()
    told.close()
    rows = Drill.objects.order_by("place").values_list("status", "why")
    assert list(rows)[1:] == [("aborted", "the command that waited for them was ended")] * 2


CAME = (
    (Status.COMPLETED, "pass", ""),
    (Status.COMPLETED, "deviated", "it did otherwise"),
    (Status.ABORTED, "", "it has taken 30 s"),
)


def test_without_a_worker_nothing_is_asked_for(actor, small):
    code, out, err = scenario("run", "endpoint-down", "small", "--live", "--here")
    assert (code, out) == (2, "")
    assert "no worker is alive, and a live drill needs one" in err
    assert scenario("run", "tool-error", "small", "--live", "--here")[0] == 2
    assert not Drill.objects.exists()


def test_export_and_import_give_back_the_same(actor, tmp_path):
    for name, more in (("as.toml", ()), ("as.json", ("--chaostoolkit",))):
        path = tmp_path / name
        assert scenario("export", "endpoint-down", *more, "--output", str(path))[0] == 0
        kept = path.stem + "-" + path.suffix[1:]
        assert scenario("import", str(path), "--name", kept)[:2] == (0, f"{kept} is in the library\n")
        again = parse_scenario(StoredScenario.objects.get(name=kept).source)
        assert again == library()["endpoint-down"].model_copy(update={"name": kept})
    code, _, err = scenario("import", str(path))
    assert (code, err) == (2, "the name endpoint-down is that of a shipped scenario: give this one another\n")
