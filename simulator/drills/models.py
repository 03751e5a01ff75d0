"""The tables of drills. One has a row for each time that a cell of a decision table, or a scenario, was drilled or is to be.

The others have what people keep beside them: scenarios of their own, schedules, and the lever that stops it all.
"""

from __future__ import annotations

from enum import StrEnum

from django.db import models
from django.db.models import Index, Q, UniqueConstraint

from fabric.models import Fabric, KeyField, Revision, Workspace, new_id

VIRTUAL, LIVE = "virtual", "live"
"""Modes: in the simulated world, on its clock; on this installation's workers, broker, database and clock."""
MODES = (VIRTUAL, LIVE)


class Status(StrEnum):
    """How far a drill is. Those that have ended are chaostoolkit's words, and one of them is never left again."""

    QUEUED = "queued"
    RUNNING = "running"
    COMPLETED = "completed"
    """It came to a verdict about the cell."""
    FAILED = "failed"
    """It said nothing about the cell: the run broke an invariant, or could not be made. Its verdict is error."""
    ABORTED = "aborted"
    """Somebody stopped it, or it met a cap or an abort condition."""
    INTERRUPTED = "interrupted"
    """The process that drove it ended before it did."""


OPEN_STATUSES = (Status.QUEUED, Status.RUNNING)
"""Those that have not ended."""


class Drill(models.Model):
    """A cell of a revision, or a scenario in a tier, with the seed that makes its drill the same again. Instants are microseconds since the epoch, on the database's clock."""

    id = KeyField(primary_key=True, default=new_id)
    """Grows with time: the newest drill is the one with the greatest id."""
    workspace = models.ForeignKey(Workspace, models.PROTECT, related_name="+", db_index=False)
    fabric = models.ForeignKey(Fabric, models.PROTECT, related_name="+", db_index=False)
    revision = models.ForeignKey(Revision, models.PROTECT, related_name="+", db_index=False)
    number = models.PositiveIntegerField()
    """The revision's."""
    mode = models.TextField(default="virtual")
    """One of ``MODES``."""
    scenario = KeyField(blank=True, default="", db_default="")
    """Name of the scenario that is played; empty: the cell itself is drilled, by the failure that its row is named for."""
    source = models.TextField(blank=True, default="", db_default="")
    """The scenario as it was when it was asked for, TOML."""
    parameters = models.TextField(blank=True, default="{}", db_default="{}")
    """JSON: what was given in place of the scenario's own parameters."""
    failure = KeyField(blank=True)
    """``taxonomy.FailureType``; empty: a scenario that promises no decision."""
    tier = KeyField()
    """``taxonomy.Tier``."""
    seed = models.BigIntegerField()
    cap_usd_micros = models.BigIntegerField(null=True, blank=True)
    """A live drill that has cost so much is ended; micro-dollars."""
    cap_s = models.PositiveIntegerField(null=True, blank=True)
    """A live drill that has taken so long is ended; seconds."""
    covers = KeyField()
    """``covers.covers``: what its verdict depends on. Where the cell's is another by now, the verdict is stale."""
    batch = KeyField()
    """Which were asked for together; they are done one after the other."""
    place = models.PositiveSmallIntegerField(default=0)
    """In its batch."""
    asked_by = models.TextField()
    via = models.TextField(blank=True, default="")
    reason = models.TextField(blank=True, default="")
    """Why it was asked for, where somebody said it."""
    asked_at = models.BigIntegerField()
    status = KeyField(default=Status.QUEUED.value)
    holder = models.TextField(blank=True, default="")
    """The process that drives it, while it runs."""
    started_at = models.BigIntegerField(null=True, blank=True)
    ended_at = models.BigIntegerField(null=True, blank=True)
    verdict = KeyField(blank=True, default="")
    """``pass``, ``deviated``, ``error`` or ``unknown``; empty: it has none."""
    expected = models.TextField(blank=True, default="")
    """The chain that the table promises."""
    observed = models.TextField(blank=True, default="")
    """The chain that was seen; of an error, what stood in the way."""
    why = models.TextField(blank=True, default="")
    """What is to be said about the verdict."""
    stopped_by = models.TextField(blank=True, default="")
    run_id = KeyField(blank=True, default="", db_default="")
    """The run that was disturbed, in the workspace of drills; where none was, the undisturbed one. Empty: none is kept."""
    body = models.TextField(blank=True, default="{}")
    """JSON: ``equipped``, what the fabric was given so that the failure could be met, and ``seconds``, how long it took."""

    class Meta:
        """How it is searched, and what may be there once."""

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
    """That a fault of a live scenario struck a call, told by the worker that struck it. ``at``: microseconds since the epoch, on the database's clock."""

    id = KeyField(primary_key=True, default=new_id)
    drill = models.ForeignKey(Drill, models.CASCADE, related_name="strikes")
    run_id = KeyField()
    fault = KeyField()
    """A name of ``scenarios.catalogue.FAULTS``."""
    command_id = models.TextField()
    attempt = models.PositiveIntegerField()
    at = models.BigIntegerField()

    def __str__(self) -> str:
        return f"{self.fault} {self.command_id}#{self.attempt}"


