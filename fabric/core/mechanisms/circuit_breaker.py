"""Circuit breaker: stops calls for a while after repeated failures (S0 "Circuit Breaker"; S3 "Circuit breaker";
docs/specification/breakers.md).

Stops: calls of an endpoint that does not answer, and of an agent whose calls repeat, whose answers are malformed, or
that spends too fast. It is judged when a call is about to go out, after all other checks: its row is shared by all
workers, and a probe's permit is exact. A refused call is an attempt that failed unsent; the signal that opened the
breaker names its row. This module counts the streaks of one step; all workers together count the results of endpoints
(``breaker/passing.py``).
Does not stop: an endpoint that answers wrongly in the right form.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fabric.core.breaker.signals import CAUSE_OF, cools_at
from fabric.core.breaker.table import FORCED, BreakerState
from fabric.core.mechanisms.contract import Proposal, ProposalKind, Scope, View
from fabric.core.spec.policies.breakers import Breaker, BreakerScope, SignalName
from fabric.core.values.frozen import replace, value
from fabric.core.values.taxonomy import PASS, Cause, Details, Evidence, FailureClass, Trip, Verdict
from fabric.core.values.words import instant_exact

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fabric.core.breaker.passing import BreakerRefusal
    from fabric.core.events.envelope import Event
    from fabric.core.spec.policies.flow_policy import FlowPolicy

NAME = "circuit_breaker"
TITLE = "Circuit breaker"
STOPS = "calls to what fails again and again"
PAGE = "docs/specification/breakers.md"
CLASSES = (FailureClass.INTER_AGENT, FailureClass.VERIFICATION)
SETTINGS: tuple[str, ...] = ()
UNCOUNTED = ""
SCOPE = Scope.STEP
APPLIES_TO: frozenset[ProposalKind] = frozenset({"send"})
OBSERVES: frozenset[str] = frozenset({"tool_answered", "model_answered", "attempt_failed", "reaction_decided"})


@value()
class Config:
    """The breakers of the fabric."""

    breakers: tuple[Breaker, ...] = ()


@value()
class State:
    """Streaks of one step."""

    last: str = ""
    """Tool and arguments of the call that was executed last."""
    identical: int = 0
    repeated: bool = False
    """True if the last executed call equalled the one before."""
    invalid: int = 0
    """Answers without the promised form in a row."""
    costly: int = 0
    """Times that the step spent too fast."""


def config(policy: FlowPolicy) -> Config:
    """Return this mechanism's part of the policy."""
    return Config(policy.breakers)


def observe(state: State, event: Event) -> State:
    """Count executed calls that equal the one before, unusable answers, and rates that tripped. A breaker's refusal
    resets all counts.
    """
    fact: Any = event.fact
    if fact.kind == "tool_answered":
        call = f"{fact.tool} {fact.args_hash}"
        repeated = call == state.last
        return replace(state, last=call, identical=state.identical + 1 if repeated else 1, repeated=repeated)
    if fact.kind == "model_answered":
        return replace(state, invalid=state.invalid + 1) if fact.verdict == "rejected" else _clean(state)
    if fact.kind == "reaction_decided":
        fast = any(trip.cause is Cause.COST_VELOCITY for trip in (fact.cause, *fact.causes) if trip.mechanism != NAME)
        return replace(state, costly=state.costly + 1) if fast else state
    if fact.trip is not None and fact.trip.mechanism == NAME:
        return replace(state, identical=0, invalid=0, costly=0)
    return state


def _clean(state: State) -> State:
    return replace(state, invalid=0) if state.invalid else state


def streaks(state: State) -> Mapping[SignalName, int]:
    """Return the step's counts, by signal."""
    return {
        SignalName.IDENTICAL_CALL: state.identical,
        SignalName.SCHEMA_INVALID: state.invalid,
        SignalName.COST_RATE: state.costly,
    }


def just_seen(state: State) -> frozenset[SignalName]:
    """Return the signals of the step's last answer."""
    seen = {SignalName.IDENTICAL_CALL: state.repeated, SignalName.SCHEMA_INVALID: state.invalid > 0}
    return frozenset(name for name, there in seen.items() if there)


