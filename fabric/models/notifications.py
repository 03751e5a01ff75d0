"""The outbox: what is told outside the console, a row for each event, or turn of a change request, and target; and since when each target is told."""

from __future__ import annotations

from django.db import models
from django.db.models import Index, Q, UniqueConstraint

from fabric.core.notifications import State
from fabric.models.keys import KeyField
from fabric.models.runs import Run
from fabric.models.workspaces import Workspace

WAITING = Q(state=State.WAITING.value)
FAILED = Q(state=State.FAILED.value)


class Notification(models.Model):
    """One thing told to one target (``fabric.core.notifications``). Instants are microseconds since the epoch; those that say when it is due are
    on the database's clock. The target's address is not here: it may be a secret, and is asked of the configuration when it is sent.
    """

    id = KeyField(primary_key=True)
    """``notifications.key_of``, or ``key_of_change``: the same event, and the same turn of a change, makes no second one."""
    workspace = models.ForeignKey(Workspace, models.DO_NOTHING, related_name="+", db_constraint=False, db_index=False)
    run = models.ForeignKey(
        Run, models.DO_NOTHING, related_name="+", db_constraint=False, db_index=False, null=True, blank=True
    )
    """Null: it is about ``change``, which no run has to do with."""
    change = KeyField(blank=True, default="", db_default="")
    """The change request that it is about; empty: it is about a run."""
    seq = models.IntegerField()
    """The event that it tells; of a change 0."""
    told = models.TextField()
    """``notifications.Told``."""
    channel = models.TextField()
    target = KeyField()
    member = KeyField(blank=True, default="", db_default="")
    """The member whose mailbox it is; empty: it is the operator's."""
    shown = models.TextField()
    """What of the address a person may see; of a member the name."""
    content = models.BinaryField()
    """JSON: ``notifications.Message.data``."""
    at = models.BigIntegerField()
    """When what it tells happened."""
    state = models.TextField(default=State.WAITING.value)
    attempts = models.PositiveIntegerField(default=0)
    """How often it was taken to be sent; the number of an attempt says whose word about it counts."""
    attempts_before = models.PositiveIntegerField(default=0)
    """Of those, how many came before somebody asked for it again."""
    made_at = models.BigIntegerField()
    next_at = models.BigIntegerField()
    """Not before this is it sent."""
    held_until = models.BigIntegerField(default=0)
    """Until then the worker that took it has it in hand."""
    sent_at = models.BigIntegerField(null=True, blank=True)
    error = models.TextField(blank=True, default="")
    """What the last attempt came to; empty: it was taken, or there was none."""

    class Meta:
        """How it is searched, and what may be there once."""

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
    """How far events were read for a target: somebody who is added today is not told what happened yesterday."""

    id = KeyField(primary_key=True)
    """``notifications.Target.id``."""
    since_at = models.BigIntegerField()
    """Events from then on are told."""
    read_to = models.BigIntegerField()
    """Up to then all that are in the journal have their rows, but for what commits later than a lookback."""

    class Meta:
        """Its name."""

        db_table = "fabric_notification_target"

    def __str__(self) -> str:
        return self.id


class NotificationRead(models.Model):
    """An event that was looked at for the members whom it asks: each of them has a row by now, or nobody is to be told."""

    id = KeyField(primary_key=True)
    """``notifications.key_of`` of the event and nobody's target."""
    run_id = KeyField()
    seq = models.IntegerField()
    at = models.BigIntegerField(db_index=True)
    """When it happened, microseconds since the epoch: what is older than is looked back to is forgotten."""

    class Meta:
        """Its name, and what may be there once."""

        db_table = "fabric_notification_read"
        constraints = (UniqueConstraint(fields=["run_id", "seq"], name="notification_read_once"),)

    def __str__(self) -> str:
        return self.id


class NotificationPreference(models.Model):
    """What a member wants to be told by e-mail. Without a row: all of ``notifications.MEMBERS_TOLD``."""

    member = KeyField(primary_key=True)
    """``Member.id``."""
    workspace = models.ForeignKey(Workspace, models.DO_NOTHING, related_name="+", db_constraint=False, db_index=False)
    questions = models.BooleanField(default=True, db_default=True)
    """False: they want no mail at all."""
    unwanted = models.TextField(blank=True, default="", db_default="")
    """Of ``notifications.MEMBERS_TOLD`` what they do not want, separated by commas."""
    changed_at = models.BigIntegerField()

    class Meta:
        """Its name."""

        db_table = "fabric_notification_preference"

    def __str__(self) -> str:
        return self.member
