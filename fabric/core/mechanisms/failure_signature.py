"""Failure signature: one failure that comes back ends the run, whatever succeeded in between (S1 "Failure signatures and circuit breakers").

Stops work that succeeds and whose check fails, again and again. A tool breaks, recovers and breaks the same way. A tool gives its agent the same error again
and again. The third failure with one signature ``node|class|message`` is a direct reaction. A node is a stage's branch, whatever the epoch and
round, or the stage as a whole. Where workers take turns by a graph it is the worker whose turn it was, since each turn is another branch. Of an
error that a tool gives its model it is the tool, as that branch calls it. Deterministic and structural failures
count, as ``CLASSIFY`` says; a success never takes one off, the tries of one call or step count once, a person's word lets one more pass, ``humans.failure_rounds`` times. A threshold: it acts at the N-th. The rules are
``core/signatures.py``. Restart edges of a graph are judged here as well, by a count of their own: only transient failures cross one, and
the N-th of one signature, by the agent's name, does not either. Does not stop: transient failures (the retry budget does), one failure that says something else each time, and calls of one
answer that fail alike.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fabric.core.frozen import replace
from fabric.core.mechanisms.contract import Proposal, ProposalKind, Scope, View
from fabric.core.policy import FailureSignature as Config
from fabric.core.signatures import Failures as State
from fabric.core.signatures import (
    crossed,
    effective_limit,
    failed,
    hint_of,
    of_tool,
    reached,
    signature,
    spoken,
    visit_of,
    without_arguments,
)
from fabric.core.taxonomy import CLASSIFY, Cause, ErrorClass
from fabric.core.verdict import PASS, Evidence, Trip, Verdict

if TYPE_CHECKING:
    from fabric.core.envelope import Event
    from fabric.core.policy import FlowPolicy

JSON = Any
NAME = "failure_signature"
SCOPE = Scope.RUN
APPLIES_TO: frozenset[ProposalKind] = frozenset({"failure", "crossing"})
OBSERVES: frozenset[str] = frozenset(
    {"reaction_decided", "tool_answered", "escalation_decided", "speaker_chosen", "turn_opened"}
)
__all__ = ["APPLIES_TO", "NAME", "OBSERVES", "SCOPE", "Config", "State", "check", "config", "observe", "of_error"]


def config(policy: FlowPolicy) -> Config:
    """Cuts this mechanism's part out of the policy."""
    return policy.failure_signature


def of_error(step_id: str, tool: str, error: str, code: str, args: JSON) -> str:
    """The signature of an error that a tool gives its model. ``code``: the tool's own name for it, which beats what it says; ``args``: its call's."""
    return of_tool(_branch(step_id), tool, error, code, args)


def observe(state: State, event: Event) -> State:
    """Counts a tool's error, and what was decided about: the failure and those that came with it, each signature once a decision. Hears a person's word."""
    fact: Any = event.fact
    if fact.kind == "escalation_decided":
        return state if fact.system else spoken(state)
    if fact.kind == "turn_opened":
        return replace(state, turn=(_branch(fact.step_id), fact.agent)) if fact.chooses else state
    if fact.kind == "speaker_chosen":
        return crossed(state, fact.crossed) if fact.crossed else state
    if fact.kind == "tool_answered":
        return failed(state, fact.failure, _turn(fact.command_id)) if fact.failure else state
    node = _node(state, fact.step_id, fact.scope.partition(":")[2])
    for key in dict.fromkeys(_key(node, trip.cause, trip.message) for trip in (fact.cause, *fact.causes)):
        if key:
            state = failed(state, key, visit_of(fact.command_id, fact.step_id))
    return state


def check(config: Config, state: State, proposal: Proposal, view: View) -> Verdict:
    """Trips at the failure that would be the N-th of its signature."""
    if proposal.cause is None:
        return PASS
    if proposal.kind == "crossing":
        return _crossing(config, state, proposal, proposal.cause)
    node, turn = _node(state, proposal.step_id, proposal.stage), visit_of(proposal.command_id, proposal.step_id)
    named = key = _key(node, proposal.cause, proposal.message)
    if proposal.target:
        key = of_error(proposal.step_id, proposal.target, proposal.message, proposal.code, proposal.args)
        turn, said = _turn(proposal.command_id), without_arguments(proposal.message, proposal.args)
        named = _key(f"{_branch(proposal.step_id)}/{proposal.target}", proposal.cause, said, proposal.code)
    if not key or not reached(state, key, config.limit, turn, view.spec.policy.humans.failure_rounds):
        return PASS
    limit, observed = effective_limit(config.limit), state.counts.get(key, 0) + 1
    message = came_back(proposal.target, observed, limit, proposal.message)
    evidence = Evidence(limit, observed, "failures", "run", details={"signature": named})
    return Trip(NAME, Cause.REPEATED_FAILURE, evidence, message)


def came_back(tool: str, times: int, limit: int, message: str) -> str:
    """The sentence about a failure that came back so often. ``tool``: whose error it was; empty: it was no tool's."""
    what = f"{tool} failed in the same way" if tool else "the same failure came"
    return f"{what} {times} times in this run (limit {limit}): {message}"


def of_crossing(agent: str, cause: Cause, message: str) -> str:
    """The signature of a failure that crosses a restart edge: its node is the agent, whose turns are different branches each."""
    return signature(agent, CLASSIFY[cause].error_class, message)


def _crossing(config: Config, state: State, proposal: Proposal, cause: Cause) -> Verdict:
    """Trips at a failure that is not transient, and at the crossing that would be the N-th of its signature."""
    row, key = CLASSIFY[cause], of_crossing(proposal.agent, cause, proposal.message)
    limit, observed = effective_limit(config.restart_limit), state.crossings.get(key, 0) + 1
    details: dict[str, Any] = {"signature": key, "agent": proposal.agent, "failure_class": str(row.error_class)}
    evidence = Evidence(limit, observed, "crossings", "run", details=details)
    if row.error_class is not ErrorClass.TRANSIENT_INFRA:
        why = f"a failure of class {row.error_class} leads back nowhere, only one of class {ErrorClass.TRANSIENT_INFRA}"
    elif observed >= limit:
        why = f"the same failure came {observed} times (limit {limit})"
    else:
        return PASS
    message = f"{proposal.message}; the graph does not begin anew: {why}"
    return Trip(NAME, Cause.RESTART_BLOCKED, evidence, message)


def _turn(command_id: str) -> str:
    """The answer that proposed a tool call."""
    return command_id.rpartition(".c")[0]


def _node(state: State, step_id: str, stage: str) -> str:
    """What failed: ``agent:NAME`` whose turn it was, ``stage.branch``, or the stage where it was no step. Without epoch and round, or nothing would come back."""
    branch, (turn, speaker) = _branch(step_id), state.turn
    return f"agent:{speaker}" if branch and branch == turn else branch or str(stage)


def _branch(step_id: str) -> str:
    return step_id.partition(".e")[0]


def _key(node: str, cause: Cause, message: str, code: str = "") -> str:
    """The signature; empty for what does not count."""
    row = CLASSIFY[cause]
    return signature(node, row.error_class, message, hint_of(code)) if row.signature_counted else ""
