"""What the inspector says about calls that change the world, and about undoing them: one row a kind."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, Protocol

from console.views.sections import Pair, Section, content, pairs, told
from fabric.core.words import words
from fabric.selectors.moments import EventRecord

JSON = Any
Form = Literal["text", "at", "words", "list", "yes"]
Row = tuple[str, str, Form]
Rows = tuple[Row, ...]


class Looked(Protocol):
    """What is looked at: the event."""

    record: EventRecord

    @property
    def fact(self) -> dict[str, JSON]:
        """Its fact, defaults included."""
        ...


_FORMS: Mapping[Form, Callable[[JSON], JSON]] = {
    "text": lambda value: value,
    "at": lambda value: value or None,
    "words": lambda value: words(value) if value else None,
    "list": lambda value: ", ".join(value) or None,
    "yes": lambda value: "yes" if value else "no",
}

_KEY: Row = ("idempotency key", "key", "text")
_OF: Row = ("undoes the call under", "of_key", "text")

SHOWN: Mapping[str, tuple[str, Rows, str]] = {
    "mutation_intended": (
        "The way back",
        (
            ("tool", "tool", "text"),
            ("it is", "effect", "words"),
            ("undone by", "compensation", "text"),
            ("stays when replanned", "carry_over", "yes"),
            ("attempt", "attempt", "text"),
            ("may arrive until", "deadline_at", "at"),
            _KEY,
        ),
        "It is journaled before the call goes out. The key leaves out how often the step ran, so that a step that runs once more meets what it did.",
    ),
    "mutation_settled": (
        "What is known",
        (
            ("tool", "tool", "text"),
            ("outcome", "outcome", "words"),
            ("so it was", "status", "words"),
            ("because", "reason", "text"),
            ("cause", "cause", "words"),
            _KEY,
        ),
        "Executed or unknown: it is undone when the run ends badly. Unknown: it is never sent again without a person's word.",
    ),
    "reconciliation_issued": (
        "Asked what happened",
        (
            ("asks", "tool", "text"),
            ("about the key", "of_key", "text"),
            ("attempt", "attempt", "text"),
            ("until", "deadline_at", "at"),
        ),
        "",
    ),
    "reconciliation_failed": (
        "Not learned yet",
        (("attempt", "attempt", "text"), ("because", "message", "text"), ("again from", "not_before", "at")),
        "",
    ),
    "reconciliation_ended": (
        "Learned",
        (("it was", "found", "words"), ("because", "reason", "text"), ("key", "of_key", "text")),
        "",
    ),
    "unwinding_started": (
        "Undoing",
        (
            ("before", "purpose", "words"),
            ("because of", "reason", "words"),
            ("keys, the next one first", "order", "list"),
        ),
        "Strictly the newest first, one at a time. The run's deadlines do not count meanwhile.",
    ),
    "compensation_issued": (
        "Undo",
        (
            ("calls", "tool", "text"),
            ("undoes a call of", "of_tool", "text"),
            ("attempt", "attempt", "text"),
            ("until", "deadline_at", "at"),
            _OF,
            _KEY,
        ),
        "",
    ),
    "compensation_answered": ("Undone", (("by", "tool", "text"), ("attempt", "attempt", "text"), _OF), ""),
    "compensation_failed": (
        "Undo failed",
        (
            ("attempt", "attempt", "text"),
            ("cause", "cause", "words"),
            ("because", "message", "text"),
            ("again from", "not_before", "at"),
            _OF,
        ),
        "",
    ),
    "compensation_interrupted": (
        "Undo lost with its worker",
        (("attempt", "attempt", "text"), _OF),
        "It goes out again under its key.",
    ),
    "compensation_stuck": (
        "Stuck",
        (("tool", "tool", "text"), ("attempts", "attempts", "text"), ("because", "message", "text"), _OF),
        "A person is asked: approve tries again, respond says that it was done by hand.",
    ),
    "compensation_resumed": ("Tried again by a person's word", (_OF,), ""),
    "compensation_by_hand": ("Undone by hand", (("by", "actor", "text"), ("tool", "tool", "text"), _OF), ""),
    "compensation_skipped": ("Cannot be undone", (("tool", "tool", "text"), ("because", "reason", "text"), _OF), ""),
    "compensation_abandoned": ("Not undone", (("tool", "tool", "text"), ("because", "reason", "text"), _OF), ""),
    "unwinding_finished": ("Undoing is over", (("undone", "undone", "text"), ("what stays", "stays", "list")), ""),
    "unwinding_omitted": ("Nothing is undone", (("because", "reason", "text"), ("what stays", "stays", "list")), ""),
}
"""Heading, rows ``(label, field, form)`` and a sentence, by kind."""


def _explained(kind: str) -> Callable[[Looked], list[Section]]:
    title, rows, why = SHOWN[kind]

    def show(seen: Looked) -> list[Section]:
        def pair(label: str, field: str, form: Form) -> Pair:
            value = _FORMS[form](seen.fact.get(field))
            return Pair(label, value, "at" if form == "at" else "text")

        found = [pairs(title, *(pair(*row) for row in rows))]
        return found + ([told("Why", why)] if why else []) + content(seen.record, "Recorded with it")

    return show


INSPECT: Mapping[str, Callable[[Looked], list[Section]]] = {kind: _explained(kind) for kind in SHOWN}
"""How each kind is explained."""
