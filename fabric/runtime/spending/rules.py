"""Arithmetic of shared budgets, retry tokens and counting windows: whole numbers in, whole numbers out.

PostgreSQL repeats it in its statements; the contract tests compare all three stores with these functions.
"""

from __future__ import annotations

from collections.abc import Sequence

from fabric.core.values.frozen import value
from fabric.core.values.units import US
from fabric.runtime.ports.spending import Entries, Reservation, Settlement

WINDOW_US = 300 * US
LEAVES_US = 3_600 * US + WINDOW_US
"""A window leaves the hour when its last instant is an hour old. No hour, wherever it begins, sees more than
the cap.
"""
SHARE = 20
"""A grant is at most the 20th part of what is left."""


def compute_chunk(left: int, enough: int, chunk: int) -> int:
    """Return the amount to grant: ``chunk``, at most 5 % of the amount left, and at least ``enough``. 0: so much is not
    left.

    So near the cap, where 5 % are less than a reservation, it is one reservation at a time.
    """
    amount = max(enough, min(chunk, left // SHARE))
    return amount if 0 < amount <= left else 0


def find_window(us: int) -> int:
    """Return the five-minute window of an instant."""
    return us - us % WINDOW_US


def has_left(window_at: int, us: int) -> bool:
    """Return True if a window no longer counts."""
    return window_at <= us - LEAVES_US


@value()
class GrantClosing:
    """Effect of closing a grant on its budget."""

    spent: int
    overrun: int


def close_grant(room: int, amount: int, used: int) -> GrantClosing:
    """Return the amounts booked when a grant closes. ``room``: the cap without everything spent and granted. Usage
    above the grant takes of that first; only the rest is overrun.
    """
    spent = min(used, amount + max(0, room))
    return GrantClosing(spent, used - spent)


TOKEN = 1_000
CREDIT_EVERY_US = US


def token(
    level: int, credited_at: int, *, size: int, earned: int, first_in_stage: bool, now: int
) -> tuple[int, bool | None]:
    """Return a bucket's balance before the token, and its answer. True: from the balance. None: on credit. False: no
    token.
    """
    balance = min(size, level + earned)
    if balance >= TOKEN:
        return balance, True
    on_credit = first_in_stage and credited_at <= now - CREDIT_EVERY_US and balance - TOKEN >= -size
    return balance, None if on_credit else False


SLOT_US = 10 * US
UNTIL_RING = -2
"""Ring position of the rows whose counts are instants; total counts are at -1."""
RING = 8
"""Slots kept of a windowed count: six make the minute, two are to spare."""
COUNTED_US = 60 * US


def find_slot(us: int) -> int:
    """Return the ten-second slot of an instant."""
    return us - us % SLOT_US


def find_ring(slot_at: int) -> int:
    """Return the ring position of a slot's count: rows are used again, each for one slot in eight."""
    return slot_at // SLOT_US % RING


def counts_still(slot_at: int, us: int) -> bool:
    """Return True if a slot is of the last minute."""
    return slot_at > find_slot(us) - COUNTED_US


@value()
class ReservationLine:
    """A reservation as it is inserted: settled already if its own batch settles it."""

    reservation: Reservation
    settlement: Settlement | None

    @property
    def settled_amount(self) -> int | None:
        """Amount at which it is settled; None: open."""
        return None if self.settlement is None else settled_at(self.settlement, self.reservation.usd_micros)


def settled_at(settlement: Settlement, worst: int) -> int:
    """Return the amount of a settlement."""
    return worst if settlement.usd_micros is None else settlement.usd_micros


def lines(entries: Entries) -> tuple[list[ReservationLine], list[Settlement]]:
    """Return the reservations to insert, and the settlements of earlier reservations. A call may be refused in the
    batch that issues it.
    """
    by_attempt = {(one.command_id, one.attempt): one for one in reversed(entries.settled)}
    fresh = [ReservationLine(one, by_attempt.get((one.command_id, one.attempt))) for one in entries.reserved]
    known = {(one.command_id, one.attempt) for one in entries.reserved}
    before = {key: one for key, one in by_attempt.items() if key not in known}
    return fresh, list(before.values())


def distinct(entries: Sequence[Entries]) -> None:
    """Raise ValueError if two batches are of one run."""
    if len({one.run_id for one in entries}) != len(entries):
        raise ValueError("two entries of one run at once: the second waits for the next write")
