"""The table of drills: one row for each time that a cell of a fabric's decision table was drilled, or is to be."""

from __future__ import annotations

from enum import StrEnum

from django.db import models
from django.db.models import Index, Q, UniqueConstraint

from fabric.models import Fabric, KeyField, Revision, Workspace, new_id


class Status(StrEnum):
    """How far a drill is. Those that have ended are chaostoolkit's words, and one of them is never left again."""

    QUEUED = "queued"
    RUNNING = "running"
    COMPLETED = "completed"
    """It came to a verdict about the cell."""
    FAILED = "failed"
    """It said nothing about the cell: the run broke an invariant, or could not be made. Its verdict is error."""
    ABORTED = "aborted"
    """Somebody stopped it."""
    INTERRUPTED = "interrupted"
    """The process that drove it ended before it did."""


OPEN_STATUSES = (Status.QUEUED, Status.RUNNING)
"""Those that have not ended."""


class Drill(models.Model):
    """A cell of a revision, with the seed that makes its drill the same again. Instants are microseconds since the epoch, on the database's clock."""

    id = KeyField(primary_key=True, default=new_id)
    """Grows with time: the newest drill is the one with the greatest id."""
    workspace = models.ForeignKey(Workspace, models.PROTECT, related_name="+", db_index=False)
    fabric = models.ForeignKey(Fabric, models.PROTECT, related_name="+", db_index=False)
    revision = models.ForeignKey(Revision, models.PROTECT, related_name="+", db_index=False)
    number = models.PositiveIntegerField()
    """The revision's."""
    mode = models.TextField(default="virtual")
    """``virtual``: in the simulated world, on its clock."""
    failure = KeyField()
    """``taxonomy.FailureType``."""
    tier = KeyField()
    """``taxonomy.Tier``."""
    seed = models.BigIntegerField()
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
        )
        constraints = (
            UniqueConstraint(
                fields=["fabric", "mode", "failure", "tier"],
                condition=Q(status__in=[status.value for status in OPEN_STATUSES]),
                name="drill_open_once",
            ),
        )

    def __str__(self) -> str:
        return f"{self.failure} {self.tier} of {self.fabric_id} r{self.number}"
