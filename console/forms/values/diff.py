"""The lines that an edit changes: the JSON that was shown against the JSON that would go on."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import zip_longest
from typing import Literal

from console.forms.controls.fields import MISSING
from fabric.core.texts.three_way import same
from fabric.core.values.units import JSON

CONTEXT = 2
"""So many unchanged lines are shown around a change."""
LINES_MAX = 2_000
"""Longer values are not compared line by line."""


@dataclass(frozen=True, slots=True)
class Line:
    """One line: what leads up to the change in it, the change, and the rest."""

    kind: Literal["", "del", "add", "same"]
    head: str
    mark: str = ""
    tail: str = ""


@dataclass(frozen=True, slots=True)
class Diff:
    """The changed lines of a value, and how many lines it has."""

    lines: tuple[Line, ...]
    changed: int
    total: int
    """Parts of the value that can change."""


def diff_of(shown: JSON, value: JSON) -> Diff:
    """The difference of two values."""
    value = _ordered(value, shown)
    before, after = _lines(shown), _lines(value)
    leaves, others = dict(_leaves(shown)), dict(_leaves(value))
    names = {**leaves, **others}
    changed = sum(not same(leaves.get(name, MISSING), others.get(name, MISSING)) for name in names)
    return Diff(tuple(_compared(before, after)) if changed else (), changed, len(names))


def text_diff(before: str, after: str) -> tuple[Line, ...]:
    """Return two texts line by line with unchanged parts folded; an empty one where they are equal."""
    old, new = before.splitlines(), after.splitlines()
    return () if old == new else tuple(_compared(old, new))


def _ordered(value: JSON, like: JSON) -> JSON:
    """Return a value with the keys of its objects in the order of another value: moved keys are no change."""
    if not isinstance(value, dict) or not isinstance(like, dict):
        return value
    names = [*(name for name in like if name in value), *(name for name in value if name not in like)]
    return {name: _ordered(value[name], like.get(name)) for name in names}


def _lines(value: JSON) -> list[str]:
    text = json.dumps(value, ensure_ascii=False, indent=2)
    inner = text.split("\n")
    if isinstance(value, dict) and len(inner) > 2:
        return [line[2:] for line in inner[1:-1]]  # The object's own braces say nothing.
    return inner


def _leaves(value: JSON, path: str = "") -> Iterator[tuple[str, JSON]]:
    if isinstance(value, dict) and (value or not path):
        for name, one in value.items():
            yield from _leaves(one, f"{path}/{name}")
    else:
        yield path, value


def _compared(before: list[str], after: list[str]) -> Iterator[Line]:
    if max(len(before), len(after)) > LINES_MAX:
        yield Line("same", f"{len(before):,} lines before, {len(after):,} after: too long to compare line by line")
        return
    blocks = SequenceMatcher(None, before, after, autojunk=False).get_opcodes()
    for number, (what, low, high, new_low, new_high) in enumerate(blocks):
        if what == "equal":
            yield from _same(before[low:high], first=number == 0, last=number == len(blocks) - 1)
        else:
            yield from _changed(before[low:high], after[new_low:new_high])


def _same(lines: list[str], *, first: bool, last: bool) -> Iterator[Line]:
    head, tail = (0 if first else CONTEXT), (0 if last else CONTEXT)
    skipped = len(lines) - head - tail
    if skipped <= 1:
        yield from (Line("", line) for line in lines)
        return
    yield from (Line("", line) for line in lines[:head])
    yield Line("same", f"{skipped} lines as before")
    yield from (Line("", line) for line in lines[len(lines) - tail :])


def _changed(old: list[str], new: list[str]) -> Iterator[Line]:
    if len(old) != len(new):
        yield from (Line("del", "", line) for line in old)
        yield from (Line("add", "", line) for line in new)
        return
    for one, other in zip_longest(old, new, fillvalue=""):
        head = _shared(one, other)
        tail = min(_shared(one[::-1], other[::-1]), min(len(one), len(other)) - head)
        yield _marked("del", one, head, tail)
        yield _marked("add", other, head, tail)


def _shared(one: str, other: str) -> int:
    """Return how many characters two texts begin with alike."""
    return next((n for n, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


def _marked(kind: Literal["del", "add"], line: str, head: int, tail: int) -> Line:
    end = len(line) - tail
    return Line(kind, line[:head], line[head:end], line[end:])
