"""Stores reviews: a projection of the review events, written in one batch with them.

Assignments of reviews, and the people who look at them, are leases that lapse. Nothing here decides anything; the
journal does.
"""

from __future__ import annotations

from django.db import models
from django.db.models import CheckConstraint, F, Index, Q, UniqueConstraint, Value
from django.db.models.functions import Concat, StrIndex
from django.db.models.lookups import Exact

from fabric.models.fields.identities import KeyField, new_id
from fabric.models.runs.run import Run
from fabric.models.workspaces.workspace import Workspace

OPEN = Q(decided_at__isnull=True)
DECIDED = Q(decided_at__isnull=False)
FOLLOW_UP = "follow_up"
"""Kind that parks nothing. It is closed at its creation, so that it never counts as open (``FollowUpClosure`` has its
handling).
"""
WITHDRAWN = "withdrawn"
"""Verb that closes a review whose subject is gone."""
_LETS_NOTHING_PASS = Q(by_system=True) | Q(verb__in=("", "reject", "decline", "withdrawn"))
_ALONE = Q(alone=True, approvals=1)


def _not_in(column: str) -> Q:
    """Return the constraint that the decider is not named in the column. The run's owner ensures it; this stops
    writers that bypass it.
    """
    end = Value("\n", output_field=models.TextField())
    named = StrIndex(F(column), Concat(end, F("decided_by"), end))
    return Q(Exact(named, Value(0)))


class Review(models.Model):
    """One review (``batch_parts.ReviewChange``). Instants are microseconds since the epoch, UTC."""

    id = KeyField(primary_key=True)
    workspace = models.ForeignKey(Workspace, models.DO_NOTHING, related_name="+", db_constraint=False, db_index=False)
    run = models.ForeignKey(Run, models.DO_NOTHING, related_name="reviews", db_constraint=False, db_index=False)
    step_id = models.TextField(blank=True, default="")
    item = models.TextField()
    reason = models.TextField(blank=True, default="")
    failure_type = models.TextField(blank=True, default="")
    stage = models.TextField(blank=True, default="")
    required_role = models.TextField(blank=True, default="")
    verbs = models.TextField()
    """Possible answers, separated by commas."""
    digest = models.TextField()
    """Digest of the content that an approval releases; a decision names it."""
    opened_at = models.BigIntegerField()
    due_at = models.BigIntegerField()
    content = models.BinaryField()
    """JSON of the content for the person."""
    decided_at = models.BigIntegerField(null=True, blank=True)
    verb = models.TextField(blank=True, default="")
    decided_by = models.TextField(blank=True, default="")
    by_system = models.BooleanField(default=False)
    alone = models.BooleanField(db_default=False)
    """True if the decider was the only person who can sign in there."""
    approvals = models.PositiveSmallIntegerField(db_default=1)
    """Number of people who have to agree."""
    asked = models.TextField(blank=True, db_default="")
    """Roles and users who may answer from the beginning: this column and the next three as
    ``batch_parts.names_text`` has it.
    """
    onward_to = models.TextField(blank=True, db_default="")
    """Further roles and users once it was passed on."""
    barred = models.TextField(blank=True, db_default="")
    """People who may only reject it."""
    agreed = models.TextField(blank=True, db_default="")
    """Earlier approvers of exactly the present content, where two have to agree, without the decider."""
    proposed_by = models.TextField(blank=True, db_default="")
    """Author of the content, where another person has to approve it."""
    remind_at = models.BigIntegerField(db_default=0)
    onward_at = models.BigIntegerField(db_default=0)
    reminded = models.BooleanField(db_default=False)
    onward = models.BooleanField(db_default=False)
    """True if it was passed on."""
    score = models.FloatField(null=True, blank=True)
    """The critic's score, where low confidence caused the review."""
    tau = models.FloatField(null=True, blank=True)
    """Least score that passes."""

    class Meta:
        """Indexes and constraints."""

        indexes = (
            Index(fields=["workspace", "due_at"], condition=OPEN, name="review_open_due"),
            Index(fields=["run", "opened_at"], name="review_of_run"),
            Index(fields=["workspace", "-opened_at"], condition=Q(item=FOLLOW_UP), name="review_follow_ups"),
            Index(fields=["workspace", "-decided_at", "id"], condition=DECIDED, name="review_decided"),
        )
        constraints = (
            UniqueConstraint(fields=["run", "step_id"], condition=OPEN, name="review_open_once"),
            CheckConstraint(condition=_LETS_NOTHING_PASS | _ALONE | _not_in("barred"), name="review_not_barred"),
            CheckConstraint(condition=_LETS_NOTHING_PASS | _not_in("agreed"), name="review_two_people"),
            CheckConstraint(
                condition=_LETS_NOTHING_PASS | Q(proposed_by="") | ~Q(proposed_by=F("decided_by")),
                name="review_not_own_edit",
            ),
        )

    def __str__(self) -> str:
        return self.id


class ReviewAssignment(models.Model):
    """A person's assignment of a review until ``lease_until``. One row for each review that was ever claimed; only
    conditional UPDATEs change it.

    Instants are microseconds since the epoch, on the database's clock.
    """

    review = KeyField(primary_key=True)
    """Id of the review."""
    workspace = models.ForeignKey(Workspace, models.DO_NOTHING, related_name="+", db_constraint=False, db_index=False)
    run_id = KeyField()
    holder = models.TextField(blank=True, default="")
    """Present holder; empty: it was released."""
    lease = models.PositiveIntegerField(default=0)
    """Number that grows with each change of holder. A heartbeat and a release name it, so that those of an older lease
    change nothing.
    """
    claimed_at = models.BigIntegerField()
    lease_until = models.BigIntegerField()
    assigned_by = models.TextField(blank=True, default="")
    """Person who handed it to the holder; empty: the holder claimed it."""
    taken_from = models.TextField(blank=True, default="", db_default="")
    """Earlier holder whose lease lapsed, or whose answer released it; empty: there was none."""
    role = models.TextField(blank=True, default="", db_default="")
    """Role that it was handed to: any of its holders may claim it; empty: none."""

    class Meta:
        """Indexes."""

        db_table = "fabric_review_assignment"
        indexes = (Index(fields=["workspace", "holder", "lease_until"], name="review_assignment_holder"),)

    def __str__(self) -> str:
        return self.review


class ReviewViewer(models.Model):
    """A person with a review's page open: kept by the page's heartbeat."""

    id = KeyField(primary_key=True, default=new_id)
    workspace = models.ForeignKey(Workspace, models.DO_NOTHING, related_name="+", db_constraint=False, db_index=False)
    review = KeyField()
    name = models.TextField()
    seen_at = models.BigIntegerField()

    class Meta:
        """Constraints."""

        db_table = "fabric_review_viewer"
        constraints = (UniqueConstraint(fields=["review", "name"], name="review_viewer_once"),)

    def __str__(self) -> str:
        return f"{self.name} at {self.review}"


class FollowUpClosure(models.Model):
    """A closed follow-up with its note. The follow-up itself is the journal's; closing it changes no run."""

    review = KeyField(primary_key=True)
    """Id of the follow-up's review."""
    workspace = models.ForeignKey(Workspace, models.DO_NOTHING, related_name="+", db_constraint=False, db_index=False)
    run_id = KeyField()
    closed_at = models.BigIntegerField()
    closed_by = models.TextField()
    note = models.TextField()
    fork_run_id = models.TextField(blank=True, default="")
    """Run that was started from it; empty: none."""

    class Meta:
        """Table name."""

        db_table = "fabric_follow_up_closure"

    def __str__(self) -> str:
        return self.review
