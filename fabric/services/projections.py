"""Rebuilding: what the tables beside the journal show, worked out again from events and put right (design.md 2.1).

The journal is the truth and is never touched. A run that a worker owns is left alone: its owner writes its row with the next event. Where the
journal itself is damaged nothing is put right either, since that would hide it.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any, Literal

from django.db import transaction

from fabric.core.actor import Actor
from fabric.core.audit import Act
from fabric.core.engine import wake_at
from fabric.core.living import resting
from fabric.core.run import Run
from fabric.models import Escalation, GrantReservation, SharedGrant, Snapshot
from fabric.models import Run as RunRow
from fabric.runtime import projection
from fabric.runtime.batch_parts import EscalationChange
from fabric.selectors.errors import Refused
from fabric.selectors.replay import (
    PROJECTED,
    REFOLDED,
    Refolded,
    columns_differ,
    escalations_differ,
    refolded,
)
from fabric.selectors.reservations import Missing, reservations_missing
from fabric.services.audit import audit_record

TRIES = 5
Result = Literal["same", "differs", "repaired", "owned", "damaged"]
_ROW = (*REFOLDED, "incarnation", "fence", "wake_at")


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """What came of one run."""

    run_id: str
    result: Result
    says: tuple[str, ...] = ()
    """What differed, or why nothing was done, a sentence each."""


def projections_rebuild(*, actor: Actor, run_id: str, check: bool = False) -> Rebuilt:
    """Works out one run's row and questions from its events and puts them right. ``check``: says what differs and changes nothing.

    Raises Refused: not_found, unavailable (it moves all the time).
    """
    for _ in range(TRIES):
        row = RunRow.objects.filter(id=run_id, workspace_id=actor.workspace_id).values(*_ROW).first()
        if row is None:
            raise Refused(
                f"there is no run {run_id[:80]!r} in this workspace; look at the list of runs", code="not_found"
            )
        if row["incarnation"] is not None:
            return Rebuilt(
                run_id, "owned", (f"it is owned by worker {row['incarnation']}, which keeps its row itself",)
            )
        found = refolded(dict(row))
        if found.damage or found.differences:
            problems = (*found.differences, *([found.damage] if found.damage else []))
            return Rebuilt(run_id, "damaged", (*problems, f"see `manage.py verify_audit --run {run_id}`"))
        differences = tuple(_differences(dict(row), found))
        if not differences:
            return Rebuilt(run_id, "same")
        if check:
            return Rebuilt(run_id, "differs", differences)
        if _repaired(actor, dict(row), found, differences):
            return Rebuilt(run_id, "repaired", differences)
    raise Refused(f"run {run_id} moves while it is looked at; try again", code="unavailable")


def _differences(row: dict[str, Any], found: Refolded) -> list[str]:
    missing = (one.sentence for one in _reservations(found))
    wanted = projection.columns(found.run)
    return [*columns_differ(row, wanted, started=True), *escalations_differ(row["id"], found.changes), *missing]


def _reservations(found: Refolded) -> list[Missing]:
    return list(reservations_missing(found.run.id, found.reserved, found.settled, ended=found.run.terminal))


def _reserved(found: Refolded, now: int) -> None:
    """Writes what is missing; the grants are held meanwhile, so that none is closed, and summed, in between."""
    missing = _reservations(found)
    grants = {one.reservation.grant_id for one in missing}
    held = SharedGrant.objects.select_for_update().filter(id__in=grants, closed_at__isnull=True).order_by("id")
    standing = set(held.values_list("id", flat=True))
    for one in missing:
        if one.reservation.grant_id not in standing:
            continue
        key = {name: getattr(one.reservation, name) for name in ("run_id", "command_id", "attempt", "grant_id")}
        values = {"settled": one.settled, "reason": one.reason, "settled_at": None if one.settled is None else now}
        if one.known:
            GrantReservation.objects.filter(**key, settled__isnull=True).update(**values)
        else:
            amount = {"amount": one.reservation.usd_micros, "reserved_at": now}
            GrantReservation.objects.get_or_create(**key, defaults=values | amount)


def _repaired(actor: Actor, row: dict[str, Any], found: Refolded, differences: tuple[str, ...]) -> bool:
    """Writes what the journal says, where the row is still as it was read and nobody's. False: it is not."""
    wanted = projection.columns(found.run)
    columns = {name: getattr(wanted, name) for name in PROJECTED} | {"state": wanted.state.value}
    columns["stage"] = str(wanted.stage)
    if wanted.deadline_at:
        columns["deadline_at"] = wanted.deadline_at
    with transaction.atomic():
        same = {name: row[name] for name in ("fence", "last_seq", "state", "wake_at")}
        still = RunRow.objects.filter(id=row["id"], incarnation__isnull=True, **same)
        if not still.update(**columns, wake_at=_wakes(found.run)):
            return False
        _escalations(row["id"], actor.workspace_id, found.changes)
        _reserved(found, time.time_ns() // 1_000)
        # It only saves time, and nobody knows whether what wrote the row wrong wrote it right.
        Snapshot.objects.filter(run_id=row["id"]).delete()
        audit_record(actor=actor, act=Act.PROJECTION_REBUILT, subject=row["id"], differences=len(differences))
    return True


def _wakes(run: Run) -> int | None:
    """When the run is due again, as the batch said that released it: a run that waits, at its next clock; one that does not, now."""
    if run.terminal:
        return None
    return wake_at(run) if resting(run) else time.time_ns() // 1_000


def _escalations(run_id: str, workspace_id: str, changes: dict[str, EscalationChange]) -> None:
    Escalation.objects.filter(run_id=run_id).delete()
    Escalation.objects.bulk_create(
        [Escalation(id=name, workspace_id=workspace_id, run_id=run_id, **said.row) for name, said in changes.items()]
    )
