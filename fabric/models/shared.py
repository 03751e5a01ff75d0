"""What runs share across processes: budgets, grants, retry tokens, guard rows. Written by the stores in hand-written SQL, without foreign keys.

Instants are microseconds since the epoch on the database's clock; money is micro-dollars. Rows that are updated often are few and have free space
on their page, so that PostgreSQL rewrites them in place.
"""

from __future__ import annotations

from django.db import models
from django.db.models import CheckConstraint, F, Index, Q

from fabric.models.keys import KeyField
from fabric.models.runs import Run
from fabric.models.workspaces import Workspace


class SharedBudget(models.Model):
    """A cap that many runs in many processes spend under, and where it stands."""

    scope = KeyField(primary_key=True)
    workspace = models.ForeignKey(Workspace, models.DO_NOTHING, related_name="+", db_constraint=False, db_index=False)
    hourly = models.BooleanField(default=False)
    """True: ``spent`` is the sum of this budget's windows."""
    cap = models.BigIntegerField()
    """What holds: above ``cap_wanted`` only while more is spent and granted than that."""
    cap_wanted = models.BigIntegerField()
    """What was set."""
    spent = models.BigIntegerField(default=0)
    granted = models.BigIntegerField(default=0)
    """The sum of the grants that are not closed."""
    overrun = models.BigIntegerField(default=0)

    class Meta:
        """The promise, kept by the database."""

        db_table = "fabric_budget"
        constraints = (
            CheckConstraint(
                condition=Q(spent__gte=0, granted__gte=0, cap_wanted__gte=0), name="budget_is_not_negative"
            ),
            CheckConstraint(condition=Q(cap__gte=F("spent") + F("granted")), name="budget_is_kept"),
        )

    def __str__(self) -> str:
        return self.scope


class BudgetWindow(models.Model):
    """What was spent in five minutes of an hourly budget."""

    pk = models.CompositePrimaryKey("scope", "window_at")
    scope = KeyField()
    window_at = models.BigIntegerField()
    spent = models.BigIntegerField()

    class Meta:
        """Its name."""

        db_table = "fabric_budget_window"

    def __str__(self) -> str:
        return f"{self.scope} {self.window_at}"


class SharedGrant(models.Model):
    """An amount that an incarnation may spend: ``open``, then ``closing`` (nothing is reserved any more), then ``closed``."""

    id = KeyField(primary_key=True)
    incarnation = KeyField()
    scope = KeyField()
    state = models.TextField(default="open")
    amount = models.BigIntegerField()
    used = models.BigIntegerField(default=0)
    """What its reservations were settled at, once closed."""
    opened_at = models.BigIntegerField()
    wanted_at = models.BigIntegerField(null=True, blank=True)
    """When another incarnation asked for what is not reserved of it."""
    closed_at = models.BigIntegerField(null=True, blank=True)

    class Meta:
        """How it is searched: only what is not closed."""

        db_table = "fabric_grant"
        indexes = (
            Index(fields=["incarnation"], condition=Q(closed_at__isnull=True), name="grant_held"),
            Index(fields=["scope"], condition=Q(closed_at__isnull=True), name="grant_of_scope"),
        )

    def __str__(self) -> str:
        return self.id


class GrantReservation(models.Model):
    """The worst case of one attempt at one call, out of one grant. Settled once."""

    pk = models.CompositePrimaryKey("run_id", "command_id", "attempt", "grant_id")
    run = models.ForeignKey(Run, models.DO_NOTHING, related_name="+", db_constraint=False, db_index=False)
    command_id = KeyField()
    attempt = models.IntegerField()
    grant = models.ForeignKey(SharedGrant, models.DO_NOTHING, related_name="+", db_constraint=False, db_index=False)
    amount = models.BigIntegerField()
    settled = models.BigIntegerField(null=True, blank=True)
    """Null: open."""
    reason = models.TextField(blank=True, default="")
    """``grant_ports.SettledBy``; empty while open."""
    reserved_at = models.BigIntegerField()
    settled_at = models.BigIntegerField(null=True, blank=True)

    class Meta:
        """How a grant finds its own."""

        db_table = "fabric_reservation"
        indexes = (Index(fields=["grant"], name="reservation_of_grant"),)

    def __str__(self) -> str:
        return f"{self.run_id} {self.command_id} {self.attempt}"


class RetryBucket(models.Model):
    """Retry tokens of a provider or a fabric, in thousandths."""

    scope = KeyField(primary_key=True)
    level = models.BigIntegerField()
    credited_at = models.BigIntegerField(default=0)
    """When it last gave one on credit."""

    class Meta:
        """Its name."""

        db_table = "fabric_bucket"

    def __str__(self) -> str:
        return self.scope


class Guard(models.Model):
    """A guard's state that all processes share, and who may probe."""

    pk = models.CompositePrimaryKey("scope", "kind")
    scope = KeyField()
    kind = KeyField()
    state = models.TextField()
    generation = models.BigIntegerField()
    changed_at = models.BigIntegerField()
    permits = models.TextField(default="{}", db_default="{}")
    """Who may probe, and until when, by holder: JSON."""

    class Meta:
        """Its name."""

        db_table = "fabric_guard"

    def __str__(self) -> str:
        return f"{self.scope} {self.kind}"


class GuardChange(models.Model):
    """That a guard's row changed: appended by the statement that changes it, never changed, deleted when it is old."""

    pk = models.CompositePrimaryKey("scope", "kind", "generation")
    scope = KeyField()
    kind = KeyField()
    generation = models.BigIntegerField()
    """That it has from then on."""
    state = models.TextField()
    """Its own from then on: JSON, as in the row."""
    at = models.BigIntegerField()

    class Meta:
        """Its name, and how what is old or new in it is found."""

        db_table = "fabric_guard_change"
        indexes = (Index(fields=["at"], name="guard_change_at"),)

    def __str__(self) -> str:
        return f"{self.scope} {self.kind} {self.generation}"


class GuardCount(models.Model):
    """How often a signal was seen in a generation: in all (ring -1), or in ten seconds of the last minute (a ring of slots that are used again).
    Or the latest instant that was told of any generation (ring -2): nobody probes before.
    """

    pk = models.CompositePrimaryKey("scope", "kind", "signal", "ring")
    scope = KeyField()
    kind = KeyField()
    signal = KeyField()
    ring = models.SmallIntegerField()
    slot_at = models.BigIntegerField()
    generation = models.BigIntegerField()
    n = models.BigIntegerField()

    class Meta:
        """Its name."""

        db_table = "fabric_guard_count"

    def __str__(self) -> str:
        return f"{self.scope} {self.kind} {self.signal}"
