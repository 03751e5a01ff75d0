"""The audit stream as people read it: filtered in SQL, the newest first, a page at a time; and one record with its place in the chain."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from django.db.models import QuerySet

from fabric.core.actor import Actor
from fabric.core.acts import ACTS, OF_OUTCOME, About, Outcome, Said
from fabric.core.audit import Act
from fabric.core.fingerprint import ZERO_HASH
from fabric.core.questions import SYSTEM
from fabric.core.roles import Right, holders
from fabric.core.text import clean_text
from fabric.models import AuditCut, AuditLine
from fabric.selectors.audit import hash_of
from fabric.selectors.contents import shown
from fabric.selectors.cursors import behind
from fabric.selectors.errors import Refused
from fabric.selectors.time_limit import time_limit

PAGE_MAX = 200
LIMIT_S = 2.0
COUNTED = 100
"""New records are counted so far."""
JSON = Any


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditFilter:
    """What of the stream is asked for; what is empty narrows nothing. Instants are microseconds since the epoch, UTC."""

    actor: str = ""
    act: str = ""
    subject: str = ""
    """What it was done to: an id or a name, whole."""
    about: str = ""
    """A kind of object (``About``)."""
    outcome: str = ""
    address: str = ""
    since: int = 0
    """Then or later..."""
    until: int | None = None
    """...and before this; None: until now."""

    @property
    def empty(self) -> bool:
        """Whether it narrows nothing."""
        return self == AuditFilter()


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditRow:
    """A record. Instants are microseconds since the epoch, UTC."""

    id: str
    at: int
    actor: str
    via: str
    act: str
    subject: str
    came_by: str
    """``session``, ``token``, ``cli``, ``system`` or ``nobody``; empty: the record is from before that was noted."""
    address: str
    request_id: str
    more: Mapping[str, JSON] = field(default_factory=dict)
    """The rest of what it says."""
    seq: int | None
    """Its place in the chain; None: it waits to be sealed."""
    hash: str
    """In hex; empty until it is sealed."""

    @property
    def said(self) -> Said | None:
        """Its row in the table of acts; None: a newer version wrote it."""
        return ACTS.get(Act(self.act)) if self.act in _KNOWN else None

    @property
    def sentence(self) -> str:
        """What was done, after the actor's name."""
        return self.said.sentence if self.said else self.act

    @property
    def outcome(self) -> Outcome:
        """What came of it."""
        return self.said.outcome if self.said else Outcome.DONE

    @property
    def reason(self) -> str:
        """Why, where the record says it."""
        return str(self.more.get("reason") or "")

    @property
    def times(self) -> int:
        """How often it was done in the record's window; 1 for a single act."""
        return int(self.more.get("times") or 1)

    @property
    def changes(self) -> tuple[tuple[str, JSON, JSON], ...]:
        """What stood before and what stands after: ``(field, before, after)``; None on a side where the record says nothing."""
        said = self.said
        if said is None:
            return ()
        before = [(name, self.more[name]) for name in said.before if name in self.more]
        after = [(name, self.more[name]) for name in said.after if name in self.more]
        if len(before) == 1 and after:
            first, *rest = after
            return ((first[0], before[0][1], first[1]), *((name, None, value) for name, value in rest))
        return (*((name, value, None) for name, value in before), *((name, None, value) for name, value in after))

    @property
    def cursor(self) -> str:
        """What ``audit_page`` takes as ``after`` to go on after this one."""
        return f"{self.at}.{self.id}"


_KNOWN = frozenset(act.value for act in Act)


@dataclass(frozen=True, slots=True)
class AuditPage:
    """Some records, the newest first, and where the next page begins."""

    rows: tuple[AuditRow, ...]
    next: str
    """Cursor of the next page; empty: this is the last."""


@dataclass(frozen=True, slots=True)
class AuditRecord:
    """One record, and what of the chain it is."""

    row: AuditRow
    prev: str
    """Hash of the record before it, in hex; empty: not sealed, or the one before is gone."""
    verified: bool | None
    """Whether its hash is that of what it says after the record before; None: it is not sealed yet."""


def audit_wanted(actor: Actor) -> None:
    """Refused forbidden for who may not read the audit stream."""
    if not actor.may(Right.AUDIT):
        message = f"{actor.name} may not read the audit stream: that is for {holders(Right.AUDIT)}"
        raise Refused(message, code="forbidden", field="actor")


