"""Failure signature: one failure that comes back ends the run, whatever succeeded in between (S1 "Failure signatures
and circuit breakers").

Stops work that succeeds and whose check fails, again and again. Examples: a tool breaks, recovers and breaks the same
way; a tool returns one error to its agent again and again. The third failure with one signature
``node|class|message`` is a direct reaction. The node is:

- a stage's branch, over all epochs and rounds, or the stage as a whole;
- where workers take turns by a graph, the worker whose turn it was, since each turn is another branch;
- for an error that a tool returns to its model, the tool, as that branch calls it.

Deterministic and structural failures count, as ``CLASSIFY`` says. A success never takes one off. The attempts of one
call or step count once. A review's answer lets one more pass, ``humans.failure_rounds`` times. The limit is a
threshold: it acts at the N-th. The rules are ``core/rules/signatures.py``.
Restart edges of a graph are judged here as well, by a count of their own: only transient failures cross one, and the
N-th of one signature, by the agent's name, does not. Does not stop: transient failures (the retry budget does), one
failure with a different message each time, and calls of one answer that fail alike.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fabric.core.mechanisms.contract import Proposal, ProposalKind, Scope, View
from fabric.core.rules.signatures import Failures as State
from fabric.core.rules.signatures import (
    add_crossing,
    add_failure,
    effective_limit,
    forget_answered,
    reaches_limit,
    read_hint,
    read_visit,
    signature,
    tool_signature,
    without_arguments,
)
from fabric.core.spec.policies.limits import FailureSignature as Config
from fabric.core.values.frozen import replace
from fabric.core.values.taxonomy import CLASSIFY, PASS, Cause, ErrorClass, Evidence, FailureClass, Trip, Verdict
from fabric.core.values.units import JSON

if TYPE_CHECKING:
    from fabric.core.events.envelope import Event
    from fabric.core.spec.policies.flow_policy import FlowPolicy

NAME = "failure_signature"
TITLE = "Failure signature"
STOPS = "one failure that comes back, whatever succeeded in between"
PAGE = "docs/specification/failures.md"
CLASSES = (FailureClass.VERIFICATION,)
SETTINGS: tuple[str, ...] = ("failure_signature",)
UNCOUNTED = ""
SCOPE = Scope.RUN
APPLIES_TO: frozenset[ProposalKind] = frozenset({"failure", "crossing"})
OBSERVES: frozenset[str] = frozenset(
    {"reaction_decided", "tool_answered", "review_decided", "speaker_chosen", "turn_opened"}
)
__all__ = [
    "APPLIES_TO",
    "NAME",
    "OBSERVES",
    "SCOPE",
    "Config",
    "State",
    "check",
    "config",
    "error_signature",
    "observe",
]


def config(policy: FlowPolicy) -> Config:
    """Return this mechanism's part of the policy."""
    return policy.failure_signature


def error_signature(step_id: str, tool: str, error: str, code: str, args: JSON) -> str:
    """Return the signature of an error that a tool returns to its model. ``code`` is the tool's own code, which
    takes precedence over ``error``; ``args`` are the call's.
    """
    return tool_signature(_branch(step_id), tool, error, code, args)


def observe(state: State, event: Event) -> State:
    """Count a tool's error, and each decided failure with its further trips, each signature once a decision. Note a
    review's answer.
    """
    fact: Any = event.fact
    if fact.kind == "review_decided":
        return state if fact.system else forget_answered(state)
    if fact.kind == "turn_opened":
        return _with_turn(state, _branch(fact.step_id), fact.agent) if fact.chooses else state
    if fact.kind == "speaker_chosen":
        return add_crossing(state, fact.crossed) if fact.crossed else state
    if fact.kind == "tool_answered":
        return add_failure(state, fact.failure, _turn(fact.command_id)) if fact.failure else state
    node = _node(state, fact.step_id, fact.scope.partition(":")[2])
    for key in dict.fromkeys(_key(node, trip.cause, trip.message) for trip in (fact.cause, *fact.causes)):
        if key:
            state = add_failure(state, key, read_visit(fact.command_id, fact.step_id))
    return state


