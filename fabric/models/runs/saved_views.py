"""Stores saved views of the list of runs, and the columns that a person chose."""

from __future__ import annotations

from django.db import models
from django.db.models import Index, Q, UniqueConstraint

from fabric.models.fields.identities import KeyField, new_id
from fabric.models.workspaces.workspace import Workspace


class SavedView(models.Model):
    """A query, an order and columns under a name, of one member or shared with the workspace."""

    id = KeyField(primary_key=True, default=new_id)
    workspace = models.ForeignKey(Workspace, models.DO_NOTHING, related_name="+", db_constraint=False, db_index=False)
    owner = models.TextField()
    """Name of the member who saved it."""
    name = models.TextField()
    folded = models.TextField()
    """The name without case: two names may not differ by case alone."""
    query = models.TextField(blank=True, default="")
    sort = models.TextField(blank=True, default="")
    """Order as an address has it; empty: the newest first."""
    columns = models.TextField(blank=True, default="")
    """Shown columns, separated by commas; empty: as each reader chose."""
    shared = models.BooleanField(default=False)
    created_at = models.BigIntegerField()
    """Microseconds since the epoch, UTC."""

    class Meta:
        """Indexes and constraints."""

        db_table = "fabric_saved_view"
        indexes = (Index(fields=["workspace", "id"], condition=Q(shared=True), name="saved_view_shared"),)
        constraints = (UniqueConstraint(fields=["workspace", "owner", "folded"], name="saved_view_once"),)

    def __str__(self) -> str:
        return self.name


class ColumnChoice(models.Model):
    """The columns that a member chose for the list of runs. Without a row: all of them."""

    workspace = models.ForeignKey(Workspace, models.DO_NOTHING, related_name="+", db_constraint=False, db_index=False)
    owner = models.TextField()
    """Name of the member."""
    columns = models.TextField()
    """Shown columns, separated by commas."""

    class Meta:
        """Constraints."""

        db_table = "fabric_column_choice"
        constraints = (UniqueConstraint(fields=["workspace", "owner"], name="column_choice_once"),)

    def __str__(self) -> str:
        return self.owner
