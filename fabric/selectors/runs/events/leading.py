"""Reads the events before a decision or a review: the latest of some kinds at one step or stage."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

from fabric.core.events.envelope import from_row
from fabric.core.values.units import JSON
from fabric.models import Event
from fabric.selectors.contents import content_for, fact_shown, header_for
from fabric.selectors.runs.display import choose_label, write_sentence
from fabric.selectors.stored_events import read_events

LEADING = (
    *("attempt_failed", "attempt_interrupted", "retry_scheduled", "node_retry_scheduled"),
    *("model_answered", "tool_answered", "call_refused", "step_failed", "handed_off", "review_decided"),
)
"""Kinds of which the latest say how a failure came about."""
LEADING_MAX = 8
SEARCHED_MAX = 2_000
"""Events before a decision that are searched."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeadingEvent:
    """One event before a decision. ``at``: microseconds since the epoch, UTC."""

    seq: int
    kind: str
    at: int
    fact: Mapping[str, Any]
    """Fact with its sentences as the reader may see them."""

    @property
    def label(self) -> str:
        """Return the kind in two or three words."""
        return choose_label(self.kind, self.fact)

    @property
    def says(self) -> str:
        """Return the event in a sentence, without its full stop."""
        return write_sentence(self.kind, self.fact)


def list_leading(
    run_id: str,
    seq: int,
    place: str,
    *,
    reads: bool,
    kinds: Collection[str] = LEADING,
    most: int = LEADING_MAX,
    keep: Callable[[Mapping[str, Any]], bool] | None = None,
) -> list[LeadingEvent]:
    """Return the latest events of some kinds before ``seq``, in order.

    ``place``: ``fan_out.0.e0.r0`` or ``fan_out``; empty: anywhere in the run. ``keep``: returns True for a fact that
    counts. The caller has checked that the reader may see the run.
    """
    rows, mark = Event.objects.filter(run_id=run_id), f'"{place}'.encode()
    found: list[LeadingEvent] = []
    first = max(0, seq - 1 - SEARCHED_MAX)
    stored = read_events(rows, after=first, upto=seq - 1, kinds=kinds, newest=True, page=most * 4)
    for number, kind, version, at, raw, *_ in stored:
        if mark not in raw:
            continue
        try:
            fact = fact_shown(from_row(number, kind, version, header_for(raw, reads=reads)))
        except ValueError:
            continue
        if keep is not None and not keep(fact):
            continue
        found.append(LeadingEvent(seq=number, kind=kind, at=at, fact=fact))
        if len(found) == most:
            break
    return list(reversed(found))


def read_contents(run_id: str, seqs: Collection[int], *, reads: bool) -> dict[int, JSON]:
    """Return the kept contents of events by seq, masked; a reader without the right gets none. One statement."""
    if not reads or not seqs:
        return {}
    rows = Event.objects.filter(run_id=run_id, seq__in=list(seqs), payload__isnull=False)
    return {seq: content_for(payload, reads=True) for seq, payload in rows.values_list("seq", "payload")}
