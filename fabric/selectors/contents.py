"""Contents of events for pages and programs: credentials are masked, and a reader without the right to contents gets
none.

This is the one place that judges both. A view of a run or a review states whether its reader has the right
(``reads``), and each display of a content, a title or a sentence calls this module with it.
"""

from __future__ import annotations

import json
import re
from hashlib import sha256

from fabric.core.events.envelope import Event, fact_json, from_row, to_row
from fabric.core.people.actor import Actor, may
from fabric.core.people.roles import Right, Role
from fabric.core.values.fingerprint import ZERO_HASH, encode
from fabric.core.values.units import JSON
from fabric.models.runs.run import ERASED_TITLE
from fabric.policies.guardrails.compiled import SHOWN_CHARS, compile_patterns, redact_value

SENTENCES = frozenset(
    {
        *("message", "reason", "problem", "problems", "errors", "usage_problem", "why"),
        *("ends", "close_reason", "signature"),
    }
)
"""Fields of facts with sentences, one or several. A signature repeats a sentence."""
CHOSEN = frozenset({"why"})
"""Those of them that have a word of the program's own and quote nothing."""
WITHHELD = "credentials"
"""Shipped rule whose hits no page and no program shows."""
UNREAD = f"Withheld: none of your roles reads contents here. An owner can give you the role {Role.READER}."
"""Text in place of a content for a reader without the right."""
UNREAD_LINE = "(withheld)"
"""Text in place of a title or a sentence."""


def may_read(actor: Actor, fabric: str) -> bool:
    """Returns True where the actor may read the contents of a fabric's runs and memories."""
    return may(actor, Right.CONTENTS, fabric)


def line_for(line: str, *, reads: bool) -> str:
    """Return a sentence that may quote a content, as a reader may see it. ``reads``: True for the right to contents."""
    return str(mask_content(line)) if reads else line and UNREAD_LINE


def title_for(title: str, *, reads: bool) -> str:
    """Return a run's title, the first line of its request, as a reader may see it."""
    return title if reads or title in ("", ERASED_TITLE) else UNREAD_LINE


def content_for(payload: bytes | memoryview | None, *, reads: bool) -> JSON:
    """Return a payload as a program reads it: ``read_content`` with the right; without it, its size alone."""
    if reads or payload is None:
        return read_content(payload)
    return unread(len(payload))


def unread(size: int) -> dict[str, JSON]:
    """Return the stand-in for a content of so many bytes, as programs read it."""
    return {"withheld": UNREAD, "bytes": size}


def header_for(header: bytes | memoryview, *, reads: bool) -> bytes:
    """Return a journal's header for a reader's program: without the right, its sentences are removed before parsing.

    Raises ValueError where it cannot be read.
    """
    raw = bytes(header)
    if reads:
        return raw
    try:
        return encode(_drop_sentences(json.loads(raw)))
    except RecursionError:
        raise ValueError("the header is nested too deeply") from None


def event_without_sentences(event: Event) -> Event:
    """Returns the event without the sentences that may quote a content."""
    row = to_row(event, None, ZERO_HASH)
    return from_row(row.seq, row.kind, row.version, header_for(row.header, reads=False))


def _drop_sentences(given: JSON) -> JSON:
    if isinstance(given, dict):
        return {
            key: _mask_item(key, item) if key in SENTENCES - CHOSEN else _drop_sentences(item)
            for key, item in given.items()
        }
    return [_drop_sentences(one) for one in given] if isinstance(given, list) else given


def _mask_item(key: str, given: JSON) -> JSON:
    if isinstance(given, list):
        return [_mask_item(key, one) for one in given]
    if not isinstance(given, str) or not given:
        return given
    # A counter of signatures can still tell one from another.
    return f"{UNREAD_LINE} {sha256(given.encode()).hexdigest()[:8]}" if key == "signature" else UNREAD_LINE


def mask_content(content: JSON) -> JSON:
    """Return a content as pages and programs show it: credentials are replaced by their kind and first characters."""
    return redact_value(content, compile_patterns(WITHHELD))


def fact_shown(event: Event) -> dict[str, JSON]:
    """Return an event's fact as pages and programs show it: credentials in its sentences are masked; ids and digests
    stay.
    """
    masked: dict[str, JSON] = show_sentences(fact_json(event))
    return masked


def show_sentences(given: JSON) -> JSON:
    """Return a value with its sentences as pages show them. A sentence may contain a call with its arguments."""
    if isinstance(given, dict):
        return {key: mask_content(item) if key in SENTENCES else show_sentences(item) for key, item in given.items()}
    return [show_sentences(one) for one in given] if isinstance(given, list) else given


def holds_mark(given: JSON) -> bool:
    """Return True if a content has the mark of a masked credential. It was copied from a page, and is no credential."""
    if isinstance(given, str):
        return _MARK.search(given) is not None
    if isinstance(given, dict):
        return any(holds_mark(one) for pair in given.items() for one in pair)
    return isinstance(given, list) and any(holds_mark(one) for one in given)


_MARK = re.compile(rf"\[{WITHHELD}\.\w+: .{{0,{SHOWN_CHARS}}}…, \d+ characters\]")


def read_content(payload: bytes | memoryview | None) -> JSON:
    """Return a payload with credentials masked. None: there is none, or its storage is damaged (``verify`` reports
    it).
    """
    return mask_content(given_content(payload))


def given_content(payload: bytes | memoryview | None) -> JSON:
    """Return a payload byte for byte as JSON, for code that continues with it. None: as for ``read_content``."""
    try:
        return None if payload is None else json.loads(bytes(payload))
    except (ValueError, RecursionError):
        return None
