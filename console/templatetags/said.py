"""Text that a model, a tool or a caller wrote, made fit to be looked at: what would be invisible or would act is shown by its number.

The result is ordinary text: templates escape it as they escape everything. (reliability.md 2.11 "Rendering agent text")
"""

from __future__ import annotations

import json
import re
from typing import Any

from django import template
from django.utils.html import escape
from django.utils.safestring import SafeString

from console.forms import sentence
from console.markup import built
from fabric.selectors.contents import UNREAD
from fabric.selectors.visible import visible, visible_json, visible_prose

register = template.Library()
register.filter("sentence", sentence)
inert, prose = visible, visible_prose
register.filter("prose", prose)
register.filter("inert", inert)
register.filter("json_inert", visible_json)

JSON_CHARS_MAX = 100_000
"""Characters of a value shown in a page; what is longer says so."""


@register.simple_tag
def unread() -> str:
    """The sentence in place of a content for who may not read it."""
    return UNREAD


@register.filter
def as_path(value: object) -> SafeString:
    """A path within a fabric, which may go on in the next line after a dot or an underscore, and nowhere within a word."""
    return built(re.sub(r"([._])(?=[^._])", r"\1<wbr>", escape(visible(value))))


@register.filter
def as_json(value: Any) -> str:
    """A JSON value, indented, as text to be escaped; cut, and saying so, where it is very long."""
    text = json.dumps(value, indent=2, ensure_ascii=False, sort_keys=False, default=str)
    if len(text) > JSON_CHARS_MAX:
        text = f"{text[:JSON_CHARS_MAX]}\n... {len(text) - JSON_CHARS_MAX:,} more characters"
    return visible(text)


@register.filter
def beside_text(payload: Any) -> dict[str, Any]:
    """Returns the content that would pass beside a text and its citations; nothing of it passes unseen."""
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
    """What a browser is called by what it says of itself, for people; what is not known is cut and shown as it is."""
    text = visible(agent)
    name = next((known for word, known in BROWSERS if word in text), "")
    system = next((known for word, known in SYSTEMS if word in text), "")
    return f"{name} on {system}" if name and system else name or text[:40] or "a browser without a name"


TEXT_CHARS_MAX = 40_000
"""Characters of a text shown in a page; what is longer says so."""
HEAD_CHARS = 160


@register.filter
def clip(value: object) -> str:
    """Running text, cut, and saying so, where it is very long."""
    text = str(value)
    rest = len(text) - TEXT_CHARS_MAX
    return visible_prose(text[:TEXT_CHARS_MAX]) + (f"\n... {rest:,} more characters" if rest > 0 else "")


@register.filter
def head(value: object) -> str:
    """The beginning of a text on one line."""
    return " ".join(str(value)[:HEAD_CHARS].split())
