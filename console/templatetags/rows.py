"""Template tags for rows that are built by hand."""

from __future__ import annotations

from typing import Protocol

from django import template
from django.utils.safestring import SafeString

from fabric.selectors.runs.query.grammar import LABEL, quote_term

register = template.Library()


class RenderedRow(Protocol):
    """An event that renders itself as a table's row."""

    def as_row(self, run_id: str, query: str = "") -> SafeString:
        """Return the row's HTML."""


@register.filter
def label_term(key: str, value: str) -> str:
    """Return the term of the query line that finds runs with a label."""
    return quote_term(LABEL, f"{key}={value}")


@register.simple_tag
def event_row(line: RenderedRow, run_id: str, query: str = "") -> SafeString:
    """Return the row of an event in a list; ``query``: the list's filter, as the end of an address."""
    return line.as_row(run_id, query)
