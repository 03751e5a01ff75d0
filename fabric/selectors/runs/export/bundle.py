"""Exports a run as files that verify without this program: events in S3's envelope, revision, decisions, chain.

``journal`` has the rows as they are stored, hashes and all, as lines of JSON, a page of rows in memory at a time. A row
may have several events: each after the first is a line of its header.
``header`` and ``payload`` are texts, so that their bytes, and with them the chain
(``core.events.envelope.verify_chain``), follow from the file alone. ``readable`` has S3's envelope with the content and
the sentence, as programs read events.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, get_args

from django.db.models import Q

from fabric.core.audit.lines import Act
from fabric.core.events import Fact
from fabric.core.events.envelope import Event as JournalEvent
from fabric.core.events.envelope import envelope, from_row
from fabric.core.people.actor import Actor
from fabric.core.people.roles import Right
from fabric.core.texts.text import clean_text
from fabric.core.values.fingerprint import canonical, encode
from fabric.core.values.tracing import Trace
from fabric.core.values.units import JSON
from fabric.models import AuditLine, Checkpoint, Event, Revision, Run
from fabric.models import Event as EventRow
from fabric.selectors.audit.files import record_json
from fabric.selectors.audit.lookup import build_row
from fabric.selectors.contents import UNREAD, content_for, fact_shown, header_for, may_read, show_sentences
from fabric.selectors.errors import Refused
from fabric.selectors.fabrics.lookup import revision_spec
from fabric.selectors.reach import match_visible
from fabric.selectors.runs.display import choose_label, write_sentence
from fabric.selectors.runs.export import bundle_verify
from fabric.selectors.runs.lookup import RunView, run_get
from fabric.selectors.runs.trace import TRACE_COLUMNS, build_trace
from fabric.selectors.stored_events import ROW, StoredEvent, read_events, split_stored

DECISIONS = tuple(fact.kind for fact in get_args(Fact) if fact.kind.startswith(bundle_verify.DECISION))
"""Kinds of events that stand in ``decisions.ndjson`` too."""
MOVED_LATER_US = 600 * 1_000_000
"""So much later than its end a call of a run may still move a breaker, at most. Clocks of workers lie apart."""
_RUN = (
    *("id", "workspace_id", "trace_id", "seed", "tier", "title", "state", "created_at", "created_by", "ended_at"),
    *("last_seq", "head_hash", "revision_id", "fabric__name", "revision__number", "revision__digest"),
)


class Bundle:
    """One run's files, each as pieces of bytes. Refused not_found."""

    def __init__(self, actor: Actor, run_id: str, checkpoint: Checkpoint) -> None:
        found = Run.objects.filter(match_visible(actor, Run), id=clean_text(run_id)[0]).values(*_RUN).first()
        if found is None:
            raise Refused(
                f"there is no run {run_id[:80]!r} in this workspace; look at the list of runs", code="not_found"
            )
        self._actor, self._row = actor, dict(found)
        self._events = EventLines(actor, run_id, "journal")
        self._checkpoint = checkpoint

    @property
    def last_seq(self) -> int:
        """The last event that is in it."""
        return self._events.last

    def files(self) -> Iterator[tuple[str, Iterator[bytes]]]:
        """Their names, and what is in them."""
        spec, as_hashed = self._revision()
        yield "events.ndjson", iter(self._events.next_page, b"")
        yield "revision.json", iter([spec])
        yield "decisions.ndjson", self._decisions()
        if self._actor.may(Right.AUDIT):
            yield "audit.ndjson", self._audit()
        yield "chain.json", iter([_json(self._chain(as_hashed=as_hashed))])
        said = {"body": bytes(self._checkpoint.body).decode(), "signature": bytes(self._checkpoint.signature).hex()}
        yield "checkpoint.json", iter([_json(said)])
        yield "verify.py", iter([Path(bundle_verify.__file__).read_bytes()])

    def _revision(self) -> tuple[bytes, bool]:
        """Return the spec in the bytes whose hash the run's first event has. False: it is given as it is stored."""
        spec = revision_spec(self._row["revision_id"])
        if spec.digest() == self._row["revision__digest"]:
            return encode(canonical(spec.model_dump(mode="json"))), True
        return Revision.objects.get(id=self._row["revision_id"]).spec.encode(), False

    def _decisions(self) -> Iterator[bytes]:
        rows = Event.objects.filter(run_id=self._row["id"], seq__lte=self._events.last, kind__in=DECISIONS)
        for seq, kind, at, header in rows.order_by("seq").values_list("seq", "kind", "at", "header"):
            try:
                fact = json.loads(bytes(header).partition(b"\n")[0])["d"]
            except ValueError:
                continue  # Its line among the events shows the damage.
            yield _json({"seq": seq, "kind": kind, "at": at, "fact": fact})

    def _audit(self) -> Iterator[bytes]:
        """The audit records about the run, and those of breakers that it moved, with their hashes; the oldest first."""
        run_id, until = self._row["id"], self._row["ended_at"]
        moved = Q(kind=Act.BREAKER_MOVED.value, at__gte=self._row["created_at"])
        if until is not None:
            moved &= Q(at__lte=until + MOVED_LATER_US)
        lines = AuditLine.objects.filter(Q(subject=run_id) | moved, workspace_id=self._row["workspace_id"])
        for line in lines.order_by("at", "id").iterator(chunk_size=200):
            row = build_row(line)
            if line.subject == run_id or row.more.get("run") == run_id:
                yield _json(record_json(row))

    def _chain(self, *, as_hashed: bool) -> dict[str, Any]:
        row = self._row
        rows = Event.objects.filter(run_id=row["id"], seq__lte=self._events.last).order_by("-seq")
        last = rows.values_list("hash", flat=True).first()
        return {
            "format": bundle_verify.FORMAT,
            "run_id": row["id"],
            **{name: row[name] for name in _RUN if name not in ("id", "head_hash", "last_seq", "revision_id")},
            "revision_as_hashed": as_hashed,
            "last_seq": self._events.last,
            "head": bytes(last or bundle_verify.ZERO).hex(),
        }


