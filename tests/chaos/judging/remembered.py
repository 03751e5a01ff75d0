"""Compares the memories of fabrics with the writes and undos of the journals. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fabric.core.spec.memories import Verb, tool_name

Journals = Mapping[str, Sequence[Mapping[str, Any]]]
WRITES = tuple(tool_name(verb, "") for verb in (Verb.WRITE, Verb.DELETE))
ENDED_BADLY = ("failed", "aborted", "cancelled")


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """An entry of a memory's ledger."""

    call_key: str
    memory: str
    key: str
    version: int
    """0: its call was undone before it came."""
    run: str
    undone: bool


@dataclass(slots=True)
class _Write:
    """A call that writes, as the journals tell it."""

    run: str
    tool: str
    status: str = "open"
    done: bool = False
    """It was told once that it was made."""
    restoring: bool = False
    """Its compensation was begun."""


def lost(kept: Sequence[Kept], journals: Journals) -> list[str]:
    """Writes that a journal calls done and that no memory has."""
    there = {one.call_key for one in kept if one.version}
    return [
        f"{write.tool} of run {write.run} was done, and no memory has {key}"
        for key, write in _writes(journals).items()
        if write.done and key not in there
    ]


def twice(kept: Sequence[Kept], journals: Journals) -> list[str]:
    """Return what stands twice, or stands although no journal intended it or one says that it was not done."""
    writes = _writes(journals)
    calls = Counter(one.call_key for one in kept)
    places = Counter((one.memory, one.key, one.version) for one in kept if one.version)
    found = [f"{key} is in a memory {count} times" for key, count in calls.items() if count > 1]
    found += [f"version {v} of {key} in {memory} is there {n} times" for (memory, key, v), n in places.items() if n > 1]
    for one in kept:
        write = writes.get(one.call_key)
        if one.version and write is None:
            found.append(f"{one.call_key} of run {one.run} was written without an intent")
        elif one.version and write is not None and write.status == "not_executed" and not one.undone:
            found.append(f"{one.call_key} of run {one.run} stands, and its journal says that it was not written")
    return found


def not_undone(kept: Sequence[Kept], journals: Journals, states: Mapping[str, str]) -> list[str]:
    """Return what stands although it was undone by its journal, or its run ended badly."""
    writes = _writes(journals)
    return [
        f"{one.call_key} of run {one.run} ({states.get(one.run, 'not there')}) stands"
        for one in kept
        if one.version
        and not one.undone
        and (write := writes.get(one.call_key)) is not None
        and write.status != "not_executed"
        and (write.status == "undone" or states.get(one.run) in ENDED_BADLY)
    ]


def undone_unasked(kept: Sequence[Kept], journals: Journals) -> list[str]:
    """Return what was taken back and no journal began to."""
    writes = _writes(journals)
    return [
        f"{one.call_key} of run {one.run} was taken back, and no journal meant to"
        for one in kept
        if one.undone and not ((write := writes.get(one.call_key)) is not None and write.restoring)
    ]


def counted(kept: Sequence[Kept]) -> dict[str, int]:
    """How many entries there are, how many of them were taken back, and over how many others' they were written."""
    written = [one for one in kept if one.version]
    return {
        "written": len(written),
        "taken_back": sum(one.undone for one in written),
        "never_came": len(kept) - len(written),
        "keys": len({(one.memory, one.key) for one in written}),
    }


def _writes(journals: Journals) -> dict[str, _Write]:
    found: dict[str, _Write] = {}
    for run, facts in journals.items():
        for fact in facts:
            _take(found, run, fact)
    return found


def _take(found: dict[str, _Write], run: str, fact: Mapping[str, Any]) -> None:
    kind = fact["kind"]
    if kind == "mutation_intended" and fact["tool"].startswith(WRITES):
        found.setdefault(fact["key"], _Write(run, fact["tool"])).status = "open"
    elif kind == "mutation_settled" and fact["key"] in found:
        write = found[fact["key"]]
        write.status, write.done = fact["status"], write.done or fact["status"] == "executed"
    elif kind == "compensation_issued" and fact.get("of_key") in found:
        found[fact["of_key"]].restoring = True
    elif kind == "compensation_answered" and fact.get("of_key") in found:
        found[fact["of_key"]].status = "undone"
