"""Begins and stops run jobs. The runs of a job are fixed in the transaction that begins it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from django.core.exceptions import EmptyResultSet
from django.db import IntegrityError, connection, transaction
from django.db.models import QuerySet

from fabric.core.audit.lines import Act
from fabric.core.people.actor import Actor
from fabric.core.people.roles import Right
from fabric.core.texts.text import clean_text
from fabric.core.values.fingerprint import digest
from fabric.models import JobAction, JobState, Run, RunJob, RunJobItem
from fabric.selectors.database_time import TookTooLong, time_limit
from fabric.selectors.runs.query.choices import RUNS_MAX, RunChoice, choose_runs
from fabric.selectors.runs.query.jobs import RunJobView, find_jobs, job_get, make_job_view
from fabric.services.acts import audit_record
from fabric.services.errors import Refused
from fabric.services.rights import right_wanted
from fabric.services.runs.jobs.actions import ACTIONS
from fabric.services.runs.start import REASON_CHARS_MAX, build_key, machine_now

BEGIN_LIMIT_S = 10.0
"""Time in which the database has to find the runs of a job."""
DOING = {
    JobAction.CANCEL: "cancel runs",
    JobAction.PAUSE: "pause runs",
    JobAction.RESUME: "resume runs",
    JobAction.RETRY: "try runs again",
    JobAction.TERMINATE: "terminate runs",
}
"""Each action as it follows "may not"."""


@dataclass(frozen=True, slots=True)
class BegunJob:
    """A job, and whether this request began it."""

    job: RunJobView
    created: bool


def job_begin(
    *,
    actor: Actor,
    action: JobAction,
    choice: RunChoice,
    reason: str = "",
    start_key: str = "",
    now: Callable[[], int] = machine_now,
) -> BegunJob:
    """Begin a job on the chosen runs. Workers carry it out; runs that begin or match later are not touched.

    The rights at each run's fabric are checked when its turn comes. ``start_key``: key of a request; repeated, it
    returns the same job. Raises Refused: forbidden, invalid (query, reason, no run, too many), not_found (a named
    run), conflict (the key was used for another request), unavailable (the query takes too long).
    """
    rule = ACTIONS[action]
    right_wanted(actor, rule.right, DOING[action], anywhere=True)
    why = "" if rule.reason == "none" else clean_text(reason)[0].strip()[:REASON_CHARS_MAX]
    if rule.reason == "needed" and not why:
        message = "terminating undoes nothing, so it needs a reason: say why, it is kept with each run"
        raise Refused(message, code="invalid", field="reason")
    key = build_key("start_key", start_key)
    named = " ".join(sorted(set(choice.ids)))
    asked = digest("run job", actor.name, action.value, choice.query, str(choice.zone), named, why)
    if key and (earlier := _find_earlier(actor, key, asked)):
        return BegunJob(earlier, created=False)
    row = _make_row(actor, action, choice, why, now())
    row.start_key, row.request_digest = key, asked
    try:
        with time_limit(BEGIN_LIMIT_S), transaction.atomic():
            _insert(row, choose_runs(actor, choice, now=row.asked_at))
            audit_record(actor=actor, act=Act.RUN_JOB_BEGUN, subject=row.id, action=row.action, runs=row.total)
    except TookTooLong as error:
        message = f"{error}: add a filter such as started:-1d to the query"
        raise Refused(message, code="unavailable", field="query") from None
    except IntegrityError:
        # An equal request was quicker.
        if key and (earlier := _find_earlier(actor, key, asked)):
            return BegunJob(earlier, created=False)
        raise
    return BegunJob(make_job_view(row), created=True)


def _make_row(actor: Actor, action: JobAction, choice: RunChoice, reason: str, at: int) -> RunJob:
    return RunJob(
        workspace_id=actor.workspace_id,
        action=action.value,
        by_ids=bool(choice.ids),
        query="" if choice.ids else choice.query,
        reason=reason,
        asked_by=actor.name,
        via=actor.via,
        fabrics=",".join(actor.fabrics),
        asked_at=at,
        total=0,
    )


def job_stop(*, actor: Actor, job_id: str) -> bool:
    """Stop a job: it ends after the present batch, and runs that were acted on stay so. Returns False if it was
    stopped before.

    Raises Refused: forbidden, not_found, conflict (it has ended).
    """
    right_wanted(actor, Right.CONTROL, "stop run jobs", anywhere=True)
    job = job_get(actor, job_id)
    with transaction.atomic():
        running = find_jobs(actor).filter(id=job.id, state=JobState.RUNNING)
        if running.update(state=JobState.STOPPING, stopped_by=actor.name):
            audit_record(actor=actor, act=Act.RUN_JOB_STOPPED, subject=job.id, action=job.action.value)
            return True
    if job_get(actor, job_id).state is JobState.ENDED:
        message = "this job has ended, so there is nothing to stop"
        raise Refused(message, code="conflict", field="job")
    return False


def _insert(row: RunJob, runs: QuerySet[Run, Any]) -> None:
    """Insert the job and its runs. Raises Refused for none, or too many."""
    row.save(force_insert=True)
    try:
        chosen, params = runs.order_by().values("id")[: RUNS_MAX + 1].query.sql_with_params()
    except EmptyResultSet:  # Django sees that nothing can match.
        raise _refuse_none(row) from None
    table = RunJobItem._meta.db_table
    columns = "job_id, run_id, workspace_id, outcome, says"
    with connection.cursor() as cursor:
        cursor.execute(
            f"INSERT INTO {table} ({columns}) SELECT %s, id, %s, '', '' FROM ({chosen}) AS chosen",  # noqa: S608 - Django wrote the inner question.
            [row.id, row.workspace_id, *params],
        )
        row.total = cursor.rowcount
    if not row.total:
        raise _refuse_none(row)
    if row.total > RUNS_MAX:
        message = f"more than {RUNS_MAX:,} runs match, and a job acts on at most {RUNS_MAX:,}: narrow the query, such as by started:-1d"
        raise Refused(message, code="invalid", field="query")
    row.save(update_fields=["total"])


def _refuse_none(row: RunJob) -> Refused:
    return Refused(f"no run matches, so there is nothing to {row.action}", code="invalid", field="query")


def _find_earlier(actor: Actor, key: str, asked: str) -> RunJobView | None:
    """Return the job of an earlier request with this key. Raises Refused conflict for another request."""
    row = RunJob.objects.filter(workspace_id=actor.workspace_id, start_key=key).first()
    if row is None:
        return None
    if row.request_digest != asked:
        message = f"start_key {key!r} was used for another job; use a new key, or send the same again"
        raise Refused(message, code="conflict", field="start_key")
    return make_job_view(row)
