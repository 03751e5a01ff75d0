"""Idempotency and registration: what a call's key is, and that nothing mutates without a registered way back (semantics.md 4).

Stops a mutating tool without a compensation, before execution. It stops a call that may have been executed already, before it is sent again.
And it stops a second execution of the same call: the engine makes the key of a call, never the model. That key is
``hash(run, stage, step, epoch, canonical args, ordinal)``. The key of a mutation leaves out the round (``core/saga.py``). An irreversible tool has its person's word instead of a compensation.
Does not stop: a tool that ignores its key.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Any

from fabric.core.fingerprint import digest
from fabric.core.frozen import replace, value
from fabric.core.mechanisms.contract import Proposal, ProposalKind, Scope, View
from fabric.core.taxonomy import Cause
from fabric.core.verdict import PASS, Evidence, Trip, Verdict

if TYPE_CHECKING:
    from fabric.core.envelope import Event
    from fabric.core.policy import FlowPolicy

NAME = "saga"
SCOPE = Scope.STEP
APPLIES_TO: frozenset[ProposalKind] = frozenset({"tool"})
OBSERVES: frozenset[str] = frozenset({"call_issued"})


@value()
class Config:
    """Nothing to set."""


@value()
class State:
    """How often each (target, arguments) was issued in this step: the ordinal of the next."""

    issued: Mapping[str, int] = field(default_factory=dict)


def config(policy: FlowPolicy) -> Config:
    """Cuts this mechanism's part out of the policy."""
    return Config()


def observe(state: State, event: Event) -> State:
    """Counts first attempts: a retry is the same call under the same key."""
    fact: Any = event.fact
    if fact.attempt > 1:
        return state
    name = f"{fact.target}/{fact.args_hash}"
    return replace(state, issued={**state.issued, name: state.issued.get(name, 0) + 1})


def key(state: State, run_id: str, step_id: str, target: str, args_hash: str) -> str:
    """The idempotency key of the next such call; the step id contains stage, branch, epoch and round."""
    return digest(run_id, step_id, target, args_hash, state.issued.get(f"{target}/{args_hash}", 0))


def check(config: Config, state: State, proposal: Proposal, view: View) -> Verdict:
    """Refuses a mutation that nothing could undo, and one that may have been executed already."""
    if proposal.effect not in ("mutating", "irreversible"):
        return PASS
    evidence = Evidence(scope=f"tool:{proposal.target}", details={"effect": proposal.effect})
    if proposal.in_doubt:
        message = (
            f"nobody knows whether {proposal.target} was executed, so it is not sent again without a person's word"
        )
        return Trip(NAME, Cause.OUTCOME_UNKNOWN, evidence, message, "It is not known whether this call was executed.")
    if proposal.compensated or proposal.effect == "irreversible":
        return PASS
    message = f"tool {proposal.target} changes the world and has no registered compensation, so it was not executed"
    return Trip(NAME, Cause.POLICY_DENIED, evidence, message, "This tool may not be used here.")
