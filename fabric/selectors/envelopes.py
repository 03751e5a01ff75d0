"""A run's events in S3's envelope, as programs read them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from fabric.core.actor import Actor
from fabric.core.envelope import Event, envelope, from_row
from fabric.models import Event as EventRow
from fabric.selectors.contents import content_for, header_for, with_sentences_shown
from fabric.selectors.runs import RunView, run_get

JSON = Any
LIMIT_MAX = 1_000
CONTENT_BYTES_MAX = 4_000_000
"""A page of events ends once their contents are this large, so that it can be held in memory; the first event is always in it."""
CHUNK = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvelopePage:
    """Some events of a run in order, without a gap."""

    run: RunView
    """As it was just after the events were read: its ``last_seq`` may be further on."""
    events: tuple[dict[str, JSON], ...]
    """``core.envelope.envelope``, and ``content``: what the event carries, None when it carries nothing, or that was erased or damaged. Who may not read
    it has in its place that it is there."""
    last: int
    """Seq of the last of them, or ``after`` where there is none."""

    @property
    def more(self) -> bool:
        """Whether the journal reaches further."""
        return self.last < self.run.last_seq


def run_envelopes(
    actor: Actor, run_id: str, *, after: int = 0, limit: int = 200, contents: bool = True
) -> EnvelopePage:
    """The run's events with ``seq > after``; at most 1,000, fewer where their contents are large. Refused not_found."""
    view = run_get(actor, run_id)
    trace_id, reads = view.trace_id, view.reads
    rows = EventRow.objects.filter(run_id=run_id, workspace_id=actor.workspace_id, seq__gt=after).order_by("seq")
    columns = ("seq", "kind", "version", "at", "header", *(("payload",) if contents else ()))
    page = rows.values_list(*columns)[: max(1, min(limit, LIMIT_MAX))]
    found: list[dict[str, JSON]] = []
    last, size = after, 0
    for seq, kind, version, at, header, *payload in page.iterator(chunk_size=CHUNK):
        raw = bytes(payload[0]) if payload and payload[0] is not None else None
        size += len(raw or b"")
        if found and size > CONTENT_BYTES_MAX:
            break
        try:
            event = from_row(seq, kind, version, header_for(header, reads=reads))
            envelope = told_of(run_id, trace_id, event, raw, reads=reads)
        except ValueError:
            envelope = _unread(run_id, trace_id, (seq, kind, version, at), content_for(raw, reads=reads))
        found.append(envelope)
        last = seq
    # Read after the events, so that the head is never behind them.
    return EnvelopePage(run=run_get(actor, run_id), events=tuple(found), last=last)


def told_of(run_id: str, trace_id: str, event: Event, payload: bytes | None, *, reads: bool) -> dict[str, JSON]:
    """An event as programs read it: its envelope, and what it carries. ``reads``: whether they may read that."""
    return {**with_sentences_shown(envelope(run_id, trace_id, event)), "content": content_for(payload, reads=reads)}


def _unread(run_id: str, trace_id: str, row: tuple[int, str, int, int], content: JSON) -> dict[str, JSON]:
    """What a newer version wrote, or nobody can read: what every event has is told, and the rest is left out."""
    seq, kind, version, at = row
    nobody = {"layer": "", "agent_id": ""}
    return {
        "id": f"{run_id}.{seq}",
        "trace_id": trace_id,
        "span_id": "",
        "parent_span_id": "",
        "timestamp": at,
        "source": nobody,
        "destination": nobody,
        "payload": {"seq": seq, "content_ref": "", "kind": kind, "version": version},
        "content": content,
    }
