"""Deadlines: call, stage and run as absolute instants (S0 "Timeout Propagation"; docs/specification/protections.md).

Stops: work that goes on after its stage or run is over, and attempts that could not finish. Instants are microseconds
since the epoch; stage and run deadlines are fixed once and a retry never moves them. ``deadline_near``: no attempt
starts when less than min(own value, max(2 s, 10 % of own value)) remains. Does not stop: a call that is out (its own
deadline does, at the port).
"""

from __future__ import annotations

from math import floor
from typing import TYPE_CHECKING

from fabric.core.mechanisms.contract import Proposal, ProposalKind, Scope, View
from fabric.core.values.frozen import value
from fabric.core.values.taxonomy import PASS, Cause, Evidence, FailureClass, Trip, Verdict
from fabric.core.values.units import US
from fabric.core.values.words import instant_exact, words

if TYPE_CHECKING:
    from fabric.core.events.envelope import Event
    from fabric.core.spec.policies.flow_policy import FlowPolicy

NAME = "deadline"
TITLE = "Deadlines"
STOPS = "attempts after, or too shortly before, a deadline"
PAGE = "docs/specification/protections.md"
CLASSES = (FailureClass.VERIFICATION, FailureClass.INTER_AGENT)
SETTINGS: tuple[str, ...] = ("deadlines",)
UNCOUNTED = ""
SCOPE = Scope.RUN
APPLIES_TO: frozenset[ProposalKind] = frozenset({"model", "tool", "retry", "await"})
OBSERVES: frozenset[str] = frozenset({"run_started", "stage_entered", "deadlines_reissued"})
NEAR_FLOOR_S = 2.0
NEAR_SHARE = 0.1


@value()
class Config:
    """No settings: the instants are facts."""


@value()
class State:
    """The instants in force."""

    run_at: int = 0
    stage_at: int = 0


def config(policy: FlowPolicy) -> Config:
    """Return this mechanism's part of the policy."""
    return Config()


def observe(state: State, event: Event) -> State:
    """Take the instants from the facts that fix them."""
    fact = event.fact
    if fact.kind == "run_started":
        return State(run_at=fact.deadline_at)  # type: ignore[union-attr]
    if fact.kind == "stage_entered":
        return State(state.run_at, fact.deadline_at)  # type: ignore[union-attr]
    return State(fact.run_deadline_at, fact.stage_deadline_at)  # type: ignore[union-attr]


def margin_s(timeout_s: float) -> float:
    """Return the seconds that must remain for an attempt of ``timeout_s`` to be started."""
    return min(timeout_s, max(NEAR_FLOOR_S, NEAR_SHARE * timeout_s))


def deadline_words(scope: str, at: int) -> str:
    """Return a deadline as a sentence names it. ``scope``: ``run``, or ``stage:fan_out``; ``at``: microseconds since
    the epoch.
    """
    kind, _, stage = scope.partition(":")
    return f"the deadline of {f'stage {words(stage)}' if stage else f'the {kind}'} at {instant_exact(at)}"


def deadline_passed(scope: str, at: int) -> str:
    """Return the sentence about a deadline that has passed."""
    return f"{deadline_words(scope, at)} has passed"


def check(config: Config, state: State, proposal: Proposal, view: View) -> Verdict:
    """Refuse a call that is past a deadline or could not finish before it. A retry is judged at the instant at which
    it would start.
    """
    start = view.now + int(proposal.delay_s * US)
    scope, end, cause = "run", state.run_at, Cause.RUN_DEADLINE
    if state.stage_at < state.run_at:
        scope, end, cause = f"stage:{proposal.stage}", state.stage_at, Cause.STAGE_DEADLINE
    remaining_s = (end - start) / US
    needed = margin_s(proposal.timeout_s)
    if remaining_s >= needed and view.now < end:
        return PASS
    # Rounded down, so that a refused value reads as smaller than the limit.
    evidence = Evidence(needed, floor(remaining_s * 1_000) / 1_000, "s", scope, details={"deadline_at": end})
    if view.now >= end:
        return Trip(NAME, cause, evidence, deadline_passed(scope, end))
    left = max(0.0, floor(remaining_s * 10) / 10)
    message = f"an attempt needs {needed:.1f} s, and {left:.1f} s were left before {deadline_words(scope, end)}"
    return Trip(NAME, Cause.DEADLINE_NEAR, evidence, message)
