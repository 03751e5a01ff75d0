"""Reads the history of a review: its journal, answers that were taken back, and its content under an earlier digest.

A person who decides about earlier content sees it compared with the present one.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from fabric.core import events as ev
from fabric.core.audit.lines import Act
from fabric.core.events.envelope import UnknownEvent, from_row
from fabric.core.people.actor import Actor
from fabric.core.values.units import JSON
from fabric.models import AuditLine, Event, Review
from fabric.selectors.contents import fact_shown, header_for, read_content
from fabric.selectors.reviews.answers import answers_sent
from fabric.selectors.reviews.review_view import ReviewView
from fabric.selectors.runs.display import write_sentence
from fabric.selectors.visible_text import visible_line

KINDS = (
    "review_opened",
    "review_reminded",
    "review_approved",
    "review_edited",
    "review_decided",
    "review_withdrawn",
    "cap_raised",
    "budget_raised",
)
"""Kinds of events that name their review."""
EVENTS_MAX = 200
HANDS: Mapping[Act, str] = {
    Act.REVIEW_CLAIMED: "{actor} claimed it",
    Act.REVIEW_TAKEN_OVER: "{actor} took it over from {other}",
    Act.REVIEW_RELEASED: "{actor} released it",
    Act.REVIEW_REASSIGNED: "{actor} handed it to {other}",
    Act.REVIEW_ASSIGNED_TO_ROLE: "{actor} handed it to the role {other}",
    Act.FOLLOW_UP_CLOSED: "{actor} closed it",
}
"""Sentence for each act of people about a review."""


@dataclass(frozen=True, slots=True)
class ReviewEvent:
    """One line of the history."""

    at: int
    """Microseconds since the epoch, UTC."""
    says: str
    seq: int = 0
    """Number of its event; 0: there is none."""


def review_history(actor: Actor, item: ReviewView) -> list[ReviewEvent]:
    """Return the review's history, the newest first. ``item``: as the actor saw it."""
    assert item.workspace_id == actor.workspace_id, "a review of another workspace"
    rows = Event.objects.filter(run_id=item.run_id, kind__in=KINDS, at__gte=item.opened_at).order_by("seq")
    found = []
    mark = item.id.encode()
    for seq, kind, version, at, header in rows.values_list("seq", "kind", "version", "at", "header")[:EVENTS_MAX]:
        raw = bytes(header)
        if mark in raw:
            try:
                says = write_sentence(kind, fact_shown(from_row(seq, kind, version, header_for(raw, reads=item.reads))))
            except (ValueError, LookupError, TypeError) as error:
                says = str(error)
            found.append(ReviewEvent(at, says, seq))
    found += _hands(item)
    found += [
        ReviewEvent(sent.sent_at, f"{sent.decision.actor} answered ({sent.decision.verb}) and took it back")
        for sent in answers_sent(item)
        if sent.decision is not None and sent.fate == "taken_back"
    ]
    return sorted(found, key=lambda one: one.at, reverse=True)


def _hands(item: ReviewView) -> Iterator[ReviewEvent]:
    """Yield the changes of the review's holder, from the audit stream."""
    kinds = [act.value for act in HANDS]
    lines = AuditLine.objects.filter(workspace_id=item.workspace_id, subject=item.run_id, kind__in=kinds)
    for at, actor, kind, body in lines.order_by("-at").values_list("at", "actor", "kind", "body")[:EVENTS_MAX]:
        line = json.loads(bytes(body))
        if line.get("item") == item.id:
            yield ReviewEvent(at, HANDS[Act(kind)].format(actor=actor, other=line.get("to") or line.get("from") or ""))


EARLIER_CONTENT_KINDS = ("review_opened", "review_edited")
DIGEST_CHARS_MIN = 8
"""Least length of a digest's beginning."""
VALUE_CHARS = 120
"""Characters of a value in the sentence."""
COMPARED = ("tool", "payload", "edit_initial", "edited_by")


def names(given: str, digest: str) -> bool:
    """Return True if the text is the digest, or at least its first 8 characters."""
    return given == digest or (len(given) >= DIGEST_CHARS_MIN and digest.startswith(given.lower()))


def not_its_digest(item: ReviewView, given: str) -> str:
    """Return the reason why a digest is not that of the review's present content, in one sentence without its end.

    ``given``: the digest that a person named, or its beginning.
    """
    for digest, content in _earlier_contents(item):
        if names(given, digest):
            differs = "; ".join(_differences(content, item.content)) if item.reads else ""
            said = differs or "nothing that can be shown differs"
            return f"review {item.id} asks about something else by now (since that was shown: {said})"
    other = Review.objects.filter(workspace_id=item.workspace_id, digest__startswith=given.lower())
    if len(given) >= DIGEST_CHARS_MIN and (found := other.values_list("id", flat=True).first()):
        return f"that is the digest of review {found}, not of review {item.id}"
    return f"nothing was shown under that digest for review {item.id}"


def _earlier_contents(item: ReviewView) -> Iterator[tuple[str, Mapping[str, JSON]]]:
    """Yield each earlier digest of the review, with its content."""
    rows = Event.objects.filter(run_id=item.run_id, kind__in=EARLIER_CONTENT_KINDS, at__gte=item.opened_at).order_by(
        "seq"
    )
    for seq, kind, version, header, payload in rows.values_list("seq", "kind", "version", "header", "payload"):
        try:
            fact = from_row(seq, kind, version, bytes(header)).fact
        except (UnknownEvent, ValueError):
            continue
        if isinstance(fact, ev.ReviewOpened | ev.ReviewEdited) and fact.review_id == item.id:
            yield fact.digest, read_content(payload) or {}


def _differences(before: Mapping[str, JSON], now: Mapping[str, JSON]) -> Iterator[str]:
    if not before:
        yield "the earlier content was erased"
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
