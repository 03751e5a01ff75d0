"""What a fabric remembers beyond its runs: the store of its memories, as a Protocol, and what a call of one is answered with.

Real ones stand in ``fabric/adapters``, one in memory in ``simulator``. All go by ``fabric/core/memory.py``, and pass the same contract tests.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from fabric.core import memory as rules
from fabric.core.frozen import value
from fabric.core.inputs import ToolFinished
from fabric.core.memory import Change, Entry, Found, Origin, Refused
from fabric.core.saga import Outcome
from fabric.core.spec_memories import LISTED_MAX, MemorySpec, Verb

JSON = Any


@value(kw_only=True)
class MemoryCall:
    """What a call of a memory's tool is about, beside its arguments."""

    memory: MemorySpec
    verb: Verb
    fabric_id: str
    origin: Origin
    """Without the instant, which is the store's."""


@value(kw_only=True)
class Write:
    """A change under the key of its call, and until when it may be made."""

    fabric_id: str
    memory: MemorySpec
    change: Change
    call_key: str
    origin: Origin
    deadline_at: int
    """By the store's clock: what comes later is refused, since whoever waited for it may have said that it was not made."""


@value(kw_only=True)
class Wrote:
    """What became of a change, and what it was judged by."""

    entry: Entry | None
    refused: Refused | None = None
    found: Found


class MemoryStore(Protocol):
    """The memories of fabrics. Every call is one transaction; StoreUnavailable where the database does not answer."""

    def write(self, write: Write) -> Wrote:
        """Makes a change once: a second call under its key is told what the first one did."""
        ...

    def entries(self, fabric_id: str, memory: MemorySpec, key: str | None = None) -> Sequence[Entry]:
        """What stands, by key; of one key, or of all."""
        ...

    def made(self, call_key: str) -> tuple[Entry, int] | None:
        """The entry that a call made, and the version that it replaced; None: it made none."""
        ...

    def take_back(self, fabric_id: str, memory: str, call_key: str) -> bool:
        """Takes back what a call wrote, and refuses it for ever if it has not come yet; False: it had not come."""
        ...


def answer(store: MemoryStore, about: MemoryCall, args: Mapping[str, JSON], *, key: str, deadline_at: int) -> Answered:
    """Does what a call of a memory's tool asks for. ``key``: the call's own."""
    memory, verb = about.memory, about.verb
    if verb is Verb.RESTORE:
        return Answered({"restored": store.take_back(about.fabric_id, memory.name, args["key"])})
    if verb is Verb.CHECK:
        made = store.made(args["key"])
        result = None if made is None else rules.told_write(memory, *made)
        return Answered({"executed": made is not None, "result": result})
    if verb is Verb.READ:
        return Answered(_read(store, about, args))
    change = rules.change_of(args, delete=verb is Verb.DELETE)
    write = Write(
        fabric_id=about.fabric_id,
        memory=memory,
        change=change,
        call_key=key,
        origin=about.origin,
        deadline_at=deadline_at,
    )
    wrote = store.write(write)
    if wrote.refused is not None:
        return Answered(None, rules.said(wrote.refused, change, wrote.found, memory), Outcome.REJECTED)
    assert wrote.entry is not None
    return Answered(rules.told_write(memory, wrote.entry, wrote.found.standing), outcome=Outcome.ANSWERED)


@value()
class Answered:
    """What a memory said: a result, or a refusal, and whether something was written."""

    result: JSON
    error: str = ""
    outcome: Outcome | None = None


def _read(store: MemoryStore, about: MemoryCall, args: Mapping[str, JSON]) -> JSON:
    memory = about.memory
    if "key" in args:
        found = store.entries(about.fabric_id, memory, args["key"])
        return rules.told_read(memory, args["key"], found[0] if found else None)
    stands = store.entries(about.fabric_id, memory)
    return rules.told_keys(memory, stands[:LISTED_MAX], more=len(stands) > LISTED_MAX)


def finished(command_id: str, attempt: int, said: Answered) -> ToolFinished:
    """A memory's answer as a tool's."""
    return ToolFinished(
        command_id=command_id, attempt=attempt, result=said.result, error=said.error, outcome=said.outcome
    )
