"""What must be true of answers that stream in: invariants as in ``invariants.py`` (S2; semantics.md 6). Counted anew from the facts alone."""

from __future__ import annotations

from typing import Any

from fabric.core.envelope import Event
from fabric.core.run import Run
from simulator.kernel.seen import Seen, on


@on("call_issued", "call_streamed", "model_answered", "call_aborted", "input_requested")
def nothing_is_made_twice(seen: Seen, event: Event, fact: Any, after: Run) -> str:
    """No call of a turn goes out more often than an answer proposes it, however many answers to one request broke off."""
    if fact.kind in ("call_aborted", "input_requested"):  # Neither was made.
        for begun in seen.begun.values():
            begun["made"].pop(fact.command_id, None)
        return ""
    if fact.kind == "call_issued" and fact.call == "model" and fact.attempt == 1:
        seen.begun[fact.step_id] = {"made": {}, "coming": {}, "command": fact.command_id}
    known = seen.begun.get(fact.step_id)
    if known is None:
        return ""
    if fact.kind == "call_streamed":
        known["coming"][fact.attempt, fact.call_id] = (fact.tool, fact.args_hash)
    elif fact.kind == "model_answered":
        return _told(known, fact)
    elif fact.call == "tool" and fact.attempt == 1:
        return _made(known, fact, after)
    return ""


def _told(known: dict[str, Any], fact: Any) -> str:
    """Whatever was taken from an answer while it came stands in it."""
    said = {call.call_id: (call.tool, call.args_hash) for call in fact.calls}
    coming = {call_id: call for (attempt, call_id), call in known["coming"].items() if attempt == fact.attempt}
    missing = next((call_id for call_id, call in coming.items() if said.get(call_id) != call), "")
    return f"{missing} had streamed in otherwise" if missing else ""


def _made(known: dict[str, Any], fact: Any, after: Run) -> str:
    call = (fact.target, fact.args_hash)
    made = [one for one in known["made"].values() if one == call]
    known["made"][fact.command_id] = call
    step = after.steps[fact.step_id]
    coming = known["command"] in after.pending
    proposed = 1 if coming else sum((one.tool, one.args_hash) == call for one in step.history[-1].calls)
    return (
        f"{fact.target} goes out {len(made) + 1} times, and is proposed {proposed} times"
        if len(made) >= proposed
        else ""
    )


@on("call_issued")
def only_what_reads_begins_early(seen: Seen, event: Event, fact: Any, after: Run) -> str:
    """While a model is still answering a step, no call of the step goes out for the first time but one of a tool that only reads."""
    if fact.call != "tool" or fact.attempt > 1:
        return ""
    asked = [one for one in after.pending.values() if one.issued.step_id == fact.step_id and one.issued.call == "model"]
    tool = seen.compiled.spec.tool(fact.target)
    return (
        f"{fact.target} is {tool.effect}, and its answer is not whole" if asked and tool.effect != "read_only" else ""
    )
