"""Conditions of a graph's rules, judged anew as they are written: nothing is shared with ``graph/conditions.py`` but their JSON (semantics.md 5)."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Protocol

JSON = Any


class Turn(Protocol):
    """The parts of a turn that conditions read."""

    speaker: str
    outcome: str
    error: Any


class Unknown(Exception):
    """It cannot be told from the journal."""


ON_FAILURE = ("outcome_is", "error_class_is")


def asks_how(condition: JSON) -> bool:
    """Returns True where a condition asks for a turn's end, by name or by a context variable."""
    named = condition["kind"] in ("context_equals", "context_text") and condition["key"] in ("outcome", "failure_class")
    return named or condition["kind"] in ON_FAILURE or any(map(asks_how, _within(condition)))


def _within(condition: JSON) -> tuple[JSON, ...]:
    return (*condition.get("conditions", ()), *([condition["condition"]] if "condition" in condition else []))


def tools_of(condition: JSON) -> Iterator[str]:
    """The tools that a condition and all within it name."""
    if condition["kind"] == "tool_called":
        yield condition["tool"]
    for inner in _within(condition):
        yield from tools_of(inner)


def holds(condition: JSON, turn: Turn, context: Mapping[str, JSON], tool: str) -> bool:
    """Returns True where a condition holds after a turn. ``tool``: the turn's routing tool. Unknown for the installation's own conditions."""

    def inner(one: JSON) -> bool:
        return holds(one, turn, context, tool)

    match condition["kind"]:
        case "always":
            return True
        case "from_speaker":
            return bool(condition["agent"] == turn.speaker)
        case "tool_called":
            return bool(condition["tool"] == tool)
        case "context_equals":
            return bool(context.get(condition["key"]) == condition["value"])
        case "context_text":
            return _compares(condition, context.get(condition["key"]))
        case "outcome_is":
            return bool(condition["outcome"] == turn.outcome)
        case "error_class_is":
            return bool(condition["failure_class"] == turn.error)
        case "all_of":
            return all(map(inner, condition["conditions"]))
        case "any_of":
            return any(map(inner, condition["conditions"]))
        case "not":
            return not inner(condition["condition"])
    raise Unknown


def _compares(condition: JSON, value: JSON) -> bool:
    """Judged anew, by the words of semantics.md 5."""
    asked, other = condition["compares"], condition["value"]
    text = (
        ""
        if value is None
        else value
        if isinstance(value, str)
        else json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    )
    if asked == "is_set":
        return text not in ("", "false", "0")
    if asked == "equals":
        return bool(text == other)
    if asked == "contains" and isinstance(value, list):
        return any(_compares({"compares": "equals", "value": other}, one) for one in value)
    if asked == "contains":
        return other in text
    if asked == "matches":
        return re.search(other, text[:500]) is not None
    try:
        here, there = float(text), float(other)
    except ValueError:
        return False
    return {"greater": here > there, "less": here < there, "at_least": here >= there, "at_most": here <= there}[asked]
