"""Stores the outbox of notifications and their targets. A target has a row for each event, or turn of a
change request.
"""

from __future__ import annotations

from django.db import models
from django.db.models import Index, Q, UniqueConstraint

from fabric.core.texts.notifications import NotificationState
from fabric.models.fields.identities import KeyField
from fabric.models.runs.run import Run
from fabric.models.workspaces.workspace import Workspace

WAITING = Q(state=NotificationState.WAITING.value)
FAILED = Q(state=NotificationState.FAILED.value)


class Notification(models.Model):
    """One notification to one target (``fabric.core.texts.notifications``). Instants are microseconds since the
    epoch; due times are on the database's clock.

    The target's address is not here: it may be a secret, and comes from the configuration when the row is sent.
    """

    id = KeyField(primary_key=True)
    """``notifications.build_key``, or ``key_of_change``: one event, and one turn of a change, makes one row."""
    workspace = models.ForeignKey(Workspace, models.DO_NOTHING, related_name="+", db_constraint=False, db_index=False)
    run = models.ForeignKey(
        Run, models.DO_NOTHING, related_name="+", db_constraint=False, db_index=False, null=True, blank=True
    )
    """Run of the event; null: it is about ``change``."""
    change = KeyField(blank=True, default="", db_default="")
    """The change request that it is about; empty: it is about a run."""
    seq = models.IntegerField()
    """Number of the reported event; 0 for a change."""
    told = models.TextField()
    """Kind: a value of ``notifications.NotificationKind``."""
    channel = models.TextField()
    target = KeyField()
    member = KeyField(blank=True, default="", db_default="")
    """Member whose mailbox it is; empty: it is the operator's."""
    shown = models.TextField()
    """Visible part of the address, or a member's name."""
    content = models.BinaryField()
    """JSON: ``notifications.Message.data``."""
    at = models.BigIntegerField()
    """Time of the reported event."""
    state = models.TextField(default=NotificationState.WAITING.value)
    attempts = models.PositiveIntegerField(default=0)
    """Number of times that it was claimed for sending; only the result of the latest attempt counts."""
    attempts_before = models.PositiveIntegerField(default=0)
    """Number of attempts before a person requested it again."""
    made_at = models.BigIntegerField()
    next_at = models.BigIntegerField()
    """Earliest time of the next attempt."""
    held_until = models.BigIntegerField(default=0)
    """End of the lease of the worker that claimed it."""
    sent_at = models.BigIntegerField(null=True, blank=True)
    error = models.TextField(blank=True, default="")
    """Error of the last attempt; empty: it succeeded, or there was none."""

    class Meta:
        """Indexes and constraints."""

        indexes = (
            Index(fields=["next_at"], condition=WAITING, name="notification_due"),
            Index(fields=["workspace", "-made_at", "id"], name="notification_list"),
            Index(fields=["workspace", "-made_at"], condition=FAILED, name="notification_failed"),
            Index(fields=["change"], condition=~Q(change=""), name="notification_change"),
        )
        constraints = (UniqueConstraint(fields=["run", "seq", "target"], name="notification_once"),)

    def __str__(self) -> str:
        return f"{self.told} of {self.change or self.run_id} to {self.shown}"


class NotificationTarget(models.Model):
    """Cursor of a target: a new target gets no earlier events."""

    id = KeyField(primary_key=True)
    """``notifications.Target.id``."""
    since_at = models.BigIntegerField()
    """Time from which events are reported."""
    read_to = models.BigIntegerField()
    """Time up to which all events have their rows, except those that commit later than a lookback."""

    class Meta:
        """Table name."""

        db_table = "fabric_notification_target"

    def __str__(self) -> str:
        return self.id


class NotificationRead(models.Model):
    """An event whose members were looked up: each of them has a row by now, or none wants one."""

    id = KeyField(primary_key=True)
    """``notifications.build_key`` of the event with an empty target."""
    run_id = KeyField()
    seq = models.IntegerField()
    at = models.BigIntegerField(db_index=True)
    """Time of the event, microseconds since the epoch: rows beyond the lookback are deleted."""

    class Meta:
        """Constraints."""

        db_table = "fabric_notification_read"
        constraints = (UniqueConstraint(fields=["run_id", "seq"], name="notification_read_once"),)

    def __str__(self) -> str:
        return self.id


class NotificationPreference(models.Model):
    """E-mail settings of a member. Without a row: all of ``notifications.MEMBER_KINDS``."""

    member = KeyField(primary_key=True)
    """``Member.id``."""
    workspace = models.ForeignKey(Workspace, models.DO_NOTHING, related_name="+", db_constraint=False, db_index=False)
    mailed = models.BooleanField(default=True, db_default=True)
    """False: the member wants no mail at all."""
    unwanted = models.TextField(blank=True, default="", db_default="")
    """Unwanted kinds out of ``notifications.MEMBER_KINDS``, separated by commas."""
    changed_at = models.BigIntegerField()

    class Meta:
        """Table name."""

        db_table = "fabric_notification_preference"

    def __str__(self) -> str:
        return self.member
