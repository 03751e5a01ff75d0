"""What an event carries, as it is read for pages and programs: credentials are masked, and who lacks the right to contents reads none.

The one place that judges both. A view of a run or a question says whether its reader has the right (``reads``), and whatever shows a content, a title
or a sentence asks here with it.
"""

from __future__ import annotations

import json
import re
from hashlib import sha256
from typing import Any

from fabric.core.actor import Actor, may
from fabric.core.envelope import Event, fact_json, from_row, to_row
from fabric.core.fingerprint import ZERO_HASH, encode
from fabric.core.roles import Right, Role
from fabric.guardrails.compiled import SHOWN_CHARS, looking, without
from fabric.models.runs import ERASED_TITLE

JSON = Any
SENTENCES = frozenset(
    {
        *("message", "reason", "problem", "problems", "errors", "usage_problem", "why"),
        *("ends", "close_reason", "signature"),
    }
)
"""Fields of facts that hold sentences, one or several. A signature repeats a sentence."""
CHOSEN = frozenset({"why"})
"""Those of them that hold a word of the program's own and quote nothing."""
WITHHELD = "credentials"
"""The shipped rule whose finds no page and no program is shown."""
UNREAD = f"Withheld: none of your roles reads contents here. An owner can give you the role {Role.READER}."
"""Stands in place of a content for a reader without the right."""
UNREAD_LINE = "(withheld)"
"""Stands in place of a title or a sentence."""


def may_read(actor: Actor, fabric: str) -> bool:
    """Returns True where the actor may read the contents of a fabric's runs and memories."""
    return may(actor, Right.CONTENTS, fabric)


def line_for(line: str, *, reads: bool) -> str:
    """A sentence that may quote a content, as it is shown to a reader. ``reads``: whether the reader has the right to contents."""
    return str(shown(line)) if reads else line and UNREAD_LINE


def title_for(title: str, *, reads: bool) -> str:
    """A run's title, the first line of its request, as it is shown to a reader."""
    return title if reads or title in ("", ERASED_TITLE) else UNREAD_LINE


def content_for(payload: bytes | memoryview | None, *, reads: bool) -> JSON:
    """A payload as a program reads it: ``content_of`` with the right; without it, that one is there and its size."""
    if reads or payload is None:
        return content_of(payload)
    return unread(len(payload))


def unread(size: int) -> dict[str, JSON]:
    """Returns the stand-in for a content of so many bytes, as programs read it."""
    return {"withheld": UNREAD, "bytes": size}


def header_for(header: bytes | memoryview, *, reads: bool) -> bytes:
    """A journal's header as a reader's program takes it: without the right, its sentences are taken out, before anything is made of it.

    Raises ValueError where it cannot be read.
    """
    raw = bytes(header)
    if reads:
        return raw
    try:
        return encode(_without_sentences(json.loads(raw)))
    except RecursionError:
        raise ValueError("the header is nested too deeply") from None


def event_without_sentences(event: Event) -> Event:
    """Returns the event without the sentences that may quote a content."""
    row = to_row(event, None, ZERO_HASH)
    return from_row(row.seq, row.kind, row.version, header_for(row.header, reads=False))


def _without_sentences(given: JSON) -> JSON:
    if isinstance(given, dict):
        return {
            key: _taken(key, item) if key in SENTENCES - CHOSEN else _without_sentences(item)
            for key, item in given.items()
        }
    return [_without_sentences(one) for one in given] if isinstance(given, list) else given


def _taken(key: str, given: JSON) -> JSON:
    if isinstance(given, list):
        return [_taken(key, one) for one in given]
    if not isinstance(given, str) or not given:
        return given
    # What counts signatures still tells one from another.
    return f"{UNREAD_LINE} {sha256(given.encode()).hexdigest()[:8]}" if key == "signature" else UNREAD_LINE


def shown(content: JSON) -> JSON:
    """A content as pages and programs show it: credentials are replaced by their kind and first characters."""
    return without(content, looking(WITHHELD))


def fact_shown(event: Event) -> dict[str, JSON]:
    """An event's fact as pages and programs show it: credentials in its sentences are masked, and no id or digest is touched."""
    masked: dict[str, JSON] = with_sentences_shown(fact_json(event))
    return masked


def with_sentences_shown(given: JSON) -> JSON:
    """The same value with the sentences in it as pages show them. A sentence may name a call with its arguments."""
    if isinstance(given, dict):
        return {key: shown(item) if key in SENTENCES else with_sentences_shown(item) for key, item in given.items()}
    return [with_sentences_shown(one) for one in given] if isinstance(given, list) else given


def holds_mark(given: JSON) -> bool:
    """Whether a content holds what stands in place of a withheld credential: it was copied from a page, and is no credential."""
    if isinstance(given, str):
        return _MARK.search(given) is not None
    if isinstance(given, dict):
        return any(holds_mark(one) for pair in given.items() for one in pair)
    return isinstance(given, list) and any(holds_mark(one) for one in given)


_MARK = re.compile(rf"\[{WITHHELD}\.\w+: .{{0,{SHOWN_CHARS}}}…, \d+ characters\]")


def content_of(payload: bytes | memoryview | None) -> JSON:
    """A payload as it may be shown. None: there is none, or it was damaged where it is stored (``verify`` names it), which takes no page away."""
    return shown(given_content(payload))


def given_content(payload: bytes | memoryview | None) -> JSON:
    """A payload byte for byte as JSON, for what goes on working with it. None: as for ``content_of``."""
    try:
        return None if payload is None else json.loads(bytes(payload))
    except (ValueError, RecursionError):
        return None
