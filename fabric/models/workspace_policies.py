"""The versions of workspaces' policies."""

from __future__ import annotations

from django.db import models
from django.db.models import UniqueConstraint

from fabric.models.keys import KeyField, new_id
from fabric.models.workspaces import Workspace


class WorkspacePolicyVersion(models.Model):
    """A workspace's policy as an owner set it. Appended, never changed: the highest number is in force, and a worker keeps a version that it has read."""

    id = KeyField(primary_key=True, default=new_id)
    workspace = models.ForeignKey(Workspace, models.CASCADE, related_name="+", db_index=False)
    number = models.PositiveIntegerField()
    """From 1, dense in the workspace."""
    policy = models.TextField()
    """``core.workspace_policy.policy.WorkspacePolicy`` as JSON."""
    set_at = models.BigIntegerField()
    """Microseconds since the epoch, UTC."""
    set_by = models.TextField()

    class Meta:
        """Its name, and what may be there once."""

        db_table = "fabric_workspace_policy"
        constraints = (UniqueConstraint(fields=["workspace", "number"], name="workspace_policy_once"),)

    def __str__(self) -> str:
        return f"{self.workspace_id} {self.number}"
