"""YAML as authors write it: any tree in every style that is read, with comments and empty lines at odd places."""

from __future__ import annotations

import json
import re
from random import Random

from hypothesis import strategies as st

from fabric.core.values.units import JSON

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


# -- scalars -----------------------------------------------------------------------------------------------------------

_SAFE = "\x20-\x7e\xa0-\u2027\u202a-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff"
_UNSAFE = re.compile(f"[^{_SAFE}]")
"""What is written as an escape: control characters, line and paragraph separators, the byte order mark."""
_LITERAL = re.compile(f"[{_SAFE}\t]+(?:\n[{_SAFE}\t]*)*")
_NO_PLAIN = re.compile(r"[-?:,\[\]{}#&*!|>'\"%@`=~ ]|\.\.\.|$")
"""How text begins that would not be taken for text, or not for one that is short."""
_NO_PLAIN_WITHIN = re.compile(r":(?: |$)| #| $")
_NO_PLAIN_IN_FLOW = re.compile(r"[,\[\]{}]")
_OF_ANOTHER_TYPE = re.compile(
    r"null|true|false|yes|no|on|off|[-+]?\.?[0-9][0-9a-fx_o.:,+-]*|[-+]?\.(?:inf|nan)|[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}.*",
    re.IGNORECASE,
)
"""Text that some YAML program takes for a number, a truth value, nothing or a date."""


def scalar_text(value: JSON, *, quote: str = "", flow: bool = False) -> str:
    """A scalar on one line. ``quote``: how text is quoted where it can be chosen; ``flow``: it stands in a collection in flow style."""
    if isinstance(value, str):
        return _string(value, quote, flow)
    if isinstance(value, float):
        digits, exponent, power = repr(value).partition("e")
        # A float without a point is text to a program of YAML 1.1.
        return f"{digits}{'' if '.' in digits else '.0'}{exponent}{power}"
    return json.dumps(value)


def _string(value: str, quote: str, flow: bool) -> str:
    if quote == '"' or _UNSAFE.search(value):
        text = json.dumps(value, ensure_ascii=False)
        return _UNSAFE.sub(_escaped, text)
    if quote == "'" or not _is_plain(value, flow):
        return "'" + value.replace("'", "''") + "'"
    return value


def _escaped(found: re.Match[str]) -> str:
    code = ord(found[0])
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _is_plain(value: str, flow: bool) -> bool:
    return not (
        _NO_PLAIN.match(value)
        or _NO_PLAIN_WITHIN.search(value)
        or _OF_ANOTHER_TYPE.fullmatch(value)
        or (flow and _NO_PLAIN_IN_FLOW.search(value))
    )


def is_literal(value: JSON) -> bool:
    """Return True if a value is text of several lines that a literal block holds as it is."""
    if not isinstance(value, str) or "\n" not in value or not _LITERAL.fullmatch(value):
        return False
    body = value.removesuffix("\n")
    # Space at the beginning would be taken for the indentation, and lines at the end that are empty for what stands between two fields.
    return not value[0].isspace() and bool(body.rpartition("\n")[2].strip())
