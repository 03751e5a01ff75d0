"""Port of a fabric's memories beyond its runs: the store, as a Protocol, and the answers to a memory's calls.

Real ones are in ``fabric/adapters``, one in memory in ``simulator``. All follow
``fabric/core/conversations/memory.py``, and pass one set of contract tests.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from fabric.core.conversations import memory as rules
from fabric.core.conversations.memory import Change, Entry, Origin, WriteFacts, WriteRefusal
from fabric.core.events.inputs import ToolFinished
from fabric.core.spec.memories import LISTED_MAX, MemorySpec, Verb
from fabric.core.values.frozen import value
from fabric.core.values.saga import Outcome
from fabric.core.values.units import JSON


@value(kw_only=True)
class MemoryCall:
    """Facts of a memory tool's call besides its arguments."""

    memory: MemorySpec
    verb: Verb
    fabric_id: str
    origin: Origin
    """Origin without the instant, which the store adds."""


@value(kw_only=True)
class Write:
    """A change under the key of its call, and until when it may be made."""

    fabric_id: str
    memory: MemorySpec
    change: Change
    call_key: str
    origin: Origin
    deadline_at: int
    """Deadline by the store's clock. Later writes are refused, since the caller may have reported that they were not
    made.
    """


@value(kw_only=True)
class MemoryWrote:
    """Result of a change, and the facts that decided about it."""

    entry: Entry | None
    refused: WriteRefusal | None = None
    found: WriteFacts


class MemoryStore(Protocol):
    """The memories of fabrics. Every call is one transaction; StoreUnavailable where the database does not answer."""

    def write(self, write: Write) -> MemoryWrote:
        """Make a change once: a second call under its key receives the first one's result."""
        ...

    def entries(self, fabric_id: str, memory: MemorySpec, key: str | None = None) -> Sequence[Entry]:
        """Return the standing entries, by key: of one key, or of all."""
        ...

    def find_made(self, call_key: str) -> tuple[Entry, int] | None:
        """Return the entry that a call made, and the version that it replaced; None: it made none."""
        ...

    def take_back(self, fabric_id: str, memory: str, call_key: str) -> bool:
        """Take a call's write back, or refuse it for ever if it has not come yet. Return False if it had not come."""
        ...


def answer(
    store: MemoryStore, about: MemoryCall, args: Mapping[str, JSON], *, key: str, deadline_at: int
) -> MemoryAnswer:
    """Execute a call of a memory's tool. ``key``: the call's own."""
    memory, verb = about.memory, about.verb
    if verb is Verb.RESTORE:
        return MemoryAnswer({"restored": store.take_back(about.fabric_id, memory.name, args["key"])})
    if verb is Verb.CHECK:
        made = store.find_made(args["key"])
        result = None if made is None else rules.describe_write(memory, *made)
        return MemoryAnswer({"executed": made is not None, "result": result})
    if verb is Verb.READ:
        return MemoryAnswer(_read(store, about, args))
    change = rules.read_change(args, delete=verb is Verb.DELETE)
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
        return MemoryAnswer(None, rules.refusal_sentence(wrote.refused, change, wrote.found, memory), Outcome.REJECTED)
    assert wrote.entry is not None
    return MemoryAnswer(rules.describe_write(memory, wrote.entry, wrote.found.standing), outcome=Outcome.ANSWERED)


@value()
class MemoryAnswer:
    """Answer of a memory: a result, or a refusal, and True if something was written."""

    result: JSON
    error: str = ""
    outcome: Outcome | None = None


def _read(store: MemoryStore, about: MemoryCall, args: Mapping[str, JSON]) -> JSON:
    memory = about.memory
    if "key" in args:
        found = store.entries(about.fabric_id, memory, args["key"])
        return rules.describe_read(memory, args["key"], found[0] if found else None)
    stands = store.entries(about.fabric_id, memory)
    return rules.describe_keys(memory, stands[:LISTED_MAX], more=len(stands) > LISTED_MAX)


def tool_answer(command_id: str, attempt: int, said: MemoryAnswer) -> ToolFinished:
    """Return a memory's answer as a tool's."""
    return ToolFinished(
        command_id=command_id, attempt=attempt, result=said.result, error=said.error, outcome=said.outcome
    )
