"""The steady state of a cell's drill: the run before that nothing disturbs, what was watched during, and the run after.

Numbers are those of the worlds' journals and of the watch that holds every committed event against the invariants; nothing else is claimed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fabric.core.envelope import from_row
from fabric.core.flow import RunState
from fabric.core.run import Run
from fabric.core.words import count, dollars, duration
from simulator.drills.afterwards import run_after
from simulator.drills.evidence import exactly
from simulator.drills.observed import first, observed
from simulator.kernel.clock import US
from simulator.kernel.world import World

JSON = Any
TITLE = "The run completes, decides nothing about failures, and no promise of the engine is broken"
BREAKER = "a circuit breaker is meant to outlast the failure"
SHARE = 0.05
"""By how much the run after may cost more, or take longer, than the one before, as a share."""


def _probe(probe: str, output: JSON, said: str, why_not: str = "") -> dict[str, JSON]:
    return {"probe": probe, "output": output, "said": said, "why_not": why_not}


def steady_of(before: World, world: World | None) -> dict[str, JSON]:
    """What ``Drill.body["steady"]`` holds. ``world``: the disturbed one; None: the run before did not hold, so nothing was disturbed."""
    told: dict[str, JSON] = {"title": TITLE, "before": before_of(before)}
    if world is not None:
        told |= {"during": during_of(world), "after": after_of(world, before)}
        if not_held_after(told["after"]) and held_by_a_breaker(world):
            told["not_judged"] = {"after": BREAKER}
    return told


def before_of(world: World) -> list[dict[str, JSON]]:
    """The undisturbed run."""
    run = first(world)
    return [*_ended(world, run), _cost(world, run), _took(world, run), _unbroken(world)]


def during_of(world: World) -> list[dict[str, JSON]]:
    """What was watched while the run was disturbed."""
    run = first(world)
    rows = world.store.rows(run.id)
    attempts = sum(row.kind == "call_issued" for row in rows)
    broken = {one.invariant: one.sentence for one in world.watch.violations}
    chain = broken.pop("chain", "")
    once = next((broken.pop(name) for name in ONCE if name in broken), "")
    money = next((broken.pop(name) for name in MONEY if name in broken), "")
    left = "; ".join(f"{name}: {sentence}" for name, sentence in broken.items())
    checked = f"invariants hold, {count(len(rows), 'event')} checked" if not left else "an invariant was broken"
    return [
        _probe("violations", len(world.watch.violations), checked, left),
        _probe("once", attempts, f"{count(attempts, 'attempt')} sent, none executed twice", once),
        _probe("cap", world.store.columns(run.id).cost_usd_micros, _spent(world, run), money),
        _probe("journal", len(rows), "the journal's chain is whole", chain),
    ]


ONCE = ("intent_before_effect", "answers_what_is_out", "attempts_in_order", "journal_is_the_truth")
"""Invariants that are broken where something is executed twice."""
MONEY = ("budget_kept", "caps_are_kept", "ledger_agrees", "settled_once")
"""Those of the run's money."""


def _spent(world: World, run: Run) -> str:
    """Of its cap; what a provider bills above a reservation may pass it, and no further call goes out then."""
    spent = world.store.columns(run.id).cost_usd_micros
    cap = world.watch.compiled(run.id).spec.policy.budget.run_usd_micros
    if spent <= cap:
        return f"{exactly(spent)} of {exactly(cap)} spent"
    return f"{exactly(spent)} of {exactly(cap)} spent: one answer was billed above its reservation, and nothing was asked after it"


def after_of(world: World, before: World) -> list[dict[str, JSON]]:
    """The run that was begun in the same world once the failure was over; empty: the world ended with the invariant that was broken."""
    run = run_after(world)
    if run is None or not run.terminal:
        return []
    usual = first(before)
    cost = before.store.columns(usual.id).cost_usd_micros
    return [
        *_ended(world, run),
        _cost(world, run, most=cost),
        _took(world, run, most_s=_seconds(before, usual)),
        _unbroken(world),
    ]


def not_held_after(probes: Sequence[Mapping[str, JSON]]) -> str:
    """What of the run after is not as before; empty: nothing."""
    return "; ".join(one["why_not"] for one in probes if one["why_not"])


def held_by_a_breaker(world: World) -> bool:
    """Returns True where a circuit breaker refused the next run's first failed call. A breaker is meant to outlast the failure, and no cell is about that.

    A breaker that opens only once calls of the run after have failed is no excuse: the failure is still there.
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


def _ended(world: World, run: Run) -> list[dict[str, JSON]]:
    chain = observed(world, run)
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
"""Commits and claims of a virtual world take some milliseconds each, as the seed draws them."""


def _seconds(world: World, run: Run) -> float:
    return ((run.ended_at or world.clock.now()) - run.started_at) / US


def _unbroken(world: World) -> dict[str, JSON]:
    broken = "; ".join(f"{one.invariant}: {one.sentence}" for one in world.watch.violations)
    return _probe("violations", len(world.watch.violations), "no promise of the engine broken", broken)
