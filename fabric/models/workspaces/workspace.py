"""Stores the workspace of an installation, the one of its drills, and the versions of their policies."""

from __future__ import annotations

from django.db import models
from django.db.models import UniqueConstraint

from fabric.models.fields.identities import KeyField, new_id


class Workspace(models.Model):
    """Content of an installation: every other table names its workspace, and no selector reads across workspaces.

    An installation has one, and a second for its drills. Two separate ones need two installations
    (docs/how-to/manage-members.md).
    """

    id = KeyField(primary_key=True, default=new_id)
    name = models.TextField(unique=True)
    created_at = models.DateTimeField(auto_now_add=True)
    retention_days = models.PositiveIntegerField(null=True, blank=True)
    """Days after its end for which a run's contents are stored; null: for ever."""
    drills_of = models.OneToOneField("self", models.PROTECT, related_name="+", null=True, blank=True, db_index=False)
    """Workspace whose drills run in this one, so that they stay apart from real runs; null: not for drills."""
    erased_until = models.BigIntegerField(db_default=0)
    """End of the last runs with erased contents, microseconds since the epoch."""

    def __str__(self) -> str:
        return self.name


class WorkspacePolicyVersion(models.Model):
    """A workspace's policy as an owner set it. Appended, never changed: the highest number is in force, and a worker
    keeps a version that it has read.
    """

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
        """The table's name, and its unique constraint."""

        db_table = "fabric_workspace_policy"
        constraints = (UniqueConstraint(fields=["workspace", "number"], name="workspace_policy_once"),)

    def __str__(self) -> str:
        return f"{self.workspace_id} {self.number}"
