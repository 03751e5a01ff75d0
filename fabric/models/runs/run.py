"""Stores runs, the documents attached to them, and worker processes, a row for each incarnation."""

from __future__ import annotations

from collections.abc import Sequence

from django.db import models
from django.db.models import Case, CheckConstraint, F, Func, Index, Q, UniqueConstraint, When

from fabric.core.values.flow import TERMINAL, RunState
from fabric.models.fabrics.drafts import Fabric, Revision
from fabric.models.fields.identities import KeyField, new_id
from fabric.models.workspaces.workspace import Workspace

ENDED = sorted(state.value for state in TERMINAL)
ERASED_TITLE = "(erased)"
"""The title of a run whose contents retention erased."""
BAD_STATES = sorted(state.value for state in TERMINAL - {RunState.COMPLETED})


class IndexCondition(Func):
    """A partial index's condition in the index's own words, values included. SQLite uses the index for no other words,
    and for no parameters.
    """

    output_field = models.BooleanField()


def match_words(states: Sequence[str]) -> str:
    """Return the template of ``IndexCondition`` for a column with one of a few words."""
    return "%(expressions)s IN (" + ", ".join(f"'{state}'" for state in states) + ")"


LIVE = Q(IndexCondition(F("state"), template=f"NOT ({match_words(ENDED)})"))
"""Runs that have not ended, as a query must state it to use the partial index."""
BAD = Q(IndexCondition(F("state"), template=match_words(BAD_STATES)))
"""Runs that ended without completing, as a query must state it to use the partial index."""
IN_SESSION = Q(IndexCondition(F("session_key"), template="NOT (%(expressions)s = '')"))
"""Runs with a session, as a query must state it to use the partial index."""
TROUBLED = Q(IndexCondition(F("cause"), F("fired"), template="NOT (%(expressions)s = '')", arg_joiner=" = '' AND "))
"""Runs with a failure or a protection that fired, as a query must state it to use the partial index."""
ASKED_FOR = Q(parent_run_id__isnull=True)
"""Runs that a caller requested: child runs are part of their parent, and shown on its page."""


_NEWEST = (F("workspace"), F("created_at").desc(), F("id"))
_BAD = Q(state__in=BAD_STATES)


class Priority(models.IntegerChoices):
    """Urgency of a claim; the lowest number first."""

    CRITICAL = 0, "critical"
    HIGH = 1, "high"
    NORMAL = 2, "normal"
    LOW = 3, "low"


