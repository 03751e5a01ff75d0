"""Compares a question with its content under an earlier digest, for a person who decides about that earlier content."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from fabric.core import events as ev
from fabric.core.envelope import UnknownEvent, from_row
from fabric.models import Escalation, Event
from fabric.selectors.contents import content_of
from fabric.selectors.escalations import EscalationView
from fabric.selectors.visible import visible_line

JSON = Any
KINDS = ("escalation_opened", "escalation_edited")
DIGEST_CHARS_MIN = 8
"""The fewest characters by which a digest is named."""
VALUE_CHARS = 120
"""Characters of a value in the sentence."""
COMPARED = ("tool", "payload", "edit_initial", "edited_by")


def names(given: str, digest: str) -> bool:
    """Returns True where the given text names the digest: it is the digest, or at least its first 8 characters."""
    return given == digest or (len(given) >= DIGEST_CHARS_MIN and digest.startswith(given.lower()))


def not_its_digest(item: EscalationView, given: str) -> str:
    """Returns why a digest does not name what the item asks now, one sentence without its end. ``given``: the digest that a person named, or its beginning."""
    for digest, content in _shown(item):
        if names(given, digest):
            differs = "; ".join(_differences(content, item.content)) if item.reads else ""
            said = differs or "nothing that can be shown differs"
            return f"item {item.id} asks about something else by now (since that was shown: {said})"
    other = Escalation.objects.filter(workspace_id=item.workspace_id, digest__startswith=given.lower())
    if len(given) >= DIGEST_CHARS_MIN and (found := other.values_list("id", flat=True).first()):
        return f"that is the digest of item {found}, not of item {item.id}"
    return f"nothing was shown under that digest for item {item.id}"


def _shown(item: EscalationView) -> Iterator[tuple[str, Mapping[str, JSON]]]:
    """Each digest that the question had, with the content shown under it."""
    rows = Event.objects.filter(run_id=item.run_id, kind__in=KINDS, at__gte=item.opened_at).order_by("seq")
    for seq, kind, version, header, payload in rows.values_list("seq", "kind", "version", "header", "payload"):
        try:
            fact = from_row(seq, kind, version, bytes(header)).fact
        except (UnknownEvent, ValueError):
            continue
        if isinstance(fact, ev.EscalationOpened | ev.EscalationEdited) and fact.escalation_id == item.id:
            yield fact.digest, content_of(payload) or {}


def _differences(before: Mapping[str, JSON], now: Mapping[str, JSON]) -> Iterator[str]:
    if not before:
        yield "what was shown then was erased"
        return
    for name in COMPARED:
        if name == ("payload" if now.get("edit_of") == "brief" else "edit_initial"):
            continue  # A person's text stands in one of the two, and for a call in both.
        was, stands = before.get(name), now.get(name)
        if isinstance(was, dict) and isinstance(stands, dict):
            yield from _fields(was, stands)
        elif was != stands:
            yield f"{'proposed by' if name == 'edited_by' else name} was {_value(was)}, is {_value(stands)}"


def _fields(was: Mapping[str, JSON], stands: Mapping[str, JSON]) -> Iterator[str]:
    for name in dict.fromkeys((*was, *stands)):
        if was.get(name) != stands.get(name):
            yield f"{visible_line(name)} was {_value(was.get(name))}, is {_value(stands.get(name))}"


def _value(value: JSON) -> str:
    if value is None:
        return "not there"
    text = visible_line(json.dumps(value, ensure_ascii=False))
    return text if len(text) <= VALUE_CHARS else f"{text[:VALUE_CHARS]}..."
