"""Shared budgets in memory: the contract of the real stores, on a given clock."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from threading import RLock

from fabric.runtime.ports.journal import BatchFate, Clock, StoreUnavailable
from fabric.runtime.ports.spending import (
    Budget,
    BudgetMissing,
    Entries,
    Grant,
    OpenReservation,
    ReaperWork,
    Reservation,
    SettledBy,
    Settlement,
)
from fabric.runtime.spending import rules


@dataclass(slots=True)
class _Budget:
    workspace_id: str
    hourly: bool
    cap: int
    spent: int = 0
    granted: int = 0
    overrun: int = 0
    windows: dict[int, int] = field(default_factory=dict)

    def pass_to(self, now: int) -> None:
        """Subtract the windows that have left the hour from the sum."""
        for window_at in [one for one in self.windows if rules.has_left(one, now)]:
            self.spent -= self.windows.pop(window_at)


@dataclass(slots=True)
class GrantRow:
    """A grant: ``open``, ``closing`` or ``closed``."""

    grant_id: str
    incarnation: str
    scope: str
    amount: int
    state: str = "open"
    wanted: bool = False


@dataclass(slots=True)
class _Reserved:
    amount: int
    settled: int | None = None
    reason: str = ""


Key = tuple[str, str, int]


class MemoryGrants:
    """``ports.spending.GrantStore`` in dicts.

    ``leased`` returns True while an incarnation has its lease, which the journal store knows. ``plants``: rules that
    are left out (``rules.grants.checks.IN_GRANTS``).
    """

    def __init__(self, clock: Clock, leased: Callable[[str], bool], *, plants: frozenset[str] = frozenset()) -> None:
        self._clock, self._leased, self._plants = clock, leased, plants
        self._budgets: dict[str, _Budget] = {}
        self._grants: dict[str, GrantRow] = {}
        self._reserved: dict[str, dict[Key, _Reserved]] = {}
        self._by_attempt: dict[Key, list[_Reserved]] = {}
        self._guard = RLock()

    def set_cap(
        self, scope: str, cap: int, *, workspace_id: str, hourly: bool = False, only_new: bool = False
    ) -> Budget:
        """See ``ports.spending.GrantStore``."""
        with self._guard:
            known = self._budgets.get(scope)
            if known is None:
                self._budgets[scope] = _Budget(workspace_id, hourly, cap)
            elif not only_new:
                known.cap = cap
            return self._read_budget(scope)

    def _read_budget(self, scope: str) -> Budget:
        now, held = self._clock.now(), self._budgets[scope]
        held.pass_to(now)
        return Budget(
            scope=scope,
            cap=held.cap,
            spent=held.spent,
            granted=held.granted,
            overrun=held.overrun,
            hourly=held.hourly,
            asked_at=now,
        )

    def budgets(self, scopes: Sequence[str]) -> list[Budget]:
        """See ``ports.spending.GrantStore``."""
        with self._guard:
            return [self._read_budget(scope) for scope in scopes if scope in self._budgets]

    def take(self, incarnation: str, scope: str, *, grant_id: str, enough: int, chunk: int) -> Grant | Budget:
        """See ``ports.spending.GrantStore``."""
        with self._guard:
            if not self._leased(incarnation):
                raise StoreUnavailable(f"the incarnation {incarnation!r} has no lease: nothing is granted to it")
            if scope not in self._budgets:
                raise BudgetMissing(scope)
            known = self._grants.get(grant_id)
            if known is not None:
                return Grant(grant_id, scope, known.amount)
            seen = self._read_budget(scope)
            amount = (
                chunk
                if "grant_without_cap_check" in self._plants
                else rules.compute_chunk(seen.grantable, enough, chunk)
            )
            if not amount:
                return seen
            self._budgets[scope].granted += amount
            self._grants[grant_id] = GrantRow(grant_id, incarnation, scope, amount)
            return Grant(grant_id, scope, amount)

    def _select_grants(self, incarnation: str, *states: str) -> list[GrantRow]:
        return [one for one in self._grants.values() if one.incarnation == incarnation and one.state in states]

    def keep(self, incarnation: str, amounts: Mapping[str, int]) -> None:
        """See ``ports.spending.GrantStore``."""
        with self._guard:
            for grant in self._select_grants(incarnation, "open"):
                kept = amounts.get(grant.grant_id, grant.amount)
                if 0 <= kept < grant.amount:
                    self._budgets[grant.scope].granted -= grant.amount - kept
                    grant.amount, grant.wanted = kept, False

    def close(self, incarnation: str, grant_ids: Sequence[str]) -> list[str]:
        """See ``ports.spending.GrantStore``."""
        with self._guard:
            asked = [
                one
                for one in self._select_grants(incarnation, "open", "closing", "closed")
                if one.grant_id in grant_ids
            ]
            for grant in asked:
                if grant.state == "open":
                    grant.state = "closing"
            self._settle(one for one in asked if one.state == "closing")
            return sorted(one.grant_id for one in asked if one.state == "closed")

    def _settle(self, grants: Iterable[GrantRow]) -> int:
        """Close the grants without open amounts, by budget, and return their number."""
        done = [one for one in grants if self._open(one) == 0]
        for grant in done:
            grant.state = "closed"
        for scope in {one.scope: None for one in done}:
            self._close_grants(scope, [one for one in done if one.scope == scope])
        return len(done)

    def _close_grants(self, scope: str, grants: Sequence[GrantRow]) -> None:
        now, budget = self._clock.now(), self._budgets[scope]
        budget.pass_to(now)
        amount = sum(one.amount for one in grants)
        room = budget.cap - budget.spent - budget.granted
        done = rules.close_grant(room, amount, sum(self._sum_used(one) for one in grants))
        budget.spent += done.spent
        budget.granted -= amount
        budget.overrun += done.overrun
        if budget.hourly and done.spent:
            window = rules.find_window(now)
            budget.windows[window] = budget.windows.get(window, 0) + done.spent

    def _open(self, grant: GrantRow) -> int:
        return sum(one.settled is None for one in self._reserved.get(grant.grant_id, {}).values())

    def reclaim(self, incarnation: str, scope: str) -> int:
        """See ``ports.spending.GrantStore``."""
        with self._guard:
            free = 0
            for grant in self._grants.values():
                if grant.scope == scope and grant.state == "open" and grant.incarnation != incarnation:
                    grant.wanted = True
                    free += max(0, grant.amount - self._sum_used(grant))
            return free

    def _sum_used(self, grant: GrantRow) -> int:
        reserved = self._reserved.get(grant.grant_id, {}).values()
        return sum(one.amount if one.settled is None else one.settled for one in reserved)

    def list_wanted(self, incarnation: str) -> list[str]:
        """See ``ports.spending.GrantStore``."""
        with self._guard:
            return sorted(one.grant_id for one in self._select_grants(incarnation, "open") if one.wanted)

    def reserve(self, entries: Sequence[Entries]) -> list[BatchFate]:
        """See ``ports.spending.GrantStore``."""
        with self._guard:
            rules.distinct(entries)
            return [self._write(one) for one in entries]

    def all_budgets(self) -> list[tuple[str, Budget]]:
        """Return every budget's state, by scope."""
        with self._guard:
            return [(scope, self._read_budget(scope)) for scope in sorted(self._budgets)]

    def all_grants(self) -> list[GrantRow]:
        """Return every grant, in the order in which they were taken."""
        return list(self._grants.values())

    def has_budget(self, scope: str) -> bool:
        """Return True if such a budget exists."""
        return scope in self._budgets

    def stands(self, entries: Entries) -> bool:
        """Return True if every grant that the entries reserve from is open."""
        found = [self._grants.get(one.grant_id) for one in entries.reserved]
        states = ("open", "closing", "closed") if "closed_grant_reserved" in self._plants else ("open",)
        return all(grant is not None and grant.state in states for grant in found)

    def _write(self, entries: Entries) -> BatchFate:
        if not self.stands(entries):
            return BatchFate.GRANT_GONE
        fresh, settlements = rules.lines(entries)
        for line in fresh:
            self._insert(line.reservation, line.settlement)
        for one in settlements:
            for held in self._by_attempt.get((one.run_id, one.command_id, one.attempt), ()):
                _settle_one(held, one)
        return BatchFate.COMMITTED

    def _insert(self, one: Reservation, settlement: Settlement | None) -> None:
        key = (one.run_id, one.command_id, one.attempt)
        of_grant = self._reserved.setdefault(one.grant_id, {})
        if key not in of_grant:
            of_grant[key] = _Reserved(one.usd_micros)
            self._by_attempt.setdefault(key, []).append(of_grant[key])
            if settlement is not None:
                _settle_one(of_grant[key], settlement)

    def list_reservations(self, grant_id: str) -> list[OpenReservation]:
        """See ``ports.spending.GrantStore``."""
        with self._guard:
            return [
                OpenReservation(
                    run_id=run_id,
                    command_id=command_id,
                    attempt=attempt,
                    usd_micros=one.amount,
                    settled=one.settled,
                    reason=one.reason,
                )
                for (run_id, command_id, attempt), one in sorted(self._reserved.get(grant_id, {}).items())
            ]

    def reap(self) -> ReaperWork:
        """See ``ports.spending.GrantStore``."""
        with self._guard:
            settled = 0
            for grant in [one for one in self._grants.values() if one.state != "closed"]:
                if not self._leased(grant.incarnation):
                    grant.state = "closing"
                    settled += self._worst(grant.grant_id)
            return ReaperWork(self._settle(one for one in self._grants.values() if one.state == "closing"), settled)

    def _worst(self, grant_id: str) -> int:
        still_open = [one for one in self._reserved.get(grant_id, {}).values() if one.settled is None]
        for held in still_open:
            free = "reaper_refunds_unknown" in self._plants
            held.settled, held.reason = 0 if free else held.amount, SettledBy.REAPED.value
        return len(still_open)


def _settle_one(held: _Reserved, settlement: Settlement) -> None:
    if held.settled is None:
        held.settled = rules.settled_at(settlement, held.amount)
        held.reason = settlement.reason.value
