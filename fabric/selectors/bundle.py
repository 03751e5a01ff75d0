"""A run as files that anybody can verify without this program (``bundle_verify``): its events, revision, decisions, chain and checkpoint."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

from django.db.models import Q

from fabric.core.actor import Actor
from fabric.core.audit import Act
from fabric.core.events import Fact
from fabric.core.fingerprint import canonical, encode
from fabric.core.roles import Right
from fabric.core.text import clean_text
from fabric.models import AuditLine, Checkpoint, Event, Revision, Run
from fabric.selectors import bundle_verify
from fabric.selectors.audit_export import said
from fabric.selectors.audit_list import row_of
from fabric.selectors.errors import Refused
from fabric.selectors.event_export import EventLines
from fabric.selectors.fabrics import revision_spec
from fabric.selectors.reach import seen_by

DECISIONS = tuple(fact.kind for fact in get_args(Fact) if fact.kind.startswith(bundle_verify.DECISION))
"""Kinds of events that stand in ``decisions.ndjson`` too."""
MOVED_LATER_US = 600 * 1_000_000
"""So much later than its end a call of a run may still move a breaker, at most; clocks of workers lie apart."""
_RUN = (
    *("id", "workspace_id", "trace_id", "seed", "tier", "title", "state", "created_at", "created_by", "ended_at"),
    *("last_seq", "head_hash", "revision_id", "fabric__name", "revision__number", "revision__digest"),
)


class Bundle:
    """One run's files, each as pieces of bytes. Refused not_found."""

    def __init__(self, actor: Actor, run_id: str, checkpoint: Checkpoint) -> None:
        found = Run.objects.filter(seen_by(actor, Run), id=clean_text(run_id)[0]).values(*_RUN).first()
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
        """The spec in the bytes whose hash the run's first event has; False: a later program reads it otherwise, so it is given as it is stored."""
        spec = revision_spec(self._row["revision_id"])
        if spec.digest() == self._row["revision__digest"]:
            return encode(canonical(spec.model_dump(mode="json"))), True
        return Revision.objects.get(id=self._row["revision_id"]).spec.encode(), False

    def _decisions(self) -> Iterator[bytes]:
        rows = Event.objects.filter(run_id=self._row["id"], seq__lte=self._events.last, kind__in=DECISIONS)
        for seq, kind, at, header in rows.order_by("seq").values_list("seq", "kind", "at", "header"):
            try:
                fact = json.loads(bytes(header))["d"]
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
            row = row_of(line)
            if line.subject == run_id or row.more.get("run") == run_id:
                yield _json(said(row))

    def _chain(self, *, as_hashed: bool) -> dict[str, Any]:
        row = self._row
        last = Event.objects.filter(run_id=row["id"], seq=self._events.last).values_list("hash", flat=True).first()
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
