"""Keys of model endpoints that a workspace stored, sealed; and what test calls of models came to."""

from __future__ import annotations

from django.db import models
from django.db.models import UniqueConstraint

from fabric.models.keys import KeyField, new_id
from fabric.models.workspaces import Workspace


class ProviderKey(models.Model):
    """A stored key. It is sealed for this row's workspace, provider and host, and goes to that host alone; no part of it but the end is readable.

    Instants are microseconds since the epoch, UTC.
    """

    id = KeyField(primary_key=True, default=new_id)
    workspace = models.ForeignKey(Workspace, models.CASCADE, related_name="+", db_index=False)
    provider = KeyField()
    """The provider adapter that sends it: openai, anthropic, google."""
    host = models.TextField()
    """Scheme, host and port that it may be sent to, as ``https://api.example.org:443``."""
    sealed = models.BinaryField()
    """``adapters.secret_box``, for what ``adapters.sealed_fields`` says."""
    last_four = models.TextField()
    """Its last characters, by which people tell keys apart; empty: it is so short that they would give it away."""
    added_at = models.BigIntegerField()
    added_by = models.TextField()
    used_at = models.BigIntegerField(null=True, blank=True)
    """To within a minute."""
    tested_at = models.BigIntegerField(null=True, blank=True)
    tested_ok = models.BooleanField(default=False, db_default=False)
    tested_said = models.TextField(blank=True, default="", db_default="")
    """What the last test call that it went with came to, in a sentence."""

    class Meta:
        """Its name, and what may be there once."""

        db_table = "fabric_provider_key"
        constraints = (UniqueConstraint(fields=["workspace", "provider", "host"], name="provider_key_once"),)

    def __str__(self) -> str:
        return f"{self.provider} at {self.host}"


class ModelTest(models.Model):
    """The last test call of a model: asked by hand, outside any run. Instants are microseconds since the epoch, UTC."""

    id = KeyField(primary_key=True, default=new_id)
    workspace = models.ForeignKey(Workspace, models.CASCADE, related_name="+", db_index=False)
    model = KeyField()
    """``services.model_list.Model.id``."""
    started_at = models.BigIntegerField()
    started_by = models.TextField()
    until = models.BigIntegerField()
    """It is under way until then, at most."""
    ended_at = models.BigIntegerField(null=True, blank=True)
    """Null: it is under way, or whoever made it died."""
    reserved_usd_micros = models.BigIntegerField(null=True, blank=True)
    """What it may cost at most; null: the model has no price."""
    cost_usd_micros = models.BigIntegerField(null=True, blank=True)
    """What it cost; null: not known."""
    outcome = models.BinaryField(default=b"")
    """JSON: ``adapters.providers.trial.Trial``."""

    class Meta:
        """Its name, and what may be there once."""

        db_table = "fabric_model_test"
        constraints = (UniqueConstraint(fields=["workspace", "model"], name="model_test_once"),)

    def __str__(self) -> str:
        return self.model
