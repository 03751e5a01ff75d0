"""Looks for words in what tools answered that tell their reader what to do. RE2: time linear in the text."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fabric.core.evaluators import Passage, Screen
from fabric.guardrails.compiled import DEPTH_MAX, Looking, looking

JSON = Any
RULES = ("agent_instructions", "reviewer_instructions")
"""Shipped rules that it looks by."""
AROUND = 160
"""Characters of the text on each side of what was found."""
FOUND_MAX = 400
KEPT = 2_048
"""Contents whose finding is remembered: a step's results are looked at before each call that changes something."""


def screen() -> Screen:
    """Returns a function that looks at a content, and remembers by the content's reference what it found there."""
    patterns = tuple(one for rule in RULES for one in looking(rule))
    known: dict[str, Passage | None] = {}

    def look(ref: str, given: JSON) -> Passage | None:
        if ref not in known:
            if len(known) >= KEPT:
                known.clear()
            known[ref] = next(_passages(given, patterns, 0), None)
        return known[ref]

    return look


def _passages(given: JSON, patterns: tuple[Looking, ...], depth: int) -> Iterator[Passage]:
    if depth > DEPTH_MAX:
        return
    if isinstance(given, str):
        for one in patterns:
            for match in one.pattern.finditer(given):
                yield _passage(one.name, given, match.start(), match.end())
    elif isinstance(given, dict):
        for key, item in given.items():
            yield from _passages(key, patterns, depth + 1)
            yield from _passages(item, patterns, depth + 1)
    elif isinstance(given, list | tuple):
        for item in given:
            yield from _passages(item, patterns, depth + 1)


def _passage(rule: str, text: str, start: int, end: int) -> Passage:
    last = min(end, start + FOUND_MAX)
    return Passage(rule, text[max(0, start - AROUND) : start], text[start:last], text[last : last + AROUND])
