"""Sign-ins of people, what they prove themselves by beside a password, and who they are at the provider of identities."""

from __future__ import annotations

from django.conf import settings
from django.db import models
from django.db.models import Index, UniqueConstraint

from fabric.models.keys import KeyField, new_id

TOTP, PASSKEY = "totp", "passkey"
"""Kinds of second factors."""


class SignIn(models.Model):
    """One sign-in in one browser, from its beginning to its end. Instants are microseconds since the epoch, UTC.

    The browser's cookie is signed and names the row; it lets nobody in without one that works.
    """

    id = KeyField(primary_key=True, default=new_id)
    user = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE, related_name="+", db_index=False)
    way = models.TextField()
    """By what somebody signed in: ``password``, ``link``, ``passkey``, ``sso``, or two of them."""
    browser = models.TextField(blank=True, default="")
    """What the browser calls itself, cut."""
    address = models.TextField(blank=True, default="")
    """From where it was last seen."""
    began_at = models.BigIntegerField()
    seen_at = models.BigIntegerField()
    """The last request, to within some minutes."""
    until = models.BigIntegerField()
    """When it ends, whatever is done with it."""
    ended_at = models.BigIntegerField(null=True, blank=True)
    ended_by = models.TextField(blank=True, default="")

    class Meta:
        """How it is searched."""

        indexes = (Index(fields=["user", "-began_at"], name="sign_in_of_user"),)

    def __str__(self) -> str:
        return self.id


class SecondFactor(models.Model):
    """What somebody proves themselves by beside a password: an authenticator app (RFC 6238), or a passkey (WebAuthn)."""

    id = KeyField(primary_key=True, default=new_id)
    user = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE, related_name="+")
    kind = models.TextField()
    """``totp`` or ``passkey``."""
    name = models.TextField()
    credential = KeyField(unique=True, null=True, blank=True)
    """Of a passkey: SHA-256 of its id, in hex."""
    secret = models.BinaryField()
    """Of an app: the sealed secret. Of a passkey: its id and public key, which are no secret."""
    counter = models.BigIntegerField(db_default=0)
    """Of an app: the last step whose code was used. Of a passkey: its signature counter."""
    made_at = models.BigIntegerField()
    used_at = models.BigIntegerField(null=True, blank=True)

    def __str__(self) -> str:
        return self.id


class RecoveryCode(models.Model):
    """A code that stands in for a second factor once. Only its hash is kept."""

    id = KeyField(primary_key=True, default=new_id)
    user = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE, related_name="+")
    code_hash = KeyField(unique=True)
    used_at = models.BigIntegerField(null=True, blank=True)

    def __str__(self) -> str:
        return self.id


class Identity(models.Model):
    """Who a user is at the provider of identities (OpenID Connect). Instants are microseconds since the epoch, UTC."""

    id = KeyField(primary_key=True, default=new_id)
    user = models.OneToOneField(settings.AUTH_USER_MODEL, models.CASCADE, related_name="+")
    issuer = KeyField()
    subject = KeyField()
    refresh = models.BinaryField(db_default=b"")
    """The sealed refresh token by which the provider is asked again; empty: there is none (any more)."""
    checked_at = models.BigIntegerField(db_default=0)
    """When the provider last said that this person is one of its own; 0: it said no."""
    asked_at = models.BigIntegerField(db_default=0)
    """When somebody last began to ask it."""

    class Meta:
        """What may be there once."""

        constraints = (UniqueConstraint(fields=["issuer", "subject"], name="identity_once"),)

    def __str__(self) -> str:
        return self.id


class UsedOnce(models.Model):
    """What may be used a single time and was, such as a passkey's challenge. Forgotten when it could not be used any more anyway."""

    key = KeyField(primary_key=True)
    until = models.BigIntegerField(db_index=True)

    def __str__(self) -> str:
        return self.key
