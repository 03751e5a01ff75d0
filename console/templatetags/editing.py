"""Template filters that show values in the editor of fabrics."""

from __future__ import annotations

import json
from typing import Any

from django import template

from console.templatetags.said import inert

register = template.Library()
CHARS = 400


@register.filter
def as_value(value: Any) -> str:
    """Return a value of a draft on one line; a missing one as "not given"."""
    if isinstance(value, str):
        text = value or "empty"
    else:
        try:
            text = "not given" if value is None else json.dumps(value, ensure_ascii=False)
        except TypeError:
            text = "not given"
    return inert(text if len(text) <= CHARS else f"{text[: CHARS - 1]}…")
