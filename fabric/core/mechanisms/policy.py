"""Policy: may this agent do this at all (scope, persona, guardrails on arguments). Asked first, before every action.

No rule is configurable yet, so every proposal passes; the place in the guard order, and the catastrophic row its trips take, are settled.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fabric.core.frozen import value
from fabric.core.mechanisms.contract import Proposal, ProposalKind, Scope, View
from fabric.core.verdict import PASS, Verdict

if TYPE_CHECKING:
    from fabric.core.envelope import Event
    from fabric.core.policy import FlowPolicy

NAME = "policy"
SCOPE = Scope.RUN
APPLIES_TO: frozenset[ProposalKind] = frozenset({"model", "tool", "handoff", "output"})
OBSERVES: frozenset[str] = frozenset()


@value()
class Config:
    """Nothing to set yet."""


@value()
class State:
    """Nothing to remember: policy judges each action alone."""


def config(policy: FlowPolicy) -> Config:
    """Cuts this mechanism's part out of the policy."""
    return Config()


def observe(state: State, event: Event) -> State:
    """Observes nothing."""
    return state


def check(config: Config, state: State, proposal: Proposal, view: View) -> Verdict:
    """Allows everything."""
    return PASS
