"""What the inspector says about parents and children: one row a kind."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal

from console.views.inspect_saga import Looked
from console.views.sections import Pair, Section, content, pairs, told
from fabric.core.words import words

JSON = Any
Form = Literal["text", "words", "briefs", "count", "usd", "at", "yes"]
Row = tuple[str, str, Form]


def _briefs(numbers: list[int]) -> str | None:
    return ", ".join(str(number + 1) for number in numbers) or None


_FORMS: Mapping[Form, Callable[[str, JSON], Pair]] = {
    "text": lambda label, value: Pair(label, value or None),
    "words": lambda label, value: Pair(label, words(value) if value else None),
    "briefs": lambda label, value: Pair(label, _briefs(value)),
    "count": lambda label, value: Pair(label, str(len(value)) if value else None),
    "usd": lambda label, value: Pair(label, value, "usd"),
    "at": lambda label, value: Pair(label, value, "at"),
    "yes": lambda label, value: Pair(label, "yes" if value else None),
}
_RUN: Row = ("child run", "child_id", "text")
_WHY: Row = ("because", "reason", "text")
_CHANGE: tuple[Row, ...] = (
    _RUN,
    ("tool", "tool", "text"),
    ("it is", "effect", "words"),
    ("undone by", "compensation", "text"),
    ("it was", "status", "words"),
    _WHY,
    ("idempotency key", "key", "text"),
)

SHOWN: Mapping[str, tuple[str, tuple[Row, ...], str]] = {
    "lineage_pinned": (
        "Child run",
        (
            ("parent run", "parent_run_id", "text"),
            ("first of the family", "root_run_id", "text"),
            ("it does", "purpose", "words"),
            ("briefs of its parent's plan", "briefs", "briefs"),
            ("topology of", "topology", "text"),
            ("may spend", "cap_usd_micros", "usd"),
        ),
        "",
    ),
    "child_spawned": (
        "Child run",
        (
            _RUN,
            ("it does", "purpose", "words"),
            ("briefs", "briefs", "briefs"),
            ("level", "depth", "text"),
            ("deadline", "deadline_at", "at"),
            ("reserved", "reserved_usd_micros", "usd"),
            ("agents at once", "agents_alive", "text"),
            ("agents in all", "agents_spawned", "text"),
            ("changes of earlier tries", "handed_down", "count"),
        ),
        "It is a run like any other, claimed by whatever worker has room. What it does not spend comes back when it ends.",
    ),
    "child_answered": (
        "Child run",
        (
            _RUN,
            ("ended as", "state", "words"),
            _WHY,
            ("stopped by", "cause", "words"),
            ("spent", "cost_usd_micros", "usd"),
            ("without a result", "missing", "briefs"),
            ("too late to matter", "late", "yes"),
            ("undid something under its keys", "keys_spent", "yes"),
        ),
        "",
    ),
    "child_waiting": ("Child run", (_RUN, ("waits for people alone", "waiting", "yes")), ""),
    "child_let_go": (
        "Child run",
        (_RUN, ("told to", "how", "words"), _WHY),
        "It is waited for all the same: its own end says what it cost.",
    ),
    "child_quarantined": (
        "Quarantined child run",
        (_RUN, _WHY),
        "A person is asked here too: approve has the child try again, reject aborts it, and the decision table says what that means for its branch.",
    ),
    "child_freed": ("Quarantine of a child run is over", (_RUN,), ""),
    "mutation_inherited": (
        "Change of an earlier try",
        (*_CHANGE, ("stands over a replan", "carry_over", "yes")),
        "What is proposed again under the same key is answered from it. Whoever ends badly later undoes it: this run, or the one above that it hands it up to.",
    ),
    "mutation_taken_over": (
        "Change of a child run",
        _CHANGE,
        "The child is over and takes in nothing more, so whoever ends badly later undoes it: this run.",
    ),
}
"""Heading, rows ``(label, field, form)`` and a sentence, by kind."""
_BROUGHT: Mapping[str, str] = {
    "lineage_pinned": "Its part of the plan",
    "child_answered": "What it brought",
    "mutation_inherited": "What it was called with and answered",
    "mutation_taken_over": "What it was called with and answered",
}


def _explained(kind: str) -> Callable[[Looked], list[Section]]:
    title, rows, why = SHOWN[kind]

    def show(seen: Looked) -> list[Section]:
        sections = [pairs(title, *(_FORMS[form](label, seen.fact.get(field)) for label, field, form in rows))]
        return (
            sections
            + ([told("Why", why)] if why else [])
            + content(seen.record, _BROUGHT.get(kind, "Recorded with it"))
        )

    return show


INSPECT: Mapping[str, Callable[[Looked], list[Section]]] = {kind: _explained(kind) for kind in SHOWN}
"""How each kind is explained."""
