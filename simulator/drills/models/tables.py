"""The tables of drills: drills, strikes, stored scenarios, schedules, and the drill stop.

A drill's row is one past or future execution of a decision table's cell, or of a scenario.
"""

from __future__ import annotations

from enum import StrEnum

from django.db import models
from django.db.models import Index, Q, UniqueConstraint

from fabric.models import Fabric, KeyField, Revision, Workspace, new_id

VIRTUAL, LIVE = "virtual", "live"
"""Modes: in the virtual world on its clock, or on this installation's workers, broker, database and clock."""
MODES = (VIRTUAL, LIVE)


class Status(StrEnum):
    """State of a drill. End states are chaostoolkit's words, and are never left."""

    QUEUED = "queued"
    RUNNING = "running"
    COMPLETED = "completed"
    """It came to a verdict about the cell."""
    FAILED = "failed"
    """It proved nothing about the cell: the run violated an invariant, or could not be made. Its verdict is error."""
    ABORTED = "aborted"
    """A person stopped it, or it met a cap or an abort condition."""
    INTERRUPTED = "interrupted"
    """Its process ended before it did."""


OPEN_STATUSES = (Status.QUEUED, Status.RUNNING)
"""States before the end."""


class Drill(models.Model):
    """A drill of a revision's cell, or of a scenario in a tier, with the seed that makes it repeatable.

    Instants are microseconds since the epoch, on the database's clock.
    """

    id = KeyField(primary_key=True, default=new_id)
    """Grows with time: the newest drill is the one with the greatest id."""
    workspace = models.ForeignKey(Workspace, models.PROTECT, related_name="+", db_index=False)
    fabric = models.ForeignKey(Fabric, models.PROTECT, related_name="+", db_index=False)
    revision = models.ForeignKey(Revision, models.PROTECT, related_name="+", db_index=False)
    number = models.PositiveIntegerField()
    """Number of the revision."""
    mode = models.TextField(default="virtual")
    """One of ``MODES``."""
    scenario = KeyField(blank=True, default="", db_default="")
    """Name of the played scenario; empty if the cell itself is drilled, by the failure of its row."""
    source = models.TextField(blank=True, default="", db_default="")
    """The scenario's TOML at the time of the request."""
    parameters = models.TextField(blank=True, default="{}", db_default="{}")
    """JSON: values that replace the scenario's own parameters."""
    failure = KeyField(blank=True)
    """``taxonomy.FailureType``; empty: a scenario that promises no decision."""
    tier = KeyField()
    """``taxonomy.Tier``."""
    seed = models.BigIntegerField()
    cap_usd_micros = models.BigIntegerField(null=True, blank=True)
    """Cost at which a live drill is ended; micro-dollars."""
    cap_s = models.PositiveIntegerField(null=True, blank=True)
    """Duration at which a live drill is ended; seconds."""
    covers = KeyField()
    """Digest of everything that its verdict depends on (``covers.covers``). If the cell's digest differs, it is
    stale.
    """
    batch = KeyField()
    """Batch of drills that were requested together; they run one after the other."""
    place = models.PositiveSmallIntegerField(default=0)
    """Position in its batch."""
    asked_by = models.TextField()
    via = models.TextField(blank=True, default="")
    reason = models.TextField(blank=True, default="")
    """Reason of the request, if one was given."""
    asked_at = models.BigIntegerField()
    status = KeyField(default=Status.QUEUED.value)
    holder = models.TextField(blank=True, default="")
    """The process that executes it."""
    started_at = models.BigIntegerField(null=True, blank=True)
    ended_at = models.BigIntegerField(null=True, blank=True)
    verdict = KeyField(blank=True, default="")
    """``pass``, ``deviated``, ``error`` or ``unknown``; empty for none."""
    expected = models.TextField(blank=True, default="")
    """The chain that the table promises."""
    observed = models.TextField(blank=True, default="")
    """The observed chain; for an error, the obstacle."""
    why = models.TextField(blank=True, default="")
    """Remark about the verdict."""
    stopped_by = models.TextField(blank=True, default="")
    run_id = KeyField(blank=True, default="", db_default="")
    """The disturbed run in the workspace of drills, or without one the undisturbed run; empty if none is kept."""
    body = models.TextField(blank=True, default="{}")
    """JSON: ``equipped``, parts added so that the fabric meets the failure, and ``seconds``, the duration."""

    class Meta:
        """Indexes and constraints."""

        indexes = (
            Index(fields=["fabric", "mode", "failure", "tier", "-id"], name="drill_of_cell"),
            Index(fields=["fabric", "mode", "covers", "-id"], name="drill_covers"),
            Index(fields=["status", "batch", "place"], name="drill_open"),
            Index(fields=["workspace", "-id"], name="drill_list"),
            Index(fields=["batch", "place"], name="drill_of_batch"),
            Index(fields=["workspace", "fabric", "-id"], condition=~Q(run_id=""), name="drill_kept"),
        )
        constraints = (
            UniqueConstraint(
                fields=["fabric", "mode", "scenario", "failure", "tier"],
                condition=Q(status__in=[status.value for status in OPEN_STATUSES]),
                name="drill_open_once",
            ),
        )

    def __str__(self) -> str:
        return f"{self.failure} {self.tier} of {self.fabric_id} r{self.number}"


