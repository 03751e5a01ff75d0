"""Accepts or refuses each write to a memory, with a reason for the model. Pure; every store follows these rules.

A memory is a ledger. Each write and each deletion is an entry with a version of its key. The value of a key is its
newest entry that was not undone. Undoing one restores the entry before it with its version. No version is used twice.

The memory of one run is its journal itself: its entries follow from the run's mutations, nothing goes out, and no other
run sees it. A call of it is answered in the decision that issues it, so its outcome is never unknown. A child run has a
memory of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from enum import StrEnum

from fabric.core import events as ev
from fabric.core.calls.tool_answers import tool_answered
from fabric.core.conversations import tools as conversation_tools
from fabric.core.decision.work import Work
from fabric.core.events.inputs import ToolFinished
from fabric.core.sagas import mutations
from fabric.core.spec.memories import LISTED_MAX, MemorySpec, Verb, tool_name
from fabric.core.state.context import call_args
from fabric.core.state.failure import Failure
from fabric.core.values.fingerprint import encode
from fabric.core.values.frozen import value
from fabric.core.values.saga import Mutation, Outcome, Status
from fabric.core.values.units import JSON

DAY_US = 86_400_000_000


class WriteRefusal(StrEnum):
    """Why nothing was written."""

    CONFLICT = "conflict"
    """The key has another version than the named one."""
    FULL = "full"
    TOO_LARGE = "too_large"
    NOT_THERE = "not_there"
    """A deletion of a key without a value."""
    TOO_LATE = "too_late"
    """The call's deadline has passed, so its caller has gone on."""
    TAKEN_BACK = "taken_back"
    """Its compensation arrived first."""


REFUSAL_SENTENCES: Mapping[WriteRefusal, str] = {
    WriteRefusal.CONFLICT: "conflict: version {standing} of {key!r} stands there, not {expected}; read it and decide again",
    WriteRefusal.FULL: "full: {keys} keys hold a value, and no more may; delete one, or write to one of them",
    WriteRefusal.TOO_LARGE: "too_large: the value has {size:,} bytes, and at most {value_bytes:,} are kept; write less",
    WriteRefusal.NOT_THERE: "not_there: key {key!r} has no value",
    WriteRefusal.TOO_LATE: "too_late: the deadline of this call had passed, and nothing was written",
    WriteRefusal.TAKEN_BACK: "taken_back: this call was undone before it came, and nothing was written",
}
"""Messages to a model; total by test."""


