"""Drills that play a scenario: asked for, driven, and stale once what they rest on is another."""

from __future__ import annotations

import json

import pytest

from fabric.core.values.taxonomy import FailureType, Tier
from fabric.models import AuditLine
from fabric.selectors.errors import Refused
from fabric.selectors.fabrics.lookup import revision_get
from fabric.services.fabrics.revisions import fabric_publish
from simulator.drills.batches.batch import batch_drill
from simulator.drills.fabrics import default_table
from simulator.drills.library.requests import drill_fresh, scenario_ask, scenario_covers
from simulator.drills.library.selectors import scenario_source, scenarios_shown
from simulator.drills.library.services import scenario_change, scenario_save
from simulator.drills.models.tables import Drill, Status
from simulator.drills.selectors.drills import coverage, drill_get, drills_recent
from simulator.scenarios.spec.collection import find_shipped
from tests.fabric.services.world import SMALL
from tests.simulator.drills.management.sources import source

FAST, BATCH, HIGH = Tier.INTERACTIVE, Tier.BATCH, Tier.HIGH_STAKES


def asked(actor, scenario="endpoint-down", **more):
    return scenario_ask(actor=actor, fabric="small", scenario=scenario, **more)


def played(actor, scenario="endpoint-down", **more):
    found = asked(actor, scenario, **more)
    batch_drill(found.batch, "h")
    return [drill_get(actor, one) for one in found.drills]


def fresh(actor, seen):
    revision = revision_get(actor, "small").fabric.revision_id
    return drill_fresh(seen, revision, scenario_source(actor, seen.scenario))


def test_one_is_asked_for_in_each_of_its_tiers_and_waits(actor, small):
    woken = []
    found = asked(actor, reason=" why ", wake=lambda: woken.append(Drill.objects.count()))
    assert woken == [3]
    rows = list(Drill.objects.order_by("place"))
    assert [row.tier for row in rows] == list(Tier)
    assert {(row.scenario, row.failure, row.seed, row.reason, row.parameters) for row in rows} == {
        ("endpoint-down", "provider_failure", 1, "why", "{}")
    }
    line = json.loads(AuditLine.objects.get(kind="drills_asked").body)
    assert (line["scenario"], line["tiers"], line["batch"]) == ("endpoint-down", list(Tier), found.batch)
    with pytest.raises(Refused, match="waits to be played in small") as refused:
        asked(actor)
    assert refused.value.code == "conflict"


def test_it_is_played_and_judged_line_by_line(actor, small):
    (seen,) = played(actor, tiers=[HIGH], seed=7)
    assert (seen.status, seen.verdict, seen.why, seen.seed) == (Status.COMPLETED, "pass", "", 7)
    assert (seen.failure, seen.cell) == (FailureType.PROVIDER, (FailureType.PROVIDER, HIGH))
    assert seen.observed.endswith("escalate > aborted")
    lines = seen.body["lines"]
    assert [one["expected"] for one in lines] == [one["observed"] for one in lines]
    assert lines[-1]["observed"] == "provider_failure: escalate"
    assert seen.body["struck"] == {"unavailable": len(lines)}
    steady = seen.body["steady"]
    assert {moment: [one["probe"] for one in steady[moment]] for moment in ("before", "during", "after")} == {
        key: ["state", "violations"] for key in ("before", "during", "after")
    }
    assert steady["during"][0] == {"probe": "state", "output": "aborted", "why_not": "'aborted' is not 'completed'"}
    assert seen.equipment == ("a finalizer",)
    assert seen.body["seconds"] > 0


def test_one_around_a_run_promises_no_decision(actor, small):
    (seen,) = played(actor, "messages-doubled", tiers=[BATCH])
    assert (seen.failure, seen.cell, seen.verdict) == (None, None, "pass")
    assert seen.body["lines"] == []


def test_what_meets_its_own_abort_condition_is_aborted(actor, small):
    scenario_save(actor=actor, source=source(rest="\n[abort]\nvirtual_s = 0.1\n"))
    (seen,) = played(actor, "mine", tiers=[FAST])
    assert (seen.status, seen.verdict) == (Status.ABORTED, "error")
    assert seen.body["aborted"].startswith("aborted: it has taken ")


