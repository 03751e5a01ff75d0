"""Narrows a query line down to the runs behind one figure of a dashboard."""

from __future__ import annotations

from fabric.selectors.runs.query.grammar import CHARS_MAX, FIELDS, TERMS_MAX, Query
from fabric.selectors.runs.query.values import Kind

ONCE = (Kind.CHOICE, Kind.YES_NO)
"""Kinds of fields that stand once in a line."""


def narrow_line(query: Query, *terms: str) -> str:
    """Return the line with further terms, so that a run must match all of them. Empty: the line cannot have them."""
    line, count = query.text, len(query.terms)
    for term in terms:
        narrowed = _narrow(query, line, term)
        if narrowed is None:
            return ""
        count += len(narrowed) > len(line)
        line = narrowed
    return line if len(line) <= CHARS_MAX and count <= TERMS_MAX else ""


def _narrow(query: Query, line: str, term: str) -> str | None:
    """Return the line with one more term; None: no run can match both.

    A field that stands once keeps what both name.
    """
    field, _, value = term.partition(":")
    row = FIELDS.get(field)
    if row is None or row.kind not in ONCE or row.many:
        return f"{line} {term}".strip()
    held = next((one for one in query.terms if one.field == field and not one.negated), None)
    if held is None:
        return f"{line} {term}".strip()
    written = query.text[held.start : held.end]
    if isinstance(held.value, tuple):
        both = [one for one in held.value if one in value.split(",")]
        return line.replace(written, f"{field}:{','.join(both)}", 1) if both else None
    return line if held.value is (value == "yes") else None


def quote_value(value: str) -> str:
    """Return a label's value as a line has it."""
    return f'"{value}"' if any(char.isspace() for char in value) else value
