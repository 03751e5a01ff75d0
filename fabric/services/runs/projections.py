"""Rebuilds projections: computes the tables besides the journal again from events and repairs them (docs/design.md).

The journal is the truth and stays unchanged. A run that a worker owns is skipped: its owner writes its row with the
next event. Where the journal itself is damaged nothing is repaired, since that would hide the damage.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any, Literal

from django.db import transaction

from fabric.core.audit.lines import Act
from fabric.core.engine import wake_at
from fabric.core.people.actor import Actor
from fabric.core.state.living import is_resting
from fabric.core.state.run import Run
from fabric.models import GrantReservation, Review, SharedGrant, Snapshot
from fabric.models import Run as RunRow
from fabric.program.name import program
from fabric.runtime.journal import projection
from fabric.runtime.ports.batch_parts import ReviewChange
from fabric.selectors.budgets import MissingReservation, reservations_missing
from fabric.selectors.errors import Refused
from fabric.selectors.runs.replay import PROJECTED, REFOLDED, Refolded, columns_differ, compare_reviews, refold_run
from fabric.services.acts import audit_record

TRIES = 5
Result = Literal["same", "differs", "repaired", "owned", "damaged"]
_ROW = (*REFOLDED, "incarnation", "fence", "wake_at")


@dataclass(frozen=True, slots=True)
class RebuildResult:
    """Result for one run."""

    run_id: str
    result: Result
    says: tuple[str, ...] = ()
    """Differences, or the reason why nothing was done, one sentence each."""


def projections_rebuild(*, actor: Actor, run_id: str, check: bool = False) -> RebuildResult:
    """Compute one run's row and reviews from its events and repair them. ``check``: report differences and change
    nothing.

    Raises Refused: not_found, unavailable (it keeps moving).
    """
    for _ in range(TRIES):
        row = RunRow.objects.filter(id=run_id, workspace_id=actor.workspace_id).values(*_ROW).first()
        if row is None:
            raise Refused(
                f"there is no run {run_id[:80]!r} in this workspace; look at the list of runs", code="not_found"
            )
        if row["incarnation"] is not None:
            return RebuildResult(
                run_id, "owned", (f"it is owned by worker {row['incarnation']}, which keeps its row itself",)
            )
        found = refold_run(dict(row))
        if found.damage or found.differences:
            problems = (*found.differences, *([found.damage] if found.damage else []))
            return RebuildResult(run_id, "damaged", (*problems, f"see `{program()} admin verify --run {run_id}`"))
        differences = tuple(_differences(dict(row), found))
        if not differences:
            return RebuildResult(run_id, "same")
        if check:
            return RebuildResult(run_id, "differs", differences)
        if _repair_row(actor, dict(row), found, differences):
            return RebuildResult(run_id, "repaired", differences)
    raise Refused(f"run {run_id} moves while it is looked at; try again", code="unavailable")


def _differences(row: dict[str, Any], found: Refolded) -> list[str]:
    missing = (one.sentence for one in _reservations(found))
    wanted = projection.columns(found.run)
    return [*columns_differ(row, wanted, started=True), *compare_reviews(row["id"], found.changes), *missing]


def _reservations(found: Refolded) -> list[MissingReservation]:
    return list(reservations_missing(found.run.id, found.reserved, found.settled, ended=found.run.terminal))


def _write_reservations(found: Refolded, now: int) -> None:
    """Write the missing reservations; the grants are locked meanwhile, so that none is closed and summed in between."""
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


def _repair_row(actor: Actor, row: dict[str, Any], found: Refolded, differences: tuple[str, ...]) -> bool:
    """Write the journal's values to a row that no worker owns and that is unchanged since it was read. Else return
    False.
    """
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
        _reviews(row["id"], actor.workspace_id, found.changes)
        _write_reservations(found, time.time_ns() // 1_000)
        # A snapshot only saves time, and the writer of the wrong row may have written it wrong too.
        Snapshot.objects.filter(run_id=row["id"]).delete()
        audit_record(actor=actor, act=Act.PROJECTION_REBUILT, subject=row["id"], differences=len(differences))
    return True


def _wakes(run: Run) -> int | None:
    """Return the time at which the run is due, as its releasing batch set it. A waiting run has its next clock, others
    now.
    """
    if run.terminal:
        return None
    return wake_at(run) if is_resting(run) else time.time_ns() // 1_000


def _reviews(run_id: str, workspace_id: str, changes: dict[str, ReviewChange]) -> None:
    Review.objects.filter(run_id=run_id).delete()
    Review.objects.bulk_create(
        [Review(id=name, workspace_id=workspace_id, run_id=run_id, **said.row) for name, said in changes.items()]
    )
