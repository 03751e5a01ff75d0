"""Opens a review for an output with a confidence below tau (S0 "Escalation And Human-In-The-Loop"). Sets the clocks of
reviews.

Stops: an unsure answer from leaving without a review. The score is the critic's, never the author's; at or above tau
(0.7) passes. Below tau is no failure type and has no ladder: it escalates in every tier. Does not stop: a confident
wrong answer (gates do).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fabric.core.mechanisms.contract import Proposal, ProposalKind, Scope, View
from fabric.core.values.frozen import value
from fabric.core.values.taxonomy import PASS, Cause, Evidence, FailureClass, Trip, Verdict

if TYPE_CHECKING:
    from fabric.core.events.envelope import Event
    from fabric.core.spec.policies.flow_policy import FlowPolicy

NAME = "escalation"
TITLE = "Escalation"
STOPS = "answers that score too low, and steps that no person lets pass in time"
PAGE = "docs/specification/stages.md"
CLASSES = (FailureClass.VERIFICATION,)
SETTINGS: tuple[str, ...] = ("humans",)
UNCOUNTED = ""
SCOPE = Scope.RUN
APPLIES_TO: frozenset[ProposalKind] = frozenset({"output"})
OBSERVES: frozenset[str] = frozenset()


@value()
class Config:
    """tau: the lowest score that passes, 0 to 1."""

    tau: float


@value()
class State:
    """No state: open reviews are part of the run."""


def config(policy: FlowPolicy) -> Config:
    """Return this mechanism's part of the policy."""
    return Config(policy.tau)


def observe(state: State, event: Event) -> State:
    """Return the state unchanged."""
    return state


def check(config: Config, state: State, proposal: Proposal, view: View) -> Verdict:
    """Trip below tau; a stage without a score has no confidence check, and an accepted output passes."""
    if proposal.accepted or proposal.score is None or proposal.score >= config.tau:
        return PASS
    message = f"the score is {proposal.score:.2f}, and the fabric needs at least {config.tau:.2f}"
    return Trip(
        NAME, Cause.BELOW_TAU, Evidence(config.tau, proposal.score, "score", f"stage:{proposal.stage}"), message
    )
