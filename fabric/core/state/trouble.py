"""Folds the trouble of a run: its last failure, the protections that fired, the breakers that refused its calls. Lists
and queries show it.

A protection has a short name here: ``fired:budget`` finds it, and the run's row has it. A short name never changes,
since rows keep it.
"""

from __future__ import annotations

from collections.abc import Mapping

from fabric.core.events.decisions import ReactionDecided, RungSkipped
from fabric.core.events.parts import TripRecord
from fabric.core.spec.policies.breakers import KIND as BREAKER
from fabric.core.spec.policies.decision_table import Reaction
from fabric.core.values.frozen import replace, value
from fabric.core.values.taxonomy import Cause, FailureType

UNDO = "undo"
"""Short name of the undoing of a run's mutations."""
MECHANISMS: Mapping[str, str] = {
    "policy": "policy",
    "budget": "budget",
    "cost_velocity": "velocity",
    "deadline": "deadline",
    "hop_limit": "hops",
    "run_caps": "caps",
    "retry_budget": "retry_budget",
    "circuit_breaker": "breaker",
    "loop_detector": "loop",
    "deadlock_monitor": "deadlock",
    "progress": "progress",
    "saga": "saga",
    "validation_gate": "gate",
    "goal_gate": "goal",
    "failure_signature": "repeat",
    "stall_watchdog": "stall",
    "escalation": "score",
}
"""Short name of each mechanism, by its name."""
REACTIONS: Mapping[Reaction, str] = {
    Reaction.RETRY: "retry",
    Reaction.RETRY_NODE: "retry",
    Reaction.WAIT_FOR_BREAKER: "wait",
    Reaction.FALLBACK_MODEL: "fallback",
    Reaction.CHEAPER_MODEL: "cheaper",
    Reaction.SAFE_FALLBACK: "static",
    Reaction.TERMINATE: "",  # The row's own column ``truncated``.
    Reaction.REPLAN: "",  # The row's own column ``epoch``.
    Reaction.HANDOVER: "",  # As a replan.
    Reaction.INJECT: "",
    Reaction.ROUTE: "",
    Reaction.GO_BACK: "",
    Reaction.ACCEPT_PARTIAL: "",
    Reaction.ESCALATE: "",
    Reaction.SURFACE: "",
    Reaction.HALT: "",
    Reaction.ABORT: "",
}
"""Short name of each reaction that helps a run to go on. "": another column shows it, or it is no help."""
FIRED = (*MECHANISMS.values(), *dict.fromkeys(filter(None, REACTIONS.values())), UNDO)
"""Every short name."""


@value()
class Trouble:
    """The failures of a run so far, for its row."""

    cause: Cause | None = None
    """Cause of the failure that was decided last."""
    failure: FailureType | None = None
    """Row of the decision table that was met last; a direct reaction meets none."""
    fired: tuple[str, ...] = ()
    """Short names of the protections that fired, the first one first."""
    breakers: tuple[str, ...] = ()
    """Breakers that refused its calls, as ``scope:name``, the first one first."""


UNTROUBLED = Trouble()
"""Trouble of a run without a failure."""


def add_decision(trouble: Trouble, fact: ReactionDecided) -> Trouble:
    """Return the trouble after a decision: its mechanisms fired, and its reaction may be a help."""
    trips = (fact.cause, *fact.causes)
    names = [MECHANISMS.get(trip.mechanism, "") for trip in trips]
    fired = _add(trouble.fired, *names, REACTIONS[Reaction(fact.reaction)])
    breakers = _add(trouble.breakers, *map(_name_breaker, trips))
    return Trouble(fact.cause.cause, fact.failure_type or trouble.failure, fired, breakers)


def add_skip(trouble: Trouble, fact: RungSkipped) -> Trouble:
    """Return the trouble after a rung was skipped: the mechanism that refused it fired."""
    if fact.trip is None:
        return trouble
    fired = _add(trouble.fired, MECHANISMS.get(fact.trip.mechanism, ""))
    return replace(trouble, fired=fired, breakers=_add(trouble.breakers, _name_breaker(fact.trip)))


def add_undoing(trouble: Trouble) -> Trouble:
    """Return the trouble once the run's mutations are undone."""
    return replace(trouble, fired=_add(trouble.fired, UNDO))


def _name_breaker(trip: TripRecord) -> str:
    return trip.evidence.scope if trip.mechanism == BREAKER else ""


def _add(known: tuple[str, ...], *names: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*known, *filter(None, names))))
