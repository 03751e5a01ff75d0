"""Edits of YAML text: it reads as the edited tree whatever the text looks like, comments stay, and nothing but the place concerned changes."""

from __future__ import annotations

import copy
import json
from difflib import SequenceMatcher
from pathlib import Path as FilePath
from random import Random

import pytest
from hypothesis import assume, given, reject, settings
from hypothesis import strategies as st

from fabric.core.values.units import JSON
from fabric.services.fabrics.yaml.edits import (
    DropEdit,
    Edit,
    InsertEdit,
    MoveEdit,
    PutEdit,
    RenameEdit,
    text_edited,
    tree_edited,
)
from fabric.services.fabrics.yaml.nodes import read_document, write_document
from fabric.services.fabrics.yaml.tree import Path, YamlProblem, read_yaml
from tests.fabric.services.fabrics.yaml.writing import names, trees, values, written
from tests.sets import many

SAMPLES = FilePath(__file__).parents[5] / "fabric" / "samples"
SAMPLE_NAMES = sorted(path.stem for path in SAMPLES.glob("*.yaml"))


def paths(tree: JSON, path: Path = ()) -> list[Path]:
    inner = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    return [path, *(found for part, item in inner for found in paths(item, (*path, part)))]


def at(tree: JSON, path: Path) -> JSON:
    for part in path:
        tree = tree[part]
    return tree


def exact(value: JSON) -> str:
    return json.dumps(value, sort_keys=True)


@st.composite
def edits(draw: st.DrawFn, tree: JSON) -> Edit:
    """One edit that can be made in the tree."""
    path = draw(st.sampled_from(paths(tree)))
    node, beside = at(tree, path), at(tree, path[:-1]) if path else None
    kinds: list[Edit] = [PutEdit(path, draw(values))]
    if path:
        kinds.append(DropEdit(path))
    if isinstance(node, dict):
        kinds.append(
            PutEdit(
                (*path, *draw(st.lists(names.filter(lambda name: name not in node), min_size=1, max_size=3))),
                draw(values),
            )
        )
    if isinstance(node, list):
        kinds.append(InsertEdit((*path, draw(st.integers(0, len(node)))), draw(values)))
    if isinstance(beside, list):
        kinds.append(MoveEdit(path, draw(st.integers(0, len(beside) - 1))))
    if isinstance(beside, dict):
        kinds.append(RenameEdit(path, draw(names.filter(lambda name: name == path[-1] or name not in beside))))
    return draw(st.sampled_from(kinds))


def document(tree: JSON, seed: int) -> tuple[str, JSON]:
    """The tree as an author wrote it, and what it reads as."""
    text = written(tree, Random(seed))
    try:
        return text, read_yaml(text).value
    except YamlProblem:
        reject()


@settings(max_examples=many(200), deadline=None)
@given(trees, st.integers(0, 2**32), st.data())
def test_the_edited_text_reads_as_the_edited_tree(tree, seed, data):
    text, value = document(tree, seed)
    before = copy.deepcopy(value)
    made: list[Edit] = []
    for _ in range(data.draw(st.integers(1, 3))):
        made.append(data.draw(edits(tree_edited(value, made))))
    wanted = tree_edited(value, made)
    assert exact(value) == exact(before), "the tree that was given is another one now"
    assert exact(read_yaml(text_edited(text, made)).value) == exact(wanted)


COMMENTS = ("# above", "# far", "# one", "# two", "#x", "# behind", "#it's: [x", "# below", "# in")


@settings(max_examples=many(60), deadline=None)
@given(trees.filter(lambda tree: isinstance(tree, dict)), st.integers(0, 2**32), names, values)
def test_a_new_field_loses_no_comment(tree, seed, name, value):
    text, read = document(tree, seed)
    assume(name not in read)
    edited = text_edited(text, [PutEdit((name,), value)])
    assert sum(map(edited.count, COMMENTS)) == sum(map(text.count, COMMENTS))


# -- the samples -------------------------------------------------------------------------------------------------------


def sample(name: str) -> str:
    return (SAMPLES / f"{name}.yaml").read_bytes().decode()


def in_layout(text: str) -> str:
    """The text as it is written after any edit."""
    return write_document(read_document(text))


