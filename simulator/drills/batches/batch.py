"""Executes a batch of drills, one cell after the other, and commits each result at once.

Rows are the truth: conditional updates claim and end them. So no cell is drilled twice, and a stopped drill stays
stopped.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Iterator
from contextlib import nullcontext
from typing import TYPE_CHECKING

from django.db import DatabaseError, transaction
from django.db.models import F, QuerySet
from django.db.models.functions import Coalesce
from pydantic import ValidationError

from fabric.selectors.fabrics.lookup import revision_spec
from fabric.worker.process.duties import database_us
from simulator.clockwork.garbage import collect_after
from simulator.drills.models.tables import OPEN_STATUSES, VIRTUAL, Drill, Status
from simulator.drills.runs.retention import runs_prune

if TYPE_CHECKING:
    from simulator.drills.runs.storage import KeptRuns

log = logging.getLogger(__name__)
SAID_MAX = 2_000
"""Largest length of a failed drill's message, in characters."""


def batch_drill(batch: str, holder: str) -> int:
    """Drill the queued cells of a batch until none is left; return their number.

    It takes a core for seconds, so it has a process of its own.
    """
    return sum(1 for _ in batch_steps(batch, holder))


def batch_steps(batch: str, holder: str) -> Iterator[str]:
    """Drill the queued cells of a batch, one at a step, until none is left. Yield the id of each."""
    while (one := drill_claim(batch, holder)) is not None:
        # A live drill takes minutes, and may leave much garbage.
        with collect_after() if one.mode == VIRTUAL else nullcontext():
            _drill(one, holder)
        _prune(one)
        yield one.id


def _drill(one: Drill, holder: str) -> None:
    came, kept = drill_drive(one)
    drill_end(one, holder, kept, **came)


def _prune(one: Drill) -> None:
    """Erase the runs of older drills of the cell. Without the database right to delete they stay, and drills
    continue.
    """
    try:
        runs_prune(one)
    except DatabaseError:
        log.exception("the runs of older drills of %s %s x %s could not be erased", one.scenario, one.failure, one.tier)


def drill_claim(batch: str, holder: str) -> Drill | None:
    """Claim the next drill of a batch; None if none waits."""
    while True:
        waiting = Drill.objects.filter(batch=batch, status=Status.QUEUED).order_by("place")
        one = waiting.first()
        if one is None:
            return None
        mine = Drill.objects.filter(id=one.id, status=Status.QUEUED)
        if mine.update(status=Status.RUNNING, holder=holder, started_at=database_us()):
            return one


def drill_drive(one: Drill) -> tuple[dict[str, str], KeptRuns | None]:
    """Execute a drill. Return the columns of its result, and the runs to keep."""
    from simulator.drills.batches.modes import (
        drive_drill,  # It loads the engine and its world, which who only keeps drills can do without.
    )

    began = time.monotonic()
    try:
        spec = revision_spec(one.revision_id)
        came = drive_drill(one, spec)
    except ValidationError:
        said = f"r{one.number} was published by another version of Fabric Flow, and this one cannot read it: publish the fabric again"
        return _failed_columns(said, began)
    except Exception as error:
        log.exception("the drill %s of %s %s x %s failed", one.id, one.scenario, one.failure, one.tier)
        return _failed_columns(f"{type(error).__name__}: {error}"[:SAID_MAX], began)
    return {
        "status": came.status,
        "verdict": came.verdict,
        "expected": came.expected,
        "observed": came.observed,
        "why": came.why,
        "run_id": came.run_id,
        "body": json.dumps({**came.body, "seconds": _measure_since(began)}),
    }, came.kept


def _failed_columns(said: str, began: float) -> tuple[dict[str, str], None]:
    body = json.dumps({"seconds": _measure_since(began)})
    return {"status": Status.FAILED, "verdict": "error", "why": said, "body": body}, None


def _measure_since(began: float) -> float:
    return round(time.monotonic() - began, 3)


def drill_end(one: Drill, holder: str, kept: KeptRuns | None = None, /, **came: str) -> bool:
    """Record the result of a drill, and keep its runs. Return False if it was stopped or given up meanwhile."""
    mine = Drill.objects.filter(id=one.id, status=Status.RUNNING, holder=holder)
    with transaction.atomic():
        if not mine.update(ended_at=database_us(), **came):
            return False
        if kept is not None and _keep(kept):
            body = json.dumps({**json.loads(came.get("body", "{}")), "runs": kept.runs})
            Drill.objects.filter(id=one.id).update(run_id=kept.run_id, body=body)
    return True


def _keep(kept: KeptRuns) -> bool:
    """Keep a drill's runs. Its verdict does not depend on them."""
    from simulator.drills.runs.storage import keep

    try:
        return keep(kept)
    except Exception:
        log.exception("the runs of drill %s could not be kept", kept.drill_id)
        return False


def drills_abort(rows: QuerySet[Drill], *, by: str, why: str) -> int:
    """Stop the waiting and running drills among the rows; return their number.

    Their process sees it within a second. Called in the caller's transaction.
    """
    left = rows.filter(status__in=OPEN_STATUSES)
    return left.update(status=Status.ABORTED, ended_at=database_us(), stopped_by=by, why=why)


# -- what the conductor knows and reports ------------------------------------------------------------------------------


def drills_wait(mode: str = VIRTUAL) -> bool:
    """Return True if a drill waits or runs. It costs an index look-up."""
    return Drill.objects.filter(status__in=OPEN_STATUSES, mode=mode).exists()


def batch_next(mode: str = VIRTUAL) -> str | None:
    """Return the next batch of all actors: the oldest."""
    waiting = Drill.objects.filter(status=Status.QUEUED, mode=mode)
    return waiting.order_by("batch").values_list("batch", flat=True).first()


def batch_open(batch: str) -> bool:
    """Return True if a drill of the batch waits or runs."""
    return Drill.objects.filter(status__in=OPEN_STATUSES, batch=batch).exists()


def drills_interrupt(mode: str = VIRTUAL) -> int:
    """Mark all running drills as interrupted, because their process is gone; return their number."""
    return Drill.objects.filter(status=Status.RUNNING, mode=mode).update(
        status=Status.INTERRUPTED,
        ended_at=database_us(),
        why="the process that drove it ended before it did; nothing is known of the cell: drill it again",
    )


def drill_overdue(holder: str, seconds: float) -> bool:
    """End the drills that a process has run for too long, beyond a live one's cap. Return True if there were any."""
    late = database_us() - round(seconds * 1_000_000)
    may = Coalesce(F("cap_s"), 0) * 1_000_000
    stuck = Drill.objects.filter(status=Status.RUNNING, holder=holder, started_at__lt=late - may)
    said = f"it took more than {seconds:g} s and was ended: the run did not come to its end"
    return bool(stuck.update(status=Status.FAILED, verdict="error", ended_at=database_us(), why=said))


def batch_fail(batch: str, said: str) -> int:
    """Fail the waiting drills of a batch that cannot begin; return their number."""
    waiting = Drill.objects.filter(status=Status.QUEUED, batch=batch)
    return waiting.update(status=Status.FAILED, verdict="error", ended_at=database_us(), why=said[:SAID_MAX])