class Strike(models.Model):
    """A strike of a live scenario's fault on a call, reported by its worker.

    ``at``: microseconds since the epoch, on the database's clock.
    """

    id = KeyField(primary_key=True, default=new_id)
    drill = models.ForeignKey(Drill, models.CASCADE, related_name="strikes")
    run_id = KeyField()
    fault = KeyField()
    """The name of a fault in ``simulator.faults.catalogue``."""
    command_id = models.TextField()
    attempt = models.PositiveIntegerField()
    at = models.BigIntegerField()

    def __str__(self) -> str:
        return f"{self.fault} {self.command_id}#{self.attempt}"


class StoredScenario(models.Model):
    """A scenario that a person wrote, imported or captured.

    Instants are microseconds since the epoch, on the database's clock.
    """

    id = KeyField(primary_key=True, default=new_id)
    workspace = models.ForeignKey(Workspace, models.PROTECT, related_name="+", db_index=False)
    name = KeyField()
    source = models.TextField()
    """TOML, as ``simulator.scenarios.spec.toml`` reads it."""
    captured_from = KeyField(blank=True, default="")
    """The run whose failures it repeats; empty if it was written or imported."""
    made_by = models.TextField()
    made_at = models.BigIntegerField()
    changed_at = models.BigIntegerField()
    version = models.PositiveIntegerField(default=1)
    """Grows with each change: a change names the version that the person saw."""

    class Meta:
        """Indexes and constraints."""

        constraints = (UniqueConstraint(fields=["workspace", "name"], name="scenario_name_once"),)

    def __str__(self) -> str:
        return self.name


class Schedule(models.Model):
    """Drills that are requested regularly. Instants are microseconds since the epoch, on the database's clock."""

    id = KeyField(primary_key=True, default=new_id)
    workspace = models.ForeignKey(Workspace, models.PROTECT, related_name="+", db_index=False)
    fabric = models.ForeignKey(Fabric, models.PROTECT, related_name="+", db_index=False)
    cells = models.TextField(default="all")
    """``all`` or ``stale``; for a scenario ``all`` tiers."""
    mode = models.TextField(default="virtual")
    scenario = KeyField(blank=True, default="")
    cron = models.TextField()
    """Times of the requests, in the five fields of crontab(5), UTC."""
    reason = models.TextField(blank=True, default="")
    made_by = models.TextField()
    made_at = models.BigIntegerField()
    paused_by = models.TextField(blank=True, default="")
    """Person who paused it; empty if it is not paused."""
    next_at = models.BigIntegerField()
    last_at = models.BigIntegerField(null=True, blank=True)
    last_batch = KeyField(blank=True, default="")
    last_said = models.TextField(blank=True, default="")
    """Why the last time requested nothing; empty if it did."""
    version = models.PositiveIntegerField(default=1)

    class Meta:
        """Indexes."""

        indexes = (
            Index(fields=["next_at"], condition=Q(paused_by=""), name="drill_schedule_due"),
            Index(fields=["workspace", "-id"], name="drill_schedule_list"),
        )

    def __str__(self) -> str:
        return f"{self.cron} {self.fabric_id}"


class DrillStop(models.Model):
    """Present while it is pulled: every drill of the workspace is ended, and none begins."""

    workspace = models.OneToOneField(Workspace, models.PROTECT, related_name="+", primary_key=True)
    pulled_by = models.TextField()
    pulled_at = models.BigIntegerField()
    reason = models.TextField()

    class Meta:
        """Table name."""

        db_table = "drills_drill_stop"

    def __str__(self) -> str:
        return f"{self.workspace_id}: {self.reason}"
