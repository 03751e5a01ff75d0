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
    address = models.TextField(null=True, blank=True)  # noqa: DJ001 - A column that is added with null makes no table anew.
    """From which address it was asked for, as ``body`` says too; null: nobody knows, or no address asked."""

    class Meta:
        """Its name, how it is searched, and what may be there once."""

        db_table = "fabric_audit"
        indexes = (
            Index(fields=["at", "id"], condition=UNSEALED, name="audit_unsealed"),
            Index(fields=["workspace", "subject"], name="audit_subject"),
            Index(fields=["workspace", "-at", "-id"], name="audit_newest"),
            Index(fields=["workspace", "actor", "-at"], name="audit_actor"),
            Index(fields=["workspace", "kind", "at"], name="audit_kind"),
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


class AuditFold(models.Model):
    """The same act again and again within one window, counted: the first is a line at once, the rest become one when the window is over."""

    key = KeyField(primary_key=True)
    """Hash of who, what, from where, and of the window."""
    workspace = models.ForeignKey(Workspace, models.DO_NOTHING, related_name="+", db_constraint=False, db_index=False)
    until = models.BigIntegerField(db_index=True)
    """End of the window, microseconds since the epoch."""
    known = models.BooleanField()
    """Whether somebody who is known did it; nobody who is not can make rows without a bound."""
    times = models.PositiveIntegerField(db_default=0)
    line = models.BinaryField()
    """The line to be written, as JSON."""

    def __str__(self) -> str:
        return self.key


class AuditCut(models.Model):
    """A signed marker in place of audit lines that retention removed. Appended, never changed; without it no line can be deleted."""

    id = KeyField(primary_key=True, default=new_id)
    workspace = models.ForeignKey(Workspace, models.DO_NOTHING, related_name="+", db_constraint=False, db_index=False)
    first = models.BigIntegerField()
    """Place of the first line that is gone..."""
    last = models.BigIntegerField()
    """...and of the last one."""
    at = models.BigIntegerField()
    body = models.BinaryField()
    """The bytes that are signed: ``fabric.core.audit_cut.CutBody`` as JSON. It has the hash that the rest goes on from."""
    signature = models.BinaryField()

    class Meta:
        """What may be there once."""

        constraints = (UniqueConstraint(fields=["workspace", "first"], name="audit_cut_once"),)

    def __str__(self) -> str:
        return f"{self.workspace_id} {self.first}-{self.last}"


class AuditRule(models.Model):
    """How many days a workspace keeps audit lines of one kind."""

    workspace = models.ForeignKey(Workspace, models.DO_NOTHING, related_name="+", db_constraint=False, db_index=False)
    kind = models.TextField()
    """An act; ``*``: every act without a rule of its own."""
    days = models.PositiveIntegerField()

    class Meta:
        """What may be there once."""

        constraints = (UniqueConstraint(fields=["workspace", "kind"], name="audit_rule_once"),)

    def __str__(self) -> str:
        return f"{self.kind} {self.days}"


class Hold(models.Model):
    """A legal hold: nothing that it covers is removed until it is lifted."""

    id = KeyField(primary_key=True, default=new_id)
    workspace = models.ForeignKey(Workspace, models.DO_NOTHING, related_name="+", db_constraint=False, db_index=False)
    about = models.TextField()
    """``run``, ``fabric`` or ``person``."""
    name = models.TextField()
    """The run's id, or the name of the fabric or person."""
    reason = models.TextField()
    placed_by = models.TextField()
    placed_at = models.BigIntegerField()
    lifted_by = models.TextField(blank=True, default="")
    lifted_at = models.BigIntegerField(null=True, blank=True)
    lifted_because = models.TextField(blank=True, default="")

    class Meta:
        """One of a kind at a time."""

        constraints = (
            UniqueConstraint(
                fields=["workspace", "about", "name"], condition=Q(lifted_at__isnull=True), name="hold_open_once"
            ),
        )

    def __str__(self) -> str:
        return f"{self.about} {self.name}"


class AuditForward(models.Model):
    """How far one workspace's stream was sent to one receiver."""

    target = models.TextField()
    """``syslog`` or ``otlp``."""
    workspace = models.ForeignKey(Workspace, models.DO_NOTHING, related_name="+", db_constraint=False, db_index=False)
    seq = models.BigIntegerField(db_default=0)
    """Place of the last line that the receiver took."""
    sent_at = models.BigIntegerField(db_default=0)
    failures = models.PositiveIntegerField(db_default=0)
    """Tries in a row that failed."""
    next_at = models.BigIntegerField(db_default=0)
    """Not before this is it tried again."""
    said = models.TextField(blank=True, default="")
    """Why the last try failed."""

    class Meta:
        """What may be there once."""

        constraints = (UniqueConstraint(fields=["target", "workspace"], name="audit_forward_once"),)

    def __str__(self) -> str:
        return f"{self.target} {self.seq}"


class Duty(models.Model):
    """Something that one process at a time does now and then. Instants are microseconds since the epoch on the database's clock."""

    name = KeyField(primary_key=True)
    holder = models.TextField(blank=True, default="")
    held_until = models.BigIntegerField(default=0)
    due_at = models.BigIntegerField(default=0)

    def __str__(self) -> str:
        return self.name