def _json(value: Any) -> bytes:
    return (json.dumps(value, ensure_ascii=False) + "\n").encode()


BYTES = "journal"
"""The form in which nothing is masked."""
PAGE = 200
PAGE_BYTES = 4_000_000
"""Payloads held at once, at most, give or take one."""


class EventLines:
    """The lines of one run, from its first event to the last it had when asked. Refused not_found."""

    def __init__(self, actor: Actor, run_id: str, form: str) -> None:
        row = Run.objects.filter(match_visible(actor, Run), id=clean_text(run_id)[0])
        found = row.values(*TRACE_COLUMNS, "last_seq", "fabric__name").first()
        if found is None:
            raise Refused(
                f"there is no run {run_id[:80]!r} in this workspace; look at the list of runs",
                code="not_found",
                field="run",
            )
        if form not in FORMS:
            raise Refused(
                f"events are not given as {form[:40]!r}; there are: {', '.join(FORMS)}", code="invalid", field="form"
            )
        self._trace = build_trace(run_id, found)
        self.last = int(found["last_seq"])
        self._list_lines, self._reads = FORMS[form], may_read(actor, found["fabric__name"])
        self._after = 0

    def next_page(self) -> bytes:
        """The next lines; empty after the last."""
        rows = Event.objects.filter(run_id=self._trace.run_id, seq__gt=self._after, seq__lte=self.last).order_by("seq")
        lines: list[bytes] = []
        size = 0
        for row in rows.values(*ROW, "payload")[:PAGE].iterator(chunk_size=20):
            self._after = row["seq"]
            for given in self._list_lines(self._trace, row, self._reads):
                lines.append(_json(given))
                size += len(lines[-1])
            if size >= PAGE_BYTES:
                break
        return b"".join(lines)


def _journal(trace: Trace, row: Mapping[str, Any], reads: bool) -> Iterator[dict[str, JSON]]:
    payload = row["payload"]
    yield {
        "run_id": trace.run_id,
        "seq": row["seq"],
        "kind": row["kind"],
        "version": row["version"],
        "more": row["more"],
        "at": row["at"],
        # Bytes that are no text are damage: the line is not lost for it, and does not have the hash of its row.
        "header": bytes(row["header"]).decode(errors="backslashreplace"),
        "payload": None if payload is None else bytes(payload).decode(errors="backslashreplace"),
        "payload_hash": bytes(row["payload_hash"]).hex(),
        "hash": bytes(row["hash"]).hex(),
    }


