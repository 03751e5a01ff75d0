"""A small part of JSONPath: what tolerances of experiments are written with, and no more.

``$`` (may be left out), ``.name``, ``['name']``, ``[n]`` (from the end where negative), ``[*]`` and ``.*``, ``..name`` and ``..*`` (at any depth), ``[?(@.name == value)]`` with
``==``, ``!=``, ``<``, ``<=``, ``>``, ``>=`` or nothing after the name (it is there). Slices, unions, functions and scripts are refused by name. No library for the whole
of it is among the installed ones.
"""

from __future__ import annotations

import json
import operator
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

JSON = Any
DEPTH_MAX = 64
"""Levels that ``..`` goes down."""

_NAME = re.compile(r"[A-Za-z_][\w-]*")
_INDEX = re.compile(r"-?\d+")
_QUOTED = re.compile(r"'((?:[^'\\]|\\.)*)'|\"((?:[^\"\\]|\\.)*)\"")
_FILTER = re.compile(r"\?\(\s*@\.([A-Za-z_][\w-]*)\s*(?:(==|!=|<=|>=|<|>)\s*(.+?))?\s*\)$", re.DOTALL)


def same(one: JSON, other: JSON) -> bool:
    """Whether two JSON values are equal; true and 1 are not, 1 and 1.0 are."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(value, other[key]) for key, value in one.items())
    return bool(one == other)


def _differs(one: JSON, other: JSON) -> bool:
    return not same(one, other)


_COMPARE: Mapping[str, Callable[[Any, Any], Any]] = {
    "==": same,
    "!=": _differs,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


@dataclass(frozen=True, slots=True)
class Step:
    """One step of a path: a name, an index, everything (``*``) or those of which something holds. ``deep``: at any depth."""

    name: str = ""
    index: int | None = None
    every: bool = False
    test: tuple[str, str, JSON] | None = None
    deep: bool = False


def parse(path: str) -> tuple[Step, ...]:
    """The steps of a path. ValueError, one sentence with the place, for one that cannot be read or is not of this part of JSONPath."""
    text = path.strip()
    if not text:
        raise ValueError("the path is empty; write one like $.steps[0].state")
    at = 1 if text[0] == "$" else 0
    steps: list[Step] = []
    while at < len(text):
        step, at = _step(text, at, first=not steps and text[0] != "$")
        steps.append(step)
    return tuple(steps)


def _step(text: str, at: int, *, first: bool) -> tuple[Step, int]:
    if text.startswith("[", at):
        return _bracket(text, at)
    deep = text.startswith("..", at)
    if not (deep or first or text.startswith(".", at)):
        raise ValueError(f"{text!r} cannot be read at character {at + 1}; a step begins with . or [")
    at += 2 if deep else 1 if text.startswith(".", at) else 0
    if text.startswith("*", at):
        return Step(every=True, deep=deep), at + 1
    found = _NAME.match(text, at)
    if found is None:
        raise ValueError(f"{text!r} cannot be read at character {at + 1}; a name or * is wanted")
    return Step(name=found.group(), deep=deep), found.end()


def _bracket(text: str, at: int) -> tuple[Step, int]:
    end = _closing(text, at)
    inside = text[at + 1 : end].strip()
    quoted = _QUOTED.fullmatch(inside)
    if quoted:
        return Step(name=re.sub(r"\\(.)", r"\1", quoted[1] if quoted[1] is not None else quoted[2])), end + 1
    if inside == "*":
        return Step(every=True), end + 1
    if _INDEX.fullmatch(inside):
        return Step(index=int(inside)), end + 1
    test = _FILTER.match(inside)
    if test:
        return Step(test=(test[1], test[2] or "", _literal(text, test[3]))), end + 1
    kind = "a slice" if ":" in inside else "a union" if "," in inside else f"[{inside}]"
    raise ValueError(
        f"{text!r}: {kind} at character {at + 1} is not understood; write [n], [*], ['name'] or [?(@.name == value)]"
    )


def _closing(text: str, at: int) -> int:
    """Where the bracket that opens at ``at`` is closed; quotes may hold any."""
    quote = ""
    for place in range(at + 1, len(text)):
        here = text[place]
        if quote:
            quote = "" if here == quote and text[place - 1] != "\\" else quote
        elif here in "'\"":
            quote = here
        elif here == "]":
            return place
    raise ValueError(f"{text!r}: the bracket at character {at + 1} is not closed")


def _literal(path: str, text: str | None) -> JSON:
    if text is None:
        return None
    quoted = _QUOTED.fullmatch(text)
    if quoted:
        return quoted[1] if quoted[1] is not None else quoted[2]
    try:
        return json.loads(text)
    except ValueError:
        raise ValueError(
            f"{path!r}: {text} is no value to compare with; write a number, true, false or text in quotes"
        ) from None


def found(steps: tuple[Step, ...], value: JSON) -> list[JSON]:
    """Everything in a JSON value that a path leads to, in order."""
    here = [value]
    for step in steps:
        here = [
            inner
            for one in here
            for start in (_below(one, 0) if step.deep else (one,))
            for inner in _taken(step, start)
        ]
    return here


def _below(value: JSON, depth: int) -> Iterator[JSON]:
    """The value and everything in it."""
    yield value
    if depth < DEPTH_MAX:
        for inner in _inside(value):
            yield from _below(inner, depth + 1)


def _inside(value: JSON) -> list[JSON]:
    return list(value.values()) if isinstance(value, dict) else value if isinstance(value, list) else []


def _taken(step: Step, value: JSON) -> list[JSON]:
    if step.every:
        return _inside(value)
    if step.test is not None:
        return [one for one in _inside(value) if _holds(step.test, one)]
    if step.index is not None:
        fits = isinstance(value, list) and -len(value) <= step.index < len(value)
        return [value[step.index]] if fits else []
    return [value[step.name]] if isinstance(value, dict) and step.name in value else []


def _holds(test: tuple[str, str, JSON], value: JSON) -> bool:
    name, compared, wanted = test
    if not isinstance(value, dict) or name not in value:
        return False
    if not compared:
        return True
    try:
        return bool(_COMPARE[compared](value[name], wanted))
    except TypeError:
        return False  # A text is neither more nor less than a number.
