"""Deadlines: call, stage and run as absolute instants (S0 "Timeout Propagation"; semantics.md 4).

Stops: work that goes on after its stage or run is over, and attempts that could not finish. Instants are microseconds since the epoch; stage and
run deadlines are fixed once and a retry never moves them. ``deadline_near``: no attempt starts when less than min(own value, max(2 s, 10 % of own
value)) remains. Does not stop: a call that is out (its own deadline does, at the port).
"""

from __future__ import annotations

from math import floor
from typing import TYPE_CHECKING

from fabric.core.frozen import value
from fabric.core.mechanisms.contract import Proposal, ProposalKind, Scope, View
from fabric.core.taxonomy import Cause
from fabric.core.verdict import PASS, Evidence, Trip, Verdict
from fabric.core.words import instant_exact, words

if TYPE_CHECKING:
    from fabric.core.envelope import Event
    from fabric.core.policy import FlowPolicy

NAME = "deadline"
SCOPE = Scope.RUN
APPLIES_TO: frozenset[ProposalKind] = frozenset({"model", "tool", "retry", "await"})
OBSERVES: frozenset[str] = frozenset({"run_started", "stage_entered", "deadlines_reissued"})
NEAR_FLOOR_S = 2.0
NEAR_SHARE = 0.1
US = 1_000_000


@value()
class Config:
    """Nothing beyond the instants, which are facts."""


@value()
class State:
    """The instants in force."""

    run_at: int = 0
    stage_at: int = 0


def config(policy: FlowPolicy) -> Config:
    """Cuts this mechanism's part out of the policy."""
    return Config()


def observe(state: State, event: Event) -> State:
    """Takes the instants from the facts that fix them."""
    fact = event.fact
    if fact.kind == "run_started":
        return State(run_at=fact.deadline_at)  # type: ignore[union-attr]
    if fact.kind == "stage_entered":
        return State(state.run_at, fact.deadline_at)  # type: ignore[union-attr]
    return State(fact.run_deadline_at, fact.stage_deadline_at)  # type: ignore[union-attr]


def margin_s(timeout_s: float) -> float:
    """Seconds that must remain for an attempt of ``timeout_s`` to be started."""
    return min(timeout_s, max(NEAR_FLOOR_S, NEAR_SHARE * timeout_s))


def deadline_words(scope: str, at: int) -> str:
    """Returns a deadline as a sentence names it. ``scope``: ``run``, or ``stage:fan_out``; ``at``: microseconds since the epoch."""
    kind, _, stage = scope.partition(":")
    return f"the deadline of {f'stage {words(stage)}' if stage else f'the {kind}'} at {instant_exact(at)}"


def deadline_passed(scope: str, at: int) -> str:
    """Returns the sentence about a deadline that has passed."""
    return f"{deadline_words(scope, at)} has passed"


def check(config: Config, state: State, proposal: Proposal, view: View) -> Verdict:
    """Refuses what is over or could not finish. A retry is judged at the instant it would start."""
    start = view.now + int(proposal.delay_s * US)
    scope, end, cause = "run", state.run_at, Cause.RUN_DEADLINE
    if state.stage_at < state.run_at:
        scope, end, cause = f"stage:{proposal.stage}", state.stage_at, Cause.STAGE_DEADLINE
    remaining_s = (end - start) / US
    needed = margin_s(proposal.timeout_s)
    if remaining_s >= needed and view.now < end:
        return PASS
    # Rounded down: what is refused for being less is told as less.
    evidence = Evidence(needed, floor(remaining_s * 1_000) / 1_000, "s", scope, details={"deadline_at": end})
    if view.now >= end:
        return Trip(NAME, cause, evidence, deadline_passed(scope, end))
    left = max(0.0, floor(remaining_s * 10) / 10)
    message = f"an attempt needs {needed:.1f} s, and {left:.1f} s were left before {deadline_words(scope, end)}"
    return Trip(NAME, Cause.DEADLINE_NEAR, evidence, message)