def check(config: Config, state: State, proposal: Proposal, view: View) -> Verdict:
    """Trip at the failure that would be the N-th of its signature."""
    if proposal.cause is None:
        return PASS
    if proposal.kind == "crossing":
        return _judge_crossing(config, state, proposal, proposal.cause)
    node, turn = _node(state, proposal.step_id, proposal.stage), read_visit(proposal.command_id, proposal.step_id)
    named = key = _key(node, proposal.cause, proposal.message)
    if proposal.target:
        key = error_signature(proposal.step_id, proposal.target, proposal.message, proposal.code, proposal.args)
        turn, said = _turn(proposal.command_id), without_arguments(proposal.message, proposal.args)
        named = _key(f"{_branch(proposal.step_id)}/{proposal.target}", proposal.cause, said, proposal.code)
    if not key or not reaches_limit(state, key, config.limit, turn, view.spec.policy.humans.failure_rounds):
        return PASS
    limit, observed = effective_limit(config.limit), state.counts.get(key, 0) + 1
    message = came_back(proposal.target, observed, limit, proposal.message)
    evidence = Evidence(limit, observed, "failures", "run", details={"signature": named})
    return Trip(NAME, Cause.REPEATED_FAILURE, evidence, message)


def came_back(tool: str, times: int, limit: int, message: str) -> str:
    """Return the sentence about a failure that came back so often. ``tool``: the tool with the error; "": no tool."""
    what = f"{tool} failed in the same way" if tool else "the same failure came"
    return f"{what} {times} times in this run (limit {limit}): {message}"


def crossing_signature(agent: str, cause: Cause, message: str) -> str:
    """Return the signature of a failure that crosses a restart edge. Its node is the agent, since each of its turns
    is another branch.
    """
    return signature(agent, CLASSIFY[cause].error_class, message)


def _judge_crossing(config: Config, state: State, proposal: Proposal, cause: Cause) -> Verdict:
    """Trip at a failure that is not transient, and at the crossing that would be the N-th of its signature."""
    row, key = CLASSIFY[cause], crossing_signature(proposal.agent, cause, proposal.message)
    limit, observed = effective_limit(config.restart_limit), state.crossings.get(key, 0) + 1
    details: dict[str, Any] = {"signature": key, "agent": proposal.agent, "failure_class": str(row.error_class)}
    evidence = Evidence(limit, observed, "crossings", "run", details=details)
    if row.error_class is not ErrorClass.TRANSIENT_INFRA:
        why = f"a failure of class {row.error_class} leads back nowhere, only one of class {ErrorClass.TRANSIENT_INFRA}"
    elif observed >= limit:
        why = f"the same failure came {observed} times (limit {limit})"
    else:
        return PASS
    message = f"{proposal.message}; the graph does not start over: {why}"
    return Trip(NAME, Cause.RESTART_BLOCKED, evidence, message)


def _turn(command_id: str) -> str:
    """Return the answer that proposed a tool call."""
    return command_id.rpartition(".c")[0]


def _node(state: State, step_id: str, stage: str) -> str:
    """Return the node that failed: ``agent:NAME`` for a turn, ``stage.branch``, or the stage where no step failed.
    Epoch and round are left out, so that a failure can come back.
    """
    branch = _branch(step_id)
    return f"agent:{state.speakers[branch]}" if branch in state.speakers else branch or str(stage)


def _with_turn(state: State, branch: str, speaker: str) -> State:
    return replace(state, speakers={**state.speakers, branch: speaker})


def _branch(step_id: str) -> str:
    return step_id.partition(".e")[0]


def _key(node: str, cause: Cause, message: str, code: str = "") -> str:
    """Return the signature; "" for a failure that does not count."""
    row = CLASSIFY[cause]
    return signature(node, row.error_class, message, read_hint(code)) if row.signature_counted else ""
