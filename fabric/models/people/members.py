"""Stores members of a workspace with their roles, invitations, and bearer tokens of the API."""

from __future__ import annotations

from django.conf import settings
from django.db import models
from django.db.models import Index, Q, UniqueConstraint

from fabric.models.fields.identities import KeyField, new_id
from fabric.models.workspaces.workspace import Workspace

NAMES_TRIED_MAX = 10
"""Largest number of unavailable names per invitation, so that its link does not reveal accounts."""


class Member(models.Model):
    """A user in a workspace. Without an open row, a user sees nothing of it. Instants are microseconds since the
    epoch, UTC.
    """

    id = KeyField(primary_key=True, default=new_id)
    workspace = models.ForeignKey(Workspace, models.CASCADE, related_name="+", db_index=False)
    user = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE, related_name="+")
    name = models.TextField()
    """Name of the user, which never changes: journals and audit lines have it."""
    roles = models.TextField(blank=True, default="")
    """Roles of ``fabric.core.people.roles`` and of fabrics, separated by commas, in alphabetical order."""
    service = models.BooleanField(db_default=False)
    """True: an account of programs. It has tokens and no sign-in, and never decides."""
    created_at = models.BigIntegerField()
    created_by = models.TextField(blank=True, default="")
    removed_at = models.BigIntegerField(null=True, blank=True)
    removed_by = models.TextField(blank=True, default="")

    class Meta:
        """Constraints."""

        constraints = (
            UniqueConstraint(fields=["workspace", "name"], condition=Q(removed_at__isnull=True), name="member_once"),
        )

    def __str__(self) -> str:
        return self.name


class Invitation(models.Model):
    """A link by which one person becomes a member. Only the token's hash is stored: a reader of the table cannot
    join with it.

    Instants are microseconds since the epoch, UTC.
    """

    id = KeyField(primary_key=True, default=new_id)
    workspace = models.ForeignKey(Workspace, models.CASCADE, related_name="+", db_index=False)
    token_hash = KeyField(unique=True)
    """SHA-256 of the token, in hex."""
    email = models.TextField(blank=True, default="")
    """Address of the invited person; empty: unknown."""
    roles = models.TextField(blank=True, default="")
    created_at = models.BigIntegerField()
    created_by = models.TextField()
    expires_at = models.BigIntegerField()
    accepted_at = models.BigIntegerField(null=True, blank=True)
    accepted_by = models.TextField(blank=True, default="")
    revoked_at = models.BigIntegerField(null=True, blank=True)
    revoked_by = models.TextField(blank=True, default="")
    names_tried = models.PositiveSmallIntegerField(db_default=0)
    """Number of unavailable names that were tried with it."""

    class Meta:
        """Indexes."""

        indexes = (Index(fields=["workspace", "-created_at"], name="invitation_of_workspace"),)

    def __str__(self) -> str:
        return self.id


class ApiToken(models.Model):
    """A secret that lets a program act for one user. Only its hash is stored: a reader of the table cannot call with
    it.

    Instants are microseconds since the epoch, UTC.
    """

    id = KeyField(primary_key=True, default=new_id)
    workspace = models.ForeignKey(Workspace, models.CASCADE, related_name="+", db_index=False)
    user = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE, related_name="+", db_index=False)
    """User for whom it acts: journals name the user."""
    name = models.TextField()
    token_hash = KeyField(unique=True)
    """SHA-256 of the token, in hex."""
    scopes = models.TextField()
    """Permitted acts, separated by commas."""
    fabrics = models.TextField(blank=True, db_default="")
    """Names of the fabrics to which it is confined, separated by commas; empty: unconfined."""
    created_at = models.BigIntegerField()
    created_by = models.TextField(blank=True, default="")
    expires_at = models.BigIntegerField()
    revoked_at = models.BigIntegerField(null=True, blank=True)
    last_used_at = models.BigIntegerField(null=True, blank=True)
    """Time of the last use, to within a minute."""

    class Meta:
        """Constraints."""

        constraints = (
            UniqueConstraint(
                fields=["workspace", "name"], condition=Q(revoked_at__isnull=True), name="api_token_name_once"
            ),
        )

    def __str__(self) -> str:
        return self.name
