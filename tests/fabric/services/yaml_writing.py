"""YAML as authors write it: any tree in every style that is read, with comments and empty lines at odd places."""

from __future__ import annotations

from random import Random
from typing import Any

from hypothesis import strategies as st

from fabric.services.yaml_render import is_literal, scalar_text

JSON = Any

ODD_TEXT = (
    "",
    " ",
    "#",
    "a: b",
    "a #b",
    "- a",
    "-",
    "?",
    "? a",
    ":",
    "a:",
    "{",
    "[a]",
    "a, b",
    "'",
    '"',
    "it's",
    "\\",
    "|",
    ">",
    "&a",
    "*a",
)
LOOKALIKES = (
    "1",
    "0.15",
    "1.0",
    "1e3",
    "0x1f",
    "0o7",
    "1_000",
    "true",
    "No",
    "null",
    "~",
    "<<",
    "=",
    "2024-01-01",
    "1:30",
    ".inf",
    "---",
    "...",
)
LINES = (
    "a\nb",
    "a\nb\n",
    "a\n\n  b\n",
    " a\nb",
    "\na",
    "a\n\n",
    "a\n ",
    "\n",
    "# a\n# b",
    "a\tb\n\tc",
    "a: 1\nb: 2\n",
    "a\r\nb",
    "---\n...",
)
UNICODE = ("é", "日本", "😀", "\x7f", "\x85", "\u2028", "\ufeff", "\ufffe", "\x01")

texts = st.one_of(
    st.sampled_from((*ODD_TEXT, *LOOKALIKES, *LINES, *UNICODE)),
    st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=12),
    st.text("ab \n:#-'\"", max_size=12),
)
names = st.one_of(
    st.sampled_from(("a", "b", "c", "name", "x y", "1", "true", "", "a: b", "é", "- a", "#", "a\nb")),
    st.text("abc", min_size=1, max_size=3),
)
numbers = (
    st.integers(-(2**63) + 1, 2**63 - 1)
    | st.floats(-1e18, 1e18, allow_nan=False).filter(lambda x: abs(x) < 2**63)
    | st.sampled_from((0, 1, 1.0, 0.0, 1e-7, 1e16))
)
scalars = st.none() | st.booleans() | numbers | texts
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(names, inner, max_size=4), max_leaves=10
)
trees = st.dictionaries(names, values, max_size=5) | values


def written(value: JSON, random: Random) -> str:
    """A tree as a document, in styles and with comments that ``random`` chooses. It reads as the tree, mostly: ask before you rely on it."""
    lines = (
        _comments(random, 0) + _block(value, 0, random, "")
        if isinstance(value, dict | list) and value
        else [_flow(value, random)]
    )
    if random.random() < 0.2:
        lines = ["---", *lines]
    newline = random.choice(("\n", "\n", "\r\n"))
    return newline.join([*lines, *_comments(random, 0)]) + random.choice((newline, newline, ""))


def _block(value: JSON, column: int, random: Random, lead: str) -> list[str]:
    """The lines of a group or list; ``lead`` stands before its first one instead of the indentation."""
    entries = value.items() if isinstance(value, dict) else (("-", item) for item in value)
    lines: list[str] = []
    for name, item in entries:
        head = "-" if isinstance(value, list) else _name(name, random) + ":"
        if lead and not lines:
            lines += _entry(lead + head, item, column, random, isinstance(value, list))
        else:
            lines += [
                *_comments(random, column),
                *_entry(" " * column + head, item, column, random, isinstance(value, list)),
            ]
    return lines


def _entry(head: str, item: JSON, column: int, random: Random, is_item: bool) -> list[str]:
    behind = random.choice(("", "", "", " # behind", "   #it's: [x"))
    deeper = [" " * (column + 2) + "# below"] if random.random() < 0.1 else []
    if isinstance(item, dict | list) and item and random.random() < 0.7:
        step = 0 if isinstance(item, list) and not is_item and random.random() < 0.5 else random.choice((1, 2, 2, 4))
        if is_item and random.random() < 0.7:
            return [*_block(item, column + 2, random, f"{head} "), *deeper]
        return [head + behind, *_block(item, column + step, random, ""), *deeper]
    if is_literal(item) and random.random() < 0.7:
        lines = [" " * (column + 3) + line if line else "" for line in item.removesuffix("\n").split("\n")]
        return [f"{head} {'|' if item.endswith(chr(10)) else '|-'}{behind}", *lines]
    if item is None and random.random() < 0.5:
        return [head + behind, *deeper]
    text = _flow(item, random)
    if random.random() < 0.1:
        return [head, " " * (column + 2) + text + behind, *deeper]
    return [f"{head} {text}{behind}", *deeper]


def _comments(random: Random, column: int) -> list[str]:
    kinds: tuple[list[str], ...] = (
        [],
        [],
        [],
        [""],
        [" " * column + "# above"],
        ["", "# far"],
        [" " * column + "# one", "", " " * column + "# two"],
        [" " * 7 + "#x"],
    )
    return random.choice(kinds)


def _name(name: str, random: Random) -> str:
    return scalar_text(name, quote=random.choice(("", "", "'", '"')), flow=True)


def _flow(value: JSON, random: Random) -> str:
    if isinstance(value, dict):
        inside = [f"{_name(name, random)}: {_flow(item, random)}" for name, item in value.items()]
        return "{" + _joined(inside, random) + "}"
    if isinstance(value, list):
        return "[" + _joined([_flow(item, random) for item in value], random) + "]"
    if isinstance(value, str):
        return random.choice((scalar_text(value, flow=True), scalar_text(value, quote='"')))
    return scalar_text(value)


def _joined(inside: list[str], random: Random) -> str:
    pad = random.choice(("", "", " "))
    text = random.choice((", ", ",", ",  ", ",\n       ", ", # in\n       ")).join(inside)
    return f"{pad}{text}{',' if inside and random.random() < 0.1 else ''}{pad}"
