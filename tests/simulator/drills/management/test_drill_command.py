"""`manage.py drill`: which cells of which fabric, how it is told, and the exit code a pipeline reads."""

from __future__ import annotations

import io
import json
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from django.core.management import call_command

from fabric.core.reactions import react as reactions
from fabric.core.values.taxonomy import FailureType, Tier
from fabric.services.actors import owner_actor
from fabric.services.fabrics.revisions import fabric_publish
from fabric.services.fabrics.templates import SAMPLES, samples_publish
from fabric.services.fabrics.yaml.document import fabric_dump
from simulator.scenarios.promises.digests import CELLS
from tests.fabric.services.world import SMALL
from tests.simulator.drills.drilled import with_cell
from tests.simulator.drills.selectors.test_standings import ONE, drilled, named
from tests.simulator.scenarios.play.test_cells import BY_DEFAULT, by_hand

FIELDS = ["failure", "tier", "verdict", "expected", "observed", "seed"]


def drill(*arguments: str) -> tuple[int, str, str]:
    out, err = io.StringIO(), io.StringIO()
    try:
        call_command("drill", "run", *arguments, stdout=out, stderr=err)
    except SystemExit as ended:
        return int(ended.code or 0), out.getvalue(), err.getvalue()
    return 0, out.getvalue(), err.getvalue()


def count_cells(*arguments: str) -> str:
    out = io.StringIO()
    call_command("drill", "coverage", *arguments, stdout=out)
    return out.getvalue()


def test_all_24_cells_of_the_default_table_end_with_one_line_of_json():
    code, out, err = drill("--all", "--json")
    [line] = out.splitlines()
    found = json.loads(line)
    assert (code, list(found)) == (0, ["cells", "passed", "failed", "seconds"])
    assert (found["passed"], found["failed"]) == (24, 0)
    assert all(list(cell) == FIELDS for cell in found["cells"])
    assert {(cell["failure"], cell["tier"]): cell["observed"] for cell in found["cells"]} == {
        **by_hand(),
        **{(FailureType.PROVIDER, tier): chain for tier, chain in BY_DEFAULT.items()},
    }
    assert all((cell["verdict"], cell["seed"]) == ("pass", 1) for cell in found["cells"])
    assert found["seconds"] > 0
    assert len(err.splitlines()) == 24, "each cell is told as it comes"


def test_without_json_it_says_the_same_in_words():
    code, out, _ = drill("--failure", "plan_malformed", "--failure", "cost_overrun", "--tier", "batch")
    assert code == 0
    assert out.startswith("2 of 2 cells passed, in ")


def test_one_cell_of_a_draft_by_its_own_table(tmp_path):
    path = tmp_path / "mine.yaml"
    spec = with_cell("plan_malformed", "batch", {"reaction": "surface"}, reviewers=("owner",))
    path.write_text(fabric_dump(spec))
    code, out, _ = drill(str(path), "--failure", "plan_malformed", "--tier", "batch", "--seed", "7", "--json")
    assert code == 0
    assert json.loads(out)["cells"] == [
        dict(zip(FIELDS, ("plan_malformed", "batch", "pass", *["surface > failed"] * 2, 7), strict=True))
    ]


def test_every_sample_names_itself_beside_its_cells():
    code, out, err = drill("--samples", "--tier", "batch", "--json")
    found = json.loads(out)
    names = ["default-table", *sorted(path.stem for path in SAMPLES.glob("*.yaml"))]
    assert (code, found["failed"]) == (0, 0)
    assert [cell["fabric"] for cell in found["cells"]] == [name for name in names for _ in FailureType]
    assert "trip-desk: sub_agent_deadlock x batch: pass, skips handover > abort > aborted  (given a planner)" in err


def test_a_failure_that_goes_away_leaves_a_run_that_completes():
    code, out, _ = drill("--failure", "provider_failure", "--recovers", "2", "--json")
    found = {cell["tier"]: cell["observed"] for cell in json.loads(out)["cells"]}
    assert (code, found) == (0, dict.fromkeys(Tier, "retry > retry > completed"))


def test_an_overrun_does_not_go_away_by_itself():
    code, out, _ = drill("--failure", "cost_overrun", "--tier", "batch", "--recovers", "1", "--json")
    [cell] = json.loads(out)["cells"]
    assert (code, cell["verdict"]) == (1, "unknown")
    assert cell["observed"].endswith("what was spent stays spent: an overrun does not go away by itself")


def test_reports_for_a_pipeline_and_for_people(tmp_path):
    junit, html = tmp_path / "drills.xml", tmp_path / "drills.html"
    code, out, _ = drill("--tier", "batch", "--junit", str(junit), "--html", str(html))
    assert (code, out.split(" in ")[0]) == (0, "8 of 8 cells passed,")
    root = ET.fromstring(junit.read_text())
    assert (root.get("tests"), root.get("failures"), root.get("errors")) == ("8", "0", "0")
    assert "Drill coverage of the default decision table" in html.read_text()


