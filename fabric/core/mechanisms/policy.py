"""Policy: may this agent do this at all (scope, persona, guardrails on arguments). Asked first, before every action (semantics.md 9).

Stops: a tool call whose arguments hold what the fabric's guardrails forbid. Outputs are the validation gate's. Does not stop: what is spelt so that no
pattern knows it.
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
    """Denies what the guardrails find. Neither message nor evidence holds what was found."""
    if proposal.kind != "tool" or proposal.args is None:
        return PASS
    found = view.evaluators.hits("arguments", proposal.args)
    if not found:
        return PASS
    evidence = Evidence(
        0,
        len(found),
        "guardrail hits",
        f"step:{proposal.step_id}",
        details={"tool": proposal.target, "problems": found},
    )
    message = f"the arguments of {proposal.target} hold what may not leave the run: {'; '.join(found[:3])}"
    advice = f"{message}. Call it without that, or answer without the call."
    return Trip(NAME, Cause.POLICY_DENIED, evidence, message, advice)