def _readable(trace: Trace, row: Mapping[str, Any], reads: bool) -> Iterator[dict[str, JSON]]:
    for stored in split_stored(tuple(row[name] for name in (*ROW, "payload"))):
        yield _readable_event(trace, stored, reads)


def _readable_event(trace: Trace, stored: StoredEvent, reads: bool) -> dict[str, JSON]:
    try:
        event = from_row(stored.seq, stored.kind, stored.version, header_for(stored.header, reads=reads))
    except ValueError as error:
        line = next(_journal(trace, {**stored._asdict(), "more": 0}, reads))
        return (
            {**line, "problem": str(error)} if reads else {**line, "header": UNREAD, "payload": None, "problem": UNREAD}
        )
    shown = build_envelope(trace, event, stored.payload, reads=reads)
    said = write_sentence(stored.kind, fact_shown(event))
    return {**shown, "summary": said, "content_erased": stored.payload is None and bool(stored.payload_hash)}


FORMS: Mapping[str, Callable[[Trace, Mapping[str, Any], bool], Iterator[dict[str, JSON]]]] = {
    "journal": _journal,
    "readable": _readable,
}
"""The lines of a row in each form."""


LIMIT_MAX = 1_000
CONTENT_BYTES_MAX = 4_000_000
"""A page of events ends once their contents are this large, so that it can be held in memory. The first event is always
in it.
"""
CHUNK = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvelopePage:
    """Some events of a run in order, without a gap."""

    run: RunView
    """As it was just after the events were read: its ``last_seq`` may be further on."""
    events: tuple[dict[str, JSON], ...]
    """``core.envelope.envelope``, and ``content``: what the event carries, None when it carries nothing, or that was
    erased or damaged. Who may not read it has in its place that it is there.
    """
    last: int
    """Seq of the last of them, or ``after`` where there is none."""

    @property
    def more(self) -> bool:
        """True: the journal reaches further."""
        return self.last < self.run.last_seq


def run_envelopes(
    actor: Actor, run_id: str, *, after: int = 0, limit: int = 200, contents: bool = True
) -> EnvelopePage:
    """The run's events with ``seq > after``; at most 1,000, fewer where their contents are large. Refused not_found."""
    view = run_get(actor, run_id)
    trace, reads = view.trace, view.reads
    rows = EventRow.objects.filter(run_id=run_id, workspace_id=actor.workspace_id)
    page = read_events(rows, after=after, contents=contents, page=CHUNK)
    found: list[dict[str, JSON]] = []
    last, size = after, 0
    for seq, kind, version, at, header, _, _, raw in islice(page, max(1, min(limit, LIMIT_MAX))):
        size += len(raw or b"")
        if found and size > CONTENT_BYTES_MAX:
            break
        try:
            event = from_row(seq, kind, version, header_for(header, reads=reads))
            envelope = build_envelope(trace, event, raw, reads=reads)
            summary = write_sentence(kind, fact_shown(event))
        except ValueError:
            envelope = _unread(trace, (seq, kind, version, at), content_for(raw, reads=reads))
            summary = choose_label(kind)
        found.append({"seq": seq, "kind": kind, "summary": summary, **envelope})
        last = seq
    # Read after the events, so that the head is never behind them.
    return EnvelopePage(run=run_get(actor, run_id), events=tuple(found), last=last)


def build_envelope(trace: Trace, event: JournalEvent, payload: bytes | None, *, reads: bool) -> dict[str, JSON]:
    """An event as programs read it: its envelope, and what it carries. ``reads``: whether they may read that."""
    return {**show_sentences(envelope(trace, event)), "content": content_for(payload, reads=reads)}


def _unread(trace: Trace, row: tuple[int, str, int, int], content: JSON) -> dict[str, JSON]:
    """Return the common parts of an event that this version cannot read; the rest is left out."""
    seq, kind, version, at = row
    unnamed = {"layer": "", "agent_id": ""}
    return {
        "id": f"{trace.run_id}.{seq}",
        "trace_id": trace.trace_id,
        "span_id": "",
        "parent_span_id": "",
        "timestamp": at,
        "source": unnamed,
        "destination": unnamed,
        "payload": {"seq": seq, "content_ref": "", "kind": kind, "version": version, "unread": True},
        "content": content,
    }
