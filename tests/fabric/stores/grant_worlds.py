"""The three stores of shared state, each on a database of its own, with a clock that can be passed."""

import psycopg

from fabric.runtime.ports.spending import Budget, Entries, Reservation, SettledBy, Settlement
from fabric.runtime.spending.rules import UNTIL_RING
from fabric.stores.postgresql.grants import PostgresqlGrants
from fabric.stores.postgresql.guards import PostgresqlGuards
from fabric.stores.sqlite.grants import SqliteGrants
from fabric.stores.sqlite.guards import SqliteGuards
from simulator.stores.memory.guards import MemoryGuards
from tests.fabric.stores.journal_worlds import SECOND, WORKSPACE, MemoryWorld, PostgresqlWorld, SqliteWorld

TABLES = ("budget", "budget_window", "grant", "reservation", "bucket", "guard", "guard_change", "guard_count")
INSTANTS = (
    ("budget_window", "window_at"),
    ("grant", "opened_at"),
    ("bucket", "credited_at"),
)
HOUR = 3600
FABRIC = "fabric:one"


class SharedWorld:
    """A journal store's world with the stores of shared state beside it."""

    def __init__(self, journal: MemoryWorld | SqliteWorld | PostgresqlWorld) -> None:
        self.journal = journal
        self.stores: list[SqliteGrants | SqliteGuards | PostgresqlGrants | PostgresqlGuards] = []
        if isinstance(journal, MemoryWorld):
            self.grants = journal.store.grants
            self.guards = MemoryGuards(journal.clock)
            return
        if isinstance(journal, PostgresqlWorld):
            journal.ask("TRUNCATE " + ", ".join(f"fabric_{table}" for table in TABLES))
        self.grants, self.guards = self.another(), self.another_guards()

    def another(self):
        """The grants as another process has them."""
        if isinstance(self.journal, MemoryWorld):
            return self.grants
        if isinstance(self.journal, SqliteWorld):
            return self._kept(SqliteGrants(self.journal.path, clock=self.journal.clock))
        return self._kept(PostgresqlGrants(self.journal.dsn))

    def another_guards(self):
        if isinstance(self.journal, MemoryWorld):
            return self.guards
        if isinstance(self.journal, SqliteWorld):
            return self._kept(SqliteGuards(self.journal.path, clock=self.journal.clock))
        return self._kept(PostgresqlGuards(self.journal.dsn))

    def _kept(self, store):
        self.stores.append(store)
        return store

    def live(self, *names: str, lease_s: float = 100 * HOUR) -> None:
        """Gives these incarnations a lease."""
        for name in names:
            self.journal.store.register(name, lease_s=lease_s)

    def dies(self, name: str) -> None:
        self.journal.store.retire(name)

    def pass_time(self, seconds: float) -> None:
        self.journal.pass_time(seconds)
        if isinstance(self.journal, PostgresqlWorld):
            us = round(seconds * SECOND)
            for table, column in INSTANTS:
                self.journal.ask(f"UPDATE fabric_{table} SET {column} = {column} - {us}")
            passed = f"(SELECT json_object_agg(key, value::bigint - {us}) FROM json_each_text(permits::json))"
            self.journal.ask(f"UPDATE fabric_guard SET permits = {passed} WHERE permits <> '{{}}'")
            # A slot's place goes by its instant: whole slots only.
            # In two steps: PostgreSQL looks for a place that is taken with each row that it moves.
            away = f"slot_at = slot_at - {us}, ring = ring + 8000 - {round(seconds / 10)}"
            self.journal.ask(f"UPDATE fabric_guard_count SET {away} WHERE ring >= 0")
            self.journal.ask("UPDATE fabric_guard_count SET ring = ring % 8 WHERE ring >= 8")
            self.journal.ask(f"UPDATE fabric_guard_count SET n = greatest(0, n - {us}) WHERE ring = {UNTIL_RING}")

    def budget(self, scope: str = FABRIC) -> Budget:
        (found,) = self.grants.budgets([scope])
        return found

    def stands(self, scope: str = FABRIC) -> tuple[int, int, int]:
        found = self.budget(scope)
        return found.spent, found.granted, found.overrun

    def cap(self, cap: int, scope: str = FABRIC, *, hourly: bool = False) -> Budget:
        return self.grants.set_cap(scope, cap, workspace_id=WORKSPACE, hourly=hourly)

    def close(self) -> None:
        for store in self.stores:
            store.close_connections()
        self.journal.close()


def reserving(grant_id, amount, *, run="run-1", command="call-1", attempt=1) -> Reservation:
    return Reservation(run_id=run, command_id=command, attempt=attempt, grant_id=grant_id, usd_micros=amount)


def settling(amount, *, run="run-1", command="call-1", attempt=1, reason=SettledBy.ANSWERED) -> Settlement:
    return Settlement(run_id=run, command_id=command, attempt=attempt, usd_micros=amount, reason=reason)


def entries(*given: Reservation | Settlement) -> Entries:
    """One run's, from its reservations and settlements."""
    reserved = tuple(one for one in given if isinstance(one, Reservation))
    settled = tuple(one for one in given if isinstance(one, Settlement))
    return Entries(run_id=given[0].run_id, reserved=reserved, settled=settled)


class Holding:
    """A transaction in another session of PostgreSQL, held open: a flush that has not committed yet."""

    def __init__(self, dsn: str) -> None:
        self.connection = psycopg.connect(dsn)

    def ask(self, statement: str) -> None:
        self.connection.execute(statement.encode())

    def commit(self) -> None:
        self.connection.commit()
