"""Calls as a model proposed them: with ids that the history can answer, what is structurally wrong with each, and what each waits for (semantics.md 6)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from fabric.core import events as ev
from fabric.core.fingerprint import fingerprint
from fabric.core.frozen import replace, value
from fabric.core.inputs import ToolCall
from fabric.core.references import Unresolved, named_in, references_of
from fabric.core.run import CallRecord, Step
from fabric.core.taxonomy import Cause
from fabric.core.work import Work

JSON = Any


@value()
class Proposed:
    """A proposed call under an id that the history can answer, with what is structurally wrong with it."""

    call_id: str
    tool: str
    args: JSON
    raw_args: str
    args_hash: str
    problem: str = ""
    cause: Cause = Cause.TOOL_CONSTRAINT
    when: str = ""
    """The condition under which it is made; empty: it is made."""
    after: tuple[str, ...] = ()
    """Calls of the same answer that it waits for."""
    bound: bool = False
    """Whether nothing in its arguments is left to be looked up."""

    def as_json(self) -> JSON:
        """As it stands in the answer's content."""
        given = {"args": self.args} if self.args is not None else {"raw_args": self.raw_args}
        wrong = {"problem": self.problem, "cause": self.cause} if self.problem else {}
        condition = {"when": self.when} if self.when else {}
        return {"call_id": self.call_id, "tool": self.tool, **given, **condition, **wrong}

    def fact(self) -> ev.ProposedCall:
        """By fingerprint, as it stands in the header."""
        return ev.ProposedCall(call_id=self.call_id, tool=self.tool, args_hash=self.args_hash, after=self.after)


def proposals(step: Step, given: Iterable[tuple[ToolCall, str]]) -> list[Proposed]:
    """What a step's model asks for: each call with its condition. Ids are unique, references lead back, or the call says what is wrong with it."""
    found = _normalised(list(given))
    known = {record.call_id for turn in step.history for record in turn.calls}
    earlier: set[str] = set()
    all_ids = {one.call_id for one in found}
    waiting = []
    for one in found:
        waiting.append(_waiting(one, earlier, known, all_ids))
        earlier.add(one.call_id)
    return waiting


def _normalised(given: Sequence[tuple[ToolCall, str]]) -> list[Proposed]:
    """Calls with unique ids; the same id with equal arguments once, with other arguments an error on both."""
    found: dict[str, Proposed] = {}
    ids = {call.call_id for call, _ in given}
    for index, (call, when) in enumerate(given):
        args_hash = fingerprint(call.args) if call.args is not None else fingerprint(call.raw_args)
        one = Proposed(call.call_id, call.tool, call.args, call.raw_args, args_hash, when=when)
        if not call.call_id.strip():
            one = replace(one, call_id=_made_up(f"unnamed-{index}", ids), problem="the call has no id")
        elif call.call_id in found:
            first = found[call.call_id]
            if (first.tool, first.args_hash, first.when) == (one.tool, one.args_hash, one.when):
                continue
            problem = f"call id {call.call_id!r} stands for two different calls"
            found[call.call_id] = replace(first, problem=problem, cause=Cause.DUPLICATE_CALL)
            made_up = _made_up(f"{call.call_id}#{index}", ids)
            one = replace(one, call_id=made_up, problem=problem, cause=Cause.DUPLICATE_CALL)
        found[one.call_id] = one
    return list(found.values())


def _made_up(name: str, given: set[str]) -> str:
    """An id for a call that cannot keep its own; never one that the model gave to another."""
    while name in given:
        name += "'"
    return name


def _waiting(one: Proposed, earlier: set[str], known: set[str], all_ids: set[str]) -> Proposed:
    """The call with what it waits for; with a problem where it refers to itself, to a later call or to none."""
    if one.problem:
        return one
    try:
        wanted = [reference.call_id for reference in references_of(one.args)]
    except Unresolved as error:
        return replace(one, problem=str(error))
    wanted = list(dict.fromkeys((*wanted, *named_in(one.when))))
    for call_id in wanted:
        if call_id in earlier or (call_id in known and call_id not in all_ids):
            continue
        if call_id == one.call_id:
            return replace(one, problem=f"it refers to itself ({call_id!r}); a call can only use what came before it")
        if call_id in all_ids:
            return replace(
                one, problem=f"it refers to {call_id!r}, which comes later in the same answer; put that call first"
            )
        there = ", ".join(sorted(earlier | known)) or "none"
        return replace(one, problem=f"it refers to {call_id!r}, and there is no such call; before it came: {there}")
    return replace(one, after=tuple(call_id for call_id in wanted if call_id in earlier))


def earlier(step: Step, call_id: str) -> CallRecord | None:
    """What became of the call under an id in a turn before the last one; None: there is none."""
    found = (call for turn in step.history[:-1] for call in turn.calls if call.call_id == call_id)
    return next(found, None)


def repeats(work: Work, step: Step, one: Proposed) -> bool:
    """Whether a call is the same as its model proposed under its id in an earlier turn, references and all; True where it proposed none under it."""
    for turn in step.history[:-1]:
        if any(record.call_id == one.call_id for record in turn.calls):
            journaled = work.ctx.contents.read(turn.answer_ref)["calls"]
            before = next(call for call in journaled if call["call_id"] == one.call_id)
            given = before["args"] if "args" in before else before.get("raw_args", "")
            return (before["tool"], fingerprint(given)) == (one.tool, one.args_hash)
    return True


def of_last_answer(work: Work, step: Step) -> list[Proposed]:
    """The calls of the step's last answer as they were journaled with it; with the arguments that took the place of the proposed ones."""
    turn = step.history[-1]
    journaled = work.ctx.contents.read(turn.answer_ref)["calls"]
    return [read(work, record, call) for record, call in zip(turn.calls, journaled, strict=True)]


def read(work: Work, record: CallRecord, call: JSON) -> Proposed:
    """A call as it was journaled."""
    return Proposed(
        record.call_id,
        record.tool,
        work.ctx.contents.read(record.args_ref)["calls"][0]["args"] if record.args_ref else call.get("args"),
        call.get("raw_args", ""),
        record.args_hash,
        call.get("problem", ""),
        Cause(call.get("cause", Cause.TOOL_CONSTRAINT)),
        call.get("when", ""),
        record.after,
        bool(record.args_ref),
    )
