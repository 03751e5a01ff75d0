"""What must be true of calls that a person is asked about: invariants as in ``invariants.py`` (S2; semantics.md 6). The rules of the swarm's tools, each said a second time in Python."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from fabric.core.envelope import Event
from fabric.core.run import Run
from simulator.kernel.odd_replies import ORDER
from simulator.kernel.seen import Seen, on

JSON = Any


@dataclass(frozen=True, slots=True)
class Called:
    """A call as a rule sees it."""

    query: str
    agent: str
    stage: str
    tier: str
    spent: int


Twin = Callable[[Called], bool | None]
"""Whether a rule holds of a call; None: nobody can say."""
RULES: Mapping[str, Twin] = {
    "args.query.contains('1')": lambda one: "1" in one.query,
    "agent.startsWith('worker-1') || size(args.query) > 7": lambda one: (
        one.agent.startswith("worker-1") or len(one.query) > 7
    ),
    "stage == 'fan_out' && run.tier != 'batch'": lambda one: one.stage == "fan_out" and one.tier != "batch",
    "run.spent_usd_micros > 3000": lambda one: one.spent > 3_000,
    "args.amount > 3": lambda _: None,
    "args.query": lambda _: None,
}
"""By expression."""


@on("call_issued")
def asked_before(seen: Seen, event: Event, fact: Any, after: Run) -> str:
    """No call of an agent whose tool's rule holds of it, or of which nobody can say whether it does, goes out unless a person let it pass."""
    if fact.call != "tool" or fact.attempt > 1 or not fact.agent:
        return ""
    rule = next((one.approve_when for one in seen.compiled.spec.tools if one.name == fact.target), None)
    if rule is None or fact.command_id in seen.changes.approved:
        return ""
    known = seen.referred[fact.step_id]
    args = known.get("resolved", {}).get(fact.call_id) or known["proposed"][fact.call_id]
    step = after.steps[fact.step_id]
    called = Called(args["query"], fact.agent, str(step.stage), str(after.tier), seen.spent)
    if RULES[rule](called) is False:
        return ""
    return f"{fact.call_id} was sent, and nobody let it pass: {rule}"


@on("call_issued")
def no_result_gives_orders(seen: Seen, event: Event, fact: Any, after: Run) -> str:
    """No call of an agent that changes something goes out after one of its results gave an order, unless a person let it pass."""
    if fact.call != "tool" or fact.attempt > 1 or not fact.agent or fact.command_id in seen.changes.approved:
        return ""
    if seen.compiled.spec.tool(fact.target).effect not in ("mutating", "irreversible"):
        return ""
    # An agent reads no result of an answer that broke off, and none of the answer that it is giving.
    read = {record.call_id for turn in after.steps[fact.step_id].history[:-1] for record in turn.calls}
    answers = seen.referred[fact.step_id].get("answers", {})
    told = [call_id for call_id, answer in answers.items() if call_id in read and ORDER in str(answer)]
    return f"{fact.call_id} was sent after {told[0]} had told its agent what to do" if told else ""
