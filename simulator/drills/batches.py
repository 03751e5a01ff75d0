"""Carrying out a batch of drills, one cell after the other, each committed as it comes. The row is the truth: it is taken and ended by
conditional updates, so no cell is driven twice, and what was stopped meanwhile stays stopped.
"""

from __future__ import annotations

import json
import logging
import time
from typing import TYPE_CHECKING

from django.db import DatabaseError, transaction
from django.db.models import F, QuerySet
from django.db.models.functions import Coalesce
from pydantic import ValidationError

from fabric.adapters.duties import database_us
from fabric.selectors.fabrics import revision_spec
from simulator.drills.models import OPEN_STATUSES, VIRTUAL, Drill, Status
from simulator.drills.pruning import runs_prune

if TYPE_CHECKING:
    from simulator.drills.keeping import Kept

log = logging.getLogger(__name__)
SAID_MAX = 2_000
"""Characters of what is said about a drill that failed."""


def batch_drill(batch: str, holder: str) -> int:
    """Drills what of a batch waits, until nothing does; how many were driven. It takes a core for seconds, so it has a process of its own."""
    driven = 0
    while (one := drill_claim(batch, holder)) is not None:
        came, kept = drill_drive(one)
        drill_end(one, holder, kept, **came)
        _prune(one)
        driven += 1
    return driven


def _prune(one: Drill) -> None:
    """Has the runs of older drills of the same cell go. A role that may not delete them leaves them, and drills all the same."""
    try:
        runs_prune(one)
    except DatabaseError:
        log.exception("the runs of older drills of %s %s x %s could not be erased", one.scenario, one.failure, one.tier)


def drill_claim(batch: str, holder: str) -> Drill | None:
    """Takes the next drill of a batch; None: none waits."""
    while True:
        waiting = Drill.objects.filter(batch=batch, status=Status.QUEUED).order_by("place")
        one = waiting.first()
        if one is None:
            return None
        mine = Drill.objects.filter(id=one.id, status=Status.QUEUED)
        if mine.update(status=Status.RUNNING, holder=holder, started_at=database_us()):
            return one


def drill_drive(one: Drill) -> tuple[dict[str, str], Kept | None]:
    """Drives one: the columns that say what came of it, and the runs that are kept of it."""
    from simulator.drills.driving import (
        driven,
    )  # It loads the engine and its world, which who only keeps drills can do without.

    began = time.monotonic()
    try:
        spec = revision_spec(one.revision_id)
        came = driven(one, spec)
    except ValidationError:
        said = f"r{one.number} was published by another version of Fabric Flow, and this one cannot read it: publish the fabric again"
        return _failed(said, began)
    except Exception as error:
        log.exception("the drill %s of %s %s x %s failed", one.id, one.scenario, one.failure, one.tier)
        return _failed(f"{type(error).__name__}: {error}"[:SAID_MAX], began)
    return {
        "status": came.status,
        "verdict": came.verdict,
        "expected": came.expected,
        "observed": came.observed,
        "why": came.why,
        "run_id": came.run_id,
        "body": json.dumps({**came.body, "seconds": _since(began)}),
    }, came.kept


def _failed(said: str, began: float) -> tuple[dict[str, str], None]:
    body = json.dumps({"seconds": _since(began)})
    return {"status": Status.FAILED, "verdict": "error", "why": said, "body": body}, None


def _since(began: float) -> float:
    return round(time.monotonic() - began, 3)


def drill_end(one: Drill, holder: str, kept: Kept | None = None, /, **came: str) -> bool:
    """Says what came of a drill, and keeps its runs; False: it was stopped, or taken for lost, meanwhile, and stays so."""
    mine = Drill.objects.filter(id=one.id, status=Status.RUNNING, holder=holder)
    with transaction.atomic():
        if not mine.update(ended_at=database_us(), **came):
            return False
        if kept is not None and _keep(kept):
            body = json.dumps({**json.loads(came.get("body", "{}")), "runs": kept.runs})
            Drill.objects.filter(id=one.id).update(run_id=kept.run_id, body=body)
    return True


def _keep(kept: Kept) -> bool:
    """Keeps a drill's runs. Its verdict stands without them too."""
    from simulator.drills.keeping import keep

    try:
        return keep(kept)
    except Exception:
        log.exception("the runs of drill %s could not be kept", kept.drill_id)
        return False


def drills_abort(rows: QuerySet[Drill], *, by: str, why: str) -> int:
    """Stops what of these waits or runs; how many. What drives one sees within a second that it has ended. Called in the transaction of who stops them."""
    left = rows.filter(status__in=OPEN_STATUSES)
    return left.update(status=Status.ABORTED, ended_at=database_us(), stopped_by=by, why=why)


# -- what whoever conducts has to know and to say ----------------------------------------------------------------------


def drills_wait(mode: str = VIRTUAL) -> bool:
    """Whether anything waits or runs: a look into an index."""
    return Drill.objects.filter(status__in=OPEN_STATUSES, mode=mode).exists()


def batch_next(mode: str = VIRTUAL) -> str | None:
    """The batch that is done next, whoever asked for it: the one that was asked for first."""
    waiting = Drill.objects.filter(status=Status.QUEUED, mode=mode)
    return waiting.order_by("batch").values_list("batch", flat=True).first()


def batch_open(batch: str) -> bool:
    """Whether anything of it waits or runs."""
    return Drill.objects.filter(status__in=OPEN_STATUSES, batch=batch).exists()


def drills_interrupt(mode: str = VIRTUAL) -> int:
    """Says of whatever runs that it was interrupted, since the process that drove it is gone; how many."""
    return Drill.objects.filter(status=Status.RUNNING, mode=mode).update(
        status=Status.INTERRUPTED,
        ended_at=database_us(),
        why="the process that drove it ended before it did; nothing is known of the cell: drill it again",
    )


def drill_overdue(holder: str, seconds: float) -> bool:
    """Ends as an error what a process has been at for so long, beyond what a live one may take; whether there was any."""
    late = database_us() - round(seconds * 1_000_000)
    may = Coalesce(F("cap_s"), 0) * 1_000_000
    stuck = Drill.objects.filter(status=Status.RUNNING, holder=holder, started_at__lt=late - may)
    said = f"it took more than {seconds:g} s and was ended: the run did not come to its end"
    return bool(stuck.update(status=Status.FAILED, verdict="error", ended_at=database_us(), why=said))


def batch_fail(batch: str, said: str) -> int:
    """Ends as errors what of a batch cannot be begun; how many."""
    waiting = Drill.objects.filter(status=Status.QUEUED, batch=batch)
    return waiting.update(status=Status.FAILED, verdict="error", ended_at=database_us(), why=said[:SAID_MAX])
