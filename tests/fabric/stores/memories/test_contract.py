"""Every store of memories keeps its contract (fabric/runtime/ports/memories.py): all three are asked."""

from concurrent.futures import ThreadPoolExecutor
from itertools import count

import pytest

from fabric.core.conversations.memory import Change, Origin, WriteRefusal
from fabric.core.spec.memories import MemorySpec
from fabric.runtime.ports.memories import Write

FABRIC = "fabric-1"
NOTES = MemorySpec(name="notes", scope="fabric", keys=3, value_bytes=100)
MINUTE = 60_000_000
DAY_S = 86_400.0
WRITERS = 8
calls = count(1)


def write(world, key="k", value=1, *, call_key=None, memory=NOTES, store=None, until=MINUTE, fabric=FABRIC, **more):
    change = Change(key=key, value=value, **more)
    asked = Write(
        fabric_id=fabric,
        memory=memory,
        change=change,
        call_key=call_key or f"call-{next(calls)}",
        origin=Origin(run_id="run-1", step_id="fan_out.0.e0.r0", agent="worker"),
        deadline_at=world.now() + until,
    )
    return (store or world.store).write(asked)


def stands(world, memory=NOTES, fabric=FABRIC):
    return {one.key: (one.version, one.value) for one in world.store.entries(fabric, memory)}


def test_what_is_written_stands_with_its_version_and_origin(memories):
    before = memories.now()
    assert write(memories, "a", {"n": [1, "ü"]}).entry.version == 1
    assert write(memories, "a", None).found.standing == 1
    write(memories, "b", 1.5)
    assert stands(memories) == {"a": (2, None), "b": (1, 1.5)}
    (entry,) = memories.store.entries(FABRIC, NOTES, "b")
    assert (entry.origin.run_id, entry.origin.agent) == ("run-1", "worker")
    assert before <= entry.origin.at <= memories.now()
    assert memories.store.entries(FABRIC, NOTES, "c") == []


def test_memories_and_fabrics_do_not_see_each_other(memories):
    write(memories, "a", 1)
    write(memories, "a", 2, fabric="fabric-2")
    write(memories, "a", 3, memory=NOTES.model_copy(update={"name": "other"}))
    assert stands(memories) == {"a": (1, 1)}


def test_a_call_that_comes_twice_writes_once_and_is_told_the_same(memories):
    write(memories, "a", 0)
    first = write(memories, "a", 1, call_key="one")
    write(memories, "a", 2)
    again = write(memories, "a", 1, call_key="one")
    assert (again.entry, again.found.standing) == (first.entry, 1)
    assert stands(memories) == {"a": (3, 2)}
    assert memories.store.find_made("one") == (first.entry, 1)
    assert memories.store.find_made("two") is None


def test_a_version_that_is_not_there_is_a_conflict_and_one_that_is_lets_it_pass(memories):
    write(memories, "a", 1, expected=0)
    assert write(memories, "a", 2, expected=0).refused is WriteRefusal.CONFLICT
    assert write(memories, "a", 2, expected=1).entry.version == 2
    assert stands(memories) == {"a": (2, 2)}


def test_what_comes_after_its_deadline_writes_nothing_and_is_not_made(memories):
    assert write(memories, "a", 1, call_key="late", until=0).refused is WriteRefusal.TOO_LATE
    assert stands(memories) == {}
    assert memories.store.find_made("late") is None


def test_taking_back_restores_what_stood_before_and_its_version(memories):
    write(memories, "a", 1, call_key="one")
    write(memories, "a", 2, call_key="two")
    write(memories, "a", None, call_key="three", delete=True)
    assert stands(memories) == {}
    for call_key, left in (("three", (2, 2)), ("two", (1, 1))):
        assert memories.store.take_back(FABRIC, "notes", call_key)
        assert memories.store.take_back(FABRIC, "notes", call_key)
        assert stands(memories) == {"a": left}
    assert write(memories, "a", 4).entry.version == 4


def test_taking_back_below_what_another_wrote_leaves_that_and_is_not_restored_later(memories):
    write(memories, "a", 1, call_key="one")
    write(memories, "a", 2, call_key="two")
    memories.store.take_back(FABRIC, "notes", "one")
    assert stands(memories) == {"a": (2, 2)}
    memories.store.take_back(FABRIC, "notes", "two")
    assert stands(memories) == {}


def test_what_was_taken_back_before_it_came_is_never_written(memories):
    assert not memories.store.take_back(FABRIC, "notes", "zombie")
    assert write(memories, "a", 1, call_key="zombie").refused is WriteRefusal.TAKEN_BACK
    assert stands(memories) == {}
    assert memories.store.find_made("zombie") is None


def test_caps_count_the_keys_that_hold_a_value(memories):
    for key in "abc":
        write(memories, key, 1)
    assert write(memories, "d", 1).refused is WriteRefusal.FULL
    assert write(memories, "a", 2).refused is None
    write(memories, "a", None, delete=True)
    assert write(memories, "d", 1).refused is None
    assert write(memories, "a", None, delete=True).refused is WriteRefusal.NOT_THERE


def test_what_is_older_than_its_retention_is_not_read_and_takes_no_place(memories):
    short = NOTES.model_copy(update={"retention_days": 1, "keys": 1})
    write(memories, "a", 1, memory=short)
    memories.pass_time(DAY_S - 60)
    assert stands(memories, short) == {"a": (1, 1)}
    memories.pass_time(120)
    assert stands(memories, short) == {}
    assert write(memories, "b", 2, memory=short).refused is None


@pytest.mark.parametrize("expected", [None, 0])
def test_many_writers_of_one_key_get_a_version_each_or_lose(memories, expected):
    stores = [memories.another() for _ in range(WRITERS)]
    with ThreadPoolExecutor(WRITERS) as pool:
        wrote = list(pool.map(lambda store: write(memories, "a", 1, store=store, expected=expected), stores))
    versions = sorted(one.entry.version for one in wrote if one.entry)
    assert versions == (list(range(1, WRITERS + 1)) if expected is None else [1])
    assert {one.refused for one in wrote} == ({None} if expected is None else {None, WriteRefusal.CONFLICT})


def test_many_writers_of_new_keys_pass_no_cap(memories):
    stores = [memories.another() for _ in range(WRITERS)]
    with ThreadPoolExecutor(WRITERS) as pool:
        wrote = list(pool.map(lambda n: write(memories, f"k{n}", 1, store=stores[n]), range(WRITERS)))
    assert sum(one.entry is not None for one in wrote) == NOTES.keys == len(stands(memories))
