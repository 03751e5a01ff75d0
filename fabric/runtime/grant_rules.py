"""The arithmetic of shared budgets, retry tokens and counting windows: whole numbers in, whole numbers out.

PostgreSQL has it again in its statements; the contract tests hold all three stores to these functions.
"""

from __future__ import annotations

from collections.abc import Sequence

from fabric.core.frozen import value
from fabric.runtime.grant_ports import Entries, Reservation, Settlement

SECOND_US = 1_000_000
WINDOW_US = 300 * SECOND_US
LEAVES_US = 3_600 * SECOND_US + WINDOW_US
"""A window leaves the hour when its last instant is an hour old: no hour, wherever it begins, sees more than the cap."""
SHARE = 20
"""A grant is at most the 20th part of what is left."""


def chunk_of(left: int, enough: int, chunk: int) -> int:
    """How much to grant: ``chunk``, but at most 5 % of what is left, and at least ``enough``; 0 when that is not there.

    So near the cap, where 5 % are less than a reservation, it is one reservation at a time.
    """
    amount = max(enough, min(chunk, left // SHARE))
    return amount if 0 < amount <= left else 0


def window_of(us: int) -> int:
    """The five-minute window of an instant."""
    return us - us % WINDOW_US


def has_left(window_at: int, us: int) -> bool:
    """Whether a window counts no more."""
    return window_at <= us - LEAVES_US


@value()
class Closing:
    """What closing a grant does to its budget."""

    spent: int
    overrun: int


def closing(room: int, amount: int, used: int) -> Closing:
    """``room``: what the cap leaves beside everything spent and granted. What was used above the grant takes of it first; only the rest is overrun."""
    spent = min(used, amount + max(0, room))
    return Closing(spent, used - spent)


TOKEN = 1_000
CREDIT_EVERY_US = SECOND_US


def token(
    level: int, credited_at: int, *, size: int, earned: int, first_in_stage: bool, now: int
) -> tuple[int, bool | None]:
    """A bucket's balance before the token, and whether it gives one: True from what it has, None on credit, False not at all."""
    balance = min(size, level + earned)
    if balance >= TOKEN:
        return balance, True
    on_credit = first_in_stage and credited_at <= now - CREDIT_EVERY_US and balance - TOKEN >= -size
    return balance, None if on_credit else False


SLOT_US = 10 * SECOND_US
UNTIL_RING = -2
"""Where the rows of counts stand that are instants; what is counted in all stands at -1."""
RING = 8
"""Slots kept of a windowed count: six make the minute, two are to spare."""
COUNTED_US = 60 * SECOND_US


def slot_of(us: int) -> int:
    """The ten-second slot of an instant."""
    return us - us % SLOT_US


def ring_of(slot_at: int) -> int:
    """Where a slot's count is kept: rows are used again, each for one slot in eight."""
    return slot_at // SLOT_US % RING


def counts_still(slot_at: int, us: int) -> bool:
    """Whether a slot is of the last minute."""
    return slot_at > slot_of(us) - COUNTED_US


@value()
class Line:
    """A reservation as it is inserted: settled already when the same batch settles it."""

    reservation: Reservation
    settlement: Settlement | None

    @property
    def settled(self) -> int | None:
        """What it is settled at; None: open."""
        return None if self.settlement is None else settled_at(self.settlement, self.reservation.usd_micros)


def settled_at(settlement: Settlement, worst: int) -> int:
    """What a settlement comes to."""
    return worst if settlement.usd_micros is None else settlement.usd_micros


def lines(entries: Entries) -> tuple[list[Line], list[Settlement]]:
    """What is inserted, and the settlements of reservations that were written before. A call may be refused in the batch that issues it."""
    by_attempt = {(one.command_id, one.attempt): one for one in reversed(entries.settled)}
    fresh = [Line(one, by_attempt.get((one.command_id, one.attempt))) for one in entries.reserved]
    known = {(one.command_id, one.attempt) for one in entries.reserved}
    before = {key: one for key, one in by_attempt.items() if key not in known}
    return fresh, list(before.values())


def distinct(entries: Sequence[Entries]) -> None:
    """Raises ValueError when two are of one run."""
    if len({one.run_id for one in entries}) != len(entries):
        raise ValueError("two entries of one run at once: the second waits for the next write")
