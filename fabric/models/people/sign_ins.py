"""Stores sign-ins of people, their second factors, and their identities at the identity provider.

One-time login links and failed attempts to sign in are stored here too.
"""

from __future__ import annotations

from django.conf import settings
from django.db import models
from django.db.models import Index, UniqueConstraint

from fabric.models.fields.identities import KeyField, new_id
from fabric.models.workspaces.workspace import Workspace

TOTP, PASSKEY = "totp", "passkey"
"""Kinds of second factors."""


class SignIn(models.Model):
    """One sign-in in one browser, from its beginning to its end. Instants are microseconds since the epoch, UTC.

    The browser's cookie is signed and names the row; it is worth nothing without a working row.
    """

    id = KeyField(primary_key=True, default=new_id)
    user = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE, related_name="+", db_index=False)
    way = models.TextField()
    """Means of the sign-in: ``password``, ``link``, ``passkey``, ``sso``, or two of them."""
    browser = models.TextField(blank=True, default="")
    """The browser's name for itself, cut."""
    address = models.TextField(blank=True, default="")
    """Address of the last request."""
    began_at = models.BigIntegerField()
    seen_at = models.BigIntegerField()
    """Time of the last request, to within some minutes."""
    until = models.BigIntegerField()
    """Time at which it ends in any case."""
    ended_at = models.BigIntegerField(null=True, blank=True)
    ended_by = models.TextField(blank=True, default="")

    class Meta:
        """Indexes."""

        indexes = (Index(fields=["user", "-began_at"], name="sign_in_of_user"),)

    def __str__(self) -> str:
        return self.id


class SecondFactor(models.Model):
    """A proof besides the password: an authenticator app (RFC 6238), or a passkey (WebAuthn)."""

    id = KeyField(primary_key=True, default=new_id)
    user = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE, related_name="+")
    kind = models.TextField()
    """``totp`` or ``passkey``."""
    name = models.TextField()
    credential = KeyField(unique=True, null=True, blank=True)
    """SHA-256 of a passkey's id, in hex; null for an app."""
    secret = models.BinaryField()
    """An app's sealed secret, or a passkey's id and public key, which are no secret."""
    counter = models.BigIntegerField(db_default=0)
    """An app's last used step, or a passkey's signature counter."""
    made_at = models.BigIntegerField()
    used_at = models.BigIntegerField(null=True, blank=True)

    def __str__(self) -> str:
        return self.id


class RecoveryCode(models.Model):
    """A code that replaces a second factor once. Only its hash is stored."""

    id = KeyField(primary_key=True, default=new_id)
    user = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE, related_name="+")
    code_hash = KeyField(unique=True)
    used_at = models.BigIntegerField(null=True, blank=True)

    def __str__(self) -> str:
        return self.id


class Identity(models.Model):
    """A user's identity at the identity provider (OpenID Connect). Instants are microseconds since the epoch, UTC."""

    id = KeyField(primary_key=True, default=new_id)
    user = models.OneToOneField(settings.AUTH_USER_MODEL, models.CASCADE, related_name="+")
    issuer = KeyField()
    subject = KeyField()
    refresh = models.BinaryField(db_default=b"")
    """The sealed refresh token for the next check with the provider; empty: there is none (any more)."""
    checked_at = models.BigIntegerField(db_default=0)
    """Time of the provider's last confirmation of this person; 0: it refused."""
    asked_at = models.BigIntegerField(db_default=0)
    """Time of the last request to the provider."""

    class Meta:
        """Constraints."""

        constraints = (UniqueConstraint(fields=["issuer", "subject"], name="identity_once"),)

    def __str__(self) -> str:
        return self.id


class UsedOnce(models.Model):
    """A used one-time text, such as a passkey's challenge. Deleted when the text is invalid anyway."""

    key = KeyField(primary_key=True)
    until = models.BigIntegerField(db_index=True)

    def __str__(self) -> str:
        return self.key


class LoginLink(models.Model):
    """A link that logs one user in once. Only the token's hash is stored: a reader of the table cannot log in with
    it.

    Instants are microseconds since the epoch, UTC.
    """

    id = KeyField(primary_key=True, default=new_id)
    workspace = models.ForeignKey(Workspace, models.CASCADE, related_name="+", db_index=False)
    user = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE, related_name="+", db_index=False)
    token_hash = KeyField(unique=True)
    """SHA-256 of the token, in hex."""
    expires_at = models.BigIntegerField()
    created_by = models.TextField(blank=True, db_default="")
    """Member who made it for another user; empty: it was made at the machine's command line."""
    used_at = models.BigIntegerField(null=True, blank=True)
    purpose = models.TextField(blank=True, db_default="sign_in")
    """``sign_in``, or ``password`` for a mailed link to choose another one."""

    def __str__(self) -> str:
        return self.id


class SignInTries(models.Model):
    """Failed attempts to sign in, by name or address. All web processes count here.

    Instants are microseconds since the epoch, UTC.
    """

    who = KeyField(primary_key=True)
    """SHA-256 of the kind and the name or address, in hex."""
    failed = models.PositiveIntegerField(db_default=0)
    until = models.BigIntegerField(db_default=0)
    """Time of the next permitted attempt."""
    at = models.BigIntegerField(db_index=True)
    """Time of the last attempt."""

    def __str__(self) -> str:
        return f"{self.failed} tries"
