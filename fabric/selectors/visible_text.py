"""Makes text of a model, a tool or a caller safe to look at. Hidden characters, and those that act on a terminal, are
shown by number.

The result is ordinary text: templates escape it like all text. (docs/security.md)
"""

from __future__ import annotations

import json
import re

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


def _number(found: re.Match[str]) -> str:
    return f"⟨U+{ord(found.group()):04X}⟩"


def visible_prose(value: object) -> str:
    """Return running text with controls, direction overrides and hidden characters shown by number."""
    return _hidden.sub(_number, _any_break.sub("\n", str(value)))


def visible(value: object) -> str:
    """Return a name, summary or subject of an approval with all invisible characters shown by number."""
    return _hidden_or_joining.sub(_number, _any_break.sub("\n", str(value)))


def visible_line(value: object) -> str:
    """Return the visible text on one line."""
    return " ".join(visible(value).split())


def visible_json(text: object) -> str:
    """Return JSON text with hidden characters as JSON escapes: a copied value stays equal."""
    return _hidden_or_joining.sub(_escape, str(text))


def _escape(found: re.Match[str]) -> str:
    return json.dumps(found.group())[1:-1]
