"""Acts of people outside the journals, the signed checkpoints over both, and the rows with the turns of the duties."""

from __future__ import annotations

from django.db import models
from django.db.models import Index, Q, UniqueConstraint

from fabric.models.fields.identities import KeyField, new_id
from fabric.models.workspaces.workspace import Workspace

UNSEALED = Q(seq__isnull=True)


class AuditLine(models.Model):
    """One act in a workspace's audit stream (``fabric.core.audit.lines``). Inserted in the acting transaction,
    chained a little later by the sealer.

    Appended, never changed, except that ``seq`` and ``hash`` are set once. It has actor, act and target, and no
    content.
    """

    id = KeyField(primary_key=True, default=new_id)
    workspace = models.ForeignKey(Workspace, models.DO_NOTHING, related_name="+", db_constraint=False, db_index=False)
    at = models.BigIntegerField()
    """Microseconds since the epoch, UTC."""
    actor = models.TextField()
    via = models.TextField(blank=True, default="")
    """Means of the actor's access, where it was not as a person: ``token:NAME``."""
    kind = models.TextField()
    subject = models.TextField(blank=True, default="")
    """Id or name of the act's target."""
    body = models.BinaryField()
    """JSON of the rest."""
    seq = models.BigIntegerField(null=True, blank=True)
    """Place in the workspace's stream, from 1, dense; null until it is sealed."""
    hash = models.BinaryField(null=True, blank=True)
    address = models.TextField(null=True, blank=True)  # noqa: DJ001 - A column that is added with null makes no table anew.
    """Address of the request, as in ``body``; null: unknown, or no address."""

    class Meta:
        """Indexes and constraints."""

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
    """A signed statement of the ends of the audit stream and the journals. Appended, never changed."""

    id = KeyField(primary_key=True, default=new_id)
    workspace = models.ForeignKey(Workspace, models.DO_NOTHING, related_name="+", db_constraint=False, db_index=False)
    number = models.PositiveIntegerField()
    """From 1, dense in the workspace."""
    at = models.BigIntegerField()
    body = models.BinaryField()
    """The bytes that are signed: ``fabric.core.audit.lines.CheckpointBody`` as JSON."""
    signature = models.BinaryField()

    class Meta:
        """Constraints."""

        constraints = (UniqueConstraint(fields=["workspace", "number"], name="checkpoint_number_once"),)

    def __str__(self) -> str:
        return f"{self.workspace_id} {self.number}"


class AuditFold(models.Model):
    """Counts a repeated act within one window. The first is a line at once; the rest become one line after
    the window.
    """

    key = KeyField(primary_key=True)
    """Hash of actor, act, address and window."""
    workspace = models.ForeignKey(Workspace, models.DO_NOTHING, related_name="+", db_constraint=False, db_index=False)
    until = models.BigIntegerField(db_index=True)
    """End of the window, microseconds since the epoch."""
    known = models.BooleanField()
    """True for a known actor; unknown ones cannot create rows without a bound."""
    times = models.PositiveIntegerField(db_default=0)
    line = models.BinaryField()
    """The line to be written, as JSON."""

    def __str__(self) -> str:
        return self.key


class AuditCut(models.Model):
    """A signed marker in place of audit lines that retention removed. Appended, never changed; without it no line
    can be deleted.
    """

    id = KeyField(primary_key=True, default=new_id)
    workspace = models.ForeignKey(Workspace, models.DO_NOTHING, related_name="+", db_constraint=False, db_index=False)
    first = models.BigIntegerField()
    """Place of the first removed line."""
    last = models.BigIntegerField()
    """Place of the last removed line."""
    at = models.BigIntegerField()
    body = models.BinaryField()
    """The signed bytes: ``fabric.core.audit.lines.CutBody`` as JSON. It has the hash before the following line."""
    signature = models.BinaryField()

    class Meta:
        """Constraints."""

        constraints = (UniqueConstraint(fields=["workspace", "first"], name="audit_cut_once"),)

    def __str__(self) -> str:
        return f"{self.workspace_id} {self.first}-{self.last}"


class AuditRule(models.Model):
    """Days for which a workspace stores audit lines of one kind."""

    workspace = models.ForeignKey(Workspace, models.DO_NOTHING, related_name="+", db_constraint=False, db_index=False)
    kind = models.TextField()
    """An act; ``*``: every act without a rule of its own."""
    days = models.PositiveIntegerField()

    class Meta:
        """Constraints."""

        constraints = (UniqueConstraint(fields=["workspace", "kind"], name="audit_rule_once"),)

    def __str__(self) -> str:
        return f"{self.kind} {self.days}"


class Hold(models.Model):
    """A legal hold: nothing under it is removed until it is lifted."""

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
        """Constraint: one open hold of a kind at a time."""

        constraints = (
            UniqueConstraint(
                fields=["workspace", "about", "name"], condition=Q(lifted_at__isnull=True), name="hold_open_once"
            ),
        )

    def __str__(self) -> str:
        return f"{self.about} {self.name}"


class AuditForward(models.Model):
    """Progress of one workspace's stream to one receiver."""

    target = models.TextField()
    """``syslog`` or ``otlp``."""
    workspace = models.ForeignKey(Workspace, models.DO_NOTHING, related_name="+", db_constraint=False, db_index=False)
    seq = models.BigIntegerField(db_default=0)
    """Place of the last line that the receiver took."""
    sent_at = models.BigIntegerField(db_default=0)
    failures = models.PositiveIntegerField(db_default=0)
    """Number of successive failed tries."""
    next_at = models.BigIntegerField(db_default=0)
    """Time of the next permitted try."""
    said = models.TextField(blank=True, default="")
    """Reason of the last failure."""

    class Meta:
        """Constraints."""

        constraints = (UniqueConstraint(fields=["target", "workspace"], name="audit_forward_once"),)

    def __str__(self) -> str:
        return f"{self.target} {self.seq}"


class Duty(models.Model):
    """A duty of one process at a time. Instants are microseconds since the epoch on the database's clock."""

    name = KeyField(primary_key=True)
    holder = models.TextField(blank=True, default="")
    held_until = models.BigIntegerField(default=0)
    due_at = models.BigIntegerField(default=0)

    def __str__(self) -> str:
        return self.name
