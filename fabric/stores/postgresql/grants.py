"""Stores shared budgets on PostgreSQL. Every call is one statement in a transaction of its own, except closing, which
takes several steps.

``statements/grants.py`` has the statements, with the reasons for the safety of each.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import psycopg

from fabric.runtime.ports.journal import BatchFate, StoreUnavailable
from fabric.runtime.ports.spending import (
    Budget,
    BudgetMissing,
    Entries,
    Grant,
    OpenReservation,
    ReaperWork,
    Reservation,
    Settlement,
)
from fabric.runtime.spending import rules
from fabric.stores.postgresql.connection import PLANNING, Connections, bigints, texts, translate_error
from fabric.stores.postgresql.statements import Statement
from fabric.stores.postgresql.statements import grants as statements
from fabric.stores.rows import Counters

CALL_TIMEOUT_MS = 10_000
_SETTINGS = PLANNING | {"statement_timeout": str(CALL_TIMEOUT_MS)}


class SharedConnections(Counters):
    """Base of the stores of shared state: statements by name on connections that are kept."""

    def __init__(self, dsn: str) -> None:
        super().__init__()
        self.dsn = dsn
        self._connections = Connections(dsn, _SETTINGS)

    def close_connections(self) -> None:
        """Close idle connections."""
        self._connections.close()

    def run(self, statement: Statement, values: Mapping[str, Any], *, changes: bool = True) -> list[tuple[Any, ...]]:
        """Return the rows of one statement. Raises StoreUnavailable, ``unknown`` when a change may stand; StoreBusy;
        RowRefused.
        """
        self.count(statements=1)
        try:
            with self._connections.use() as connection:
                try:
                    return connection.run(statement, values)
                except psycopg.Error as error:
                    raise translate_error(error, self.dsn, sent=changes) from error
        except psycopg.Error as error:
            raise translate_error(error, self.dsn, sent=False) from error


class PostgresqlGrants(SharedConnections):
    """``ports.spending.GrantStore`` on PostgreSQL 14 or later."""

    def set_cap(
        self, scope: str, cap: int, *, workspace_id: str, hourly: bool = False, only_new: bool = False
    ) -> Budget:
        """See ``ports.spending.GrantStore``."""
        values = {"scope": scope, "cap": cap, "workspace_id": workspace_id, "hourly": hourly, "only_new": only_new}
        self.run(statements.SET_CAP, values)
        return self.budgets([scope])[0]

    def budgets(self, scopes: Sequence[str]) -> list[Budget]:
        """See ``ports.spending.GrantStore``."""
        found = self.run(statements.BUDGETS, {"scopes": texts(list(scopes))}, changes=False)
        by_scope = {row[0]: _budget(*row) for row in found}
        return [by_scope[scope] for scope in scopes if scope in by_scope]

    def take(self, incarnation: str, scope: str, *, grant_id: str, enough: int, chunk: int) -> Grant | Budget:
        """See ``ports.spending.GrantStore``."""
        values = {"scope": scope, "incarnation": incarnation, "grant_id": grant_id, "enough": enough, "chunk": chunk}
        found = self.run(statements.TAKE, values)
        if not found:
            raise BudgetMissing(scope)
        ((amount, leased, *standing),) = found
        if not leased:
            raise StoreUnavailable(f"the incarnation {incarnation!r} has no lease: nothing is granted to it")
        return Grant(grant_id, scope, amount) if amount else _budget(scope, *standing)

    def keep(self, incarnation: str, amounts: Mapping[str, int]) -> None:
        """See ``ports.spending.GrantStore``."""
        values = {"grants": texts(list(amounts)), "amounts": bigints(list(amounts.values()))}
        self.run(statements.KEEP, values | {"incarnation": incarnation})

    def close(self, incarnation: str, grant_ids: Sequence[str]) -> list[str]:
        """See ``ports.spending.GrantStore``."""
        held = dict(self.run(statements.MARK, {"grants": texts(list(grant_ids)), "incarnation": incarnation}))
        closing = [grant_id for grant_id, state in held.items() if state != "closed"]
        settled = self.run(statements.SETTLE, {"grants": texts(closing)}) if closing else []
        return sorted(held.keys() - set(closing) | {row[0] for row in settled})

    def reclaim(self, incarnation: str, scope: str) -> int:
        """See ``ports.spending.GrantStore``."""
        ((free,),) = self.run(statements.RECLAIM, {"incarnation": incarnation, "scope": scope})
        return int(free)

    def list_wanted(self, incarnation: str) -> list[str]:
        """See ``ports.spending.GrantStore``."""
        return [row[0] for row in self.run(statements.WANTED, {"incarnation": incarnation}, changes=False)]

    def reserve(self, entries: Sequence[Entries]) -> list[BatchFate]:
        """See ``ports.spending.GrantStore``. The flush carries these parts with it too (``entry_values``)."""
        rules.distinct(entries)
        if not entries:
            return []
        places = list(range(1, len(entries) + 1))
        values = entry_values(list(zip(places, entries, strict=True)))
        gone = {row[0] for row in self.run(statements.WRITE, values | {"places": bigints(places)})}
        return [BatchFate.GRANT_GONE if place in gone else BatchFate.COMMITTED for place in places]

    def list_reservations(self, grant_id: str) -> list[OpenReservation]:
        """See ``ports.spending.GrantStore``."""
        return [
            OpenReservation(
                run_id=run_id,
                command_id=command_id,
                attempt=attempt,
                usd_micros=amount,
                settled=settled,
                reason=reason,
            )
            for run_id, command_id, attempt, amount, settled, reason in self.run(
                statements.HELD, {"grant": grant_id}, changes=False
            )
        ]

    def reap(self) -> ReaperWork:
        """See ``ports.spending.GrantStore``. One statement when there is nothing to do."""
        found = self.run(statements.MARK_DEAD, {})
        if not found:
            return ReaperWork(0, 0)
        dead = [grant_id for grant_id, is_dead in found if is_dead]
        settled = len(self.run(statements.WORST, {"grants": texts(dead)})) if dead else 0
        return ReaperWork(len(self.run(statements.SETTLE, {"grants": texts([row[0] for row in found])})), settled)


def entry_values(placed: Sequence[tuple[int, Entries]]) -> dict[str, Any]:
    """Return the parameters of ``RESERVED`` and ``SETTLED`` for entries by their batch's place."""
    fresh: list[tuple[int, rules.ReservationLine]] = []
    later: list[tuple[int, Settlement]] = []
    for place, entries in placed:
        made, settlements = rules.lines(entries)
        fresh += [(place, line) for line in made]
        later += [(place, one) for one in settlements]
    lines = [line for _, line in fresh]
    reserved: list[Reservation] = [line.reservation for line in lines]
    settled = [one for _, one in later]
    return {
        "v_n": bigints([place for place, _ in fresh]),
        "v_run": texts([one.run_id for one in reserved]),
        "v_command": texts([one.command_id for one in reserved]),
        "v_attempt": bigints([one.attempt for one in reserved]),
        "v_grant": texts([one.grant_id for one in reserved]),
        "v_amount": bigints([one.usd_micros for one in reserved]),
        "v_settled": bigints([line.settled_amount for line in lines]),
        "v_reason": texts([line.settlement.reason.value if line.settlement else "" for line in lines]),
        "t_n": bigints([place for place, _ in later]),
        "t_run": texts([one.run_id for one in settled]),
        "t_command": texts([one.command_id for one in settled]),
        "t_attempt": bigints([one.attempt for one in settled]),
        "t_amount": bigints([one.usd_micros for one in settled]),
        "t_reason": texts([one.reason.value for one in settled]),
    }


def _budget(scope: str, cap: int, spent: int, granted: int, overrun: int, hourly: bool, us: int) -> Budget:
    return Budget(scope=scope, cap=cap, spent=spent, granted=granted, overrun=overrun, hourly=hourly, asked_at=us)
