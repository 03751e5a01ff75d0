"""One-time login links."""

from __future__ import annotations

from django.conf import settings
from django.db import models

from fabric.models.keys import KeyField, new_id
from fabric.models.workspaces import Workspace


class LoginLink(models.Model):
    """A link that logs one user in once. Only the token's hash is kept: who reads the table cannot log in with it.

    Instants are microseconds since the epoch, UTC.
    """

    id = KeyField(primary_key=True, default=new_id)
    workspace = models.ForeignKey(Workspace, models.CASCADE, related_name="+", db_index=False)
    user = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE, related_name="+", db_index=False)
    token_hash = KeyField(unique=True)
    """SHA-256 of the token, in hex."""
    expires_at = models.BigIntegerField()
    created_by = models.TextField(blank=True, db_default="")
    """The member who made it for somebody else; empty: it was made at the machine's command line."""
    used_at = models.BigIntegerField(null=True, blank=True)

    def __str__(self) -> str:
        return self.id