@pytest.mark.parametrize("option", ["--junit", "--html"])
def test_a_report_that_could_not_be_written_is_refused_before_anything_is_drilled(tmp_path, option):
    code, out, err = drill(option, str(tmp_path / "nowhere" / "report"))
    assert (code, out) == (2, "")
    assert err.splitlines() == [
        f"{option}: {tmp_path / 'nowhere' / 'report'} is no file in a directory that there is; give one"
    ]


@pytest.mark.django_db
def test_a_published_fabric_is_drilled_as_a_new_run_would_pin_it():
    samples_publish(actor=owner_actor())
    code, out, _ = drill("research-desk", "--failure", "unsafe_output", "--json")
    assert (code, json.loads(out)["passed"]) == (0, len(Tier))


def test_a_promise_that_is_not_kept_is_told_with_both_chains_and_exit_code_1(monkeypatch):
    """An engine that carries out another reaction than the one that the table has."""
    monkeypatch.setitem(reactions.REACTIONS, "replan", reactions.REACTIONS["abort"])
    code, out, err = drill("--failure", "plan_malformed", "--tier", "batch", "--json")
    found = json.loads(out)
    assert (code, found["passed"], found["failed"]) == (1, 0, 1)
    assert found["cells"][0]["verdict"] == "deviated"
    assert "    expected: replan > replan > abort > aborted" in err.splitlines()


def test_what_is_not_known_is_no_pass():
    code, out, _ = drill("--failure", "cost_overrun", "--tier", "batch", "--recovers", "1", "--json")
    [cell] = json.loads(out)["cells"]
    assert (code, cell["verdict"], cell["expected"]) == (1, "unknown", "not known")
    assert cell["observed"].endswith("what was spent stays spent: an overrun does not go away by itself")


def broken(tmp_path: Path) -> str:
    path = tmp_path / "broken.yaml"
    path.write_text((SAMPLES / "research-desk.yaml").read_text().replace("critic: critic", "critic: nobody"))
    return str(path)


def unpublishable(tmp_path: Path) -> str:
    path = tmp_path / "unpublishable.yaml"
    path.write_text((SAMPLES / "trip-desk.yaml").read_text())
    return str(path)


BAD = [
    (
        ("--failure", "provider_failur"),
        "--failure: 'provider_failur' is none; did you mean provider_failure? there are",
    ),
    (("--tier", "slow"), "--tier: 'slow' is none; there are interactive, batch, high_stakes"),
    (("--seed", "x"), "--seed is 'x': give a whole number from 0 to 4,294,967,295"),
    (("--seed", "-1"), "--seed is '-1'"),
    (("--seed", "4294967296"), "--seed is '4294967296'"),
    (("--recovers", "0"), "--recovers is '0': give a whole number from 1 to 1,000"),
    (("--recovers", "1", "--live"), "--recovers is for drills in simulated time: leave out --live"),
    (("--all", "--tier", "batch"), "--all is all 24 cells: leave out --failure and --tier, or --all"),
    (("--samples", "research-desk"), "give a fabric or --samples, one of the two"),
    (("nowhere.yaml",), "nowhere.yaml cannot be read: No such file or directory"),
    ((broken,), "broken.yaml, line 64, column 11, topology.critic: no agent is named 'nobody'"),
    (
        (unpublishable,),
        "unpublishable.yaml, line 35, column 5, tools.0: tool 'book_flight': http://127.0.0.1:8421 is plain http",
    ),
]


@pytest.mark.parametrize(
    ("arguments", "sentence"), BAD, ids=lambda value: None if isinstance(value, tuple) else value[:30]
)
def test_bad_input_is_one_sentence_and_exit_code_2(tmp_path, arguments, sentence):
    given = [one(tmp_path) if callable(one) else one for one in arguments]
    code, out, err = drill(*given)
    assert (code, out) == (2, "")
    assert err.startswith(sentence), err