class Run(models.Model):
    """One execution: the projection of its journal, its owner, and its due time.

    Only a claim and the owner's journal writer update a row (docs/specification/durability.md). Instants are
    microseconds since the epoch, UTC; money is micro-dollars. Columns that every flush writes are in no index, so
    that PostgreSQL updates the row in place (HOT); half of each page is left free for that.
    """

    id = KeyField(primary_key=True, default=new_id)
    workspace = models.ForeignKey(Workspace, models.DO_NOTHING, related_name="+", db_constraint=False, db_index=False)
    fabric = models.ForeignKey(Fabric, models.DO_NOTHING, related_name="runs", db_constraint=False, db_index=False)
    revision = models.ForeignKey(Revision, models.DO_NOTHING, related_name="+", db_constraint=False, db_index=False)
    session_key = models.TextField(blank=True, default="")
    start_key = models.TextField(blank=True, default="")
    title = models.TextField(blank=True, default="")
    trace_id = models.TextField()
    seed = models.BigIntegerField()
    tier = models.TextField()
    queue = models.TextField(default="default")
    priority = models.PositiveSmallIntegerField(choices=Priority.choices, default=Priority.NORMAL)
    created_at = models.BigIntegerField()
    created_by = models.TextField(blank=True, default="")
    caused_by = models.TextField(blank=True, db_default="")
    """People who caused its start (``batch_parts.names_text``)."""
    # The projection, as the last batch left it.
    state = models.TextField(default=RunState.QUEUED.value)
    stage = models.TextField(blank=True, default="")
    epoch = models.PositiveIntegerField(default=0)
    cost_usd_micros = models.BigIntegerField(default=0)
    tokens = models.BigIntegerField(default=0)
    reason = models.TextField(blank=True, default="")
    recovered = models.BooleanField(default=False)
    truncated = models.BooleanField(default=False)
    cause = models.TextField(blank=True, default="", db_default="")
    """Cause of the failure that ended or last troubled it; "": none did."""
    failure = models.TextField(blank=True, default="", db_default="")
    """Row of the decision table that it met last; "": none."""
    fired = models.TextField(blank=True, default="", db_default="")
    """Short names of the protections that fired (``core.state.trouble``), each between two line ends."""
    breakers = models.TextField(blank=True, default="", db_default="")
    """Breakers that refused its calls, as ``scope:name``, each between two line ends."""
    unconfirmed_usd_micros = models.BigIntegerField(default=0, db_default=0)
    """Part of the cost that no bill confirms: charged at the worst case."""
    spent_on = models.TextField(blank=True, default="", db_default="")
    """JSON of micro-dollars by name, under ``agent`` and ``model``."""
    started_at = models.BigIntegerField(null=True, blank=True)
    ended_at = models.BigIntegerField(null=True, blank=True)
    deadline_at = models.BigIntegerField()
    # For orders by them. They change at the end alone: a flush may write cost and tokens, and stay in place (HOT).
    took_us = models.GeneratedField(
        expression=F("ended_at") - F("created_at"), output_field=models.BigIntegerField(null=True), db_persist=True
    )
    final_cost_usd_micros = models.GeneratedField(
        expression=Case(When(ended_at__isnull=False, then=F("cost_usd_micros"))),
        output_field=models.BigIntegerField(null=True),
        db_persist=True,
    )
    final_tokens = models.GeneratedField(
        expression=Case(When(ended_at__isnull=False, then=F("tokens"))),
        output_field=models.BigIntegerField(null=True),
        db_persist=True,
    )
    # The journal's end.
    last_seq = models.PositiveIntegerField(default=0)
    head_hash = models.BinaryField()
    """Chain hash of the last event; 32 zero bytes before the first."""
    # Ownership.
    fence = models.BigIntegerField(default=0)
    incarnation = KeyField(null=True, blank=True)
    """Name of the owner; null: released."""
    wake_at = models.BigIntegerField(null=True, blank=True)
    """Time at which it is due once released; null: only an inbox row wakes it."""
    claims = models.PositiveIntegerField(default=0)
    """Number of claims since its last progress: a run that kills its owners shows here."""
    claim_ticket = models.BigIntegerField(default=0)
    """Number of its claim, by which a claim with a lost answer finds its runs again."""
    format = models.SmallIntegerField(default=1, db_default=1)
    """Format that a worker must be able to read to own it (``flow.FORMAT``)."""
    # Where it comes from.
    parent_run_id = KeyField(null=True, blank=True)
    parent_command = models.TextField(blank=True, default="", db_default="")
    """Id of the parent's command that it answers."""
    root_run_id = KeyField(null=True, blank=True)
    """Ancestor of its whole family; null: it has no parent."""
    cap_usd_micros = models.BigIntegerField(null=True, blank=True)
    """Largest cost, of its parent's budget."""
    origin_run_id = KeyField(null=True, blank=True)
    """Run that it was forked from, at event ``origin_seq``."""
    origin_seq = models.PositiveIntegerField(null=True, blank=True)
    trace_context = models.TextField(blank=True, db_default="")
    """Trace of the caller that asked for it or for its root (``Caller.pack``); "": none."""

    class Meta:
        """Indexes and constraints."""

        indexes = (
            Index(*_NEWEST, name="run_list"),
            # Orders of the list; the first also finds what ended since the last checkpoint, and what ended long enough
            # ago to be erased. SQLite prefers the later one of two equal indexes: those of a part come later.
            *(
                Index(
                    *(F("workspace"), F(by).desc(), F("id"), F("state")),
                    condition=Q(**{f"{by}__isnull": False}),
                    name=name,
                )
                for by, name in (
                    ("ended_at", "run_ended"),
                    ("took_us", "run_took"),
                    ("final_cost_usd_micros", "run_cost"),
                    ("final_tokens", "run_tokens"),
                )
            ),
            Index(F("workspace"), F("fabric"), *_NEWEST[1:], name="run_fabric"),
            # The list of runs in its own order, each a part of them, with the columns that are counted by.
            Index(*_NEWEST, F("state"), condition=~Q(state__in=ENDED), name="run_live"),
            Index(*_NEWEST, F("state"), F("ended_at"), F("recovered"), condition=_BAD, name="run_bad"),
            Index(F("workspace"), F("ended_at").desc(), F("id"), F("state"), condition=_BAD, name="run_bad_ended"),
            Index(*_NEWEST, F("state"), condition=Q(recovered=True), name="run_recovered"),
            # SQLite prefers run_list to a wider index, so the column fired is not in it.
            Index(*_NEWEST, F("cause"), F("failure"), condition=~Q(cause="", fired=""), name="run_troubled"),
            Index(F("workspace"), F("session_key"), *_NEWEST[1:], condition=~Q(session_key=""), name="run_session"),
            Index(
                fields=["queue", "priority", "wake_at"],
                condition=Q(incarnation__isnull=True, wake_at__isnull=False),
                name="run_due",
            ),
            Index(fields=["incarnation"], condition=Q(incarnation__isnull=False), name="run_owned"),
            Index(fields=["parent_run_id"], condition=Q(parent_run_id__isnull=False), name="run_children"),
        )
        constraints = (
            UniqueConstraint(fields=["workspace", "start_key"], condition=~Q(start_key=""), name="run_start_key_once"),
        )

    def __str__(self) -> str:
        return self.id


