"""Read run jobs: their state and counts, and the refusals of each."""

from __future__ import annotations

from dataclasses import dataclass

from django.db.models import Q, QuerySet

from fabric.core.people.actor import Actor
from fabric.core.people.roles import Right
from fabric.models import ItemOutcome, JobAction, JobState, RunJob, RunJobItem
from fabric.selectors.errors import Refused
from fabric.selectors.runs.query.list_pages import RunRow, rows_named

JOBS_SHOWN = 50
REFUSALS_SHOWN = 100
ENDED = (JobState.ENDED, JobState.STOPPED)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunJobView:
    """One job. Instants are microseconds since the epoch, UTC."""

    id: str
    action: JobAction
    by_ids: bool
    """True: its runs were selected one by one."""
    query: str
    reason: str
    asked_by: str
    via: str
    asked_at: int
    total: int
    done: int
    refused: int
    state: JobState
    stopped_by: str
    ended_at: int | None

    @property
    def left(self) -> int:
        """Number of runs that it has not tried."""
        return self.total - self.done - self.refused

    @property
    def ended(self) -> bool:
        """Return True if it acts on no further run."""
        return self.state in ENDED


@dataclass(frozen=True, slots=True)
class JobRefusal:
    """A run of a job on which the action was refused."""

    run_id: str
    says: str
    run: RunRow | None
    """The run's row; None: it is not visible to the reader."""


def job_get(actor: Actor, job_id: str) -> RunJobView:
    """Return a job. Raises Refused not_found: unknown, or not visible to the actor."""
    row = find_jobs(actor).filter(id=job_id).first()
    if row is None:
        raise Refused(f"there is no run job {job_id[:60]!r}", code="not_found", field="job")
    return make_job_view(row)


def jobs_list(actor: Actor) -> list[RunJobView]:
    """Return the newest ``JOBS_SHOWN`` jobs that the actor sees."""
    return [make_job_view(row) for row in find_jobs(actor).order_by("-id")[:JOBS_SHOWN]]


def find_jobs(actor: Actor) -> QuerySet[RunJob]:
    """Return the jobs that an actor sees: their own, and all to who may control runs in the whole workspace."""
    whole = actor.may(Right.CONTROL) and not actor.narrow
    return RunJob.objects.filter(Q() if whole else Q(asked_by=actor.name), workspace_id=actor.workspace_id)


def job_refusals(actor: Actor, job_id: str, *, after: str = "") -> tuple[list[JobRefusal], str]:
    """Return refusals of a job, ``REFUSALS_SHOWN`` at most, and the cursor of those that follow; empty: none do.

    ``after``: that cursor of the part before. Raises Refused not_found.
    """
    job = job_get(actor, job_id)
    rows = RunJobItem.objects.filter(job_id=job.id, outcome=ItemOutcome.REFUSED, run_id__gt=after[:60])
    found = list(rows.order_by("run_id").values_list("run_id", "says")[: REFUSALS_SHOWN + 1])
    shown = found[:REFUSALS_SHOWN]
    runs = {run.id: run for run in rows_named(actor, actor.workspace_id, [run_id for run_id, _ in shown])}
    seen = [
        JobRefusal(run_id, says, run if (run := runs.get(run_id)) and actor.sees(run.fabric_name) else None)
        for run_id, says in shown
    ]
    return seen, shown[-1][0] if len(found) > REFUSALS_SHOWN else ""


def make_job_view(row: RunJob) -> RunJobView:
    """Return a job's row as a value."""
    return RunJobView(
        id=row.id,
        action=JobAction(row.action),
        by_ids=row.by_ids,
        query=row.query,
        reason=row.reason,
        asked_by=row.asked_by,
        via=row.via,
        asked_at=row.asked_at,
        total=row.total,
        done=row.done,
        refused=row.refused,
        state=JobState(row.state),
        stopped_by=row.stopped_by,
        ended_at=row.ended_at,
    )
