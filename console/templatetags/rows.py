"""Rows that are written by hand, as tags."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django import template
from django.utils.safestring import SafeString

if TYPE_CHECKING:
    from console.views.event_line import EventLine

register = template.Library()


@register.simple_tag
def event_row(line: EventLine, run_id: str, query: str = "") -> SafeString:
    """The row of an event in a list; ``query``: the list's filter, as the end of an address."""
    from console.views.event_line import row_html

    return row_html(line, run_id, query)
