"""How edited YAML text looks: what stays of what the author wrote, and how new things are written beside it."""

from __future__ import annotations

import pytest

from fabric.services.fabrics.yaml.edits import (
    DropEdit,
    Edit,
    EditProblem,
    InsertEdit,
    MoveEdit,
    PutEdit,
    RenameEdit,
    text_edited,
    tree_edited,
)
from fabric.services.fabrics.yaml.tree import BYTES_MAX, VALUES_MAX, YamlProblem, read_yaml

CASES: dict[str, tuple[str, Edit, str]] = {
    "a scalar keeps the comment behind": ("a: 1 # one\nb: 2\n", PutEdit(("a",), 3), "a: 3 # one\nb: 2\n"),
    "quotes stay": ('a: "1.0"  # v\n', PutEdit(("a",), "x"), 'a: "x"  # v\n'),
    "quotes go with the text": ('a: "1.0"\n', PutEdit(("a",), 2), "a: 2\n"),
    "text that looks like a number": ("a: x\n", PutEdit(("a",), "0.15"), "a: '0.15'\n"),
    "text that looks like a date": ("a: x\n", PutEdit(("a",), "2024-01-01"), "a: '2024-01-01'\n"),
    "a float": ("a: 1\n", PutEdit(("a",), 1.0), "a: 1.0\n"),
    "a small float": ("a: 1\n", PutEdit(("a",), 1e-7), "a: 1e-07\n"),
    "true": ("a: 1\n", PutEdit(("a",), True), "a: true\n"),
    "nothing": ("a: 1\n", PutEdit(("a",), None), "a: null\n"),
    "in place of nothing": ("a: # none\nb: 1\n", PutEdit(("a",), 1), "a: 1 # none\nb: 1\n"),
    "a literal block": ("a: x # c\nb: 1\n", PutEdit(("a",), "p\n\nq\n"), "a: | # c\n  p\n\n  q\nb: 1\n"),
    "in place of a literal block": ("a: |- # c\n  p\n  q\n\nb: 1\n", PutEdit(("a",), "x"), "a: x # c\n\nb: 1\n"),
    "in place of a folded one": ("l:\n  - >-\n    p\n    q\n  - r\n", PutEdit(("l", 0), "x y"), "l:\n  - x y\n  - r\n"),
    "a group for a scalar": ("a: 1 # c\nb: 2\n", PutEdit(("a",), {"x": [1]}), "a: # c\n  x:\n    - 1\nb: 2\n"),
    "a scalar for a group": ("a: # c\n  # in\n  x: 1\nb: 2\n", PutEdit(("a",), 1), "a: 1 # c\nb: 2\n"),
    "a group for an item": ("- 1\n- 2\n", PutEdit((0,), {"x": 1, "y": 2}), "  - x: 1\n    y: 2\n  - 2\n"),
    "nothing in it": ("a:\n  x: 1\nb: 2\n", PutEdit(("a",), {}), "a: {}\nb: 2\n"),
    "a flow list": ("a: [1, 2] # c\n", PutEdit(("a",), ["p, q", 3]), "a: ['p, q', 3] # c\n"),
    "within flow style": ("a: {b: 1, c: [x]} # c\n", PutEdit(("a", "c", 0), {"y": 1}), "a: {b: 1, c: [{y: 1}]} # c\n"),
    "a new field": ("a: 1\n\n# two\nb: 2\n# end\n", PutEdit(("c",), 3), "a: 1\n\n# two\nb: 2\nc: 3\n# end\n"),
    "a new field inside": ("a:\n  x: 1 # c\n\nb: 2\n", PutEdit(("a", "y"), 2), "a:\n  x: 1 # c\n  y: 2\n\nb: 2\n"),
    "a new field in flow style": ("a: {x: 1}\n", PutEdit(("a", "y"), [1]), "a: {x: 1, y: [1]}\n"),
    "groups on the way": ("a: 1\n", PutEdit(("b", "c", "d"), 2), "a: 1\nb:\n  c:\n    d: 2\n"),
    "a group for an empty one": ("a: {} # c\nb: 1\n", PutEdit(("a", "x"), 1), "a: # c\n  x: 1\nb: 1\n"),
    "no line break at the end": ("a: 1\nb: 2", PutEdit(("c",), 3), "a: 1\nb: 2\nc: 3\n"),
    "other line breaks": ("a: 1\r\nb: 2\r\n", PutEdit(("c",), "x\ny"), "a: 1\r\nb: 2\r\nc: |-\r\n  x\r\n  y\r\n"),
    "from nothing": ("", PutEdit(("a", "b"), 1), "a:\n  b: 1\n"),
    "from comments": ("# mine\n", PutEdit(("a",), 1), "# mine\na: 1\n"),
    "an item at the end": ("a:\n  - x # c\n\nb: 1\n", InsertEdit(("a", 1), "y"), "a:\n  - x # c\n  - y\n\nb: 1\n"),
    "an item first": ("a:\n  # x\n  - x\n", InsertEdit(("a", 0), "y"), "a:\n  - y\n  # x\n  - x\n"),
    "an item without indentation": ("a:\n- x\nb: 1\n", InsertEdit(("a", 1), {"n": 1, "m": [2]}), "a:\n  - x\n  - n: 1\n    m:\n      - 2\nb: 1\n"),
    "an item in flow style": ("a: [x, y]\n", InsertEdit(("a", 1), "z"), "a: [x, z, y]\n"),
    "an item of flow style over lines": ("a: [\n  x, # c\n  y\n]\n", InsertEdit(("a", 2), "z"), "a: [x, y, z] # c\n"),
    "an item in an empty list": ("a: [] # c\n", InsertEdit(("a", 0), {"n": 1}), "a: # c\n  - n: 1\n"),
    "an item in no list": ("a: 1\n", InsertEdit(("b", 0), "x"), "a: 1\nb:\n  - x\n"),
    "a field goes with its comments": ("# head\n\n# a\na: 1 # a\n# b\nb: 2\n", DropEdit(("a",)), "# head\n\n# b\nb: 2\n"),
    "a group goes": ("a:\n  x: 1\n  # in\n\nb: 2\n\nc: 3\n", DropEdit(("b",)), "a:\n  x: 1\n  # in\n\nc: 3\n"),
    "a group goes with what is commented out in it": ("a:\n  x: 1\n  # y: 2\n# b\nb: 2\n", DropEdit(("a",)), "# b\nb: 2\n"),
    "the last one goes": ("a: 1\n\n# b\nb: 2\n", DropEdit(("b",)), "a: 1\n"),
    "the last one goes, no line break": ("a: 1\nb: 2", DropEdit(("b",)), "a: 1\n"),
    "the only field goes": ("a:\n  x: 1\nb: 2\n", DropEdit(("a", "x")), "a: {}\nb: 2\n"),
    "the only item goes": ("a: # c\n  - x\nb: 2\n", DropEdit(("a", 0)), "a: [] # c\nb: 2\n"),
    "the first field of an item goes": ("- n: 1 # n\n  m: 2\n- 3\n", DropEdit((0, "n")), "  - m: 2\n  - 3\n"),
    "an item in flow style goes": ("a: [x, y, z] # c\n", DropEdit(("a", 2)), "a: [x, y] # c\n"),
    "the first in flow style goes": ("a: {x: 1, y: 2}\n", DropEdit(("a", "x")), "a: {y: 2}\n"),
    "an item moves with its comments": (
        "a:\n  # x\n  - x # 1\n\n  - y\n  - z\nb: 1\n",
        MoveEdit(("a", 0), 2),
        "a:\n  - y\n\n  - z\n  # x\n  - x # 1\nb: 1\n",
    ),
    "an item moves in flow style": ("a: [x, {y: 1}, z]\n", MoveEdit(("a", 2), 0), "a: [z, x, {y: 1}]\n"),
    "a name": ("a: # c\n  x: 1\n", RenameEdit(("a",), "b c"), "b c: # c\n  x: 1\n"),
    "one field of a list": ("# c\na: [f: g, h] # d\n", PutEdit(("a", 0, "i"), 1), "# c\na: [{f: g, i: 1}, h] # d\n"),
    "a name after a question mark": ("# c\n? a\n: 1\nb: 2\n", DropEdit(("a",)), "b: 2\n"),
    "a literal block without a line break": ("a: |\n  x\n  y", PutEdit(("b",), 1), "a: |-\n  x\n  y\nb: 1\n"),
    "a comment that is further in than a literal block": (
        "a:\n  x: 1\n  # y: 2\nb: 1\n",
        PutEdit(("a", "x"), "p\nq\n"),
        "a:\n  x: |\n    p\n    q\n  # y: 2\nb: 1\n",
    ),
    "folded text keeps its lines": ("a: >-\n  p\n  q\nb: 1\n", PutEdit(("b",), 2), "a: >-\n  p\n  q\nb: 2\n"),
    "a name in quotes": ('{"a":1}\n', RenameEdit(("a",), "b"), '{"b": 1}\n'),
}  # fmt: skip


