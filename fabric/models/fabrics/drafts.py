"""Stores fabrics, their published revisions, and drafts: texts before their publication.

No run uses a draft; it uses a revision.
"""

from __future__ import annotations

from django.db import models
from django.db.models import Index, UniqueConstraint

from fabric.models.fields.identities import KeyField, new_id
from fabric.models.workspaces.workspace import Workspace


class Fabric(models.Model):
    """A configured multi-agent system. A run pins one of its revisions, never this row."""

    id = KeyField(primary_key=True, default=new_id)
    workspace = models.ForeignKey(Workspace, models.PROTECT, related_name="fabrics", db_index=False)
    name = models.TextField()
    title = models.TextField(blank=True, default="")
    published = models.ForeignKey("Revision", models.PROTECT, related_name="+", null=True, blank=True, db_index=False)
    """Revision that new runs pin; null before the first publication."""
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        """Indexes and constraints."""

        constraints = (UniqueConstraint(fields=["workspace", "name"], name="fabric_name_once"),)

    def __str__(self) -> str:
        return self.name


class Revision(models.Model):
    """A frozen, published version of a fabric. Only the text of its last publication changes."""

    id = KeyField(primary_key=True, default=new_id)
    workspace = models.ForeignKey(Workspace, models.PROTECT, related_name="+", db_index=False)
    fabric = models.ForeignKey(Fabric, models.PROTECT, related_name="revisions", db_index=False)
    number = models.PositiveIntegerField()
    digest = models.TextField()
    """Content hash of the spec: equal content is one revision."""
    spec = models.TextField()
    """``FabricSpec`` as JSON."""
    source = models.TextField(blank=True, default="", db_default="")
    """YAML of this content's last publication, with its comments; empty: it was published without a text."""
    published_at = models.DateTimeField(auto_now_add=True)
    published_by = models.TextField(blank=True, default="")
    message = models.TextField(blank=True, default="", db_default="")
    """Reason that the author gave for this version; empty for none."""

    class Meta:
        """Indexes and constraints."""

        constraints = (
            UniqueConstraint(fields=["fabric", "number"], name="revision_number_once"),
            UniqueConstraint(fields=["fabric", "digest"], name="revision_digest_once"),
        )

    def __str__(self) -> str:
        return f"{self.fabric_id} {self.number}"


class Draft(models.Model):
    """One author's unpublished version of a fabric, as YAML text. It is its author's alone: publications of others
    enter it only on request.
    """

    id = KeyField(primary_key=True, default=new_id)
    workspace = models.ForeignKey(Workspace, models.PROTECT, related_name="+", db_index=False)
    name = models.TextField()
    """Name of the fabric, which need not be published yet."""
    author = models.TextField()
    base = models.ForeignKey(Revision, models.PROTECT, related_name="+", null=True, blank=True, db_index=False)
    """Revision that it changes; null: the fabric was never published at its beginning."""
    base_text = models.TextField(blank=True, default="")
    """Text at the beginning, against which its changes are shown."""
    text = models.TextField()
    """The text of step ``at``."""
    at = models.PositiveIntegerField(default=0)
    """Number of the present step; undoing goes back to an earlier one."""
    last = models.PositiveIntegerField(default=0)
    """Largest number that a step ever had. Numbers are never reused, so a page knows by its number which text it
    showed.
    """
    created_at = models.DateTimeField(auto_now_add=True)
    changed_at = models.DateTimeField()

    class Meta:
        """Constraints."""

        db_table = "fabric_draft"
        constraints = (UniqueConstraint(fields=["workspace", "name", "author"], name="draft_once"),)

    def __str__(self) -> str:
        return f"{self.name} of {self.author}"


class DraftStep(models.Model):
    """A draft's text after one change. The oldest go when there are too many; the draft's row has its present text."""

    id = KeyField(primary_key=True, default=new_id)
    draft = models.ForeignKey(Draft, models.CASCADE, related_name="steps", db_index=False)
    number = models.PositiveIntegerField()
    text = models.TextField()
    what = models.TextField(blank=True, default="")
    """The change in a few words; empty: it is the beginning."""
    page = models.TextField(blank=True, default="")
    """Key of the page that made it: successive requests of one page do not conflict with each other."""
    folded = models.BooleanField(default=False)
    """A later step continues it at its place: undoing skips it."""
    at = models.DateTimeField()

    class Meta:
        """Indexes and constraints."""

        db_table = "fabric_draft_step"
        constraints = (UniqueConstraint(fields=["draft", "number"], name="draft_step_once"),)

    def __str__(self) -> str:
        return f"{self.draft_id} {self.number}"


class FabricEditor(models.Model):
    """A window with a fabric's editor open: kept by the page's heartbeat. Instants: microseconds on the database's
    clock.
    """

    id = KeyField(primary_key=True, default=new_id)
    workspace = models.ForeignKey(Workspace, models.DO_NOTHING, related_name="+", db_constraint=False, db_index=False)
    fabric = models.TextField()
    """Name of the fabric."""
    name = models.TextField()
    part = models.TextField(blank=True, default="")
    """Part of the editor in view."""
    page = models.TextField(blank=True, default="", db_default="")
    """The page's own key, so that each window comes and goes alone."""
    seen_at = models.BigIntegerField()

    class Meta:
        """Constraints."""

        db_table = "fabric_editor"
        constraints = (UniqueConstraint(fields=["workspace", "fabric", "name", "page"], name="fabric_editor_page"),)

    def __str__(self) -> str:
        return f"{self.name} at {self.fabric}"


class ChangeRequest(models.Model):
    """A draft that waits for a second person, or for a time, to be published. It concerns one content: an author who
    changes the draft has to ask again.
    """

    id = KeyField(primary_key=True, default=new_id)
    workspace = models.ForeignKey(Workspace, models.PROTECT, related_name="+", db_index=False)
    name = models.TextField()
    """Name of the fabric."""
    author = models.TextField()
    caused_by = models.TextField(blank=True, db_default="")
    """Other people who made the token or link that the author acted with (``batch_parts.names_text``)."""
    base = models.ForeignKey(Revision, models.PROTECT, related_name="+", null=True, blank=True, db_index=False)
    """Published revision at the request; a later publication makes the request stale."""
    text = models.TextField()
    digest = models.TextField()
    """Content hash of the spec: the approval is bound to it."""
    message = models.TextField(blank=True, default="")
    state = models.TextField(default="open")
    """open, published, rejected, withdrawn, voided or failed."""
    publish_at = models.BigIntegerField(null=True, blank=True)
    """Time at which a worker publishes it, microseconds since the epoch, UTC; null: a second person decides."""
    opened_at = models.DateTimeField()
    decided_at = models.DateTimeField(null=True, blank=True)
    decided_by = models.TextField(blank=True, default="")
    reason = models.TextField(blank=True, default="")
    published = models.ForeignKey(Revision, models.PROTECT, related_name="+", null=True, blank=True, db_index=False)

    class Meta:
        """Indexes and constraints."""

        db_table = "fabric_change_request"
        constraints = (
            UniqueConstraint(
                fields=["workspace", "name", "author"],
                condition=models.Q(state="open"),
                name="change_request_open_once",
            ),
        )
        indexes = (
            Index(fields=["workspace", "state", "name"], name="change_request_state"),
            Index(
                fields=["publish_at"],
                condition=models.Q(state="open", publish_at__isnull=False),
                name="change_request_due",
            ),
        )

    def __str__(self) -> str:
        return f"{self.name} by {self.author}"