def audit_page(actor: Actor, wanted: AuditFilter, *, limit: int = 50, after: str = "") -> AuditPage:
    """A page of the stream of the actor's workspace: one statement. ``after``: the cursor of the page before.

    Raises Refused: forbidden, invalid (a cursor or a filter that is none); TookTooLong.
    """
    audit_wanted(actor)
    limit = max(1, min(limit, PAGE_MAX))
    rows = matching(actor, wanted)
    if after:
        rows = rows.filter(behind(after, "-at", ids="lt"))
    with time_limit(LIMIT_S):
        found = list(rows.order_by("-at", "-id")[: limit + 1])
    page = tuple(row_of(line) for line in found[:limit])
    return AuditPage(page, page[-1].cursor if len(found) > limit else "")


def audit_news_count(actor: Actor, wanted: AuditFilter, *, since: str) -> int:
    """How many records the list lacks that has the one with this cursor at its top, up to ``COUNTED``. Raises as ``audit_page``."""
    audit_wanted(actor)
    rows = matching(actor, wanted)
    if since:
        rows = rows.filter(behind(since, "at", field="since"))
    with time_limit(LIMIT_S):
        return len(rows.values_list("id", flat=True)[:COUNTED])


def audit_record_get(actor: Actor, record_id: str) -> AuditRecord:
    """One record of the actor's workspace. Raises Refused: forbidden, not_found."""
    audit_wanted(actor)
    line = AuditLine.objects.filter(workspace_id=actor.workspace_id, id=clean_text(record_id)[0][:64]).first()
    if line is None:
        message = f"there is no audit record {record_id[:64]!r} here; it may have been removed, as its rule says"
        raise Refused(message, code="not_found", field="record")
    if line.seq is None:
        return AuditRecord(row_of(line), "", None)
    prev = prev_hash(line.workspace_id, line.seq)
    verified = prev is not None and hash_of(line, line.seq, prev) == bytes(line.hash or b"")
    return AuditRecord(row_of(line), prev.hex() if prev else "", verified)


def prev_hash(workspace_id: str, seq: int) -> bytes | None:
    """The hash that the record at ``seq`` goes on from: of the one before, or of the marker in its place. None: neither is there."""
    if seq == 1:
        return ZERO_HASH
    before = AuditLine.objects.filter(workspace_id=workspace_id, seq=seq - 1).values_list("hash", flat=True).first()
    if before is not None:
        return bytes(before)
    cut = AuditCut.objects.filter(workspace_id=workspace_id, last=seq - 1).values_list("body", flat=True).first()
    return None if cut is None else bytes.fromhex(str(json.loads(bytes(cut))["head"]))


def row_of(line: AuditLine) -> AuditRow:
    """A line as people read it."""
    try:
        body = json.loads(bytes(line.body))
    except ValueError:
        body = {}
    body = shown(body) if isinstance(body, dict) else {}
    origin = body.pop("origin", {})
    by = str(origin.get("by", "")) or ("token" if line.via else "system" if line.actor == SYSTEM else "")
    return AuditRow(
        id=line.id,
        at=line.at,
        actor=line.actor,
        via=line.via,
        act=line.kind,
        subject=line.subject,
        came_by=by,
        address=str(origin.get("address", "")),
        request_id=str(origin.get("request", "")),
        more=body,
        seq=line.seq,
        hash=bytes(line.hash).hex() if line.hash is not None else "",
    )


def kinds_of(*, outcome: str = "", about: str = "") -> frozenset[str]:
    """The acts that have this outcome and are about this kind of object; empty narrows nothing."""
    return frozenset(
        act.value
        for act, said in ACTS.items()
        if (not outcome or said.outcome == outcome) and (not about or said.about == about)
    )


def matching(actor: Actor, wanted: AuditFilter) -> QuerySet[AuditLine]:
    """The records that a filter asks for, in no order. Refused invalid for a word that is none."""
    offered = {"act": _KNOWN, "outcome": frozenset(OF_OUTCOME), "about": frozenset(About)}
    for name, words in offered.items():
        if (given := getattr(wanted, name)) and given not in words:
            message = f"{given[:40]!r} is no {name} of the audit stream; there are: {', '.join(sorted(map(str, words)))[:900]}"
            raise Refused(message, code="invalid", field=name)
    rows = AuditLine.objects.filter(workspace_id=actor.workspace_id)
    exact = {"actor": wanted.actor, "kind": wanted.act, "subject": wanted.subject, "address": wanted.address}
    rows = rows.filter(**{name: clean_text(given)[0] for name, given in exact.items() if given})
    if wanted.outcome or wanted.about:
        rows = rows.filter(kind__in=kinds_of(outcome=wanted.outcome, about=wanted.about))
    if wanted.since:
        rows = rows.filter(at__gte=wanted.since)
    return rows if wanted.until is None else rows.filter(at__lt=wanted.until)
