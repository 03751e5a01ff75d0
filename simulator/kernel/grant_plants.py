"""Planted bugs of shared budgets: each takes one rule out, from outside, so that the simulator can be seen to find it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from fabric.adapters.grants import GrantBook
from fabric.core.frozen import replace
from fabric.core.mechanisms import retry_budget
from fabric.core.run import Run
from fabric.core.verdict import PASS, Verdict
from fabric.core.work import Emitted
from fabric.runtime import driver, grant_rules, shares
from fabric.runtime.batch_parts import Reservation, SettledBy, Settlement
from simulator.kernel import planting

IN_GRANTS = ("grant_without_cap_check", "reaper_refunds_unknown", "closed_grant_reserved")
"""Plants that the memory store takes out itself: the cap, the worst case of what the dead left open, the state of a grant that is reserved from."""


def _half_reserved(before: Run, emitted: Iterable[Emitted]) -> tuple[tuple[Reservation, ...], tuple[Settlement, ...]]:
    reserved, settled = shares.entries_of(before, emitted)
    return reserved[1:], settled


def _unknown_is_free(before: Run, emitted: Iterable[Emitted]) -> tuple[tuple[Reservation, ...], tuple[Settlement, ...]]:
    reserved, settled = shares.entries_of(before, emitted)
    return reserved, tuple(replace(one, usd_micros=0) if one.reason is SettledBy.UNKNOWN else one for one in settled)


def _asks_nobody(*_: Any) -> Verdict:
    """A retry takes no token of the buckets that runs share."""
    return PASS


def _spends_nothing(book: GrantBook, reservations: Iterable[Reservation]) -> None:
    """The same chunk is spent by every call."""


GRANT_PLANTS: Mapping[str, Callable[[], AbstractContextManager[None]]] = {
    **dict.fromkeys(IN_GRANTS, nullcontext),
    "reservation_left_out": lambda: planting.attribute(driver, "entries_of", _half_reserved),
    "unknown_settled_free": lambda: planting.attribute(driver, "entries_of", _unknown_is_free),
    "retry_asks_nobody": lambda: planting.attribute(retry_budget, "_shared", _asks_nobody),
    "retry_token_for_nothing": lambda: planting.attribute(grant_rules, "TOKEN", 0),
    "credit_without_pause": lambda: planting.attribute(grant_rules, "CREDIT_EVERY_US", 0),
    "grant_spent_twice": lambda: planting.attribute(GrantBook, "spend", _spends_nothing),
}
"""Every one by name."""
