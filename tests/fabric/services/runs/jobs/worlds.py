"""Runs for jobs, and the ports by which a job acts on them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime

from fabric.composition import engine as wiring
from fabric.core.people.actor import Actor
from fabric.models import Inbox, Run, RunJob, RunJobItem
from fabric.services.runs.jobs.actions import RunPorts
from fabric.services.runs.start import run_start
from tests.fabric.services.world import HeardNudge


def make_ports() -> RunPorts:
    """The store of the test's database, without a worker to wake."""
    return RunPorts(store=wiring.store(), nudge=HeardNudge(), now=lambda: time.time_ns() // 1_000)


def queue_runs(actor: Actor, fabric: str, count: int) -> list[str]:
    """Start runs that no worker has claimed; their ids in a job's order. Ids of one millisecond have no order in time."""
    ports = make_ports()
    return sorted(
        run_start(store=ports.store, nudge=ports.nudge, actor=actor, fabric=fabric, text=f"request {number}").run_id
        for number in range(count)
    )


BERLIN_NIGHT = "started:2026-03-02"
"""Finds the run of ``queue_at_night`` in the zone Europe/Berlin, and not in UTC."""


def queue_at_night(actor: Actor, fabric: str) -> str:
    """Start a run half an hour before midnight in UTC, when it is the next day in Berlin; its id."""
    (run_id,) = queue_runs(actor, fabric, 1)
    at = datetime(2026, 3, 1, 23, 30, tzinfo=UTC)
    Run.objects.filter(id=run_id).update(created_at=int(at.timestamp()) * 1_000_000)
    return run_id


def sent(run_id: str) -> list[str]:
    """The inputs that a run was sent after its start."""
    rows = Inbox.objects.filter(run_id=run_id).order_by("created_at", "input_id")
    return [row.input_id for row in rows if not row.input_id.startswith("start:")]


def outcomes(job_id: str) -> dict[str, str]:
    """The outcome of each kept row of a job."""
    return dict(RunJobItem.objects.filter(job_id=job_id).values_list("run_id", "outcome"))


def counts(job_id: str) -> tuple[str, int, int, int]:
    """State, total, done and refused."""
    row = RunJob.objects.get(id=job_id)
    return row.state, row.total, row.done, row.refused


def steps_until_end(job_id: str) -> Iterator[None]:
    """One item for each batch of a job that has not ended."""
    while RunJob.objects.get(id=job_id).ended_at is None:
        yield