class StoredScenario(models.Model):
    """A scenario that somebody wrote, imported or captured. Instants are microseconds since the epoch, on the database's clock."""

    id = KeyField(primary_key=True, default=new_id)
    workspace = models.ForeignKey(Workspace, models.PROTECT, related_name="+", db_index=False)
    name = KeyField()
    source = models.TextField()
    """TOML, as ``simulator.scenarios.reading`` reads it."""
    captured_from = KeyField(blank=True, default="")
    """The run whose failures it repeats; empty: it was written or imported."""
    made_by = models.TextField()
    made_at = models.BigIntegerField()
    changed_at = models.BigIntegerField()
    version = models.PositiveIntegerField(default=1)
    """Grows with each change: a change is made to the version that was seen."""

    class Meta:
        """How it is searched, and what may be there once."""

        constraints = (UniqueConstraint(fields=["workspace", "name"], name="scenario_name_once"),)

    def __str__(self) -> str:
        return self.name


class Schedule(models.Model):
    """Drills that are asked for again and again. Instants are microseconds since the epoch, on the database's clock."""

    id = KeyField(primary_key=True, default=new_id)
    workspace = models.ForeignKey(Workspace, models.PROTECT, related_name="+", db_index=False)
    fabric = models.ForeignKey(Fabric, models.PROTECT, related_name="+", db_index=False)
    cells = models.TextField(default="all")
    """``all`` or ``stale``; of a scenario: ``all`` of its tiers."""
    mode = models.TextField(default="virtual")
    scenario = KeyField(blank=True, default="")
    cron = models.TextField()
    """When, in the five fields of crontab(5), UTC."""
    reason = models.TextField(blank=True, default="")
    made_by = models.TextField()
    made_at = models.BigIntegerField()
    paused_by = models.TextField(blank=True, default="")
    """Who paused it; empty: it is not paused."""
    next_at = models.BigIntegerField()
    last_at = models.BigIntegerField(null=True, blank=True)
    last_batch = KeyField(blank=True, default="")
    last_said = models.TextField(blank=True, default="")
    """Why nothing was asked for the last time; empty: something was."""
    version = models.PositiveIntegerField(default=1)

    class Meta:
        """How it is searched."""

        indexes = (
            Index(fields=["next_at"], condition=Q(paused_by=""), name="drill_schedule_due"),
            Index(fields=["workspace", "-id"], name="drill_schedule_list"),
        )

    def __str__(self) -> str:
        return f"{self.cron} {self.fabric_id}"


class Lever(models.Model):
    """Present while it is pulled: every drill of the workspace is ended, and none is begun."""

    workspace = models.OneToOneField(Workspace, models.PROTECT, related_name="+", primary_key=True)
    pulled_by = models.TextField()
    pulled_at = models.BigIntegerField()
    reason = models.TextField()

    def __str__(self) -> str:
        return f"{self.workspace_id}: {self.reason}"
