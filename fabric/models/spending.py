"""Tables that runs share across processes: budgets, grants, retry tokens, guard rows. The stores write them by
hand-written SQL, without foreign keys.

Instants are microseconds since the epoch on the database's clock; money is micro-dollars. Rows that are updated often
are few and have free space on their page, so that PostgreSQL rewrites them in place.
"""

from __future__ import annotations

from django.db import models
from django.db.models import CheckConstraint, F, Index, Q

from fabric.models.fields.identities import KeyField
from fabric.models.runs.run import Run
from fabric.models.workspaces.workspace import Workspace


class SharedBudget(models.Model):
    """A cap for many runs in many processes, with its standing."""

    scope = KeyField(primary_key=True)
    workspace = models.ForeignKey(Workspace, models.DO_NOTHING, related_name="+", db_constraint=False, db_index=False)
    hourly = models.BooleanField(default=False)
    """True: ``spent`` is the sum of this budget's windows."""
    cap = models.BigIntegerField()
    """Cap in force: larger than ``cap_wanted`` only while more than that is spent and granted."""
    cap_wanted = models.BigIntegerField()
    """Cap that was set."""
    spent = models.BigIntegerField(default=0)
    granted = models.BigIntegerField(default=0)
    """Sum of the open grants."""
    overrun = models.BigIntegerField(default=0)

    class Meta:
        """Constraint that keeps spending under the cap."""

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
    """Spending in five minutes of an hourly budget."""

    pk = models.CompositePrimaryKey("scope", "window_at")
    scope = KeyField()
    window_at = models.BigIntegerField()
    spent = models.BigIntegerField()

    class Meta:
        """Table name."""

        db_table = "fabric_budget_window"

    def __str__(self) -> str:
        return f"{self.scope} {self.window_at}"


class SharedGrant(models.Model):
    """An amount that an incarnation may spend: ``open``, then ``closing`` (no more reservations), then ``closed``."""

    id = KeyField(primary_key=True)
    incarnation = KeyField()
    scope = KeyField()
    state = models.TextField(default="open")
    amount = models.BigIntegerField()
    used = models.BigIntegerField(default=0)
    """Sum of its settled reservations, once closed."""
    opened_at = models.BigIntegerField()
    wanted_at = models.BigIntegerField(null=True, blank=True)
    """Time at which another incarnation wanted its unreserved rest."""
    closed_at = models.BigIntegerField(null=True, blank=True)

    class Meta:
        """Index of open grants only."""

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
    """``ports.batch_parts.SettledBy``; empty while open."""
    reserved_at = models.BigIntegerField()
    settled_at = models.BigIntegerField(null=True, blank=True)

    class Meta:
        """Index of a grant's reservations."""

        db_table = "fabric_reservation"
        indexes = (Index(fields=["grant"], name="reservation_of_grant"),)

    def __str__(self) -> str:
        return f"{self.run_id} {self.command_id} {self.attempt}"


class RetryBucket(models.Model):
    """Retry tokens of a provider or a fabric, in thousandths."""

    scope = KeyField(primary_key=True)
    level = models.BigIntegerField()
    credited_at = models.BigIntegerField(default=0)
    """Time of its last token on credit."""

    class Meta:
        """Table name."""

        db_table = "fabric_bucket"

    def __str__(self) -> str:
        return self.scope


class Guard(models.Model):
    """A guard's state that all processes share, with its permits to probe."""

    pk = models.CompositePrimaryKey("scope", "kind")
    scope = KeyField()
    kind = KeyField()
    state = models.TextField()
    generation = models.BigIntegerField()
    changed_at = models.BigIntegerField()
    permits = models.TextField(default="{}", db_default="{}")
    """Permits to probe with their ends, by holder: JSON."""

    class Meta:
        """Table name."""

        db_table = "fabric_guard"

    def __str__(self) -> str:
        return f"{self.scope} {self.kind}"


class GuardChange(models.Model):
    """A change of a guard's row: appended by the changing statement, never changed, deleted when it is old."""

    pk = models.CompositePrimaryKey("scope", "kind", "generation")
    scope = KeyField()
    kind = KeyField()
    generation = models.BigIntegerField()
    """Generation from then on."""
    state = models.TextField()
    """State from then on: JSON, as in the row."""
    at = models.BigIntegerField()

    class Meta:
        """Index of old and new changes."""

        db_table = "fabric_guard_change"
        indexes = (Index(fields=["at"], name="guard_change_at"),)

    def __str__(self) -> str:
        return f"{self.scope} {self.kind} {self.generation}"


class GuardCount(models.Model):
    """Number of a signal's occurrences in a generation. Ring -1 counts all, each other ring ten seconds of the last
    minute; their slots are reused.

    Ring -2 has the latest instant reported in any generation: no probe goes out before it.
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
        """Table name."""

        db_table = "fabric_guard_count"

    def __str__(self) -> str:
        return f"{self.scope} {self.kind} {self.signal}"
