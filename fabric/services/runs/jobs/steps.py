"""Carries out run jobs, batch by batch. A worker that dies leaves the rest to the next one.

Each run's turn is recorded by itself. A run whose action was done and not recorded is tried again, and each action
recognises that (``actions``).
"""

from __future__ import annotations

import logging
import time
from dataclasses import replace

from django.db import DatabaseError, transaction
from django.db.models import Count, Q

from fabric.core.audit.lines import Act
from fabric.core.people.actor import Actor
from fabric.models import ItemOutcome, JobAction, JobState, Run, RunJob, RunJobItem
from fabric.models.runs.jobs import OPEN
from fabric.services.actors import actor_named, system_actor
from fabric.services.acts import audit_record
from fabric.services.errors import Refused
from fabric.services.runs.jobs.actions import ACTIONS, JobTry, RunPorts

log = logging.getLogger(__name__)
BATCH = 50
"""Runs between two looks whether the job was stopped."""
ADVANCE_S = 10.0
"""Seconds after which a turn of the duty ends, between two batches."""
VIA = "job:"
"""Begins ``Actor.via`` of acts by a job, before its id."""


def jobs_wait() -> bool:
    """Return True if a job has not ended."""
    return RunJob.objects.filter(OPEN).exists()


def jobs_advance(ports: RunPorts, *, for_s: float = ADVANCE_S) -> None:
    """Carry out open jobs in turns of one batch each, for about ``for_s`` seconds. Raises Refused unavailable."""
    end = time.monotonic() + for_s
    while open_jobs := list(RunJob.objects.filter(OPEN).order_by("id").values_list("id", flat=True)):
        for job_id in open_jobs:
            job_step(ports, job_id)
            if time.monotonic() >= end:
                return


def job_step(ports: RunPorts, job_id: str) -> None:
    """Carry out the next batch of a job, or end the job. Raises Refused unavailable; what was recorded stays."""
    job = RunJob.objects.filter(OPEN, id=job_id).first()
    if job is None:
        return
    waiting = RunJobItem.objects.filter(job_id=job.id, outcome=ItemOutcome.WAITING).order_by("run_id")
    items = [] if job.state == JobState.STOPPING else list(waiting[:BATCH])
    if not items:
        _end(job, ports.now())
        return
    names = dict(Run.objects.filter(id__in=[item.run_id for item in items]).values_list("id", "fabric__name"))
    asker = _find_asker(job)
    for item in items:
        actor = asker if isinstance(asker, Refused) else asker.place_at(names.get(item.run_id, ""))
        _record(item, _act(ports, actor, job, item))
    _store_counts(job)


def _find_asker(job: RunJob) -> Actor | Refused:
    """Return the job's asker with their present roles; or why no worker acts in their name any more."""
    try:
        actor = actor_named(job.workspace_id, job.asked_by)
    except Refused as refusal:
        return refusal
    return replace(actor, via=f"{VIA}{job.id}", fabrics=tuple(filter(None, job.fabrics.split(","))))


def _act(ports: RunPorts, actor: Actor | Refused, job: RunJob, item: RunJobItem) -> str:
    """Act on one run; return the sentence of a refusal, or an empty one. Raises Refused unavailable."""
    if isinstance(actor, Refused):
        return actor.message
    try:
        ACTIONS[JobAction(job.action)].act(JobTry(ports, actor, job, item))
    except Refused as refusal:
        if refusal.code == "unavailable":
            raise
        return refusal.message
    except DatabaseError:
        raise
    except Exception:
        # One odd run must not hold up the rest of the job.
        log.exception("job %s could not act on run %s", job.id, item.run_id)
        return f"run {item.run_id} could not be acted on; the worker's log says why"
    return ""


def _record(item: RunJobItem, says: str) -> None:
    outcome = ItemOutcome.REFUSED if says else ItemOutcome.DONE
    rows = RunJobItem.objects.filter(job_id=item.job_id, run_id=item.run_id, outcome=ItemOutcome.WAITING)
    rows.update(outcome=outcome, says=says)


def _store_counts(job: RunJob) -> None:
    """Count the recorded runs anew: a second worker, or a repeated batch, counts none twice."""
    of = {outcome.name.lower(): Count("run_id", filter=Q(outcome=outcome)) for outcome in ItemOutcome if outcome}
    found = RunJobItem.objects.filter(job_id=job.id).aggregate(**of)
    job.done, job.refused = found["done"], found["refused"]
    RunJob.objects.filter(OPEN, id=job.id).update(done=job.done, refused=job.refused)


def _end(job: RunJob, at: int) -> None:
    with transaction.atomic():
        _store_counts(job)
        left = job.total - job.done - job.refused
        state = JobState.STOPPED if left else JobState.ENDED
        if not RunJob.objects.filter(OPEN, id=job.id).update(state=state, ended_at=at):
            return
        RunJobItem.objects.filter(job_id=job.id).exclude(outcome=ItemOutcome.REFUSED).delete()
        counts = {"done": job.done, "refused": job.refused, "left": left}
        audit_record(
            actor=system_actor(job.workspace_id),
            act=Act.RUN_JOB_ENDED,
            subject=job.id,
            action=job.action,
            **counts,
        )
