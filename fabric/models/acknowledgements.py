"""Stores which failures people have acknowledged on the overview."""

from __future__ import annotations

from django.db import models
from django.db.models import UniqueConstraint

from fabric.models.fields.identities import KeyField, new_id
from fabric.models.workspaces.workspace import Workspace


class FailureAcknowledgement(models.Model):
    """The failures of one fabric and cause that a person has acknowledged. Later ones show again."""

    id = KeyField(primary_key=True, default=new_id)
    workspace = models.ForeignKey(Workspace, models.DO_NOTHING, related_name="+", db_constraint=False, db_index=False)
    fabric_id = KeyField()
    cause = models.TextField(blank=True)
    """``taxonomy.Cause`` of the runs; empty: their cause is unknown."""
    until_at = models.BigIntegerField()
    """End of the newest acknowledged run, microseconds since the epoch, UTC."""
    by = models.TextField()
    note = models.TextField(blank=True, default="")
    at = models.BigIntegerField()
    """Microseconds since the epoch, UTC."""

    class Meta:
        """Constraints."""

        db_table = "fabric_failure_acknowledgement"
        constraints = (UniqueConstraint(fields=["workspace", "fabric_id", "cause"], name="failure_acknowledged_once"),)

    def __str__(self) -> str:
        return f"{self.cause} by {self.by}"
