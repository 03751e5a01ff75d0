"""Two changes of one tree in one: what one side changed is there, what both changed is asked about, nothing gets lost unsaid."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fabric.core.texts.three_way import ABSENT, Conflict, Merge, index_by_name, three_way
from fabric.core.values.units import JSON
from tests.sets import many

A, B, C = ({"name": name, "x": 1} for name in "abc")

scalars = st.sampled_from([None, True, False, 0, 1, 1.0, "x", "1", ""])
keys = st.sampled_from(["k", "l", "m"])
things = st.lists(
    st.builds(
        lambda name, rest: {"name": name, **rest}, st.sampled_from("abcd"), st.dictionaries(keys, scalars, max_size=2)
    ),
    max_size=4,
    unique_by=lambda item: item["name"],
)
trees = st.recursive(
    scalars | things | st.lists(scalars, max_size=3),
    lambda inner: st.dictionaries(keys, inner, max_size=3),
    max_leaves=8,
)


def exact(value: JSON) -> str:
    return json.dumps(value, sort_keys=True)


def unordered(value: JSON) -> JSON:
    """A tree with its lists of named things in the order of the names."""
    named = index_by_name(value)
    if named:
        return [unordered(named[name]) for name in sorted(named)]
    return {name: unordered(item) for name, item in value.items()} if isinstance(value, dict) else value


def at(value: JSON, path: str) -> JSON:
    for part in path.split(".") if path else ():
        fields = value if isinstance(value, dict) else index_by_name(value)
        value = fields.get(part, ABSENT) if fields is not None else ABSENT
    return value


@given(trees, trees)
def test_what_they_did_not_touch_is_mine(base, mine):
    merge = three_way(base, mine, base)
    assert exact(merge.value) == exact(mine)
    assert (merge.conflicts, merge.from_theirs) == ((), ())


@given(trees, trees)
def test_what_i_did_not_touch_is_theirs(base, theirs):
    merge = three_way(base, base, theirs)
    assert exact(merge.value) == exact(theirs)
    assert merge.conflicts == ()
    assert bool(merge.from_theirs) == (exact(base) != exact(theirs))


@given(trees, trees)
def test_the_same_change_on_both_sides_is_no_conflict(base, both):
    assert three_way(base, both, both) == Merge(both, (), ())


@settings(max_examples=many(300))
@given(trees, trees, trees)
def test_each_conflict_shows_what_stands_there_and_is_mine(base, mine, theirs):
    merge = three_way(base, mine, theirs)
    for conflict in merge.conflicts:
        if _is_order(conflict, mine, theirs):
            continue
        sides = (conflict.base, conflict.mine, conflict.theirs)
        assert sides == (at(base, conflict.path), at(mine, conflict.path), at(theirs, conflict.path))
        assert at(merge.value, conflict.path) == conflict.mine
    assert len({conflict.path for conflict in merge.conflicts}) == len(merge.conflicts)
    for path in merge.from_theirs:
        if index_by_name(at(theirs, path)) is None:
            assert at(merge.value, path) == at(theirs, path)


def _is_order(conflict: Conflict, mine: JSON, theirs: JSON) -> bool:
    return index_by_name(at(mine, conflict.path)) is not None and conflict.mine != at(mine, conflict.path)


@settings(max_examples=many(300))
@given(trees, trees, trees)
def test_choosing_settles_every_conflict_and_the_sides_are_alike(base, mine, theirs):
    open_ = three_way(base, mine, theirs)
    paths = [conflict.path for conflict in open_.conflicts]
    as_mine = three_way(base, mine, theirs, dict.fromkeys(paths, "mine"))
    as_theirs = three_way(base, mine, theirs, dict.fromkeys(paths, "theirs"))
    assert as_mine == Merge(open_.value, (), open_.from_theirs)
    assert as_theirs.conflicts == ()
    assert set(as_theirs.from_theirs) == {*open_.from_theirs, *paths}
    swapped = three_way(base, theirs, mine)
    assert sorted(conflict.path for conflict in swapped.conflicts) == sorted(paths)
    assert exact(unordered(swapped.value)) == exact(unordered(as_theirs.value))


CASES: dict[str, tuple[JSON, JSON, JSON, JSON, list[Conflict], list[str]]] = {
    "apart": ({"a": 1, "b": 1}, {"a": 2, "b": 1}, {"a": 1, "b": 2}, {"a": 2, "b": 2}, [], ["b"]),
    "deep": (
        {"a": {"x": 1, "y": 1}},
        {"a": {"x": 2, "y": 1}},
        {"a": {"x": 1, "y": 2}},
        {"a": {"x": 2, "y": 2}},
        [],
        ["a.y"],
    ),
    "both": ({"a": 1}, {"a": 2}, {"a": 3}, {"a": 2}, [Conflict("a", 1, 2, 3)], []),
    "another type": ({"a": 1}, {"a": True}, {"a": 1.0}, {"a": True}, [Conflict("a", 1, True, 1.0)], []),
    "both added": ({}, {"a": {"x": 1}}, {"a": {"y": 1}}, {"a": {"x": 1, "y": 1}}, [], ["a.y"]),
    "removed and changed": ({"a": 1}, {}, {"a": 2}, {}, [Conflict("a", 1, ABSENT, 2)], []),
    "changed and removed": ({"a": 1}, {"a": 2}, {}, {"a": 2}, [Conflict("a", 1, 2, ABSENT)], []),
    "they removed": ({"a": 1, "b": 1}, {"a": 1, "b": 2}, {"b": 1}, {"b": 2}, [], ["a"]),
    "null is a value": ({"a": 1}, {"a": None}, {}, {"a": None}, [Conflict("a", 1, None, ABSENT)], []),
    "plain lists whole": ({"a": [1]}, {"a": [1, 2]}, {"a": [0, 1]}, {"a": [1, 2]}, [Conflict("a", [1], [1, 2], [0, 1])], []),
    "things by name": ([A, B], [A | {"x": 2}, B], [A | {"y": 3}, B], [A | {"x": 2, "y": 3}, B], [], ["a.y"]),
    "one thing twice changed": ([A], [A | {"x": 2}], [A | {"x": 3}], [A | {"x": 2}], [Conflict("a.x", 1, 2, 3)], []),
    "one more each": ([A], [A, B], [A, C], [A, C, B], [], ["c"]),
    "one more in front": ([A], [A, B], [C, A], [C, A, B], [], ["c"]),
    "an empty list added by them": ({}, {}, {"l": []}, {"l": []}, [], ["l"]),
    "the first on both sides": ({}, {"l": [A]}, {"l": [B]}, {"l": [B, A]}, [], ["l.b"]),
    "a thing removed that changed": ([A, B], [B], [A | {"x": 2}, B], [B], [Conflict("a", A, ABSENT, A | {"x": 2})], []),
    "they moved, I added": ([A, B], [A, B, C], [B, A], [B, C, A], [], [""]),
    "I moved, they added": ([A, B], [B, A], [A, B, C], [B, C, A], [], ["c"]),
    "both moved": ([A, B, C], [B, A, C], [A, C, B], [B, A, C], [Conflict("", list("abc"), list("bac"), list("acb"))], []),
    "the same name twice": ([A], [A, A], [A, B], [A, A], [Conflict("", [A], [A, A], [A, B])], []),
}  # fmt: skip


@pytest.mark.parametrize("what", CASES)
def test_merged(what):
    base, mine, theirs, value, conflicts, from_theirs = CASES[what]
    before = [json.dumps(side) for side in (base, mine, theirs)]
    assert three_way(base, mine, theirs) == Merge(value, tuple(conflicts), tuple(from_theirs))
    assert [json.dumps(side) for side in (base, mine, theirs)] == before


def test_a_choice_settles_its_conflict_alone():
    base, mine, theirs = {"a": 1, "b": 1}, {"a": 2, "b": 2}, {"a": 3}
    merge = three_way(base, mine, theirs, {"b": "theirs", "c": "theirs"})
    assert merge == Merge({"a": 2}, (Conflict("a", 1, 2, 3),), ("b",))
    moved = three_way([A, B, C], [B, A, C], [A, C, B], {"": "theirs"})
    assert moved == Merge([A, C, B], (), ("",))
