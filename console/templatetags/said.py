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

register = template.Library()
register.filter("sentence", sentence)

_JOINERS = "\u200c\u200d\u200e\u200f"
"""Joiners and direction marks: invisible, harmless in prose, and needed by Persian, Hindi, Hebrew and emoji."""
_HIDDEN = (
    "\x00-\x08\x0b-\x1f\x7f-\x9f"  # Controls, the escape of terminals among them; tab and newline stay.
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u2028-\u202e\u2060-\u206f\u3164\ufe00-\ufe0e"
    "\ufeff\uffa0\ufff9-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
_hidden = re.compile(f"[{_HIDDEN}]")
_hidden_or_joining = re.compile(f"[{_HIDDEN}{_JOINERS}]")
_any_break = re.compile(r"\r\n?")

JSON_CHARS_MAX = 100_000
"""Characters of a value shown in a page; what is longer says so."""


def _number(found: re.Match[str]) -> str:
    return f"⟨U+{ord(found.group()):04X}⟩"


@register.filter
def prose(value: object) -> str:
    """Running text: controls, direction overrides and hidden characters shown by number."""
    return _hidden.sub(_number, _any_break.sub("\n", str(value)))


@register.filter
def inert(value: object) -> str:
    """Names, summaries and what a person approves: everything that cannot be seen is shown by number."""
    return _hidden_or_joining.sub(_number, _any_break.sub("\n", str(value)))


@register.filter
def as_path(value: object) -> SafeString:
    """A path within a fabric, which may go on in the next line after a dot or an underscore, and nowhere within a word."""
    return built(re.sub(r"([._])(?=[^._])", r"\1<wbr>", escape(inert(value))))


@register.filter
def as_json(value: Any) -> str:
    """A JSON value, indented, as text to be escaped; cut, and saying so, where it is very long."""
    text = json.dumps(value, indent=2, ensure_ascii=False, sort_keys=False, default=str)
    if len(text) > JSON_CHARS_MAX:
        text = f"{text[:JSON_CHARS_MAX]}\n... {len(text) - JSON_CHARS_MAX:,} more characters"
    return inert(text)


TEXT_CHARS_MAX = 40_000
"""Characters of a text shown in a page; what is longer says so."""
HEAD_CHARS = 160


@register.filter
def clip(value: object) -> str:
    """Running text, cut, and saying so, where it is very long."""
    text = str(value)
    rest = len(text) - TEXT_CHARS_MAX
    return prose(text[:TEXT_CHARS_MAX]) + (f"\n... {rest:,} more characters" if rest > 0 else "")


@register.filter
def head(value: object) -> str:
    """The beginning of a text on one line."""
    return " ".join(str(value)[:HEAD_CHARS].split())


def _escape(found: re.Match[str]) -> str:
    return json.dumps(found.group())[1:-1]


@register.filter
def json_inert(value: object) -> str:
    """JSON as it is stored, with what cannot be seen written as JSON writes it: the value stays the same when it is copied."""
    return _hidden_or_joining.sub(_escape, str(value))