def scalar_paths(text: str) -> list[Path]:
    """Of scalars on one line; folded text comes back on one line, so it is left out."""
    tree, lines = read_yaml(text), text.splitlines()
    return [
        path
        for path, mark in tree.marks.items()
        if not isinstance(at(tree.value, path), dict | list) and lines[mark.line - 1][mark.column - 1] not in "|>"
    ]


def other(value: JSON) -> JSON:
    return f"{value} too" if isinstance(value, str) else "0.15" if isinstance(value, int) else None


def lines_touched(before: str, after: str) -> set[int]:
    """The lines of the text before, from 1, that are others or gone."""
    codes = SequenceMatcher(None, before.splitlines(), after.splitlines(), autojunk=False).get_opcodes()
    return {line + 1 for kind, start, end, _, _ in codes if kind != "equal" for line in range(start, end)}


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
@pytest.mark.parametrize("name", SAMPLE_NAMES)
def test_every_scalar_of_a_sample_is_replaced_and_put_back(name, newline):
    text = in_layout(sample(name).replace("\n", newline))
    assert in_layout(text) == text
    tree = read_yaml(text)
    places = scalar_paths(text)
    assert len(places) > 30
    changed = text_edited(text, [PutEdit(path, other(at(tree.value, path))) for path in places])
    read = read_yaml(changed).value
    assert all(exact(at(read, path)) == exact(other(at(tree.value, path))) for path in places)
    assert lines_touched(text, changed) == {tree.marks[path].line for path in places}
    assert text_edited(changed, [PutEdit(path, at(tree.value, path)) for path in places]) == text


@settings(max_examples=30, deadline=None)
@given(st.sampled_from(SAMPLE_NAMES), st.data(), values, names)
def test_what_is_added_to_a_sample_and_dropped_again_leaves_no_trace(name, data, value, field):
    text = in_layout(sample(name))
    tree = read_yaml(text).value
    inside = data.draw(st.sampled_from([path for path in paths(tree) if isinstance(at(tree, path), dict | list)]))
    node = at(tree, inside)
    if isinstance(node, list):
        path: Path = (*inside, data.draw(st.integers(0, len(node))))
        edit: Edit = InsertEdit(path, value)
    else:
        path = (*inside, field + "'")
        edit = PutEdit(path, value)
    added = text_edited(text, [edit])
    assert len(lines_touched(text, added)) <= 1  # A list in flow style stands on one line.
    assert text_edited(added, [DropEdit(path)]) == text


@settings(max_examples=30, deadline=None)
@given(st.sampled_from(SAMPLE_NAMES), st.data())
def test_what_is_moved_or_renamed_in_a_sample_and_back_leaves_no_trace(name, data):
    text = in_layout(sample(name))
    tree = read_yaml(text).value
    path = data.draw(st.sampled_from([path for path in paths(tree) if path]))
    if isinstance(path[-1], int):
        to = data.draw(st.integers(0, len(at(tree, path[:-1])) - 1))
        there: list[Edit] = [MoveEdit(path, to), MoveEdit((*path[:-1], to), path[-1])]
    else:
        there = [RenameEdit(path, "other"), RenameEdit((*path[:-1], "other"), path[-1])]
    assert text_edited(text, there) == text


@settings(max_examples=30, deadline=None)
@given(st.sampled_from(SAMPLE_NAMES), st.data())
def test_what_is_dropped_from_a_sample_takes_its_own_lines_alone(name, data):
    text = in_layout(sample(name))
    tree = read_yaml(text)
    path = data.draw(
        st.sampled_from(
            [path for path in paths(tree.value) if len(path) == 1 or (path and len(at(tree.value, path[:-1])) > 1)]
        )
    )
    kept = text_edited(text, [DropEdit(path)]).splitlines()
    lines = text.splitlines()
    first = tree.marks[path].line
    gone = lines_touched(text, "\n".join(kept))
    assert all(line >= first or lines[line - 1].lstrip().startswith("#") or not lines[line - 1] for line in gone)
    # What stood in a line with it is in another one now: the name of the field above, or the item's next field behind the dash.
    assert len([line for line in kept if line not in lines]) <= 1
