"""Open questions to people: a projection of the escalation events, written in the same batch as they are."""

from __future__ import annotations

from django.db import models
from django.db.models import Index, Q, UniqueConstraint

from fabric.models.keys import KeyField
from fabric.models.runs import Run
from fabric.models.workspaces import Workspace

OPEN = Q(decided_at__isnull=True)


class Escalation(models.Model):
    """One question (``batch_parts.EscalationChange``). Instants are microseconds since the epoch, UTC."""

    id = KeyField(primary_key=True)
    workspace = models.ForeignKey(Workspace, models.DO_NOTHING, related_name="+", db_constraint=False, db_index=False)
    run = models.ForeignKey(Run, models.DO_NOTHING, related_name="escalations", db_constraint=False, db_index=False)
    step_id = models.TextField(blank=True, default="")
    item = models.TextField()
    reason = models.TextField(blank=True, default="")
    failure_type = models.TextField(blank=True, default="")
    stage = models.TextField(blank=True, default="")
    required_role = models.TextField(blank=True, default="")
    verbs = models.TextField()
    """What may be answered, separated by commas."""
    digest = models.TextField()
    """Over what approval releases; a decision names it."""
    opened_at = models.BigIntegerField()
    due_at = models.BigIntegerField()
    content = models.BinaryField()
    """JSON of what the person is shown."""
    decided_at = models.BigIntegerField(null=True, blank=True)
    verb = models.TextField(blank=True, default="")
    decided_by = models.TextField(blank=True, default="")
    by_system = models.BooleanField(default=False)

    class Meta:
        """How it is searched, and what may be there once."""

        indexes = (
            Index(fields=["workspace", "due_at"], condition=OPEN, name="escalation_open_due"),
            Index(fields=["run", "opened_at"], name="escalation_of_run"),
        )
        constraints = (UniqueConstraint(fields=["run", "step_id"], condition=OPEN, name="escalation_open_once"),)

    def __str__(self) -> str:
        return self.id
