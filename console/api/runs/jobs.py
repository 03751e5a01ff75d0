"""Operations on run jobs: begin, list, get and stop one action on many runs."""

from __future__ import annotations

from typing import Annotated, Literal, Self
from uuid import UUID

from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from ninja import Body, Path, Query, Router, Status
from pydantic import Field, model_validator

from console.api.runs.operations import StartKey
from console.api.shapes.common import EXAMPLE_ID, Instant, RequestShape, ResponseShape, instant
from console.site.access.callers import find_actor
from fabric.models import JobAction, JobState
from fabric.selectors.runs.query.choices import NAMED_MAX, RUNS_MAX, RunChoice
from fabric.selectors.runs.query.grammar import CHARS_MAX
from fabric.selectors.runs.query.jobs import REFUSALS_SHOWN, RunJobView, job_get, job_refusals, jobs_list
from fabric.selectors.runs.query.values import ZONE_CHARS_MAX, require_zone
from fabric.services.runs.jobs.requests import job_begin, job_stop
from fabric.services.runs.start import REASON_CHARS_MAX

router = Router(tags=["runs"])
ActionName = Literal["cancel", "pause", "resume", "retry", "terminate"]
RunId = Annotated[str, Field(min_length=1, max_length=64)]
JobId = Annotated[UUID, Path(description="The job's id.", example=EXAMPLE_ID)]


class RunJobIn(RequestShape):
    """One action, and the runs that it is for: those of a query, or named ones."""

    action: ActionName = Field(description="What is done to each run.", examples=["cancel"])
    query: str | None = Field(
        default=None,
        max_length=CHARS_MAX,
        description=f"All runs that match now, {RUNS_MAX:,} at most; an empty query matches every run.",
        examples=["fabric:research-desk state:running"],
    )
    runs: list[RunId] = Field(
        default=[], max_length=NAMED_MAX, description=f"Ids of runs, {NAMED_MAX:,} at most, in place of a query."
    )
    reason: str = Field(
        default="",
        max_length=REASON_CHARS_MAX,
        description="Kept with each run. Terminate needs it; resume and retry take none.",
        examples=["The provider is down."],
    )

    zone: str | None = Field(
        default=None,
        max_length=ZONE_CHARS_MAX,
        description="Time zone of days and hours in query; UTC.",
        examples=["Europe/Berlin"],
    )

    @model_validator(mode="after")
    def _one_of_two(self) -> Self:
        if (self.query is None) == (not self.runs):
            raise ValueError("give either query or runs")
        return self


class RunJobOut(ResponseShape):
    """A job as its last batch left it."""

    id: str = Field(description="Its id.", examples=[EXAMPLE_ID])
    action: JobAction = Field(description="What is done to each run.")
    state: JobState = Field(description="stopped and ended are final.")
    query: str | None = Field(description="The query whose runs it has; null: they were named.")
    reason: str = Field(description="Reason that was given; empty: none.")
    total: int = Field(description="Number of its runs, fixed when it began.", examples=[120])
    done: int = Field(description="Runs that were acted on.", examples=[118])
    refused: int = Field(description="Runs on which the action was refused.", examples=[2])
    left: int = Field(description="Runs that it has not tried.", examples=[0])
    asked_by: str = Field(description="In whose name it acts.", examples=["owner"])
    asked_at: Instant = Field(description="When it began.")
    stopped_by: str = Field(description="Member who stopped it; empty: not stopped.", examples=[""])
    ended_at: Instant | None = Field(description="When it ended; null: it goes on.")


class JobRefusalOut(ResponseShape):
    """A run on which the action was refused."""

    run_id: str = Field(description="The run's id.", examples=[EXAMPLE_ID])
    message: str = Field(
        description="Why, in one sentence.",
        examples=["run 01a2 has already ended (completed), so it cannot be cancelled"],
    )


class RunJobDetailOut(RunJobOut):
    """A job with a page of its refusals."""

    refusals: list[JobRefusalOut] = Field(description=f"The oldest runs first, {REFUSALS_SHOWN} a page.")
    next_cursor: str | None = Field(description="Cursor of the next page of refusals; null: this is the last.")


class RunJobsOut(ResponseShape):
    """Some jobs."""

    jobs: list[RunJobOut] = Field(description="The newest first.")


class JobStopOut(ResponseShape):
    """Result of a request to stop a job."""

    job_id: str = Field(description="The job's id.")
    recorded: bool = Field(description="False: it had been stopped before.")


class NothingIn(RequestShape):
    """An empty body."""


NOTHING = NothingIn()
Cursor = Annotated[str, Query(max_length=64, description="The next_cursor of the page before.", example=EXAMPLE_ID)]


@router.get("/runs/jobs", response=RunJobsOut, url_name="api-runs-jobs", operation_id="listRunJobs")
def list_run_jobs(request: HttpRequest) -> RunJobsOut:
    """List run jobs. The newest first; who may not control all runs sees their own."""
    return RunJobsOut(jobs=[RunJobOut(**_columns(job)) for job in jobs_list(find_actor(request))])


@router.post(
    "/runs/jobs",
    response={201: RunJobOut, 200: RunJobOut},
    url_name="api-runs-jobs",
    operation_id="beginRunJob",
)
def begin_run_job(
    request: HttpRequest, response: HttpResponse, body: Annotated[RunJobIn, Body()], idempotency_key: StartKey = ""
) -> Status[RunJobOut]:
    """Begin a run job. Workers act on each of its runs in batches; runs that start or match later are not touched."""
    begun = job_begin(
        actor=find_actor(request),
        action=JobAction(body.action),
        choice=RunChoice(body.query or "", tuple(dict.fromkeys(body.runs)), require_zone(body.zone or "UTC")),
        reason=body.reason,
        start_key=idempotency_key,
    )
    response["Location"] = reverse("api-runs-job", args=[begun.job.id])
    return Status(201 if begun.created else 200, RunJobOut(**_columns(begun.job)))


@router.get("/runs/jobs/{uuid:job_id}", response=RunJobDetailOut, url_name="api-runs-job", operation_id="getRunJob")
def get_run_job(request: HttpRequest, job_id: JobId, cursor: Cursor = "") -> RunJobDetailOut:
    """Get a run job. Its counts, and a page of its refusals."""
    actor, key = find_actor(request), str(job_id)
    found, more = job_refusals(actor, key, after=cursor)
    refusals = [JobRefusalOut(run_id=one.run_id, message=one.says) for one in found]
    return RunJobDetailOut(**_columns(job_get(actor, key)), refusals=refusals, next_cursor=more or None)


@router.post(
    "/runs/jobs/{uuid:job_id}/stop",
    response={202: JobStopOut},
    url_name="api-runs-job-stop",
    operation_id="stopRunJob",
)
def stop_run_job(
    request: HttpRequest, job_id: JobId, body: Annotated[NothingIn, Body()] = NOTHING
) -> Status[JobStopOut]:
    """Stop a run job. It ends after its present batch; runs that were acted on stay so."""
    recorded = job_stop(actor=find_actor(request), job_id=str(job_id))
    return Status(202, JobStopOut(job_id=str(job_id), recorded=recorded))


def _columns(job: RunJobView) -> dict[str, object]:
    return {
        "id": job.id,
        "action": job.action,
        "state": job.state,
        "query": None if job.by_ids else job.query,
        "reason": job.reason,
        "total": job.total,
        "done": job.done,
        "refused": job.refused,
        "left": job.left,
        "asked_by": job.asked_by,
        "asked_at": instant(job.asked_at),
        "stopped_by": job.stopped_by,
        "ended_at": instant(job.ended_at),
    }
