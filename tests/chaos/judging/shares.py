"""Budgets that runs share, compared with the ledger of the outside. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from simulator.booking import Entry

Attempt = tuple[str, str, int]
"""Run, command, attempt."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shared:
    """Where a budget stands, micro-dollars."""

    scope: str
    cap: int
    spent: int
    granted: int
    overrun: int
    hourly: bool
    """True: ``spent`` is the last hour's."""
    held: int
    """The sum of its grants that are not closed."""
    used: int
    """What closed grants were used for, altogether."""
    runs: frozenset[str]
    """Who falls under it."""
    booked: Mapping[Attempt, int]
    """What each attempt's reservations came to; open ones at their worst case."""


def overspent(ledger: Sequence[Entry], shared: Sequence[Shared]) -> list[str]:
    """Budgets of which more was spent than their cap, or more than they know of."""
    paid: Counter[Attempt] = Counter()
    for entry in ledger:
        paid[entry.run, entry.command, entry.attempt] += int(entry.about.get("usd_micros", 0))
    by_run: dict[str, dict[Attempt, int]] = {}
    for attempt, cost in paid.items():
        by_run.setdefault(attempt[0], {})[attempt] = cost
    return [
        sentence
        for budget in shared
        for sentence in _of(budget, [one for run in sorted(budget.runs) for one in by_run.get(run, {}).items()])
    ]


def _of(budget: Shared, paid: Sequence[tuple[Attempt, int]]) -> Iterator[str]:
    if not budget.hourly and (together := sum(cost for _, cost in paid)) > budget.cap:
        yield f"{budget.scope}: {together} of {budget.cap} micro-dollars were spent"
    if budget.spent + budget.granted > budget.cap:
        yield f"{budget.scope}: {budget.spent} spent and {budget.granted} granted are more than {budget.cap}"
    if budget.granted < budget.held:
        yield f"{budget.scope}: grants of {budget.held} are out, and it knows of {budget.granted}"
    if not budget.hourly and budget.spent + budget.overrun < budget.used:
        yield f"{budget.scope}: its grants were used for {budget.used}, and it knows of {budget.spent + budget.overrun}"
    for (run, command, attempt), cost in paid:
        known = budget.booked.get((run, command, attempt), 0)
        if cost > known:
            yield f"{budget.scope}: attempt {attempt} of {command} of run {run} cost {cost}, and it knows of {known}"
