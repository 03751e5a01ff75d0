"""Who belongs to a workspace, with which roles; and the invitations by which people come in."""

from __future__ import annotations

from django.conf import settings
from django.db import models
from django.db.models import Index, Q, UniqueConstraint

from fabric.models.keys import KeyField, new_id
from fabric.models.workspaces import Workspace

NAMES_TRIED_MAX = 10
"""So many names that are not to be had may be tried with one invitation, so that its link does not tell who has an account."""


class Member(models.Model):
    """A user in a workspace. Without a row, or with one that was ended, a user sees nothing of it. Instants are microseconds since the epoch, UTC."""

    id = KeyField(primary_key=True, default=new_id)
    workspace = models.ForeignKey(Workspace, models.CASCADE, related_name="+", db_index=False)
    user = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE, related_name="+")
    name = models.TextField()
    """The user's name, which never changes: journals and audit lines have it."""
    roles = models.TextField(blank=True, default="")
    """``fabric.core.roles``, and names that only fabrics know, separated by commas, in the order of the alphabet."""
    service = models.BooleanField(db_default=False)
    """True: an account of programs. It has tokens and no sign-in, and never decides."""
    created_at = models.BigIntegerField()
    created_by = models.TextField(blank=True, default="")
    removed_at = models.BigIntegerField(null=True, blank=True)
    removed_by = models.TextField(blank=True, default="")

    class Meta:
        """What may be there once."""

        constraints = (
            UniqueConstraint(fields=["workspace", "name"], condition=Q(removed_at__isnull=True), name="member_once"),
        )

    def __str__(self) -> str:
        return self.name


class Invitation(models.Model):
    """A link by which one person becomes a member. Only the token's hash is kept: who reads the table cannot come in with it.

    Instants are microseconds since the epoch, UTC.
    """

    id = KeyField(primary_key=True, default=new_id)
    workspace = models.ForeignKey(Workspace, models.CASCADE, related_name="+", db_index=False)
    token_hash = KeyField(unique=True)
    """SHA-256 of the token, in hex."""
    email = models.TextField(blank=True, default="")
    """Whom it was meant for; empty: nobody said."""
    roles = models.TextField(blank=True, default="")
    created_at = models.BigIntegerField()
    created_by = models.TextField()
    expires_at = models.BigIntegerField()
    accepted_at = models.BigIntegerField(null=True, blank=True)
    accepted_by = models.TextField(blank=True, default="")
    revoked_at = models.BigIntegerField(null=True, blank=True)
    revoked_by = models.TextField(blank=True, default="")
    names_tried = models.PositiveSmallIntegerField(db_default=0)
    """How many names were tried with it that are not to be had."""

    class Meta:
        """How it is searched."""

        indexes = (Index(fields=["workspace", "-created_at"], name="invitation_of_workspace"),)

    def __str__(self) -> str:
        return self.id