@pytest.mark.django_db
def test_a_unknown_name_says_which_there_are():
    samples_publish(actor=owner_actor())
    code, _, err = drill("research-dsk")
    assert code == 2
    assert err.startswith("no fabric is named 'research-dsk'; ")


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("given", "said"),
    [
        (("small-model", "--here"), "--here is of live drills: give --live as well"),
        (("small-model", "--cap-s", "30"), "--cap-s is of drills with --live --here"),
        (("--live", "--here"), "--here drills a fabric that is published here: give its name"),
        (
            ("small-model", "--live", "--here", "--cap-s", "1"),
            "--cap-s is '1': give a whole number from 5 to 3,600",
        ),
        (("small-model", "--cap-usd", "1"), "--cap-usd is of drills with --live --here"),
        (("small-model", "--live", "--here", "--cap-usd", "0"), "--cap-usd is '0': give dollars from 0.000001"),
        (("small-model", "--live", "--here"), "no worker is alive, and a live drill needs one"),
    ],
)
def test_what_cannot_be_drilled_here_is_a_sentence(given, said):
    samples_publish(actor=owner_actor(), providers=frozenset())
    code, out, err = drill(*given)
    assert (code, out) == (2, "")
    assert said in err


CHANGED = "decision_table:\n  provider_failure:\n    batch: {rungs: [{reaction: retry, times: 1}, {reaction: abort}]}\n"


def test_of_a_draft_only_what_it_changes_of_what_is_published(actor, small, tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text(SMALL + CHANGED)
    code, out, err = drill(str(path), "--changed", "--json")
    assert code == 0
    assert [(cell["failure"], cell["tier"], cell["observed"]) for cell in json.loads(out)["cells"]] == [
        ("provider_failure", "batch", "retry > abort > aborted")
    ]
    first, second, _ = err.splitlines()
    assert first.startswith("provider_failure x batch: retry > retry > ")
    assert first.endswith("escalate > aborted -> retry > abort > aborted")
    assert second == "1 of 24 cells depend on what small changes"
    path.write_text(SMALL)
    assert drill(str(path), "--changed")[:2] == (0, "0 of 0 cells passed, in 0.0 s\n")


def test_a_draft_of_a_fabric_that_is_not_published_is_drilled_whole(actor, tmp_path):
    path = tmp_path / "new.yaml"
    path.write_text(SMALL)
    code, out, err = drill(str(path), "--changed", "--tier", "batch")
    assert (code, out[:22]) == (0, "8 of 8 cells passed, i")
    assert err.splitlines()[0] == "small is not published here: all cells are new"


def test_changed_is_of_a_file(actor, small):
    code, _, err = drill("small", "--changed")
    assert code == 2
    assert "--changed compares a file with what is published under its name" in err


@pytest.mark.django_db
def test_coverage_counts_the_cells_of_every_fabric(actor, small):
    drilled(actor, small, [ONE])
    fabric_publish(actor=actor, source=named("another"))
    lines = ["another@r1  0 of 24 verified  24 never", "small@r1  1 of 24 verified  1 pass, 23 never"]
    assert count_cells().splitlines() == lines
    assert count_cells("--never").splitlines() == lines[:1]
    told = json.loads(count_cells("--json"))["fabrics"]
    assert [one["counts"] for one in told] == [{"never": 24}, {"pass": 1, "never": 23}]


@pytest.mark.django_db
def test_stale_cells_of_every_fabric_are_drilled_and_kept(actor, small):
    drilled(actor, small, [cell for cell in CELLS if cell != ONE])
    fabric_publish(actor=actor, source=named("another"))
    drilled(actor, "another", list(CELLS[1:]))
    code, out, err = drill("--stale", "--json")
    found = json.loads(out)
    assert (code, found["passed"], found["failed"]) == (0, 2, 0)
    assert [one["fabric"] for one in found["cells"]] == ["another", "small"]
    assert err.splitlines()[:2] == ["another: 1 stale cell", "no worker is alive: this process drills them"]
    assert "small@r1  24 of 24 verified  24 pass" in count_cells()
    code, out, _ = drill("--stale")
    assert (code, out.split(",")[0]) == (0, "0 of 0 cells passed"), "nothing is stale any more"


@pytest.mark.django_db
def test_stale_cells_of_one_fabric_and_none_that_is_not_known_passes(actor, small, monkeypatch):
    monkeypatch.setitem(reactions.REACTIONS, "replan", reactions.REACTIONS["abort"])
    fabric_publish(actor=actor, source=named("another"))
    drilled(actor, small, [cell for cell in CELLS if cell != (FailureType("plan_malformed"), Tier.BATCH)])
    code, out, err = drill("--stale", "small", "--json")
    assert (code, json.loads(out)["failed"]) == (1, 1), err
    assert "another@r1  0 of 24 verified  24 never" in count_cells()


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("given", "said"),
    [
        (
            ("--stale", "--tier", "batch"),
            "--stale selects the cells, of published fabrics, in simulated time: leave out",
        ),
        (("--stale", "mine.yaml"), "--stale is about published fabrics: give a fabric's name, or none"),
        (("--stale", "nowhere"), "no fabric is named 'nowhere'"),
    ],
)
def test_what_is_not_stale_is_refused(actor, given, said):
    code, out, err = drill(*given)
    assert (code, out) == (2, "")
    assert said in err
