"""What a run has reserved of shared budgets: as its journal says, beside what stands in the table."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from fabric.models import GrantReservation, SharedGrant
from fabric.runtime.batch_parts import Reservation, SettledBy, Settlement
from fabric.runtime.grant_rules import settled_at


@dataclass(frozen=True, slots=True)
class Missing:
    """A reservation that is not in the table, or open there though the journal has settled it."""

    reservation: Reservation
    settled: int | None
    reason: str
    known: bool
    """True: it is there, and open."""

    @property
    def sentence(self) -> str:
        """What is wrong, for a person."""
        one = self.reservation
        name = f"the reservation of {one.command_id}#{one.attempt} out of grant {one.grant_id}"
        return f"{name} is open, the journal has settled it" if self.known else f"{name} is in the journal alone"


def reservations_missing(
    run_id: str, reserved: list[Reservation], settled: list[Settlement], *, ended: bool
) -> Iterator[Missing]:
    """What the table lacks, of grants that are not closed: what a closed one came to stays. ``ended``: what the journal left open is over, at its worst."""
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
        yield Missing(one, amount, reason, known=key in rows)
