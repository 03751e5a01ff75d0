"""Memories of fabrics beyond their runs."""

from __future__ import annotations

from django.db import models

from fabric.models.fields.identities import KeyField


class MemoryEntry(models.Model):
    """One write to a fabric's memory, or one deletion: written once, marked once when it is taken back."""

    call_key = KeyField(primary_key=True)
    """The idempotency key of the call that wrote it: a repeated call writes once."""
    fabric_id = KeyField()
    memory = KeyField()
    key = KeyField()
    version = models.BigIntegerField()
    """Version of the key, never given twice; 0: it was undone before it came."""
    replaced = models.BigIntegerField(default=0)
    """Replaced version; 0: there was none."""
    value = models.TextField(blank=True, default="")
    """JSON; empty: a deletion, or it was erased."""
    deleted = models.BooleanField(default=False)
    run_id = KeyField(blank=True, default="")
    step_id = models.TextField(blank=True, default="")
    agent = models.TextField(blank=True, default="")
    actor = models.TextField(blank=True, default="")
    """The person who wrote it; empty: an agent did."""
    reason = models.TextField(blank=True, default="")
    at = models.BigIntegerField()
    undone_at = models.BigIntegerField(default=0)

    class Meta:
        """Indexes and constraints."""

        db_table = "fabric_memory_entry"
        constraints = (
            models.UniqueConstraint(
                fields=["fabric_id", "memory", "key", "version"],
                condition=models.Q(version__gt=0),
                name="memory_version_once",
            ),
        )
        indexes = (
            models.Index(fields=["fabric_id", "memory", "key", "version"], name="memory_of_key"),
            models.Index(fields=["run_id"], name="memory_of_run"),
        )

    def __str__(self) -> str:
        return f"{self.memory} {self.key} {self.version}"
