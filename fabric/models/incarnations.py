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

    def __str__(self) -> str:
        return self.name
