"""Stores stops of new runs, with the runs that each of them paused or cancelled.

Instants are microseconds since the epoch, on the database's clock.
"""

from __future__ import annotations

from django.db import models
from django.db.models import CheckConstraint, Index, Q, UniqueConstraint

from fabric.models.fabrics.drafts import Fabric
from fabric.models.fields.identities import KeyField, new_id
from fabric.models.workspaces.workspace import Workspace

OPEN = Q(ended_at__isnull=True)
"""Stops that no member lifted, and whose end no worker recorded. One past its given end refuses nothing any more."""
TO_DO = ~Q(left="")


class StartStop(models.Model):
    """A stop of new runs: while it stands, no run of the fabric, or of the workspace, is started."""

    id = KeyField(primary_key=True, default=new_id)
    workspace = models.ForeignKey(Workspace, models.PROTECT, related_name="+", db_index=False)
    fabric = models.ForeignKey(Fabric, models.PROTECT, related_name="+", db_index=False, null=True, blank=True)
    """The stopped fabric; null: the whole workspace."""
    stopped_by = models.TextField()
    stopped_at = models.BigIntegerField()
    reason = models.TextField()
    until_at = models.BigIntegerField(null=True, blank=True)
    """Its given end; null: it stands until a person lifts it."""
    running = models.TextField()
    """Fate of the runs that were started before: ``selectors.runs.stops.RunningRuns``."""
    left = KeyField(blank=True, default="", db_default="")
    """The workers' remaining work on these runs: pause, cancel or resume; empty: nothing."""
    left_by = models.TextField()
    """The person who asked for it: the runs are moved in their name."""
    ended_at = models.BigIntegerField(null=True, blank=True)
    ended_by = models.TextField(blank=True, default="", db_default="")
    """The person who lifted it; ``system``: its given end came; empty: it stands."""

    class Meta:
        """Indexes and constraints."""

        db_table = "fabric_start_stop"
        indexes = (Index(fields=["left"], condition=TO_DO, name="start_stop_left"),)
        constraints = (
            UniqueConstraint(fields=["workspace", "fabric"], condition=OPEN, name="start_stop_fabric_once"),
            UniqueConstraint(fields=["workspace"], condition=OPEN & Q(fabric=None), name="start_stop_once"),
            CheckConstraint(condition=~Q(reason=""), name="start_stop_has_reason"),
        )

    def __str__(self) -> str:
        return f"{self.fabric_id or self.workspace_id}: {self.reason}"


class StoppedRun(models.Model):
    """A run that a stop came to: paused, cancelled, or left as it was."""

    pk = models.CompositePrimaryKey("stop_id", "run_id")
    stop = models.ForeignKey(StartStop, models.CASCADE, related_name="runs", db_index=False)
    run_id = KeyField()
    did = KeyField(blank=True, default="")
    """``pause`` or ``cancel``; empty: it was paused or had ended before, and stays as it was."""
    hold = models.PositiveIntegerField(default=0)
    """Number of the pause in the run's life, by which its resumption is recognised."""
    resumed = models.BooleanField(default=False, db_default=False)
    """True: the end of the stop has come to it too."""

    class Meta:
        """Table name."""

        db_table = "fabric_stopped_run"

    def __str__(self) -> str:
        return f"{self.run_id} of {self.stop_id}"
