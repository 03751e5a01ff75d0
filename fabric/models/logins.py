"""One-time login links, and tries to sign in that failed."""

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
    purpose = models.TextField(blank=True, db_default="sign_in")
    """``sign_in``, or ``password`` for a link that was mailed to choose another one."""

    def __str__(self) -> str:
        return self.id


class SignInTries(models.Model):
    """Tries to sign in that failed, by whom they were: a name, or an address. All web processes count here.

    Instants are microseconds since the epoch, UTC.
    """

    who = KeyField(primary_key=True)
    """SHA-256 of the kind and the name or address, in hex."""
    failed = models.PositiveIntegerField(db_default=0)
    until = models.BigIntegerField(db_default=0)
    """When the next one is let through."""
    at = models.BigIntegerField(db_index=True)
    """When the last one was."""

    def __str__(self) -> str:
        return f"{self.failed} tries"
