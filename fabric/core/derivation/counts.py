"""Counts that stopped something, made again from the facts before: turns of a step, handovers of a run, visits of a node. The limits are the pinned revision's."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from fabric.core import events as ev
from fabric.core.derivation.ledger import Ledger
from fabric.core.flow import Stage
from fabric.core.policy import Limits
from fabric.core.spec import FabricSpec
from fabric.core.taxonomy import Cause

MECHANISM = "hop_limit"
Count = tuple[int, int | None]
"""What was counted, the one that was refused among it, and the limit; None: there is none."""


def counted(ledger: Ledger, spec: FabricSpec, fact: ev.ReactionDecided) -> dict[str, tuple[Any, Any]]:
    """By what was counted, what a decision's trips recorded and what follows from the journal."""
    return dict(_judged(ledger, spec, fact))


def _judged(ledger: Ledger, spec: FabricSpec, fact: ev.ReactionDecided) -> Iterator[tuple[str, tuple[str, str]]]:
    for trip in (fact.cause, *fact.causes):
        count = COUNTS.get(trip.cause) if trip.mechanism == MECHANISM else None
        if count is None:
            continue
        seen = trip.evidence
        yield seen.unit, (_said(seen.observed, seen.limit), _said(*count(ledger, spec, seen.scope)))


def _said(observed: Any, limit: Any) -> str:
    return f"{observed}, at most {limit}"


def _turns(ledger: Ledger, spec: FabricSpec, scope: str) -> Count:
    step = ledger.steps.get(scope.removeprefix("step:"))
    return (step.turns if step is not None else 0) + 1, _limits(
        spec, step.stage if step is not None else ledger.stage
    ).turns


def _hops(ledger: Ledger, spec: FabricSpec, scope: str) -> Count:
    return ledger.hops + 1, _limits(spec, ledger.stage).hops


def _visits(ledger: Ledger, spec: FabricSpec, scope: str) -> Count:
    limits, (kind, _, name) = spec.policy.limits, scope.partition(":")
    own = spec.topology.visits_of(name) if kind == "agent" else (limits.max_visits or {}).get(Stage(name))
    most = own if own is not None else limits.max_node_visits
    if most is not None and limits.visits_preset == "fabro":
        most -= 1
    # A stage that may not be entered is entered all the same, with nobody at work; a turn is not opened.
    return ledger.visits[scope] + (kind == "agent"), most


def _limits(spec: FabricSpec, stage: str) -> Limits:
    return spec.policy.of_stage(Stage(stage)).limits


COUNTS: Mapping[Cause, Callable[[Ledger, FabricSpec, str], Count]] = {
    Cause.TURN_LIMIT: _turns,
    Cause.HOP_LIMIT: _hops,
    Cause.VISIT_LIMIT: _visits,
}
"""Of the causes that are counts of a run's own."""
