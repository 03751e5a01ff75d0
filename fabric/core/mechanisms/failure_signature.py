"""Failure signature: one failure that comes back ends the run, whatever succeeded in between (S1 "Failure signatures and circuit breakers").

Stops: "work succeeds, verify fails, again and again", and a tool that breaks, recovers and breaks the same way: the third failure with one signature
``node|class|message`` is a direct reaction. A node is a stage's branch, whatever the epoch and round, or the stage as a whole. Deterministic and
structural failures count, as ``CLASSIFY`` says; a success never takes one off. A threshold: it acts at the N-th. Does not stop: transient failures
(the retry budget does), and one failure that says something else each time.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Any

from fabric.core.frozen import replace, value
from fabric.core.mechanisms.contract import Proposal, ProposalKind, Scope, View
from fabric.core.policy import FailureSignature as Config
from fabric.core.signatures import counted, effective_limit, signature
from fabric.core.taxonomy import CLASSIFY, Cause
from fabric.core.verdict import PASS, Evidence, Trip, Verdict

if TYPE_CHECKING:
    from fabric.core.envelope import Event
    from fabric.core.policy import FlowPolicy

NAME = "failure_signature"
SCOPE = Scope.RUN
APPLIES_TO: frozenset[ProposalKind] = frozenset({"failure"})
OBSERVES: frozenset[str] = frozenset({"reaction_decided"})


@value()
class State:
    """How often each signature was met in this run."""

    counts: Mapping[str, int] = field(default_factory=dict)


def config(policy: FlowPolicy) -> Config:
    """Cuts this mechanism's part out of the policy."""
    return policy.failure_signature


def observe(state: State, event: Event) -> State:
    """Counts what was decided about: the failure and those that came with it, each signature once a decision."""
    fact: Any = event.fact
    node = _node(fact.step_id, fact.scope.partition(":")[2])
    counts = state.counts
    for key in dict.fromkeys(_key(node, trip.cause, trip.message) for trip in (fact.cause, *fact.causes)):
        if key:
            counts = counted(counts, key)
    return state if counts is state.counts else replace(state, counts=counts)


def check(config: Config, state: State, proposal: Proposal, view: View) -> Verdict:
    """Trips at the failure that would be the N-th of its signature."""
    if proposal.cause is None:
        return PASS
    key = _key(_node(proposal.step_id, proposal.stage), proposal.cause, proposal.message)
    limit, observed = effective_limit(config.limit), state.counts.get(key, 0) + 1
    if not key or observed < limit:
        return PASS
    message = f"the same failure came {observed} times in this run: {proposal.message}"
    evidence = Evidence(limit, observed, "failures", "run", details={"signature": key})
    return Trip(NAME, Cause.REPEATED_FAILURE, evidence, message)


def _node(step_id: str, stage: str) -> str:
    """What failed: ``stage.branch``, or the stage where it was no step. Epoch and round are left out, or nothing would ever come back."""
    return step_id.partition(".e")[0] or str(stage)


def _key(node: str, cause: Cause, message: str) -> str:
    """The signature; empty for what does not count."""
    row = CLASSIFY[cause]
    return signature(node, row.error_class, message) if row.signature_counted else ""
