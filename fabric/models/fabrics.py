"""Configured systems and their published versions."""

from __future__ import annotations

from django.db import models
from django.db.models import UniqueConstraint

from fabric.models.keys import KeyField, new_id
from fabric.models.workspaces import Workspace


class Fabric(models.Model):
    """A configured multi-agent system. What a run pins is one of its revisions, never this row."""

    id = KeyField(primary_key=True, default=new_id)
    workspace = models.ForeignKey(Workspace, models.PROTECT, related_name="fabrics", db_index=False)
    name = models.TextField()
    title = models.TextField(blank=True, default="")
    published = models.ForeignKey("Revision", models.PROTECT, related_name="+", null=True, blank=True, db_index=False)
    """The revision that a new run pins; null before the first publication."""
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        """How it is searched, and what may be there once."""

        constraints = (UniqueConstraint(fields=["workspace", "name"], name="fabric_name_once"),)

    def __str__(self) -> str:
        return self.name


class Revision(models.Model):
    """A frozen, published version of a fabric. Nothing of it changes but the text that it was last published with."""

    id = KeyField(primary_key=True, default=new_id)
    workspace = models.ForeignKey(Workspace, models.PROTECT, related_name="+", db_index=False)
    fabric = models.ForeignKey(Fabric, models.PROTECT, related_name="revisions", db_index=False)
    number = models.PositiveIntegerField()
    digest = models.TextField()
    """Content hash of the spec: publishing the same content again is the same revision."""
    spec = models.TextField()
    """``FabricSpec`` as JSON."""
    source = models.TextField(blank=True, default="", db_default="")
    """The YAML that this content was last published with, comments and all; empty: it was published by nobody who wrote one."""
    published_at = models.DateTimeField(auto_now_add=True)
    published_by = models.TextField(blank=True, default="")

    class Meta:
        """How it is searched, and what may be there once."""

        constraints = (
            UniqueConstraint(fields=["fabric", "number"], name="revision_number_once"),
            UniqueConstraint(fields=["fabric", "digest"], name="revision_digest_once"),
        )

    def __str__(self) -> str:
        return f"{self.fabric_id} {self.number}"
