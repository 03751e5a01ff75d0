"""Reads the audit stream for people: filtered in SQL, the newest first, a page at a time.

One record comes with its place in the chain. The end of a workspace's chain, and the hash of each line, are read here
too.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from django.db.models import QuerySet

from fabric.core.audit.acts import ACTS, OF_OUTCOME, ActSentence, Outcome, SubjectKind
from fabric.core.audit.lines import Act, cut_read, line_hash
from fabric.core.people.actor import Actor
from fabric.core.people.eligibility import SYSTEM
from fabric.core.people.roles import Right, holders
from fabric.core.texts.text import clean_text
from fabric.core.values.fingerprint import ZERO_HASH
from fabric.core.values.units import JSON
from fabric.models import AuditCut, AuditLine
from fabric.selectors.contents import mask_content
from fabric.selectors.database_time import time_limit
from fabric.selectors.errors import Refused
from fabric.selectors.list_file import build_cursor_condition

PAGE_MAX = 200
LIMIT_S = 2.0
COUNTED = 100
"""Limit of the count of new records."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditFilter:
    """Filter of the stream; an empty field narrows nothing. Instants are microseconds since the epoch, UTC."""

    actor: str = ""
    act: str = ""
    subject: str = ""
    """Target of the act: a whole id or name."""
    about: str = ""
    """A kind of object (``About``)."""
    outcome: str = ""
    address: str = ""
    since: int = 0
    """Earliest instant, included."""
    until: int | None = None
    """Latest instant, excluded; None: until now."""

    @property
    def empty(self) -> bool:
        """Return True if the filter narrows nothing."""
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
    """``session``, ``token``, ``cli``, ``system`` or an unknown caller; ``""``: the record is older than this field."""
    address: str
    request_id: str
    more: Mapping[str, JSON] = field(default_factory=dict)
    """Further fields of the record."""
    seq: int | None
    """Its place in the chain; None: it is not sealed yet."""
    hash: str
    """In hex; empty until it is sealed."""

    @property
    def act_sentence(self) -> ActSentence | None:
        """Return its row in the table of acts; None: a newer version wrote it."""
        return ACTS.get(Act(self.act)) if self.act in _KNOWN else None

    @property
    def sentence(self) -> str:
        """Return the act as it follows the actor's name."""
        return self.act_sentence.sentence if self.act_sentence else self.act

    @property
    def outcome(self) -> Outcome:
        """Return the outcome of the act."""
        return self.act_sentence.outcome if self.act_sentence else Outcome.DONE

    @property
    def reason(self) -> str:
        """Return the reason, where the record has one."""
        return str(self.more.get("reason") or "")

    @property
    def times(self) -> int:
        """Return the number of times that it was done in the record's window; 1 for a single act."""
        return int(self.more.get("times") or 1)

    @property
    def changes(self) -> tuple[tuple[str, JSON, JSON], ...]:
        """Return the changed fields as ``(field, before, after)``; None on a side that the record lacks."""
        said = self.act_sentence
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
        """Return the cursor that ``audit_page`` takes as ``after`` to continue after this record."""
        return f"{self.at}.{self.id}"


_KNOWN = frozenset(act.value for act in Act)


@dataclass(frozen=True, slots=True)
class AuditPage:
    """Some records, the newest first, with the beginning of the next page."""

    rows: tuple[AuditRow, ...]
    next: str
    """Cursor of the next page; empty: this is the last."""


@dataclass(frozen=True, slots=True)
class AuditRecord:
    """One record, with its part of the chain."""

    row: AuditRow
    prev: str
    """Hash of the record before it, in hex; empty: not sealed, or the one before is gone."""
    verified: bool | None
    """True if its hash fits its content and the record before; None: it is not sealed yet."""


def audit_wanted(actor: Actor) -> None:
    """Raise Refused forbidden for an actor who may not read the audit stream."""
    if not actor.may(Right.AUDIT):
        message = f"{actor.name} may not read the audit stream: that is for {holders(Right.AUDIT)}"
        raise Refused(message, code="forbidden", field="actor")


def audit_page(actor: Actor, wanted: AuditFilter, *, limit: int = 50, after: str = "") -> AuditPage:
    """Return a page of the stream of the actor's workspace: one statement. ``after``: the cursor of the page before.

    Raises Refused: forbidden, invalid (a bad cursor or filter); TookTooLong.
    """
    audit_wanted(actor)
    limit = max(1, min(limit, PAGE_MAX))
    rows = find_records(actor, wanted)
    if after:
        rows = rows.filter(build_cursor_condition(after, "-at", ids="lt"))
    with time_limit(LIMIT_S):
        found = list(rows.order_by("-at", "-id")[: limit + 1])
    page = tuple(build_row(line) for line in found[:limit])
    return AuditPage(page, page[-1].cursor if len(found) > limit else "")


