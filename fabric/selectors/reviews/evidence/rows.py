"""Rows of the evidence box, and the cutting of long texts."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from fabric.core.spec.fabric import FabricSpec
from fabric.core.state.run import Run
from fabric.core.values.command_ids import read_step
from fabric.core.values.units import JSON
from fabric.selectors.reviews.review_view import ReviewView
from fabric.selectors.runs.events.leading import LeadingEvent
from fabric.selectors.runs.events.moments import Moment
from fabric.selectors.runs.lookup import RunView

EXCERPT_CHARS = 600
"""Characters of a text that the box shows; the event's page has all of it."""
ANSWER_PARTS = ("output", "text", "calls", "error", "result", "writes")
"""Members of a content that are shown, in this order. A content without any is shown whole."""


@dataclass(frozen=True, slots=True)
class Excerpt:
    """A named text, cut to ``EXCERPT_CHARS``."""

    name: str
    text: str
    cut: bool = False
    """True if the text goes on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EvidenceRow:
    """One line of the box."""

    says: str
    seq: int = 0
    """Event that the line is about; 0: none."""
    at: int = 0
    """Instant of the event, microseconds since the epoch, UTC; 0: none."""
    failed: bool = False
    parts: tuple[Excerpt, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class EvidenceBox:
    """Known events and numbers about the subject of a review."""

    title: str = ""
    rows: tuple[EvidenceRow, ...] = ()
    facts: tuple[tuple[str, str], ...] = ()
    """Further numbers: name and value."""
    finished: tuple[EvidenceRow, ...] = ()
    """Results of the stage's finished parts."""
    finished_more: int = 0
    """Number of further finished parts."""
    unread: bool = False
    """True if the reader may not read the contents of the run's events."""

    @property
    def empty(self) -> bool:
        """Return True if there is nothing to show."""
        return not (self.rows or self.facts or self.finished)


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A review with the facts that its evidence is built from."""

    item: ReviewView
    run: RunView
    spec: FabricSpec
    moment: Moment | None
    """The run by now; None: it does not fold."""
    seq: int
    """Number of the event that opened the review; where it is unknown, the number after the run's last event."""
    details: Mapping[str, Any]
    """Details of the trip; empty: unknown."""

    @property
    def place(self) -> str:
        """Return the step that the review is about, or its stage. A review of a call names the call."""
        return read_step(self.item.step_id) or self.item.step_id or self.item.stage

    @property
    def reads(self) -> bool:
        """Return True if the reader may read the contents of the run's events."""
        return self.run.reads

    @property
    def state(self) -> Run | None:
        """Return the run's folded state."""
        return self.moment.run if self.moment is not None else None


def cut_text(name: str, value: JSON) -> Excerpt:
    """Return a value as text, cut. Objects are written as JSON."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=1)
    return Excerpt(name, text[:EXCERPT_CHARS], len(text) > EXCERPT_CHARS)


def excerpts(content: JSON) -> Iterator[Excerpt]:
    """Yield the parts of an event's content that people read."""
    if isinstance(content, dict):
        named = [name for name in ANSWER_PARTS if content.get(name) not in (None, "", [], {})]
        if named:
            yield from (cut_text(name, content[name]) for name in named)
            return
    if content not in (None, "", [], {}):
        yield cut_text("content", content)


def event_row(event: LeadingEvent, content: JSON = None, *, failed: bool = False) -> EvidenceRow:
    """Return an event as a row with its content."""
    return EvidenceRow(says=event.says, seq=event.seq, at=event.at, failed=failed, parts=tuple(excerpts(content)))
