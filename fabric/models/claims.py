"""Who has a review in hand, and who looks at it: leases that lapse by themselves. Nothing here decides anything; the journal does."""

from __future__ import annotations

from django.db import models
from django.db.models import Index, UniqueConstraint

from fabric.models.keys import KeyField, new_id
from fabric.models.workspaces import Workspace


class ReviewClaim(models.Model):
    """A person has a question in hand until ``lease_until``. One row a question that was ever claimed; changed by conditional UPDATE alone.

    Instants are microseconds since the epoch, on the database's clock.
    """

    escalation = KeyField(primary_key=True)
    """The question's id."""
    workspace = models.ForeignKey(Workspace, models.DO_NOTHING, related_name="+", db_constraint=False, db_index=False)
    run_id = KeyField()
    holder = models.TextField(blank=True, default="")
    """Empty: it was released."""
    lease = models.PositiveIntegerField(default=0)
    """Grows with each change of hands: a heartbeat and a release name it, so that those of an older lease change nothing."""
    claimed_at = models.BigIntegerField()
    lease_until = models.BigIntegerField()
    assigned_by = models.TextField(blank=True, default="")
    """Who handed it to the holder; empty: they took it."""
    taken_from = models.TextField(blank=True, default="", db_default="")
    """Who had it before and let the lease lapse; empty: nobody."""

    class Meta:
        """Its name, and how it is searched."""

        db_table = "fabric_review_claim"
        indexes = (Index(fields=["workspace", "holder", "lease_until"], name="review_claim_holder"),)

    def __str__(self) -> str:
        return self.escalation


class ReviewViewer(models.Model):
    """Somebody has a question's page open: told by the page's heartbeat, and forgotten when it stops."""

    id = KeyField(primary_key=True, default=new_id)
    workspace = models.ForeignKey(Workspace, models.DO_NOTHING, related_name="+", db_constraint=False, db_index=False)
    escalation = KeyField()
    name = models.TextField()
    seen_at = models.BigIntegerField()

    class Meta:
        """Its name, and what may be there once."""

        db_table = "fabric_review_viewer"
        constraints = (UniqueConstraint(fields=["escalation", "name"], name="review_viewer_once"),)

    def __str__(self) -> str:
        return f"{self.name} at {self.escalation}"


class TicketClosure(models.Model):
    """A ticket that somebody closed, with a note. The ticket itself is the journal's; closing it changes no run."""

    escalation = KeyField(primary_key=True)
    """The ticket's id among the questions."""
    workspace = models.ForeignKey(Workspace, models.DO_NOTHING, related_name="+", db_constraint=False, db_index=False)
    run_id = KeyField()
    closed_at = models.BigIntegerField()
    closed_by = models.TextField()
    note = models.TextField()
    fork_run_id = models.TextField(blank=True, default="")
    """The run that was started from it, where one was."""

    class Meta:
        """Its name."""

        db_table = "fabric_ticket_closure"

    def __str__(self) -> str:
        return self.escalation