class Family(models.Model):
    """Counts of the runs of one root. The row comes with the first of them; only journal writers change it."""

    root_run_id = KeyField(primary_key=True)
    workspace = models.ForeignKey(Workspace, models.DO_NOTHING, related_name="+", db_constraint=False, db_index=False)
    alive = models.IntegerField()
    """Number of live runs."""
    spawned = models.IntegerField()
    """Number of runs that ever belonged to it."""
    cap_alive = models.IntegerField()
    cap_spawned = models.IntegerField()

    class Meta:
        """Constraints that protect it from any writer."""

        constraints = (
            CheckConstraint(condition=Q(alive__gte=0, alive__lte=F("cap_alive")), name="family_alive"),
            CheckConstraint(condition=Q(spawned__gte=0, spawned__lte=F("cap_spawned")), name="family_spawned"),
        )

    def __str__(self) -> str:
        return f"{self.root_run_id}: {self.alive} of {self.cap_alive}"


class Attachment(models.Model):
    """A document of a run, as text."""

    pk = models.CompositePrimaryKey("run_id", "position")
    run = models.ForeignKey(Run, models.DO_NOTHING, related_name="attachments", db_constraint=False, db_index=False)
    position = models.PositiveSmallIntegerField()
    workspace = models.ForeignKey(Workspace, models.DO_NOTHING, related_name="+", db_constraint=False, db_index=False)
    name = models.TextField()
    text = models.TextField()
    bytes = models.PositiveIntegerField()
    """Size of the text in UTF-8."""
    origin = models.TextField(default="", db_default="")
    """Name of its file, as ``fabric.runtime.ports.batch_parts`` has it; empty: it came as text."""

    def __str__(self) -> str:
        return self.name


class RunLabel(models.Model):
    """A label of a run and of all its child runs; rows belong to the run that a caller requested."""

    pk = models.CompositePrimaryKey("run_id", "key")
    run = models.ForeignKey(Run, models.DO_NOTHING, related_name="labels", db_constraint=False, db_index=False)
    key = KeyField()
    workspace = models.ForeignKey(Workspace, models.DO_NOTHING, related_name="+", db_constraint=False, db_index=False)
    value = KeyField()

    class Meta:
        """Table, and the index that the query line uses."""

        db_table = "fabric_run_label"
        indexes = (Index(fields=["workspace", "key", "value", "run"], name="run_label_value"),)

    def __str__(self) -> str:
        return f"{self.key}={self.value}"


class Incarnation(models.Model):
    """A worker process from its start to its end, and its lease. It serves every workspace, so it names none.

    Instants are microseconds since the epoch on the database's clock.
    """

    name = KeyField(primary_key=True)
    lease_until = models.BigIntegerField()
    started_at = models.BigIntegerField()
    retired_at = models.BigIntegerField(null=True, blank=True)
    host = models.TextField(blank=True, default="")
    pid = models.PositiveIntegerField(default=0)
    token = models.BigIntegerField(default=0, db_default=0)
    """Random number that the process drew when it took the name: another process has another."""
    lock_key = models.BigIntegerField(null=True, blank=True)
    """Key of the advisory lock that the process holds while it lives; null: only its lease shows its life."""
    refused_writes = models.BigIntegerField(default=0, db_default=0)
    """Number of batches that were not written because another worker owned their run by then."""

    def __str__(self) -> str:
        return self.name
