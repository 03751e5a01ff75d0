"""The journal and the one door in: hot tables, written by the stores in hand-written SQL, without foreign keys in the database."""

from __future__ import annotations

from django.db import models
from django.db.models import F, Index, Q

from fabric.core.notifications import EVENTS
from fabric.models.keys import KeyField
from fabric.models.packed import PackedField
from fabric.models.runs import Run, Said, among
from fabric.models.workspaces import Workspace

NOTIFIED = Q(Said(F("kind"), template=among(sorted(EVENTS))))
"""Events that are told outside the console, as a query must say it to be answered from the partial index."""


class Event(models.Model):
    """One journal row (``fabric.core.envelope.Row``). Appended, never changed; a payload may be erased, its hash stays."""

    pk = models.CompositePrimaryKey("run_id", "seq")
    at = models.BigIntegerField()
    """Microseconds since the epoch, UTC."""
    seq = models.IntegerField()
    version = models.SmallIntegerField()
    run = models.ForeignKey(Run, models.DO_NOTHING, related_name="events", db_constraint=False, db_index=False)
    workspace = models.ForeignKey(Workspace, models.DO_NOTHING, related_name="+", db_constraint=False, db_index=False)
    kind = models.TextField()
    header = PackedField()
    """JSON: the envelope and the fact."""
    payload = PackedField(null=True)
    """JSON of the content; null when there was none or it was erased."""
    payload_hash = models.BinaryField()
    hash = models.BinaryField()

    class Meta:
        """How what is told outside is found: an index of few rows, which no other event is written to."""

        indexes = (Index(fields=["at"], condition=Q(kind__in=sorted(EVENTS)), name="event_notified"),)

    def __str__(self) -> str:
        return f"{self.run_id}.{self.seq} {self.kind}"


class Inbox(models.Model):
    """Something from outside for a run. Inserted by anybody, taken out by the run's owner alone, exactly once."""

    pk = models.CompositePrimaryKey("run_id", "input_id")
    created_at = models.BigIntegerField()
    visible_at = models.BigIntegerField()
    """Microseconds since the epoch, UTC: not before this is it seen. Until its run takes it, it may be withdrawn."""
    consumed_seq = models.IntegerField(null=True, blank=True)
    """The journal's end after the batch that took it; null while it waits; below 0: it was taken back. What a run did not take before it ended, its end took."""
    run = models.ForeignKey(Run, models.DO_NOTHING, related_name="inbox", db_constraint=False, db_index=False)
    workspace = models.ForeignKey(Workspace, models.DO_NOTHING, related_name="+", db_constraint=False, db_index=False)
    input_id = KeyField()
    body = models.BinaryField()
    wakes = models.SmallIntegerField(default=1, db_default=1)
    """0: it is seen when the run is claimed for something else; 1: it is a reason to claim the run; 2: a quarantined one too."""
    format = models.SmallIntegerField(default=1, db_default=1)
    """What a worker must be able to read to take it (``flow.FORMAT``)."""

    class Meta:
        """How it is searched, and what may be there once."""

        indexes = (Index(fields=["visible_at"], condition=Q(consumed_seq__isnull=True), name="inbox_waiting"),)

    def __str__(self) -> str:
        return f"{self.run_id} {self.input_id}"


class Snapshot(models.Model):
    """A run's state as its journal folds up to ``seq``. It may be lost at any time: the journal is the truth."""

    run = models.OneToOneField(Run, models.DO_NOTHING, related_name="+", primary_key=True, db_constraint=False)
    workspace = models.ForeignKey(Workspace, models.DO_NOTHING, related_name="+", db_constraint=False, db_index=False)
    seq = models.IntegerField()
    digest = models.TextField()
    """Which program can read ``state``."""
    head = models.BinaryField()
    """Chain hash of event ``seq``."""
    state = models.BinaryField()
    refs = models.TextField(default="[]", db_default="[]")
    """JSON: seqs of the events whose payloads the state still needs."""

    def __str__(self) -> str:
        return f"{self.run_id} at {self.seq}"
