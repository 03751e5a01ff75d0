"""Calls as a model proposed them: with ids that the history can answer, what is structurally wrong with each, and what each waits for (semantics.md 6)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
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
_ours = re.compile(r"call-\d+-\d+'*")
ID_CHARS = 64
"""A longer id of an endpoint's is kept for the way back only."""


@value()
class Proposed:
    """A proposed call under an id that no other call of its step has, with what is structurally wrong with it."""

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
    given: str = ""
    """The id that the model knows it by, where that is another one."""
    own: JSON = None
    """Fields of the call that only its provider understands."""

    def as_json(self) -> JSON:
        """As it stands in the answer's content."""
        given = {"args": self.args} if self.args is not None else {"raw_args": self.raw_args}
        wrong = {"problem": self.problem, "cause": self.cause} if self.problem else {}
        condition = {"when": self.when} if self.when else {}
        back = {"server_id": self.given} if self.given else {}
        own = {"own": self.own} if self.own is not None else {}
        return {"call_id": self.call_id, "tool": self.tool, **given, **condition, **wrong, **back, **own}

    def fact(self) -> ev.ProposedCall:
        """By fingerprint, as it stands in the header."""
        known_by = self.given[:ID_CHARS]
        return ev.ProposedCall(
            call_id=self.call_id, tool=self.tool, args_hash=self.args_hash, after=self.after, given=known_by
        )

    @property
    def name(self) -> str:
        """The id that its model refers to it by."""
        return self.given or self.call_id


def proposals(step: Step, given: Iterable[tuple[ToolCall, str]]) -> list[Proposed]:
    """The calls that a step's model asks for, each with its condition, under ids that are unique within the step.

    A call keeps its endpoint's id where that is short and new. Otherwise it gets one of ours: endpoints leave ids out, number anew in
    each turn, or give every call the same. What is wrong with a call stands in its ``problem``.
    """
    records = [record for turn in step.history for record in turn.calls]
    taken = frozenset([record.call_id for record in records])
    found = _numbered(list(given), taken, len(step.history))
    before = taken.union([record.given for record in records if record.given])
    later = {one.name for one in found}
    same: dict[str, str] = {}
    waiting = []
    for one in found:
        waiting.append(_waiting(one, same, later, before))
        later.discard(one.name)
        same[one.name] = one.call_id
    return waiting


def _numbered(given: Sequence[tuple[ToolCall, str]], taken: frozenset[str], turn: int) -> list[Proposed]:
    """Calls with unique ids; the same id with equal arguments once, with other arguments an error on both."""
    found: dict[str, Proposed] = {}
    places: dict[str, str] = {}
    for index, (call, when) in enumerate(given):
        args_hash = fingerprint(call.args) if call.args is not None else fingerprint(call.raw_args)
        name = call.call_id if call.call_id.strip() else ""
        one = Proposed(name, call.tool, call.args, call.raw_args, args_hash, when=when, own=call.own)
        if name and name in places:
            first = found[places[name]]
            if (first.tool, first.args_hash, first.when) == (one.tool, one.args_hash, one.when):
                continue
            problem = f"call id {name[:80]!r} stands for two different calls"
            found[first.call_id] = replace(first, problem=problem, cause=Cause.DUPLICATE_CALL)
            one = replace(one, problem=problem, cause=Cause.DUPLICATE_CALL)
        if not name or len(name) > ID_CHARS or name in taken or name in found:
            ids = {other.call_id for other, _ in given}.union(taken, found)
            one = replace(one, call_id=_made_up(f"call-{turn + 1}-{index + 1}", ids), given=name)
        found[one.call_id] = one
        places.setdefault(name, one.call_id)
    return list(found.values())


def is_ours(call_id: str) -> bool:
    """Returns True where an id is one that the engine gave to a call, as far as its form says."""
    return _ours.fullmatch(call_id) is not None


def _made_up(name: str, taken: set[str]) -> str:
    """An id that no other call has."""
    while name in taken:
        name += "'"
    return name


def _waiting(one: Proposed, same: Mapping[str, str], later: set[str], before: frozenset[str]) -> Proposed:
    """The call with what it waits for; with a problem where it refers to itself, to a later call or to none.

    ``same``: call ids, by name, of the calls before it in the same answer. ``later``: names of this call and of those after it.
    ``before``: names of the calls of earlier answers.
    """
    if one.problem:
        return one
    try:
        wanted = [reference.call_id for reference in references_of(one.args)]
    except Unresolved as error:
        return replace(one, problem=str(error))
    wanted = list(dict.fromkeys((*wanted, *named_in(one.when))))
    for name in wanted:
        if name == one.name:
            return replace(one, problem=f"it refers to itself ({name!r}); a call can only use what came before it")
        if name in later:
            return replace(
                one, problem=f"it refers to {name!r}, which comes later in the same answer; put that call first"
            )
        if name not in same and name not in before:
            there = ", ".join(sorted(before.union(same))) or "none"
            return replace(one, problem=f"it refers to {name!r}, and there is no such call; before it came: {there}")
    return replace(one, after=tuple(dict.fromkeys(same[name] for name in wanted if name in same)))


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
        call.get("server_id", ""),
        call.get("own"),
    )
