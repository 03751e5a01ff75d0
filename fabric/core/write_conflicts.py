"""Calls of one answer that write the same state path: both are refused before either has an effect, or the answer's order decides (S2; semantics.md 6).

A state path is a key of a memory; writing it and deleting it are both writes. Calls are of one wave where neither waits for the other: what refers to another
comes after it, and may write what that one wrote.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence

from fabric.core import calls
from fabric.core.frozen import replace
from fabric.core.proposed import Proposed
from fabric.core.run import Step
from fabric.core.saga import STANDING, by_command
from fabric.core.spec import FabricSpec
from fabric.core.spec_memories import MemorySpec, Verb
from fabric.core.work import Work

WRITES = (Verb.WRITE, Verb.DELETE)


def ordered(spec: FabricSpec, proposals: Iterable[Proposed]) -> list[Proposed]:
    """The calls, of which those that write to a memory whose last write wins wait for each one before them that may write the same: which write is the last
    does not hang on which came back first. A key that is not known before a reference is may be any.
    """
    told: list[Proposed] = []
    before: dict[str, list[Proposed]] = defaultdict(list)
    for one in proposals:
        memory = _written(spec, one)
        if memory is None or memory.conflicts != "last_write_wins":
            told.append(one)
            continue
        waits = [other.call_id for other in before[memory.name] if _may_meet(other, one)]
        told.append(replace(one, after=tuple(dict.fromkeys((*one.after, *waits)))))
        before[memory.name].append(one)
    return told


def found(work: Work, step: Step, wave: Sequence[Proposed], sure: Collection[str]) -> dict[str, str]:
    """What is wrong with calls of a step's last answer that have not begun, a sentence by call id: another call of their wave writes what they would write.
    ``sure``: of calls with a condition those whose condition is known to hold; of the others nobody knows yet whether they are made.
    """
    writers: dict[tuple[str, str], list[Proposed]] = defaultdict(list)
    begun = {one.call_id for index, one in enumerate(wave) if _stands(work, step, index)}
    states = {record.call_id: record.state for record in step.history[-1].calls}
    for one in wave:
        memory, key = _written(work.compiled.spec, one), _key(one)
        if memory is None or key is None or memory.conflicts == "last_write_wins":
            continue
        known = not one.when or one.call_id in sure
        made = states[one.call_id] == "open" and known
        if one.call_id in begun or made:
            writers[memory.name, key].append(one)
    several = {path: those for path, those in writers.items() if len(those) > 1}
    return _told(several, wave, begun) if several else {}


def _told(
    several: Mapping[tuple[str, str], Sequence[Proposed]], wave: Sequence[Proposed], begun: Collection[str]
) -> dict[str, str]:
    after, said = _after_all(wave), {}
    for (memory, key), those in several.items():
        for one in those:
            others = (
                other.call_id
                for other in those
                if other is not one
                and other.call_id not in after[one.call_id]
                and one.call_id not in after[other.call_id]
            )
            other = next(others, None)
            if other is None or one.call_id in begun:
                continue
            said[one.call_id] = (
                f"calls {one.call_id!r} and {other!r} both write the key {key!r} of the memory {memory!r}, and neither waits for the other; "
                "make one call of them, or have one refer to the other"
            )
    return said


def _after_all(wave: Sequence[Proposed]) -> dict[str, frozenset[str]]:
    """By call, all that it waits for, those that these wait for too."""
    known: dict[str, frozenset[str]] = {}
    for one in wave:  # What a call waits for stands before it.
        known[one.call_id] = frozenset(one.after).union(*(known.get(call_id, ()) for call_id in one.after))
    return known


def _written(spec: FabricSpec, one: Proposed) -> MemorySpec | None:
    """The memory that a call writes to; None: it writes to none, or is not made."""
    memory = spec.memory_of(one.tool)
    if memory is None or memory[1] not in WRITES or one.problem or not isinstance(one.args, dict):
        return None
    return memory[0]


def _key(one: Proposed) -> str | None:
    """The key that it writes; None: that is not known yet."""
    key = one.args.get("key") if isinstance(one.args, dict) else None
    return key if isinstance(key, str) else None


def _may_meet(one: Proposed, other: Proposed) -> bool:
    keys = (_key(one), _key(other))
    return None in keys or keys[0] == keys[1]


def _stands(work: Work, step: Step, index: int) -> bool:
    """Whether a call was sent and has, or may have, written."""
    made = by_command(work.run.saga, calls.command_id_of(step, step.turns, index))
    return made is not None and made.status in STANDING
