"""Worker processes, each life of one a row."""

from __future__ import annotations

from django.db import models

from fabric.models.keys import KeyField


class Incarnation(models.Model):
    """A worker process from its start to its end, and its lease. It serves every workspace, so it names none.

    Instants are microseconds since the epoch on the database's clock.
    """

    name = KeyField(primary_key=True)
    lease_until = models.BigIntegerField()
    started_at = models.BigIntegerField()
    retired_at = models.BigIntegerField(null=True, blank=True)
    host = models.TextField(blank=True, default="")
    pid = models.PositiveIntegerField(default=0)
    token = models.BigIntegerField(default=0, db_default=0)
    """What the process drew when it took the name: another that takes it too has another."""
    lock_key = models.BigIntegerField(null=True, blank=True)
    """Of the advisory lock that the process holds for as long as it lives; null: only its lease says that it does."""
    refused_writes = models.BigIntegerField(default=0, db_default=0)
    """Batches that were not written because their run was somebody else's by then."""

    def __str__(self) -> str:
        return self.name
