"""A failure on its way to a decision: what tripped, where, and which call it concerned."""

from __future__ import annotations

from typing import Any

from fabric.core import events as ev
from fabric.core.flow import Stage
from fabric.core.frozen import value
from fabric.core.taxonomy import CLASSIFY, Cause, Classification
from fabric.core.verdict import Details, Evidence, Trip


@value()
class Failure:
    """What the ladder decides about. ``trips`` are in guard order; the gravest will win."""

    trips: tuple[Trip, ...]
    stage: Stage
    step_id: str = ""
    """The step it concerns; empty: the stage as a whole."""
    issued: ev.CallIssued | None = None
    """The call whose attempt failed, where it was one."""
    retry_after_s: float | None = None
    breaker_wait_s: float | None = None
    """How long its circuit breaker is open; None: it has none that is, or only a person lets calls pass again."""
    shut: frozenset[str] = frozenset()
    """Models whose call a circuit breaker would have refused when it came back."""
    payload: Any = None
    """What a gate did not pass on, as it would be shown; None: it was no gate."""
    gate: ev.GateResult | None = None
    """The gate that did not."""
    blocked: bool = False
    """True: a proposed tool call was withheld, and its model can be told."""

    @property
    def command_id(self) -> str:
        """Returns the call that failed; empty: it is no call's failure."""
        return self.issued.command_id if self.issued else ""


@value()
class Unfit:
    """Models were looked at for a call, and none can take it."""

    reason: str
    weighed: ev.Weighed


def classification(trip: Trip) -> Classification:
    """The row of ``CLASSIFY`` for a trip."""
    return CLASSIFY[trip.cause]


def record(trip: Trip) -> ev.TripRecord:
    """The trip as it is journaled."""
    return ev.TripRecord(mechanism=trip.mechanism, cause=trip.cause, message=trip.message, evidence=trip.evidence)


def of_call(issued: ev.CallIssued, fact: ev.AttemptFailed, said: str = "") -> Failure:
    """The failure of one attempt of a call: what came back, or what did not let it be sent. ``said``: the words of the last attempt that went out; they stand before a breaker's."""
    stage, shut = Stage(issued.step_id.partition(".")[0]), frozenset(fact.shut)
    if fact.trip is not None:
        message = f"{said}; {fact.trip.message}" if said else fact.trip.message
        refused = Trip(fact.trip.mechanism, fact.trip.cause, fact.trip.evidence, message)
        return Failure((refused,), stage, issued.step_id, issued, breaker_wait_s=fact.breaker_wait_s, shut=shut)
    details: Details
    details = {"target": issued.target, "attempt": issued.attempt, "status": fact.status or 0}
    evidence = Evidence(observed=issued.attempt, unit="attempts", scope=f"call:{issued.command_id}", details=details)
    again = issued.attempt > 1 and fact.cause is Cause.TIMEOUT
    message = f"{fact.message} (attempt {issued.attempt})" if again else fact.message
    trip = Trip("provider" if issued.call == "model" else "tool", fact.cause, evidence, message)
    return Failure((trip,), stage, issued.step_id, issued, fact.retry_after_s, fact.breaker_wait_s, shut)
