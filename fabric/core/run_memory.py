"""The memory of one run: it is the journal itself. What stands in it follows from the run's mutations; nothing goes out, and nobody else sees it.

A call of it is answered in the very decision that issues it, so its outcome is never unknown. A child run has a memory of its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fabric.core import conversation_tools, mutations
from fabric.core import events as ev
from fabric.core import memory as rules
from fabric.core.call_args import call_args
from fabric.core.failure import Failure
from fabric.core.inputs import ToolFinished
from fabric.core.saga import Mutation, Outcome, Status
from fabric.core.spec_memories import LISTED_MAX, MemorySpec, Verb, tool_name
from fabric.core.tool_answers import tool_answered
from fabric.core.work import Work

JSON = Any


def answered(work: Work, command_id: str) -> Failure | None:
    """Answers a call that was just issued, if it is one of the run's memory or conversation; gives back what its error stopped, as of any tool's."""
    pending = work.run.pending[command_id]
    found = work.compiled.spec.memory_of(pending.issued.target)
    if work.compiled.spec.of_conversation(pending.issued.target):
        return conversation_tools.answered(work, pending)
    if found is None or found[0].scope != "run":
        return None
    return tool_answered(work, pending, _told(work, pending.issued, *found))


def _told(work: Work, issued: ev.CallIssued, memory: MemorySpec, verb: Verb) -> ToolFinished:
    args = call_args(work.ctx.contents, issued.args_ref, issued.call_id)
    if verb is Verb.READ:
        return _finished(issued, _read(work, memory, args))
    change = rules.change_of(args, delete=verb is Verb.DELETE)
    before = rules.found_in(entries(work, memory), change.key)
    if (refused := rules.judged(change, before, memory)) is not None:
        return _finished(issued, None, rules.said(refused, change, before, memory), Outcome.REJECTED)
    origin = rules.Origin(run_id=work.run.id, step_id=issued.step_id, agent=issued.agent, at=work.ctx.now)
    entry = rules.Entry(key=change.key, version=before.top + 1, deleted=change.delete, origin=origin)
    return _finished(issued, rules.told_write(memory, entry, before.standing), outcome=Outcome.ANSWERED)


def entries(work: Work, memory: MemorySpec) -> Iterator[rules.Entry]:
    """What the run wrote to a memory and deleted from it, with what was taken back."""
    by_tool = {tool_name(Verb.WRITE, memory.name): False, tool_name(Verb.DELETE, memory.name): True}
    for one in work.run.saga.mutations:
        if one.tool in by_tool and not one.child_id and one.status in (Status.EXECUTED, Status.UNDONE):
            yield _entry(work, one, deleted=by_tool[one.tool])


def _entry(work: Work, one: Mutation, *, deleted: bool) -> rules.Entry:
    args, told = mutations.args_of(work, one), mutations.result_of(work, one)
    return rules.Entry(
        key=args["key"],
        version=told["version"],
        value=args.get("value"),
        deleted=deleted,
        origin=rules.origin_of(told["origin"], one.step_id),
        call_key=one.key,
        undone_at=int(one.status is Status.UNDONE),
    )


def _read(work: Work, memory: MemorySpec, args: JSON) -> JSON:
    stands = rules.standing(entries(work, memory))
    if "key" in args:
        return rules.told_read(memory, args["key"], stands.get(args["key"]))
    shown = list(stands.values())
    return rules.told_keys(memory, shown[:LISTED_MAX], more=len(shown) > LISTED_MAX)


def _finished(issued: ev.CallIssued, result: JSON, error: str = "", outcome: Outcome | None = None) -> ToolFinished:
    return ToolFinished(
        command_id=issued.command_id, attempt=issued.attempt, result=result, error=error, outcome=outcome
    )
