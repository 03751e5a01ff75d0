"""Retention of the audit stream: days by kind of act. Removed lines leave a signed marker, so that the chain still
verifies.

Retention never removes kinds that verifying and erasing need (``ActSentence.kept``), lines under a hold, and lines that
a late receiver has not taken yet.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping

from django.db import IntegrityError, transaction
from django.db.models import Q

from fabric.core.audit.acts import ACTS
from fabric.core.audit.lines import Act, CutBody, cut_bytes
from fabric.core.people.actor import Actor
from fabric.core.people.roles import Right
from fabric.models import AuditCut, AuditForward, AuditLine, AuditRule
from fabric.secrets.signing import Signer
from fabric.selectors.audit.forwarding import receivers
from fabric.selectors.audit.holds import list_lines
from fabric.selectors.audit.lookup import audit_wanted, prev_hash
from fabric.services.actors import system_actor
from fabric.services.acts import audit_record
from fabric.services.errors import Refused
from fabric.services.rights import fresh_wanted, right_wanted

ALL = "*"
"""Name of the rule for every act without a rule of its own."""
DAYS_MIN, DAYS_MAX = 30, 36_500
"""Bounds of a rule, in days. At least thirty, so that a record cannot vanish before it can be looked at."""
DAY_US = 86_400 * 1_000_000
LINES = 1_000
"""Lines of one marker, at most."""
LINES_MAX = 200_000
"""Lines of one workspace that one turn of the duty removes, at most; the next goes on."""
_KEPT = frozenset(act.value for act, said in ACTS.items() if said.kept)


def audit_rules(actor: Actor) -> Mapping[str, int]:
    """Return the days of each kind with a rule in the actor's workspace. Raises Refused forbidden."""
    audit_wanted(actor)
    return _rules(actor.workspace_id)


def audit_rule_set(*, actor: Actor, kind: str, days: int | None) -> None:
    """Store records of a kind for so many days (``*``: kinds without a rule). None: for ever, or as ``*`` sets it.

    Raises Refused: forbidden, invalid.
    """
    right_wanted(actor, Right.MEMBERS, "say how long audit records are kept")
    fresh_wanted(actor, "say how long audit records are kept", by_token=True)
    if kind != ALL and (kind not in {act.value for act in Act} or kind in _KEPT):
        problem = "always kept" if kind in _KEPT else "no act"
        message = f"{kind[:40]!r} is {problem}; name another act, or {ALL} for all"
        raise Refused(message, code="invalid", field="kind")
    if days is not None and not DAYS_MIN <= days <= DAYS_MAX:
        message = f"audit records cannot be kept {days:,} days; give {DAYS_MIN} to {DAYS_MAX:,}"
        raise Refused(message, code="invalid", field="days")
    with transaction.atomic():
        mine = AuditRule.objects.filter(workspace_id=actor.workspace_id, kind=kind)
        was = mine.values_list("days", flat=True).first()
        if days is None:
            mine.delete()
        else:
            AuditRule.objects.update_or_create(workspace_id=actor.workspace_id, kind=kind, defaults={"days": days})
        audit_record(actor=actor, act=Act.AUDIT_RULE_SET, subject=kind, before_days=was or 0, days=days or 0)


def audit_rules_wanted() -> bool:
    """Return True if any workspace has a rule."""
    return AuditRule.objects.exists()


def audit_retain(*, signer: Signer, now: int | None = None, dry_run: bool = False) -> int:
    """Remove the records that exceed their rule in every workspace, and return their number. ``dry_run``: only count
    them.
    """
    at, total = time.time_ns() // 1_000 if now is None else now, 0
    for workspace_id in sorted(set(AuditRule.objects.values_list("workspace_id", flat=True))):
        removed = 0
        for first, last in _ranges(workspace_id, at):
            removed += last - first + 1 if dry_run or _cut(workspace_id, first, last, signer, at) else 0
        if removed and not dry_run:
            actor = system_actor(workspace_id)
            audit_record(actor=actor, act=Act.AUDIT_CUT, subject=workspace_id, lines=removed)
        total += removed
    return total


def _rules(workspace_id: str) -> dict[str, int]:
    return dict(AuditRule.objects.filter(workspace_id=workspace_id).values_list("kind", "days"))


def _ranges(workspace_id: str, at: int) -> Iterator[tuple[int, int]]:
    """Yield the ranges of lines that may be removed."""
    rules = _rules(workspace_id)
    old = Q(pk__in=[])
    for kind, days in rules.items():
        of = ~Q(kind__in=[*rules, *_KEPT]) if kind == ALL else Q(kind=kind)
        old |= of & Q(at__lt=at - days * DAY_US)
    rows = list_lines(workspace_id).filter(old, seq__isnull=False).exclude(kind__in=_KEPT)
    if named := receivers():
        taken = dict(AuditForward.objects.filter(workspace_id=workspace_id).values_list("target", "seq"))
        rows = rows.filter(seq__lte=min(taken.get(target, 0) for target in named))
    first = last = 0
    for seq in list(rows.order_by("seq").values_list("seq", flat=True)[:LINES_MAX]):
        assert seq is not None, "they are sealed"
        if first and (seq != last + 1 or seq - first >= LINES):
            yield first, last
            first = 0
        first, last = first or seq, seq
    if first:
        yield first, last


def _cut(workspace_id: str, first: int, last: int, signer: Signer, at: int) -> bool:
    """Replace the lines by the marker. Returns False if another worker did."""
    try:
        with transaction.atomic():
            lines = AuditLine.objects.filter(workspace_id=workspace_id, seq__range=(first, last))
            head = lines.filter(seq=last).values_list("hash", flat=True).first()
            prev = prev_hash(workspace_id, first)
            # A hold may have been placed since the stretch was looked for.
            free = list_lines(workspace_id).filter(seq__range=(first, last)).count()
            if head is None or prev is None or free < last - first + 1:
                return False
            body = CutBody(
                workspace=workspace_id, first=first, last=last, prev=prev.hex(), head=bytes(head).hex(), at=at, key=signer.public
            )  # fmt: skip
            raw = cut_bytes(body)
            AuditCut.objects.create(
                workspace_id=workspace_id, first=first, last=last, at=at, body=raw, signature=signer.sign(raw)
            )
            lines.delete()
    except IntegrityError:
        return False
    return True
