"""The journal and the inbox: hot tables, which the stores write by hand-written SQL, without foreign keys in the
database.
"""

from __future__ import annotations

from django.db import models
from django.db.models import F, Index, Q

from fabric.core.texts.notifications import EVENTS
from fabric.models.fields.identities import KeyField
from fabric.models.fields.packed import PackedField
from fabric.models.runs.run import IndexCondition, Run, match_words
from fabric.models.workspaces.workspace import Workspace

NOTIFIED = Q(IndexCondition(F("kind"), template=match_words(sorted(EVENTS))))
"""Events that are reported outside the console, as a query must state it to use the partial index."""


class Event(models.Model):
    """One journal row (``fabric.core.events.envelope.JournalRow``): one event, or several of one instant. Appended,
    never changed; a payload may be erased, its hash stays.
    """

    pk = models.CompositePrimaryKey("run_id", "seq")
    at = models.BigIntegerField()
    """Microseconds since the epoch, UTC."""
    seq = models.IntegerField()
    """Seq of the row's first event."""
    version = models.SmallIntegerField()
    more = models.SmallIntegerField(default=0, db_default=0)
    """Number of further events in the row."""
    run = models.ForeignKey(Run, models.DO_NOTHING, related_name="events", db_constraint=False, db_index=False)
    workspace = models.ForeignKey(Workspace, models.DO_NOTHING, related_name="+", db_constraint=False, db_index=False)
    kind = models.TextField()
    header = PackedField()
    """JSON: the envelope and the fact; a line for each further event."""
    payload = PackedField(null=True)
    """JSON of the content; null when there was none or it was erased."""
    payload_hash = models.BinaryField()
    hash = models.BinaryField()

    class Meta:
        """Partial index of reported events: few rows, and no other event is written to it."""

        indexes = (Index(fields=["at"], condition=Q(kind__in=sorted(EVENTS)), name="event_notified"),)

    def __str__(self) -> str:
        return f"{self.run_id}.{self.seq} {self.kind}"


class Inbox(models.Model):
    """An input from outside for a run. Any process inserts it; only the run's owner takes it out, exactly once."""

    pk = models.CompositePrimaryKey("run_id", "input_id")
    created_at = models.BigIntegerField()
    visible_at = models.BigIntegerField()
    """Microseconds since the epoch, UTC, before which it is invisible. It may be withdrawn until its run takes it."""
    consumed_seq = models.IntegerField(null=True, blank=True)
    """The journal's end after the batch that took it; null while it waits; below 0: it was taken back. A run's end
    takes its remaining inputs.
    """
    run = models.ForeignKey(Run, models.DO_NOTHING, related_name="inbox", db_constraint=False, db_index=False)
    workspace = models.ForeignKey(Workspace, models.DO_NOTHING, related_name="+", db_constraint=False, db_index=False)
    input_id = KeyField()
    body = models.BinaryField()
    wakes = models.SmallIntegerField(default=1, db_default=1)
    """Claims that read it. 0: the run's next claim; 1: a reason to claim the run; 2: a reason to claim a quarantined
    one too.
    """
    format = models.SmallIntegerField(default=1, db_default=1)
    """Format that a worker must be able to read to take it (``flow.FORMAT``)."""

    class Meta:
        """Indexes and constraints."""

        indexes = (Index(fields=["visible_at"], condition=Q(consumed_seq__isnull=True), name="inbox_waiting"),)

    def __str__(self) -> str:
        return f"{self.run_id} {self.input_id}"


class Snapshot(models.Model):
    """A run's state as its journal folds up to ``seq``. It may be lost at any time: the journal is the truth."""

    run = models.OneToOneField(Run, models.DO_NOTHING, related_name="+", primary_key=True, db_constraint=False)
    workspace = models.ForeignKey(Workspace, models.DO_NOTHING, related_name="+", db_constraint=False, db_index=False)
    seq = models.IntegerField()
    digest = models.TextField()
    """Digest of the program that can read ``state``."""
    head = models.BinaryField()
    """Chain hash of event ``seq``."""
    state = models.BinaryField()
    refs = models.TextField(default="[]", db_default="[]")
    """JSON: seqs of the events whose payloads the state still needs."""

    def __str__(self) -> str:
        return f"{self.run_id} at {self.seq}"
