"""The edits between two trees: they make the one of the other, and touch nothing that is alike."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from fabric.core.values.fingerprint import encode
from fabric.services.fabrics.templates import SAMPLES
from fabric.services.fabrics.yaml.edits import PutEdit, edits_between, text_edited, tree_edited
from fabric.services.fabrics.yaml.tree import read_yaml
from tests.sets import many

names = st.sampled_from(["a", "b", "c", "name"])
leaves = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-9, 9),
    st.sampled_from([0.5, 1.0, 2.5]),
    st.sampled_from(["", "x", "1", "true"]),
)
trees = st.recursive(
    leaves,
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(names, inner, max_size=4)),
    max_leaves=12,
)
SAMPLE = (SAMPLES / "research-desk.yaml").read_text()


def same(one: Any, other: Any) -> bool:
    return encode(one) == encode(other)


@settings(max_examples=many(400))
@given(before=trees, after=trees)
def test_they_make_the_one_of_the_other(before: Any, after: Any) -> None:
    assert same(tree_edited(before, edits_between(before, after)), after)


@given(tree=trees)
def test_between_the_same_there_are_none(tree: Any) -> None:
    assert edits_between(tree, tree) == []


def test_one_is_not_one_point_nought_and_not_true() -> None:
    for before, after in ((1, 1.0), (1, True), (0, False), ("1", 1)):
        assert edits_between({"a": before}, {"a": after}) == [PutEdit(("a",), after)]


def test_a_changed_leaf_leaves_every_other_line_of_a_text() -> None:
    before = read_yaml(SAMPLE).value
    after = read_yaml(
        SAMPLE.replace("tau: 0.7", "tau: 0.9").replace("[reader, searcher, checker]", "[reader, checker]")
    ).value
    text = text_edited(SAMPLE, edits_between(before, after))
    changed = [line for line in SAMPLE.splitlines() if line not in text.splitlines()]
    assert [line.strip()[:8] for line in changed] == ["workers:", "tau: 0.7"]
    assert read_yaml(text).value == after