def check(config: Config, state: State, proposal: Proposal, view: View) -> Verdict:
    """Refuse a call that a breaker did not let pass."""
    return PASS if proposal.looked is None else refusal(proposal.looked, proposal.agent, view.spec.name)


def wait_us(looked: BreakerRefusal) -> int | None:
    """Return the microseconds until a call may be tried; None: only a person closes the breaker."""
    if looked.standing.held:
        return None
    if looked.standing.state is BreakerState.OPEN:
        return max(0, cools_at(looked.breaker, looked.changed_at, looked.until) - looked.asked_at)
    return max(0, looked.until - looked.asked_at)


def refusal(looked: BreakerRefusal, agent: str, fabric: str) -> Trip:
    """Return the trip of a call that met an open breaker, by the signal that opened it, with its counts. ``fabric``:
    its name.
    """
    standing, left = looked.standing, wait_us(looked)
    what = f"opened by {standing.by}: {standing.reason}" if standing.signal == FORCED else _count_words(looked)
    until = "until a person resets it" if left is None else f"until {instant_exact(looked.asked_at + left)}"
    details: Details = {
        "cause": "breaker_open",
        "state": standing.state,
        "signal": standing.signal,
        "trips": standing.trips,
        "generation": looked.generation,
        "changed_at": looked.changed_at,
        "asked_at": looked.asked_at,
        "agent": agent,
    }
    if left is not None:
        details["retry_after_ms"] = left // 1_000
    if looked.breaker.on_open != "none":
        details["fallback"] = looked.breaker.on_open
    scope = f"{looked.breaker.scope}:{_name(looked, fabric)}"
    evidence = Evidence(standing.threshold, standing.failures, "failures", scope, _window(looked), details)
    whose = f"fabric {fabric}" if looked.breaker.scope is BreakerScope.FABRIC else scope.replace(":", " ", 1)
    message = f"the circuit breaker of {whose} is {SAID[standing.state]} {until} ({what})"
    return Trip(NAME, find_cause(standing.signal), evidence, message)


def _name(looked: BreakerRefusal, fabric: str) -> str:
    """Return the name of the thing that it guards: the part behind the fabric's id. An endpoint's row has no id."""
    rest = looked.scope.partition(":")[2]
    if looked.breaker.scope is BreakerScope.FABRIC:
        return fabric
    return rest if looked.breaker.scope is BreakerScope.PROVIDER else rest.partition(":")[2]


def find_fallback(trip: Trip) -> str:
    """Return the fallback that the open breaker names (``on_open``); "none" without one."""
    return str(trip.evidence.details.get("fallback", "none"))


def probe_is_out(mechanism: str, evidence: Evidence) -> bool:
    """Return True for a refusal while another call probes the endpoint. Until then the endpoint's state is unknown."""
    return mechanism == NAME and evidence.details.get("state") == BreakerState.HALF_OPEN


SAID = {
    BreakerState.CLOSED: "changing",
    BreakerState.OPEN: "open",
    BreakerState.HALF_OPEN: "half open, and another probe is running,",
    BreakerState.STOPPED: "stopped",
}
"""Total by test."""


def find_cause(signal: str) -> Cause:
    """Return the cause whose row a refused call takes. A breaker that a person opened counts as a missing provider."""
    return CAUSE_OF[SignalName(signal)] if signal in CAUSE_OF else Cause.SERVER_ERROR


def _count_words(looked: BreakerRefusal) -> str:
    standing = looked.standing
    if standing.signal == SignalName.COST_RATE and standing.reason:
        return standing.reason
    return standing.signal_words or standing.signal or "no signal"


def _window(looked: BreakerRefusal) -> str:
    modes = {one.mode: one.window_s for one in looked.breaker.signals if looked.standing.signal in one.names}
    return next((f"{window:g} s" for mode, window in modes.items() if mode in ("window", "rate")), "")