@value(kw_only=True)
class Origin:
    """Author and instant of an entry: an agent's step of a run, or a person."""

    run_id: str = ""
    step_id: str = ""
    agent: str = ""
    actor: str = ""
    """The person who wrote it; "": an agent did."""
    reason: str = ""
    at: int = 0

    def as_json(self) -> JSON:
        """Return the origin as JSON for a reader's result."""
        when = datetime.fromtimestamp(self.at // 1_000_000, UTC).isoformat()
        if self.actor:
            return {"person": self.actor, "at": when}
        return {"run": self.run_id, "stage": self.step_id.partition(".")[0], "agent": self.agent, "at": when}


def build_origin(told: Mapping[str, str], step_id: str) -> Origin:
    """Return an agent's origin from its JSON (``Origin.as_json``), with the step that it names."""
    at = round(datetime.fromisoformat(told["at"]).timestamp()) * 1_000_000
    return Origin(run_id=told["run"], step_id=step_id, agent=told["agent"], at=at)


@value(kw_only=True)
class Entry:
    """One write, or one deletion."""

    key: str
    version: int
    value: JSON = None
    deleted: bool = False
    origin: Origin
    call_key: str = ""
    """The idempotency key of the call that wrote it."""
    undone_at: int = 0
    """Instant at which it was taken back; 0: it stands."""


@value(kw_only=True)
class WriteFacts:
    """The facts of a store that decide about a write."""

    top: int = 0
    """The highest version that the key ever had, taken back or not."""
    standing: int = 0
    """Version of the standing entry; 0: none."""
    keys: int = 0
    """Number of keys with a standing entry."""


@value(kw_only=True)
class Change:
    """A requested write or deletion."""

    key: str
    value: JSON = None
    delete: bool = False
    expected: int | None = None
    """Version that the key must have; None: any."""

    @property
    def size(self) -> int:
        """Bytes of the value as JSON."""
        return 0 if self.delete else len(encode(self.value))


def read_change(args: Mapping[str, JSON], *, delete: bool) -> Change:
    """Return the change that a call's arguments request."""
    return Change(key=args["key"], value=args.get("value"), delete=delete, expected=args.get("version"))


def judge_change(change: Change, found: WriteFacts, memory: MemorySpec) -> WriteRefusal | None:
    """Return why a change is refused; None: it gets the version after ``found.top``."""
    if change.size > memory.value_bytes:
        return WriteRefusal.TOO_LARGE
    if change.expected is not None and change.expected != found.standing:
        return WriteRefusal.CONFLICT
    if change.delete:
        return None if found.standing else WriteRefusal.NOT_THERE
    return WriteRefusal.FULL if not found.standing and found.keys >= memory.keys else None


def refusal_sentence(refused: WriteRefusal, change: Change, found: WriteFacts, memory: MemorySpec) -> str:
    """Return the refusal as a sentence."""
    return REFUSAL_SENTENCES[refused].format(
        standing=found.standing,
        key=change.key,
        expected=change.expected,
        keys=memory.keys,
        size=change.size,
        value_bytes=memory.value_bytes,
    )


# -- what stands -------------------------------------------------------------------------------------------------------


def select_standing(entries: Iterable[Entry], *, since: int = 0) -> dict[str, Entry]:
    """Return the standing entry of each key: the newest that was not taken back. A deleted one, or one older than
    ``since``, is left out.
    """
    newest: dict[str, Entry] = {}
    for one in entries:
        if not one.undone_at and (one.key not in newest or newest[one.key].version < one.version):
            newest[one.key] = one
    return {key: one for key, one in sorted(newest.items()) if not one.deleted and one.origin.at >= since}


def find_write_facts(entries: Iterable[Entry], key: str, *, since: int = 0) -> WriteFacts:
    """Return the facts that decide about a write under ``key``."""
    held = tuple(entries)
    stands = select_standing(held, since=since)
    top = max((one.version for one in held if one.key == key), default=0)
    return WriteFacts(top=top, standing=stands[key].version if key in stands else 0, keys=len(stands))


def find_since(memory: MemorySpec, now: int) -> int:
    """Return the instant before which entries are no longer read."""
    return 0 if memory.retention_days is None else now - memory.retention_days * DAY_US


# -- what is told ------------------------------------------------------------------------------------------------------


def describe_write(memory: MemorySpec, entry: Entry, replaces: int) -> JSON:
    """Return the result of a write or a deletion. ``replaces``: the version before it; 0: none."""
    did = "deleted" if entry.deleted else "written"
    told = {"memory": memory.name, "key": entry.key, did: True, "version": entry.version, "replaces": replaces}
    return {**told, "origin": entry.origin.as_json()}


def describe_read(memory: MemorySpec, key: str, entry: Entry | None) -> JSON:
    """Return the result of reading a key: data, with its version and where it comes from."""
    if entry is None:
        return {"memory": memory.name, "key": key, "found": False}
    told = {"memory": memory.name, "key": key, "found": True, "version": entry.version}
    return {**told, "origin": entry.origin.as_json(), "data": entry.value}


def describe_keys(memory: MemorySpec, entries: Iterable[Entry], *, more: bool) -> JSON:
    """Return the result of reading without a key: the keys and versions, without the values."""
    keys = [{"key": one.key, "version": one.version, "origin": one.origin.as_json()} for one in entries]
    return {"memory": memory.name, "keys": keys, "more": more}


def answer_call(work: Work, command_id: str) -> Failure | None:
    """Answer a call that was just issued, if it belongs to the run's memory or conversation. Return the failure that
    its error causes, as for any tool.
    """
    pending = work.run.pending[command_id]
    found = work.compiled_fabric.spec.memory_of(pending.issued.target)
    if work.compiled_fabric.spec.of_conversation(pending.issued.target):
        return conversation_tools.answer_call(work, pending)
    if found is None or found[0].scope != "run":
        return None
    return tool_answered(work, pending, _execute(work, pending.issued, *found))


def _execute(work: Work, issued: ev.CallIssued, memory: MemorySpec, verb: Verb) -> ToolFinished:
    args = call_args(work.ctx.contents, issued.args_ref, issued.call_id)
    if verb is Verb.READ:
        return _finish_call(issued, _read(work, memory, args))
    change = read_change(args, delete=verb is Verb.DELETE)
    before = find_write_facts(entries(work, memory), change.key)
    if (refused := judge_change(change, before, memory)) is not None:
        return _finish_call(issued, None, refusal_sentence(refused, change, before, memory), Outcome.REJECTED)
    origin = Origin(run_id=work.run.id, step_id=issued.step_id, agent=issued.agent, at=work.ctx.now)
    entry = Entry(key=change.key, version=before.top + 1, deleted=change.delete, origin=origin)
    return _finish_call(issued, describe_write(memory, entry, before.standing), outcome=Outcome.ANSWERED)


def entries(work: Work, memory: MemorySpec) -> Iterator[Entry]:
    """Yield the run's writes and deletions in a memory, including those that were taken back."""
    by_tool = {tool_name(Verb.WRITE, memory.name): False, tool_name(Verb.DELETE, memory.name): True}
    for one in work.run.saga.mutations:
        if one.tool in by_tool and not one.child_id and one.status in (Status.EXECUTED, Status.UNDONE):
            yield _entry(work, one, deleted=by_tool[one.tool])


def _entry(work: Work, one: Mutation, *, deleted: bool) -> Entry:
    args, told = mutations.find_args(work, one), mutations.find_result(work, one)
    return Entry(
        key=args["key"],
        version=told["version"],
        value=args.get("value"),
        deleted=deleted,
        origin=build_origin(told["origin"], one.step_id),
        call_key=one.key,
        undone_at=int(one.status is Status.UNDONE),
    )


def _read(work: Work, memory: MemorySpec, args: JSON) -> JSON:
    stands = select_standing(entries(work, memory))
    if "key" in args:
        return describe_read(memory, args["key"], stands.get(args["key"]))
    shown = list(stands.values())
    return describe_keys(memory, shown[:LISTED_MAX], more=len(shown) > LISTED_MAX)


def _finish_call(issued: ev.CallIssued, result: JSON, error: str = "", outcome: Outcome | None = None) -> ToolFinished:
    return ToolFinished(
        command_id=issued.command_id, attempt=issued.attempt, result=result, error=error, outcome=outcome
    )
