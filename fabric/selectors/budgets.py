"""Reads the standings of the budgets that a workspace's runs share.

A run's reservations in its journal are compared with those in the table.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass

from django.db.models import Q, Sum

from fabric.core.budgets.grants import find_unit
from fabric.core.people.actor import Actor
from fabric.models import BudgetWindow, GrantReservation, SharedBudget, SharedGrant
from fabric.runtime.ports.batch_parts import Reservation, SettledBy, Settlement
from fabric.runtime.spending.rules import LEAVES_US, settled_at


@dataclass(frozen=True, slots=True)
class BudgetStanding:
    """Standing of one budget, in micro-dollars or tokens."""

    scope: str
    cap: int
    spent: int
    """Spent amount; of an hourly budget, within the last hour."""
    granted: int
    """Amount granted to workers, spent or not."""
    overrun: int
    hourly: bool

    @property
    def unit(self) -> str:
        """Return ``usd_micros`` or ``tokens``."""
        return find_unit(self.scope)

    @property
    def grantable(self) -> int:
        """Return the amount that can still be granted."""
        return max(0, self.cap - self.spent - self.granted)


def list_budgets(actor: Actor, *, now: int | None = None) -> list[BudgetStanding]:
    """Return all budgets of the actor's workspace, by scope; none for an actor who sees some fabrics alone. ``now``:
    microseconds since the epoch.
    """
    if actor.narrow:
        return []
    at = (time.time_ns() // 1_000 if now is None else now) - LEAVES_US
    rows = list(SharedBudget.objects.filter(workspace_id=actor.workspace_id).order_by("scope"))
    past = BudgetWindow.objects.filter(Q(scope__in=[row.scope for row in rows], window_at__lte=at))
    left = dict(past.values_list("scope").annotate(sum=Sum("spent")))
    return [
        BudgetStanding(
            row.scope, row.cap_wanted, row.spent - left.get(row.scope, 0), row.granted, row.overrun, row.hourly
        )
        for row in rows
    ]


@dataclass(frozen=True, slots=True)
class MissingReservation:
    """A reservation that the table lacks, or has open although the journal has settled it."""

    reservation: Reservation
    settled: int | None
    reason: str
    known: bool
    """True: the table has it, and it is open."""

    @property
    def sentence(self) -> str:
        """Return the difference in a sentence for a person."""
        one = self.reservation
        name = f"the reservation of {one.command_id}#{one.attempt} out of grant {one.grant_id}"
        return f"{name} is open, the journal has settled it" if self.known else f"{name} is in the journal alone"


def reservations_missing(
    run_id: str, reserved: list[Reservation], settled: list[Settlement], *, ended: bool
) -> Iterator[MissingReservation]:
    """Yield the table's missing reservations of open grants; the sum of a closed grant stays.

    ``ended``: the run is over, so its open reservations count at their worst.
    """
    by_attempt = {(one.command_id, one.attempt): one for one in reversed(settled)}
    open_grants = {one.grant_id for one in reserved}
    rows = {
        (row["command_id"], row["attempt"], row["grant_id"]): row["settled"]
        for row in GrantReservation.objects.filter(run_id=run_id).values("command_id", "attempt", "grant_id", "settled")
    }
    standing = set(SharedGrant.objects.filter(id__in=open_grants, closed_at__isnull=True).values_list("id", flat=True))
    for one in reserved if standing else ():
        settlement = by_attempt.get((one.command_id, one.attempt))
        amount = settled_at(settlement, one.usd_micros) if settlement else one.usd_micros if ended else None
        reason = settlement.reason.value if settlement else SettledBy.UNKNOWN.value if ended else ""
        key = one.command_id, one.attempt, one.grant_id
        if one.grant_id not in standing or (key in rows and (rows[key] is not None or amount is None)):
            continue
        yield MissingReservation(one, amount, reason, known=key in rows)
