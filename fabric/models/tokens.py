"""Bearer tokens of the API."""

from __future__ import annotations

from django.conf import settings
from django.db import models
from django.db.models import Q, UniqueConstraint

from fabric.models.keys import KeyField, new_id
from fabric.models.workspaces import Workspace


class ApiToken(models.Model):
    """A secret that lets a program act for one user. Only its hash is kept: who reads the table cannot call with it.

    Instants are microseconds since the epoch, UTC.
    """

    id = KeyField(primary_key=True, default=new_id)
    workspace = models.ForeignKey(Workspace, models.CASCADE, related_name="+", db_index=False)
    user = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE, related_name="+", db_index=False)
    """For whom it acts: journals name the user."""
    name = models.TextField()
    token_hash = KeyField(unique=True)
    """SHA-256 of the token, in hex."""
    scopes = models.TextField()
    """What it may do, separated by commas."""
    fabrics = models.TextField(blank=True, db_default="")
    """The names of the fabrics to which it is confined, separated by commas; empty: to none."""
    created_at = models.BigIntegerField()
    created_by = models.TextField(blank=True, default="")
    expires_at = models.BigIntegerField()
    revoked_at = models.BigIntegerField(null=True, blank=True)
    last_used_at = models.BigIntegerField(null=True, blank=True)
    """To within a minute."""

    class Meta:
        """What may be there once."""

        constraints = (
            UniqueConstraint(
                fields=["workspace", "name"], condition=Q(revoked_at__isnull=True), name="api_token_name_once"
            ),
        )

    def __str__(self) -> str:
        return self.name