@pytest.mark.parametrize("what", CASES)
def test_the_edited_text(what):
    text, edit, edited = CASES[what]
    assert text_edited(text, [edit]) == edited
    assert read_yaml(edited).value == tree_edited(read_yaml(text).value, [edit])


def test_no_edits_change_nothing_and_neither_do_edits_to_what_is():
    text = "a:   'x'   # c\nb: [ 1,2 ]\n"
    assert text_edited(text, []) == text
    assert (
        text_edited(
            text, [PutEdit(("a",), "x"), PutEdit(("b",), [1, 2]), MoveEdit(("b", 0), 0), RenameEdit(("a",), "a")]
        )
        == text
    )


def test_a_value_of_another_type_is_another_value():
    assert text_edited("a: 1\n", [PutEdit(("a",), True)]) == "a: true\n"
    assert text_edited("a: 1\n", [PutEdit(("a",), 1.0)]) == "a: 1.0\n"


PROBLEMS: dict[str, tuple[Edit, str]] = {
    "no such field": (DropEdit(("l", 0, "y")), "l.0.y: there is no such field"),
    "no such item": (PutEdit(("l", 2, "x"), 1), "l.2: there is no such item; the list has 1"),
    "before the first": (DropEdit(("l", -1)), "l.-1: there is no such item; the list has 1"),
    "behind the end": (InsertEdit(("l", 2), 1), "l.2: there is no such item; the list has 1"),
    "moved behind the end": (MoveEdit(("l", 0), 1), "l.1: there is no such item; the list has 1"),
    "no group": (PutEdit(("a", "x"), 1), "a.x: there is no such field, for a is no group of fields"),
    "no list": (PutEdit(("a", 0), 1), "a.0: there is no such item, for a is no list"),
    "a name in a list": (PutEdit(("l", "x"), 1), "l.x: there is no such field, for l is no group of fields"),
    "a list that is missing": (InsertEdit(("m", 1), 1), "m.1: there is no such item, for m is no list"),
    "inserted by name": (InsertEdit(("b",), 1), "b: an item is inserted by its index in a list; this is a name"),
    "a field moved": (MoveEdit(("a",), 0), "a: only items of a list are moved; this is a field"),
    "an item named": (RenameEdit(("l", 0), "x"), "l.0: only fields have names; this is an item of a list"),
    "a name that is taken": (RenameEdit(("a",), "l"), "a: there is already a field 'l' beside it"),
    "a name that is long": (PutEdit(("x" * 2000,), 1), "may have at most 1,000 characters"),
    "a name on the way that is long": (PutEdit(("x" * 2000, "y"), 1), "may have at most 1,000 characters"),
    "the document": (DropEdit(()), "the document: it can only be replaced as a whole"),
    "no finite number": (PutEdit(("a",), float("nan")), "a: it holds NUL characters, broken Unicode or a number"),
    "a large number": (PutEdit(("a",), [2**63]), "a: it holds NUL characters, broken Unicode or a number"),
    "NUL": (PutEdit(("a",), "\0"), "a: it holds NUL characters, broken Unicode or a number"),
    "half a character": (PutEdit(("a",), {"\ud800": 1}), "a: it holds NUL characters, broken Unicode or a number"),
    "no JSON": (PutEdit(("a",), object()), "a: a value of type object is no JSON"),
}


@pytest.mark.parametrize("what", PROBLEMS)
def test_an_edit_that_cannot_be_made(what):
    edit, sentence = PROBLEMS[what]
    text = "a: 1\nl:\n  - x: 1\n"
    with pytest.raises(EditProblem) as caught:
        text_edited(text, [PutEdit(("a",), 2), edit])
    assert sentence in str(caught.value)
    with pytest.raises(EditProblem) as caught:
        tree_edited(read_yaml(text).value, [edit])
    assert sentence in str(caught.value)


@pytest.mark.parametrize(
    ("edit", "sentence"),
    [
        (PutEdit(("a",), "x" * (BYTES_MAX - 20)), f"at most {BYTES_MAX:,} are read"),
        (PutEdit(("a",), list(range(VALUES_MAX))), f"more than {VALUES_MAX:,} values"),
    ],
)
def test_what_would_be_too_large_is_told_and_costs_no_comments(edit, sentence):
    with pytest.raises(YamlProblem) as caught:
        text_edited("# the comments count\na: 1\n", [edit])
    assert sentence in str(caught.value)


def test_a_text_that_is_not_read_is_not_edited():
    with pytest.raises(YamlProblem):
        text_edited("a: [", [PutEdit(("a",), 1)])
