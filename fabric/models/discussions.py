"""Stores what people say and plan about reviews: comments, snoozes, and how far a person has seen their inbox.

None of it moves a run.
"""

from __future__ import annotations

from django.db import models
from django.db.models import Index, UniqueConstraint

from fabric.models.fields.identities import KeyField, new_id
from fabric.models.workspaces.workspace import Workspace


class ReviewComment(models.Model):
    """A comment of a person on a review."""

    id = KeyField(primary_key=True, default=new_id)
    workspace = models.ForeignKey(Workspace, models.DO_NOTHING, related_name="+", db_constraint=False, db_index=False)
    run_id = KeyField()
    review = KeyField()
    """Id of the review."""
    number = models.PositiveIntegerField()
    """Number of the comment among those of its run, from 1."""
    author = models.TextField()
    text = models.TextField(blank=True)
    """Plain text; empty: retention erased it."""
    mentions = models.TextField(blank=True, default="", db_default="")
    """Members whom it mentions (``batch_parts.names_text``)."""
    at = models.BigIntegerField()
    """Microseconds since the epoch, UTC."""

    class Meta:
        """Indexes and constraints."""

        db_table = "fabric_review_comment"
        indexes = (
            Index(fields=["review", "at"], name="review_comment_of_review"),
            Index(fields=["workspace", "-at"], name="review_comment_newest"),
        )
        constraints = (UniqueConstraint(fields=["run_id", "number"], name="review_comment_once"),)

    def __str__(self) -> str:
        return f"{self.author} on {self.review}"


class ReviewSnooze(models.Model):
    """A review that a person does not want to see among theirs for a while.

    It counts while the review is as it was then: the columns below are the review's of that time.
    """

    id = KeyField(primary_key=True, default=new_id)
    workspace = models.ForeignKey(Workspace, models.DO_NOTHING, related_name="+", db_constraint=False, db_index=False)
    review = KeyField()
    name = models.TextField()
    until_at = models.BigIntegerField()
    """Microseconds since the epoch, UTC."""
    digest = models.TextField()
    agreed = models.TextField(blank=True, default="")
    reminded = models.BooleanField(default=False)
    onward = models.BooleanField(default=False)

    class Meta:
        """Constraints."""

        db_table = "fabric_review_snooze"
        constraints = (UniqueConstraint(fields=["review", "name"], name="review_snooze_once"),)

    def __str__(self) -> str:
        return f"{self.name} at {self.review}"


class InboxSeen(models.Model):
    """The instant up to which a person has seen their inbox."""

    id = KeyField(primary_key=True, default=new_id)
    workspace = models.ForeignKey(Workspace, models.DO_NOTHING, related_name="+", db_constraint=False, db_index=False)
    name = models.TextField()
    seen_at = models.BigIntegerField()
    """Microseconds since the epoch, UTC."""

    class Meta:
        """Constraints."""

        db_table = "fabric_inbox_seen"
        constraints = (UniqueConstraint(fields=["workspace", "name"], name="inbox_seen_once"),)

    def __str__(self) -> str:
        return self.name
