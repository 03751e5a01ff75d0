"""A failure on its way to a decision: what tripped, where, and which call it concerned."""

from __future__ import annotations

from typing import Any

from fabric.core import events as ev
from fabric.core.values.flow import Stage
from fabric.core.values.frozen import value
from fabric.core.values.taxonomy import CLASSIFY, Cause, Classification, Details, Evidence, Trip


@value()
class Failure:
    """The failure that the ladder decides about. ``trips`` are in guard order; the gravest wins."""

    trips: tuple[Trip, ...]
    stage: Stage
    step_id: str = ""
    """The failed step; "": the stage as a whole."""
    issued: ev.CallIssued | None = None
    """The call whose attempt failed; None: the failure is no call's."""
    retry_after_s: float | None = None
    breaker_wait_s: float | None = None
    """Seconds for which the circuit breaker stays open; None: no open breaker, or only a person closes it."""
    shut: frozenset[str] = frozenset()
    """Models whose call a circuit breaker would have refused when it came back."""
    payload: Any = None
    """Output that a gate held back, as a reviewer would see it; None: the failure is no gate's."""
    gate: ev.GateResult | None = None
    """The gate that did not."""
    blocked: bool = False
    """True: a proposed tool call was blocked, and its model can receive the message."""

    @property
    def command_id(self) -> str:
        """Command id of the failed call; "": the failure is no call's."""
        return self.issued.command_id if self.issued else ""


@value()
class Unfit:
    """Findings on the models that were considered for a call, none of which can take it."""

    reason: str
    weighed: ev.Weighed


def classification(trip: Trip) -> Classification:
    """Return the row of ``CLASSIFY`` for a trip."""
    return CLASSIFY[trip.cause]


def record(trip: Trip) -> ev.TripRecord:
    """Return the trip as it is journaled."""
    return ev.TripRecord(mechanism=trip.mechanism, cause=trip.cause, message=trip.message, evidence=trip.evidence)


def call_failure(issued: ev.CallIssued, fact: ev.AttemptFailed, said: str = "") -> Failure:
    """Return the failure of one attempt of a call: its error, or the reason why it was not sent. ``said``: the error
    of the last attempt that was sent; it precedes a breaker's message.
    """
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
