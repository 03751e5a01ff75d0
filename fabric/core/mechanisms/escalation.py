"""Escalation: confidence below tau goes to a person at once, and every question has its clocks (S0 "Escalation And Human-In-The-Loop").

Stops: an unsure answer from leaving by itself. The score is the critic's, never the author's; at or above tau (0.7) passes. Below tau is no failure
type and has no ladder: it escalates in every tier. Does not stop: a confident wrong answer (gates do).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fabric.core.frozen import value
from fabric.core.mechanisms.contract import Proposal, ProposalKind, Scope, View
from fabric.core.taxonomy import Cause
from fabric.core.verdict import PASS, Evidence, Trip, Verdict

if TYPE_CHECKING:
    from fabric.core.envelope import Event
    from fabric.core.policy import FlowPolicy

NAME = "escalation"
SCOPE = Scope.RUN
APPLIES_TO: frozenset[ProposalKind] = frozenset({"output"})
OBSERVES: frozenset[str] = frozenset()


@value()
class Config:
    """tau: the lowest score that passes, 0 to 1."""

    tau: float


@value()
class State:
    """Open questions are part of the run; nothing to count here."""


def config(policy: FlowPolicy) -> Config:
    """Cuts this mechanism's part out of the policy."""
    return Config(policy.tau)


def observe(state: State, event: Event) -> State:
    """Observes nothing."""
    return state


def check(config: Config, state: State, proposal: Proposal, view: View) -> Verdict:
    """Trips below tau; a stage without a score has no confidence check, and what a person accepted passes."""
    if proposal.accepted or proposal.score is None or proposal.score >= config.tau:
        return PASS
    message = f"the score is {proposal.score:.2f}, and the fabric asks for at least {config.tau:.2f} (tau)"
    return Trip(
        NAME, Cause.BELOW_TAU, Evidence(config.tau, proposal.score, "score", f"stage:{proposal.stage}"), message
    )
