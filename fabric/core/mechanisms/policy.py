"""Policy: refuses actions that an agent may never take (scope, persona, guardrails on arguments). Judged first,
before every action (docs/specification/gates.md).

Stops a call that the workspace's policy denies to all. It stops a tool call that needs a capability which its agent's
persona lacks (S3 "Persona constraints"). It stops a tool call, handoff or spawn that the fabric's policies do not
permit or cannot judge. And it stops a tool call whose arguments contain something that its guardrails forbid. The
validation gate judges outputs. Does not stop: a spelling that no pattern matches, and an action that a policy permits
too widely.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fabric.core.mechanisms import permissions
from fabric.core.mechanisms.contract import Proposal, ProposalKind, Scope, View
from fabric.core.spec import tools as spec_persona
from fabric.core.state.evaluators import Ruling
from fabric.core.values.frozen import value
from fabric.core.values.taxonomy import PASS, Cause, Details, Evidence, FailureClass, Trip, Verdict

if TYPE_CHECKING:
    from fabric.core.events.envelope import Event
    from fabric.core.spec.policies.flow_policy import FlowPolicy

NAME = "policy"
TITLE = "Policy"
STOPS = "actions without permission: scope, persona, guardrails on arguments, changes after a result with instructions"
PAGE = "docs/specification/gates.md"
CLASSES = (FailureClass.SPECIFICATION, FailureClass.VERIFICATION)
SETTINGS: tuple[str, ...] = ()
UNCOUNTED = "asked before every action; it allows or denies, there is nothing to count"
SCOPE = Scope.RUN
APPLIES_TO: frozenset[ProposalKind] = frozenset({"tool", "handoff", "spawn"})
OBSERVES: frozenset[str] = frozenset()


@value()
class Config:
    """No settings yet."""


@value()
class State:
    """No state: policy judges each action alone."""


def config(policy: FlowPolicy) -> Config:
    """Return this mechanism's part of the policy."""
    return Config()


def observe(state: State, event: Event) -> State:
    """Return the state unchanged."""
    return state


def check(config: Config, state: State, proposal: Proposal, view: View) -> Verdict:
    """Deny actions that the agent's persona bars, then those that no policy permits, then those with a guardrail's
    finding. Neither message nor evidence contains the finding's text.
    """
    outside = _outside(proposal, view)
    if outside is not None:
        return outside
    ruled = permissions.judge_call(proposal, view)
    if ruled is not None and ruled.why:
        return _denial(proposal, ruled)
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


def find_denied(proposal: Proposal, view: View) -> Trip | None:
    """Return the refusal of a tool or model that the workspace's policy denies; None: not denied."""
    why = view.denied.get(f"{proposal.kind}:{proposal.target}")
    if why is None:
        return None
    where = f"step:{proposal.step_id}" if proposal.step_id else f"stage:{proposal.stage}"
    evidence = Evidence(scope=where, details={"action": proposal.kind, "target": proposal.target})
    message = f"{proposal.kind} {proposal.target} may not be called: {why}"
    return Trip(NAME, Cause.WORKSPACE_POLICY, evidence, message, f"{message}. Do without it.")


def _outside(proposal: Proposal, view: View) -> Trip | None:
    """Return the refusal of a tool call that its agent's persona bars, with the record of S3. None: the call is not
    barred. Calls for the engine have no persona.
    """
    if proposal.kind != "tool" or not proposal.agent:
        return None
    found = spec_persona.list_violations(view.spec.agent(proposal.agent).persona, view.spec.tool(proposal.target))
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


def _denial(proposal: Proposal, ruled: Ruling) -> Trip:
    what = {"tool": f"calling {proposal.target}", "handoff": f"handing over to {proposal.target}"}
    where = f"step:{proposal.step_id}" if proposal.step_id else f"stage:{proposal.stage}"
    evidence = Evidence(scope=where, details={"action": proposal.kind, "policies": list(ruled.policies)})
    message = f"{what.get(proposal.kind, 'starting its agents')} was denied: {ruled.why}"
    return Trip(NAME, Cause.POLICY_DENIED, evidence, message, f"{message}. Do without it.")
