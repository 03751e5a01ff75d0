"""What people did beside the journals, the signed checkpoints over both, and whose turn it is to keep them."""

from __future__ import annotations

from django.db import models
from django.db.models import Index, Q, UniqueConstraint

from fabric.models.keys import KeyField, new_id
from fabric.models.workspaces import Workspace

UNSEALED = Q(seq__isnull=True)


class AuditLine(models.Model):
    """One act in a workspace's audit stream (``fabric.core.audit``). Inserted in the acting transaction, chained a little later by the sealer.

    Appended, never changed, but that ``seq`` and ``hash`` come in once. It says who did what to what, and holds no content.
    """

    id = KeyField(primary_key=True, default=new_id)
    workspace = models.ForeignKey(Workspace, models.DO_NOTHING, related_name="+", db_constraint=False, db_index=False)
    at = models.BigIntegerField()
    """Microseconds since the epoch, UTC."""
    actor = models.TextField()
    via = models.TextField(blank=True, default="")
    """With what the actor came in, where it was not as a person: ``token:NAME``."""
    kind = models.TextField()
    subject = models.TextField(blank=True, default="")
    """Id or name of what it was done to."""
    body = models.BinaryField()
    """JSON of the rest."""
    seq = models.BigIntegerField(null=True, blank=True)
    """Place in the workspace's stream, from 1, dense; null until it is sealed."""
    hash = models.BinaryField(null=True, blank=True)

    class Meta:
        """Its name, how it is searched, and what may be there once."""

        db_table = "fabric_audit"
        indexes = (
            Index(fields=["at", "id"], condition=UNSEALED, name="audit_unsealed"),
            Index(fields=["workspace", "subject"], name="audit_subject"),
        )
        constraints = (UniqueConstraint(fields=["workspace", "seq"], name="audit_seq_once"),)

    def __str__(self) -> str:
        return f"{self.kind} {self.subject}"


class Checkpoint(models.Model):
    """A signed statement of how far the audit stream and the journals reached. Appended, never changed."""

    id = KeyField(primary_key=True, default=new_id)
    workspace = models.ForeignKey(Workspace, models.DO_NOTHING, related_name="+", db_constraint=False, db_index=False)
    number = models.PositiveIntegerField()
    """From 1, dense in the workspace."""
    at = models.BigIntegerField()
    body = models.BinaryField()
    """The bytes that are signed: ``fabric.core.audit.CheckpointBody`` as JSON."""
    signature = models.BinaryField()

    class Meta:
        """What may be there once."""

        constraints = (UniqueConstraint(fields=["workspace", "number"], name="checkpoint_number_once"),)

    def __str__(self) -> str:
        return f"{self.workspace_id} {self.number}"


class Duty(models.Model):
    """Something that one process at a time does now and then. Instants are microseconds since the epoch on the database's clock."""

    name = KeyField(primary_key=True)
    holder = models.TextField(blank=True, default="")
    held_until = models.BigIntegerField(default=0)
    due_at = models.BigIntegerField(default=0)

    def __str__(self) -> str:
        return self.name
