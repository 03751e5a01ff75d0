"""Drafts of fabrics: what their authors write before anything is published. Nothing here is ever run; a revision is."""

from __future__ import annotations

from django.db import models
from django.db.models import Index, UniqueConstraint

from fabric.models.fabrics import Revision
from fabric.models.keys import KeyField, new_id
from fabric.models.workspaces import Workspace


class Draft(models.Model):
    """One author's unpublished version of a fabric, as YAML text. It is its author's alone: what somebody else publishes is never in it unasked."""

    id = KeyField(primary_key=True, default=new_id)
    workspace = models.ForeignKey(Workspace, models.PROTECT, related_name="+", db_index=False)
    name = models.TextField()
    """The fabric's, which need not be published yet."""
    author = models.TextField()
    base = models.ForeignKey(Revision, models.PROTECT, related_name="+", null=True, blank=True, db_index=False)
    """The revision that it changes; null: the fabric was never published when it began."""
    base_text = models.TextField(blank=True, default="")
    """What it began with: against this its changes are told."""
    text = models.TextField()
    """The text of step ``at``."""
    at = models.PositiveIntegerField(default=0)
    """Number of the step that it stands at; undoing goes back to an earlier one."""
    last = models.PositiveIntegerField(default=0)
    """The greatest number that a step ever had: none is given twice, so that a page knows by it what it showed."""
    created_at = models.DateTimeField(auto_now_add=True)
    changed_at = models.DateTimeField()

    class Meta:
        """What may be there once."""

        db_table = "fabric_draft"
        constraints = (UniqueConstraint(fields=["workspace", "name", "author"], name="draft_once"),)

    def __str__(self) -> str:
        return f"{self.name} of {self.author}"


class DraftStep(models.Model):
    """A draft's text after one change. The oldest go when there are too many; a draft's own text stands in its row."""

    id = KeyField(primary_key=True, default=new_id)
    draft = models.ForeignKey(Draft, models.CASCADE, related_name="steps", db_index=False)
    number = models.PositiveIntegerField()
    text = models.TextField()
    what = models.TextField(blank=True, default="")
    """What was changed, in a few words; empty: it is the beginning."""
    page = models.TextField(blank=True, default="")
    """The page that made it, by a key of its own: what one page sends in a row is no conflict with itself."""
    folded = models.BooleanField(default=False)
    """A later step goes on from it at the same place: undoing passes it over."""
    at = models.DateTimeField()

    class Meta:
        """What may be there once, and how it is searched."""

        db_table = "fabric_draft_step"
        constraints = (UniqueConstraint(fields=["draft", "number"], name="draft_step_once"),)

    def __str__(self) -> str:
        return f"{self.draft_id} {self.number}"


class FabricEditor(models.Model):
    """A window in which somebody has a fabric's editor open: told by the page's heartbeat, and forgotten when it stops. Instants: microseconds on the database's clock."""

    id = KeyField(primary_key=True, default=new_id)
    workspace = models.ForeignKey(Workspace, models.DO_NOTHING, related_name="+", db_constraint=False, db_index=False)
    fabric = models.TextField()
    """By name."""
    name = models.TextField()
    part = models.TextField(blank=True, default="")
    """The part of the editor that they look at."""
    page = models.TextField(blank=True, default="", db_default="")
    """The page's own key: each window comes and goes by itself."""
    seen_at = models.BigIntegerField()

    class Meta:
        """Its name, and what may be there once."""

        db_table = "fabric_editor"
        constraints = (UniqueConstraint(fields=["workspace", "fabric", "name", "page"], name="fabric_editor_page"),)

    def __str__(self) -> str:
        return f"{self.name} at {self.fabric}"


class ChangeRequest(models.Model):
    """A draft that waits for a second person to publish it. It is about one content: an author who changes the draft has to ask again."""

    id = KeyField(primary_key=True, default=new_id)
    workspace = models.ForeignKey(Workspace, models.PROTECT, related_name="+", db_index=False)
    name = models.TextField()
    """The fabric's."""
    author = models.TextField()
    caused_by = models.TextField(blank=True, db_default="")
    """Who made what the author acted with, where it was somebody else (``batch_parts.names_text``)."""
    base = models.ForeignKey(Revision, models.PROTECT, related_name="+", null=True, blank=True, db_index=False)
    """What was published when it was asked for: another one published meanwhile makes it stale."""
    text = models.TextField()
    digest = models.TextField()
    """Content hash of the spec: the approval is bound to it."""
    message = models.TextField(blank=True, default="")
    state = models.TextField(default="open")
    """open, published, rejected, withdrawn or voided."""
    opened_at = models.DateTimeField()
    decided_at = models.DateTimeField(null=True, blank=True)
    decided_by = models.TextField(blank=True, default="")
    reason = models.TextField(blank=True, default="")
    published = models.ForeignKey(Revision, models.PROTECT, related_name="+", null=True, blank=True, db_index=False)

    class Meta:
        """What may be there once, and how it is searched."""

        db_table = "fabric_change_request"
        constraints = (
            UniqueConstraint(
                fields=["workspace", "name", "author"],
                condition=models.Q(state="open"),
                name="change_request_open_once",
            ),
        )
        indexes = (Index(fields=["workspace", "state", "name"], name="change_request_state"),)

    def __str__(self) -> str:
        return f"{self.name} by {self.author}"