def audit_news_count(actor: Actor, wanted: AuditFilter, *, since: str) -> int:
    """Return the number of newer records than the list's top, which has this cursor, up to ``COUNTED``. Raises as
    ``audit_page``.
    """
    audit_wanted(actor)
    rows = find_records(actor, wanted)
    if since:
        rows = rows.filter(build_cursor_condition(since, "at", field="since"))
    with time_limit(LIMIT_S):
        return len(rows.values_list("id", flat=True)[:COUNTED])


def audit_record_get(actor: Actor, record_id: str) -> AuditRecord:
    """Return one record of the actor's workspace. Raises Refused: forbidden, not_found."""
    audit_wanted(actor)
    line = AuditLine.objects.filter(workspace_id=actor.workspace_id, id=clean_text(record_id)[0][:64]).first()
    if line is None:
        message = f"there is no audit record {record_id[:64]!r} here; it may have been removed, as its rule says"
        raise Refused(message, code="not_found", field="record")
    if line.seq is None:
        return AuditRecord(build_row(line), "", None)
    prev = prev_hash(line.workspace_id, line.seq)
    verified = prev is not None and build_hash(line, line.seq, prev) == bytes(line.hash or b"")
    return AuditRecord(build_row(line), prev.hex() if prev else "", verified)


def prev_hash(workspace_id: str, seq: int) -> bytes | None:
    """Return the hash before the record at ``seq``: of the line before, or of the marker in its place. None: neither
    exists.
    """
    if seq == 1:
        return ZERO_HASH
    before = AuditLine.objects.filter(workspace_id=workspace_id, seq=seq - 1).values_list("hash", flat=True).first()
    if before is not None:
        return bytes(before)
    cut = AuditCut.objects.filter(workspace_id=workspace_id, last=seq - 1).values_list("body", flat=True).first()
    return None if cut is None else bytes.fromhex(str(json.loads(bytes(cut))["head"]))


def build_row(line: AuditLine) -> AuditRow:
    """Return a line as people read it."""
    try:
        body = json.loads(bytes(line.body))
    except ValueError:
        body = {}
    body = mask_content(body) if isinstance(body, dict) else {}
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


def list_kinds(*, outcome: str = "", about: str = "") -> frozenset[str]:
    """Return the acts with this outcome and about this kind of object; empty narrows nothing."""
    return frozenset(
        act.value
        for act, said in ACTS.items()
        if (not outcome or said.outcome == outcome) and (not about or said.about == about)
    )


def find_records(actor: Actor, wanted: AuditFilter) -> QuerySet[AuditLine]:
    """Return the records of a filter, in no order. Raises Refused invalid for an unknown word."""
    offered = {"act": _KNOWN, "outcome": frozenset(OF_OUTCOME), "about": frozenset(SubjectKind)}
    for name, words in offered.items():
        if (given := getattr(wanted, name)) and given not in words:
            message = f"{given[:40]!r} is no {name} of the audit stream; there are: {', '.join(sorted(map(str, words)))[:900]}"
            raise Refused(message, code="invalid", field=name)
    rows = AuditLine.objects.filter(workspace_id=actor.workspace_id)
    exact = {"actor": wanted.actor, "kind": wanted.act, "subject": wanted.subject, "address": wanted.address}
    rows = rows.filter(**{name: clean_text(given)[0] for name, given in exact.items() if given})
    if wanted.outcome or wanted.about:
        rows = rows.filter(kind__in=list_kinds(outcome=wanted.outcome, about=wanted.about))
    if wanted.since:
        rows = rows.filter(at__gte=wanted.since)
    return rows if wanted.until is None else rows.filter(at__lt=wanted.until)


def stream_end(workspace_id: str) -> tuple[int, bytes]:
    """Return seq and hash of the last sealed line; ``(0, zeros)`` before the first."""
    sealed = AuditLine.objects.filter(workspace_id=workspace_id, seq__isnull=False).order_by("-seq")
    seq, head = sealed.values_list("seq", "hash").first() or (0, ZERO_HASH)
    cut = AuditCut.objects.filter(workspace_id=workspace_id, last__gt=seq or 0).order_by("-last").first()
    if cut is not None:
        return cut.last, bytes.fromhex(cut_read(bytes(cut.body)).head)
    return seq or 0, bytes(head or ZERO_HASH)


def build_hash(line: AuditLine, seq: int, prev: bytes) -> bytes:
    """Return the hash of a line at that place."""
    return line_hash(
        prev,
        seq,
        workspace_id=line.workspace_id,
        line_id=line.id,
        at=line.at,
        actor=line.actor,
        via=line.via,
        act=line.kind,
        subject=line.subject,
        body=bytes(line.body),
    )


def was_erased(workspace_id: str, run_id: str) -> bool:
    """Return True if the stream records that a run's contents were erased."""
    return AuditLine.objects.filter(workspace_id=workspace_id, subject=run_id, kind=Act.RUN_ERASED.value).exists()
