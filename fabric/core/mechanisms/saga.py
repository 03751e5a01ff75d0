"""Idempotency and registration: makes the key of each call, and requires a registered compensation for each mutation
(docs/specification/changes.md).

Stops a mutating tool without a compensation, before execution. It stops a call that may have been executed already,
before it is sent again. And it stops a second execution of one call: the engine makes the key of a call, never the
model. That key is ``hash(run, stage, step, epoch, canonical args, ordinal)``. The key of a mutation leaves out the
round (``core/values/saga.py``). An irreversible tool needs a person's approval instead of a compensation.
Does not stop: a tool that ignores its key.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Any

from fabric.core.mechanisms.contract import Proposal, ProposalKind, Scope, View
from fabric.core.values.fingerprint import digest
from fabric.core.values.frozen import replace, value
from fabric.core.values.taxonomy import PASS, Cause, Evidence, FailureClass, Trip, Verdict

if TYPE_CHECKING:
    from fabric.core.events.envelope import Event
    from fabric.core.spec.policies.flow_policy import FlowPolicy

NAME = "saga"
TITLE = "Idempotency and saga"
STOPS = "changes of the world without a way back, and changes made twice"
PAGE = "docs/specification/changes.md"
CLASSES = (FailureClass.VERIFICATION,)
SETTINGS: tuple[str, ...] = ()
UNCOUNTED = "refuses what could not be undone; there is nothing to count"
SCOPE = Scope.STEP
APPLIES_TO: frozenset[ProposalKind] = frozenset({"tool"})
OBSERVES: frozenset[str] = frozenset({"call_issued"})


@value()
class Config:
    """No settings."""


@value()
class State:
    """Counts of issued calls in this step by (target, arguments): the ordinal of the next one."""

    issued: Mapping[str, int] = field(default_factory=dict)


def config(policy: FlowPolicy) -> Config:
    """Return this mechanism's part of the policy."""
    return Config()


def observe(state: State, event: Event) -> State:
    """Count first attempts; a retry repeats its call under one key."""
    fact: Any = event.fact
    if fact.attempt > 1:
        return state
    name = f"{fact.target}/{fact.args_hash}"
    return replace(state, issued={**state.issued, name: state.issued.get(name, 0) + 1})


def key(state: State, run_id: str, step_id: str, target: str, args_hash: str) -> str:
    """Return the idempotency key of the next such call; the step id contains stage, branch, epoch and round."""
    return digest(run_id, step_id, target, args_hash, state.issued.get(f"{target}/{args_hash}", 0))


def check(config: Config, state: State, proposal: Proposal, view: View) -> Verdict:
    """Refuse a mutation that nothing could undo, and one that may have been executed already."""
    if proposal.effect not in ("mutating", "irreversible"):
        return PASS
    evidence = Evidence(scope=f"tool:{proposal.target}", details={"effect": proposal.effect})
    if proposal.in_doubt:
        message = (
            f"it is unknown whether {proposal.target} was executed, so it is not sent again without a person's decision"
        )
        return Trip(NAME, Cause.OUTCOME_UNKNOWN, evidence, message, "It is not known whether this call was executed.")
    if proposal.compensated or proposal.effect == "irreversible":
        return PASS
    message = f"tool {proposal.target} changes the world and has no registered compensation, so it was not executed"
    return Trip(NAME, Cause.POLICY_DENIED, evidence, message, "This tool may not be used here.")
