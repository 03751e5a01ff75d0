"""Retention of the audit stream itself: days by kind of act. What is removed leaves a signed marker, so that the chain verifies as before.

Never removed are the kinds that verifying and erasing go by (``Said.kept``), what a hold covers, and what no receiver has taken yet that is behind.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping

from django.db import IntegrityError, transaction
from django.db.models import Q

from fabric.adapters.signing import Signer
from fabric.core.actor import Actor
from fabric.core.acts import ACTS
from fabric.core.audit import Act
from fabric.core.audit_cut import CutBody, cut_bytes
from fabric.core.roles import Right
from fabric.models import AuditCut, AuditForward, AuditLine, AuditRule
from fabric.selectors.audit_forward import receivers
from fabric.selectors.audit_list import audit_wanted, prev_hash
from fabric.selectors.holds import lines_of
from fabric.services.audit import audit_record
from fabric.services.errors import Refused
from fabric.services.rights import fresh_wanted, right_wanted
from fabric.services.workspaces import system_actor

ALL = "*"
"""The rule of every act that has none of its own."""
DAYS_MIN, DAYS_MAX = 30, 36_500
"""Thirty days at least: nobody does something and has its record removed before anybody looks."""
DAY_US = 86_400 * 1_000_000
LINES = 1_000
"""Lines of one marker, at most."""
LINES_MAX = 200_000
"""Lines of one workspace that one turn of the duty removes, at most; the next goes on."""
_KEPT = frozenset(act.value for act, said in ACTS.items() if said.kept)


def audit_rules(actor: Actor) -> Mapping[str, int]:
    """The days of each kind that has a rule in the actor's workspace. Refused forbidden."""
    audit_wanted(actor)
    return _rules(actor.workspace_id)


def audit_rule_set(*, actor: Actor, kind: str, days: int | None) -> None:
    """Keeps records of a kind (``*``: of all that have no rule) so many days; None: for good, or as ``*`` says. Raises Refused: forbidden, invalid."""
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
    """Whether any workspace has a rule."""
    return AuditRule.objects.exists()


def audit_retain(*, signer: Signer, now: int | None = None, dry_run: bool = False) -> int:
    """Removes, in every workspace, the records that are older than their rule says; how many. ``dry_run``: would be."""
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
    """The stretches of places whose lines may all go."""
    rules = _rules(workspace_id)
    old = Q(pk__in=[])
    for kind, days in rules.items():
        of = ~Q(kind__in=[*rules, *_KEPT]) if kind == ALL else Q(kind=kind)
        old |= of & Q(at__lt=at - days * DAY_US)
    rows = lines_of(workspace_id).filter(old, seq__isnull=False).exclude(kind__in=_KEPT)
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
    """Puts the marker in the place of the lines. False: another worker did."""
    try:
        with transaction.atomic():
            lines = AuditLine.objects.filter(workspace_id=workspace_id, seq__range=(first, last))
            head = lines.filter(seq=last).values_list("hash", flat=True).first()
            prev = prev_hash(workspace_id, first)
            # A hold may have been placed since the stretch was looked for.
            free = lines_of(workspace_id).filter(seq__range=(first, last)).count()
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
