"""Policy: may this agent do this at all (scope, persona, guardrails on arguments). Asked first, before every action (semantics.md 9).

It stops what the workspace's policy lets nobody call. It stops a tool call that takes a capability which its agent's persona lacks (S3 "Persona constraints"). It stops a tool call, handoff or spawn that
the fabric's policies do not permit or cannot judge. And it stops a tool call whose arguments have what its guardrails forbid. Outputs are the
validation gate's. Does not stop: what is spelt so that no pattern knows it, and what a policy permits too widely.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fabric.core import permissions, spec_persona
from fabric.core.evaluators import Ruling
from fabric.core.frozen import value
from fabric.core.mechanisms.contract import Proposal, ProposalKind, Scope, View
from fabric.core.taxonomy import Cause
from fabric.core.verdict import PASS, Details, Evidence, Trip, Verdict

if TYPE_CHECKING:
    from fabric.core.envelope import Event
    from fabric.core.policy import FlowPolicy

NAME = "policy"
SCOPE = Scope.RUN
APPLIES_TO: frozenset[ProposalKind] = frozenset({"tool", "handoff", "spawn"})
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
    """Denies what the agent's persona bars, then what no policy permits, then what the guardrails find. Neither message nor evidence holds what was found."""
    outside = _outside(proposal, view)
    if outside is not None:
        return outside
    ruled = permissions.ruling(proposal, view)
    if ruled is not None and ruled.why:
        return _denied(proposal, ruled)
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


def denied(proposal: Proposal, view: View) -> Trip | None:
    """The refusal of a tool or a model that the workspace's policy lets nobody call; None: it says nothing of it."""
    why = view.denied.get(f"{proposal.kind}:{proposal.target}")
    if why is None:
        return None
    where = f"step:{proposal.step_id}" if proposal.step_id else f"stage:{proposal.stage}"
    evidence = Evidence(scope=where, details={"action": proposal.kind, "target": proposal.target})
    message = f"{proposal.kind} {proposal.target} may not be called: {why}"
    return Trip(NAME, Cause.WORKSPACE_POLICY, evidence, message, f"{message}. Do without it.")


def _outside(proposal: Proposal, view: View) -> Trip | None:
    """The refusal of a tool call that its agent's persona bars, with what S3 records of it; who calls for the engine has no persona."""
    if proposal.kind != "tool" or not proposal.agent:
        return None
    found = spec_persona.barred(view.spec.agent(proposal.agent), view.spec.tool(proposal.target))
    if not found:
        return None
    details: Details = {
        "agent": proposal.agent,
        "tool": proposal.target,
        "requested_capability": found[0].capability,
        "violations": [{"constraint": one.constraint, "value": one.capability, "action": "block"} for one in found],
        "action": "reject_with_error",
        "outcome": "blocked",
        "severity": "critical",
    }
    evidence = Evidence(0, len(found), "violations", f"step:{proposal.step_id}", details=details)
    message = f"{proposal.agent} may not call {proposal.target}: it {spec_persona.because(found[0])}"
    return Trip(NAME, Cause.PERSONA_VIOLATION, evidence, message, f"{message}. Do without it.")


def _denied(proposal: Proposal, ruled: Ruling) -> Trip:
    what = {"tool": f"calling {proposal.target}", "handoff": f"handing over to {proposal.target}"}
    where = f"step:{proposal.step_id}" if proposal.step_id else f"stage:{proposal.stage}"
    evidence = Evidence(scope=where, details={"action": proposal.kind, "policies": list(ruled.policies)})
    message = f"{what.get(proposal.kind, 'starting its agents')} was denied: {ruled.why}"
    return Trip(NAME, Cause.POLICY_DENIED, evidence, message, f"{message}. Do without it.")