def test_parameters_are_the_caller_s(actor, small):
    (seen,) = played(actor, tiers=[FAST], parameters={"status": 500, "role": "worker"})
    assert dict(seen.parameters) == {"status": 500, "role": "worker"}
    assert seen.verdict == "pass"


@pytest.mark.parametrize(
    ("more", "said", "code"),
    [
        (
            {"parameters": {"satus": 500}},
            "parameters.satus: there is no such parameter; did you mean 'status'?",
            "invalid",
        ),
        ({"parameters": {"status": "500"}}, "is not a whole number", "invalid"),
        ({"parameters": {"status": 418}}, "418 is none of 500", "invalid"),
        ({"tiers": []}, "no tier is named", "invalid"),
        ({"seed": -1}, "-1 is no seed", "invalid"),
        (
            {"scenario": "endpoint-dawn"},
            "there is no scenario 'endpoint-dawn'; did you mean 'endpoint-down'?",
            "not_found",
        ),
        ({"number": 9}, "has no version r9", "not_found"),
    ],
)
def test_what_does_not_fit_is_refused_and_nothing_waits(actor, small, more, said, code):
    with pytest.raises(Refused, match=said.replace("?", r"\?")) as refused:
        asked(actor, **more)
    assert refused.value.code == code
    assert not Drill.objects.exists()


def test_an_agent_that_the_fabric_has_not_is_refused_by_its_path(actor, small):
    scenario_save(actor=actor, source=source().replace('role = "${role}"', 'agent = "${role}"'))
    with pytest.raises(Refused, match=r"disturbance\.0\.agent: fabric small has no agent 'finalizer'"):
        asked(actor, "mine")


def test_a_tier_that_it_is_not_for_is_refused(actor, small):
    scenario_save(actor=actor, source=source().replace("seed = 5", 'tiers = ["batch"]\nseed = 5'))
    with pytest.raises(Refused, match="mine is not for tier interactive; it is for batch"):
        asked(actor, "mine", tiers=[FAST])
    assert len(asked(actor, "mine").drills) == 1


def test_it_is_no_drill_of_the_cell(actor, small):
    played(actor, tiers=[BATCH])
    assert coverage(actor, small).proven == 0
    assert drills_recent(actor, cell=(FailureType.PROVIDER, BATCH))[0] == []
    found, waiting = scenarios_shown(actor, small)
    assert ({key: one.verdict for key, one in found.items()}, waiting) == ({("endpoint-down", BATCH): "pass"}, {})


def test_a_verdict_goes_stale_with_the_fabric_and_with_the_scenario(actor, small):
    kept = scenario_save(actor=actor, source=source())
    (seen,) = played(actor, "mine", tiers=[BATCH])
    assert fresh(actor, seen)
    said = source().replace("For a test.", "For another test.").replace("seed = 5", "seed = 6")
    scenario_change(actor=actor, name="mine", source=said, version=kept.version)
    assert fresh(actor, seen), "what is only said changes nothing"
    scenario_change(actor=actor, name="mine", source=source(rest="times = 3\n"), version=2)
    assert not fresh(actor, seen)
    scenario_change(actor=actor, name="mine", source=source(), version=3)
    assert fresh(actor, seen)
    fabric_publish(actor=actor, source=SMALL.replace("instructions: Read.", "instructions: Read it."))
    assert not fresh(actor, seen)


def test_a_verdict_is_about_the_parameters_that_it_was_reached_with():
    spec, one = default_table(), find_shipped("endpoint-down")
    own = scenario_covers(spec, one, {}, BATCH)
    assert scenario_covers(spec, one, {"status": 503}, BATCH) == own, "its own, given"
    assert scenario_covers(spec, one, {"status": 500}, BATCH) != own
    assert scenario_covers(spec, one, {}, FAST) != own


def test_a_ladder_of_another_tier_leaves_it_fresh(actor, small):
    (seen,) = played(actor, tiers=[BATCH])
    for tier, holds in (("interactive", True), ("batch", False)):
        cell = f"decision_table:\n  provider_failure:\n    {tier}: {{rungs: [{{reaction: abort}}]}}\n"
        fabric_publish(actor=actor, source=SMALL + cell)
        assert fresh(actor, seen) is holds, tier


def test_a_stranger_s_scenario_is_not_there(actor, small, stranger):
    scenario_save(actor=stranger, source=source())
    with pytest.raises(Refused, match="there is no scenario 'mine'"):
        asked(actor, "mine")
