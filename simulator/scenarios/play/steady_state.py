"""Probes the steady state of a cell's drill: before, during and after the disturbance.

The numbers are those of the worlds' journals, and of the watch that checks every committed event; nothing else is
claimed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fabric.core.events.envelope import from_row, list_events
from fabric.core.state.run import Run
from fabric.core.values.flow import RunState
from fabric.core.values.units import JSON, US
from fabric.core.values.words import count, dollars, duration
from simulator.scenarios.baseline.work import first_run, observe_chain, run_after
from simulator.scenarios.stories.evidence import exactly
from simulator.world.world import World

TITLE = "The run completes, decides nothing about failures, and no invariant of the engine fails"
BREAKER = "a circuit breaker is meant to outlast the failure"
SHARE = 0.05
"""Share by which the run after may cost more, or take longer, than the one before."""


def _probe(probe: str, output: JSON, said: str, why_not: str = "") -> dict[str, JSON]:
    return {"probe": probe, "output": output, "said": said, "why_not": why_not}


def list_phases(before: World, world: World | None) -> dict[str, JSON]:
    """Return ``Drill.body["steady"]``. ``world``: the disturbed one; None if the run before failed."""
    told: dict[str, JSON] = {"title": TITLE, "before": list_before(before)}
    if world is not None:
        told |= {"during": list_during(world), "after": list_after(world, before)}
        if not_held_after(told["after"]) and held_by_a_breaker(world):
            told["not_judged"] = {"after": BREAKER}
    return told


def list_before(world: World) -> list[dict[str, JSON]]:
    """Return the probes of the undisturbed run."""
    run = first_run(world)
    return [*_check_end(world, run), _cost(world, run), _took(world, run), _unbroken(world)]


def list_during(world: World) -> list[dict[str, JSON]]:
    """Return the probes of the disturbed run."""
    run = first_run(world)
    events = list_events(world.store.rows(run.id))
    attempts = sum(event.fact.kind == "call_issued" for event in events)
    broken = {one.invariant: one.sentence for one in world.watch.violations}
    chain = broken.pop("chain", "")
    once = next((broken.pop(name) for name in ONCE if name in broken), "")
    money = next((broken.pop(name) for name in MONEY if name in broken), "")
    left = "; ".join(f"{name}: {sentence}" for name, sentence in broken.items())
    checked = f"invariants hold, {count(len(events), 'event')} checked" if not left else "an invariant was broken"
    return [
        _probe("violations", len(world.watch.violations), checked, left),
        _probe("once", attempts, f"{count(attempts, 'attempt')} sent, none executed twice", once),
        _probe("cap", world.store.columns(run.id).cost_usd_micros, _check_spending(world, run), money),
        _probe("journal", len(events), "the journal's chain is whole", chain),
    ]


ONCE = ("intent_before_effect", "answers_what_is_out", "attempts_in_order", "journal_is_the_truth")
"""Invariants against double execution."""
MONEY = ("budget_kept", "caps_are_kept", "ledger_agrees", "settled_once")
"""Invariants of the run's money."""


def _check_spending(world: World, run: Run) -> str:
    """Return a sentence about spending and cap. A bill above a reservation may exceed it; then no further call goes
    out.
    """
    spent = world.store.columns(run.id).cost_usd_micros
    cap = world.watch.find_fabric(run.id).spec.policy.budget.run_usd_micros
    if spent <= cap:
        return f"{exactly(spent)} of {exactly(cap)} spent"
    return f"{exactly(spent)} of {exactly(cap)} spent: one answer was billed above its reservation, and nothing was asked after it"


def list_after(world: World, before: World) -> list[dict[str, JSON]]:
    """Return the probes of the run after the failure; empty if an invariant ended the world."""
    run = run_after(world)
    if run is None or not run.terminal:
        return []
    usual = first_run(before)
    cost = before.store.columns(usual.id).cost_usd_micros
    return [
        *_check_end(world, run),
        _cost(world, run, most=cost),
        _took(world, run, most_s=_seconds(before, usual)),
        _unbroken(world),
    ]


def not_held_after(probes: Sequence[Mapping[str, JSON]]) -> str:
    """Return the differences of the run after; empty for none."""
    return "; ".join(one["why_not"] for one in probes if one["why_not"])


def held_by_a_breaker(world: World) -> bool:
    """Return True if a circuit breaker refused the next run's first failed call.

    A breaker is meant to outlast the failure, and no cell is about that. A breaker that opens only after failed calls
    of the run after is no excuse: the failure is still there.
    """
    run = run_after(world)
    rows = world.store.rows(run.id) if run is not None else ()
    first: Any = next(
        (from_row(row.seq, row.kind, row.version, row.header).fact for row in rows if row.kind == "attempt_failed"),
        None,
    )
    return first is not None and (
        first.breaker_wait_s is not None or (first.trip is not None and first.trip.mechanism == "circuit_breaker")
    )


# -- probes ------------------------------------------------------------------------------------------------------------


def _check_end(world: World, run: Run) -> list[dict[str, JSON]]:
    chain = observe_chain(world, run)
    state = "" if run.state is RunState.COMPLETED else f"it ended {run.state}, where it completes undisturbed"
    links = "" if not chain.links else f"it decided about failures: {chain}"
    said = "decides nothing about failures" if not links else "decides about failures"
    return [_probe("state", str(run.state), f"run {run.state}", state), _probe("chain", str(chain), said, links)]


def _cost(world: World, run: Run, *, most: int | None = None) -> dict[str, JSON]:
    cost = world.store.columns(run.id).cost_usd_micros
    above = most is not None and cost > most * (1 + SHARE)
    why = f"it cost {dollars(cost)}, more than 5 % above the {dollars(most or 0)} of the run before" if above else ""
    return _probe("cost_usd_micros", cost, f"costs {dollars(cost)}", why)


def _took(world: World, run: Run, *, most_s: float | None = None) -> dict[str, JSON]:
    took = _seconds(world, run)
    above = most_s is not None and took > most_s * (1 + SHARE) + JITTER_S
    why = f"it took {duration(took)}, the run before {duration(most_s or 0)}" if above else ""
    return _probe("duration_s", round(took, 3), f"takes {duration(took)}", why)


JITTER_S = 1.0
"""Tolerance in seconds for drawn durations: commits and claims of a virtual world take some milliseconds each."""


def _seconds(world: World, run: Run) -> float:
    return ((run.ended_at or world.clock.now()) - run.started_at) / US


def _unbroken(world: World) -> dict[str, JSON]:
    broken = "; ".join(f"{one.invariant}: {one.sentence}" for one in world.watch.violations)
    return _probe("violations", len(world.watch.violations), "no promise of the engine broken", broken)
