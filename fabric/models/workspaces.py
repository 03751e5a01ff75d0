"""The workspace of an installation, and the one of its drills."""

from __future__ import annotations

from django.db import models

from fabric.models.keys import KeyField, new_id


class Workspace(models.Model):
    """What an installation looks after: every other table names it, and no selector reads across it.

    An installation has one, and a second for its drills: who wants two apart makes two installations (docs/operations.md "One workspace").
    """

    id = KeyField(primary_key=True, default=new_id)
    name = models.TextField(unique=True)
    created_at = models.DateTimeField(auto_now_add=True)
    retention_days = models.PositiveIntegerField(null=True, blank=True)
    """Days after its end that a run's contents are kept; null: for good."""
    drills_of = models.OneToOneField("self", models.PROTECT, related_name="+", null=True, blank=True, db_index=False)
    """The workspace whose drills run in this one, so that nothing of theirs is among what is real; null: it is nobody's drills'."""
    erased_until = models.BigIntegerField(db_default=0)
    """The contents of all runs that ended up to here are erased. Microseconds since the epoch."""

    def __str__(self) -> str:
        return self.name
