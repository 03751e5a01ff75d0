"""Stores run jobs: one action on many runs, carried out batch by batch by the workers."""

from __future__ import annotations

from enum import StrEnum

from django.db import models
from django.db.models import Index, Q, UniqueConstraint

from fabric.models.fields.identities import KeyField, new_id
from fabric.models.runs.run import Run
from fabric.models.workspaces.workspace import Workspace


class JobAction(StrEnum):
    """Action on each run of a job."""

    CANCEL = "cancel"
    PAUSE = "pause"
    RESUME = "resume"
    RETRY = "retry"
    """A new run keeps the settled results of one that ended without an answer, and runs the rest again."""
    TERMINATE = "terminate"


class JobState(StrEnum):
    """State of a job. The last two are never left."""

    RUNNING = "running"
    STOPPING = "stopping"
    """A person stopped it: it ends after the present batch."""
    STOPPED = "stopped"
    ENDED = "ended"
    """Each of its runs was acted on, or refused."""


class ItemOutcome(StrEnum):
    """Result of the action on one run of a job."""

    WAITING = ""
    DONE = "done"
    REFUSED = "refused"


OPEN = Q(state__in=[JobState.RUNNING.value, JobState.STOPPING.value])


class RunJob(models.Model):
    """One action on many runs. Its runs are fixed when it begins. Instants are microseconds since the epoch, UTC."""

    id = KeyField(primary_key=True, default=new_id)
    workspace = models.ForeignKey(Workspace, models.DO_NOTHING, related_name="+", db_constraint=False, db_index=False)
    start_key = models.TextField(blank=True, default="")
    """Key by which a repeated request is recognised; empty: none."""
    request_digest = KeyField()
    """Digest of the request, with which a repeated one is compared."""
    action = KeyField()
    by_ids = models.BooleanField()
    """True: its runs were selected one by one; False: they are those that matched ``query``."""
    query = models.TextField(blank=True, default="")
    """The query line as it was given."""
    reason = models.TextField(blank=True, default="")
    asked_by = models.TextField()
    via = models.TextField(blank=True, default="")
    fabrics = models.TextField(blank=True, default="")
    """Fabrics to which the asker's credential is confined, separated by commas; empty: not confined."""
    asked_at = models.BigIntegerField()
    total = models.PositiveIntegerField()
    """Number of its runs."""
    done = models.PositiveIntegerField(default=0)
    refused = models.PositiveIntegerField(default=0)
    state = KeyField(default=JobState.RUNNING.value)
    stopped_by = models.TextField(blank=True, default="")
    ended_at = models.BigIntegerField(null=True, blank=True)

    class Meta:
        """Indexes and constraints."""

        db_table = "fabric_run_job"
        indexes = (
            Index(fields=["id"], condition=OPEN, name="run_job_open"),
            Index(fields=["workspace", "-id"], name="run_job_list"),
        )
        constraints = (
            UniqueConstraint(
                fields=["workspace", "start_key"], condition=~Q(start_key=""), name="run_job_start_key_once"
            ),
        )

    def __str__(self) -> str:
        return f"{self.action} {self.total} runs"


class RunJobItem(models.Model):
    """One run of a job. Rows of runs that were acted on are deleted when the job ends; the refused ones stay."""

    pk = models.CompositePrimaryKey("job_id", "run_id")
    job = models.ForeignKey(RunJob, models.DO_NOTHING, related_name="items", db_constraint=False, db_index=False)
    run = models.ForeignKey(Run, models.DO_NOTHING, related_name="+", db_constraint=False, db_index=False)
    workspace = models.ForeignKey(Workspace, models.DO_NOTHING, related_name="+", db_constraint=False, db_index=False)
    outcome = KeyField(blank=True, default=ItemOutcome.WAITING.value)
    says = models.TextField(blank=True, default="")
    """Sentence of a refusal."""
    holds_before = models.PositiveIntegerField(null=True, blank=True)
    """Number of pauses and resumptions that the run had been sent before this job tried; null: not tried."""

    class Meta:
        """Index for the next batch, and for counts."""

        db_table = "fabric_run_job_item"
        indexes = (Index(fields=["job", "outcome", "run"], name="run_job_item_next"),)

    def __str__(self) -> str:
        return f"{self.job_id} {self.run_id}"
