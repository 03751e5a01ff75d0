"""Makes text of models, tools and callers safe to look at: invisible or active characters appear as numbers.

The result is ordinary text: templates escape it like any other (docs/security.md).
"""

from __future__ import annotations

import json
import re
from typing import Any

from django import template
from django.utils.html import escape
from django.utils.safestring import SafeString

from console.site.markup import mark_safe_markup
from console.site.sentences import sentence
from fabric.selectors.contents import UNREAD
from fabric.selectors.visible_text import visible, visible_json, visible_prose

register = template.Library()
register.filter("sentence", sentence)
inert, prose = visible, visible_prose
register.filter("prose", prose)
register.filter("inert", inert)
register.filter("json_inert", visible_json)

JSON_CHARS_MAX = 100_000
"""Number of characters of a value shown in a page; a longer one is cut, with a remark."""


@register.simple_tag
def unread() -> str:
    """Return the sentence that replaces a content which the viewer may not read."""
    return UNREAD


@register.filter
def as_path(value: object) -> SafeString:
    """Return a path within a fabric that may break after a dot or an underscore, and nowhere within a word."""
    return mark_safe_markup(re.sub(r"([._])(?=[^._])", r"\1<wbr>", escape(visible(value))))


@register.filter
def as_json(value: Any) -> str:
    """Return a JSON value, indented, as text to be escaped; a very long one is cut, with a remark."""
    text = json.dumps(value, indent=2, ensure_ascii=False, sort_keys=False, default=str)
    if len(text) > JSON_CHARS_MAX:
        text = f"{text[:JSON_CHARS_MAX]}\n... {len(text) - JSON_CHARS_MAX:,} more characters"
    return visible(text)


@register.filter
def beside_text(payload: Any) -> dict[str, Any]:
    """Return the further contents that would pass with a text and its citations, so that all of it is seen."""
    return {
        name: value for name, value in payload.items() if name not in ("text", "citations") and value not in ([], "")
    }


BROWSERS = (("Edg", "Edge"), ("OPR", "Opera"), ("Firefox", "Firefox"), ("Chrome", "Chrome"), ("Safari", "Safari"))
SYSTEMS = (
    ("Windows", "Windows"),
    ("Android", "Android"),
    ("iPhone", "iOS"),
    ("iPad", "iOS"),
    ("Mac OS", "macOS"),
    ("Linux", "Linux"),
)


@register.filter
def browser_name(agent: object) -> str:
    """Return a browser's name for people, from its own description. An unknown one is cut and shown as it is."""
    text = visible(agent)
    name = next((known for word, known in BROWSERS if word in text), "")
    system = next((known for word, known in SYSTEMS if word in text), "")
    return f"{name} on {system}" if name and system else name or text[:40] or "a browser without a name"


TEXT_CHARS_MAX = 40_000
"""Number of characters of a text shown in a page; a longer one is cut, with a remark."""
HEAD_CHARS = 160


@register.filter
def clip(value: object) -> str:
    """Return running text; a very long one is cut, with a remark."""
    text = str(value)
    rest = len(text) - TEXT_CHARS_MAX
    return visible_prose(text[:TEXT_CHARS_MAX]) + (f"\n... {rest:,} more characters" if rest > 0 else "")


@register.filter
def head(value: object) -> str:
    """Return the beginning of a text on one line."""
    return " ".join(str(value)[:HEAD_CHARS].split())
