"""Sealed keys of a workspace's model endpoints, and the results of test calls of models."""

from __future__ import annotations

from django.db import models
from django.db.models import UniqueConstraint

from fabric.models.fields.identities import KeyField, new_id
from fabric.models.workspaces.workspace import Workspace


class ProviderKey(models.Model):
    """A stored key, sealed for this row's workspace, provider and host. It goes to that host alone; only its end is
    readable.

    Instants are microseconds since the epoch, UTC.
    """

    id = KeyField(primary_key=True, default=new_id)
    workspace = models.ForeignKey(Workspace, models.CASCADE, related_name="+", db_index=False)
    provider = KeyField()
    """Provider adapter that sends it: openai, anthropic, google."""
    host = models.TextField()
    """Scheme, host and port that may receive it, as ``https://api.example.org:443``."""
    sealed = models.BinaryField()
    """The key, sealed by ``secrets.secret_box``, as its ``SEALED`` declares."""
    last_four = models.TextField()
    """Its last characters, by which people tell keys apart; empty for a key so short that they would reveal it."""
    added_at = models.BigIntegerField()
    added_by = models.TextField()
    used_at = models.BigIntegerField(null=True, blank=True)
    """Time of the last use, to within a minute."""
    tested_at = models.BigIntegerField(null=True, blank=True)
    tested_ok = models.BooleanField(default=False, db_default=False)
    tested_said = models.TextField(blank=True, default="", db_default="")
    """Result of the last test call with this key, in a sentence."""

    class Meta:
        """Constraints."""

        db_table = "fabric_provider_key"
        constraints = (UniqueConstraint(fields=["workspace", "provider", "host"], name="provider_key_once"),)

    def __str__(self) -> str:
        return f"{self.provider} at {self.host}"


class ModelTest(models.Model):
    """The last test call of a model, made by hand outside any run. Instants are microseconds since the epoch, UTC."""

    id = KeyField(primary_key=True, default=new_id)
    workspace = models.ForeignKey(Workspace, models.CASCADE, related_name="+", db_index=False)
    model = KeyField()
    """``services.models.catalogue.DeclaredModel.id``."""
    started_at = models.BigIntegerField()
    started_by = models.TextField()
    until = models.BigIntegerField()
    """Latest end of a call under way."""
    ended_at = models.BigIntegerField(null=True, blank=True)
    """Null: it is under way, or its process died."""
    reserved_usd_micros = models.BigIntegerField(null=True, blank=True)
    """Largest cost; null: the model has no price."""
    cost_usd_micros = models.BigIntegerField(null=True, blank=True)
    """Real cost; null: not known."""
    outcome = models.BinaryField(default=b"")
    """JSON: ``providers.trial.CallTestResult``."""

    class Meta:
        """Constraints."""

        db_table = "fabric_model_test"
        constraints = (UniqueConstraint(fields=["workspace", "model"], name="model_test_once"),)

    def __str__(self) -> str:
        return self.model
