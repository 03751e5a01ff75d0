"""The steady state of a cell's drill: before, during, and after the failure is over."""

from __future__ import annotations

from fabric.core.events.envelope import list_events
from fabric.core.values.taxonomy import FailureType, Tier
from simulator.scenarios.baseline.work import AFTER_S, first_run, run_after
from simulator.scenarios.play import cells
from simulator.scenarios.play.cells import drill, drill_told, drive
from simulator.scenarios.play.steady_state import BREAKER, list_during, list_phases, not_held_after
from simulator.scenarios.strikes.failures import SUSTAINED
from tests.simulator.drills.drilled import behind_breaker, drilled

FAST, BATCH = Tier.INTERACTIVE, Tier.BATCH
PHASES = ("before", "during", "after")


def outputs(found, phase):
    return {one["probe"]: one["output"] for one in found[phase]}


def test_a_cell_that_passes_is_steady_before_during_and_after():
    told = drill_told(drilled(), FailureType.PROVIDER, FAST)
    found = list_phases(told.before, told.world)
    assert told.cell.verdict == "pass"
    assert [one["why_not"] for phase in PHASES for one in found[phase] if one["why_not"]] == []
    before, after = outputs(found, "before"), outputs(found, "after")
    assert before["state"] == after["state"] == "completed"
    assert before["cost_usd_micros"] == after["cost_usd_micros"] > 0
    events = list_events(told.world.store.rows(first_run(told.world).id))
    during = outputs(found, "during")
    assert during["journal"] == len(events)
    assert during["once"] == sum(event.fact.kind == "call_issued" for event in events)


def test_the_run_after_begins_when_everything_is_put_back():
    world = drive(drilled(), SUSTAINED[FailureType.PROVIDER], FAST, seed=1)
    run, after = first_run(world), run_after(world)
    assert after is not None
    assert after.started_at - run.started_at >= AFTER_S * 1_000_000 * 0.999


def test_a_failure_that_is_never_over_makes_the_cell_deviate(monkeypatch):
    monkeypatch.setattr(cells, "until_put_back", lambda disturbing: disturbing)
    cell = drill(drilled(), FailureType.PROVIDER, FAST)
    assert cell.verdict == "deviated"
    assert cell.expected == cell.observed
    assert cell.why.startswith(
        "a steady-state check failed afterwards, once the failure is over: it ended failed, where it completes undisturbed; it decided about failures: retry"
    )


def test_a_breaker_that_stopped_for_good_is_told_and_not_held_against_the_cell():
    told = drill_told(behind_breaker(1, 1), FailureType.PROVIDER, BATCH)
    assert told.cell.verdict == "pass", told.cell
    found = list_phases(told.before, told.world)
    assert "where it completes undisturbed" in not_held_after(found["after"])
    assert found["not_judged"] == {"after": BREAKER}


def test_an_invariant_that_was_broken_is_where_it_belongs():
    world = drive(drilled(), SUSTAINED[FailureType.PROVIDER], FAST, seed=1)
    world.watch.record_violation("chain", "run", "its hash does not follow")
    world.watch.record_violation("intent_before_effect", "run", "its intent is not in the journal")
    assert {one["probe"]: one["why_not"] for one in list_during(world)} == {
        "violations": "",
        "once": "its intent is not in the journal",
        "cap": "",
        "journal": "its hash does not follow",
    }


def test_without_a_disturbed_world_only_the_run_before_is_told():
    told = drill_told(drilled(), FailureType.PROVIDER, FAST)
    assert set(list_phases(told.before, None)) == {"title", "before"}
