"""Stores shared budgets on SQLite. A few statements make one BEGIN IMMEDIATE transaction, so that its reads are still
true when it writes.

There is one engine process a file, but a dead one leaves its grants behind, and a caller that is not the engine may
read and set caps.
"""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from fabric.runtime.ports.journal import BatchFate, Clock, StoreUnavailable
from fabric.runtime.ports.spending import Budget, BudgetMissing, Entries, Grant, OpenReservation, ReaperWork, SettledBy
from fabric.runtime.spending import rules
from fabric.stores.rows import Counters
from fabric.stores.sqlite.connection import SqliteConnection

BUSY_S = 5.0


class SharedFile(Counters):
    """Base of the stores of shared state. It has a connection to the file, and the hint that a process wants
    to write.
    """

    def __init__(self, path: Path | str, *, clock: Clock | None = None, busy_s: float = BUSY_S) -> None:
        super().__init__()
        self.path = Path(path)
        self._now = clock.now if clock else _machine_clock
        self._file = SqliteConnection(self.path, busy_s=busy_s)
        self._hint = self.path.with_name(self.path.name + "-asked")

    def close_connections(self) -> None:
        """Close the connection."""
        self._file.close()

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """Open a transaction; the hint makes the journal writer pause for it."""
        with suppress(OSError):  # A hint that cannot be left costs time, nothing else.
            self._hint.touch()
        with self._file.transaction() as db:
            yield db
        self.count(commits=1, statements=1)

    def look(self, statement: str, values: Any) -> list[tuple[Any, ...]]:
        """Return the rows of a reading statement."""
        with self._file.use() as db:
            found = db.execute(statement, values).fetchall()
        self.count(statements=1)
        return found


def _machine_clock() -> int:
    return time.time_ns() // 1_000


_BUDGET = "SELECT scope, cap_wanted, spent, granted, overrun, hourly FROM fabric_budget WHERE scope = ?"
_OF = "SELECT id FROM fabric_grant WHERE closed_at IS NULL AND incarnation = ? AND state = 'open' AND wanted_at IS NOT NULL ORDER BY id"
_SET_CAP = """
INSERT INTO fabric_budget (scope, workspace_id, hourly, cap, cap_wanted, spent, granted, overrun)
VALUES (:scope, :workspace_id, :hourly, :cap, :cap, 0, 0, 0)
ON CONFLICT (scope) DO UPDATE SET cap_wanted = excluded.cap_wanted, cap = max(excluded.cap_wanted, spent + granted) WHERE NOT :only_new
"""
# ``cap``, by which the table's check goes, is never raised here: it comes down to what was set as money leaves.
_STAND = """
UPDATE fabric_budget SET spent = :spent, granted = :granted, overrun = :overrun, cap = max(cap_wanted, min(cap, :spent + :granted)) WHERE scope = :scope
"""
_WINDOW = """
INSERT INTO fabric_budget_window (scope, window_at, spent) VALUES (?, ?, ?)
ON CONFLICT (scope, window_at) DO UPDATE SET spent = spent + excluded.spent
"""
_USED = "SELECT coalesce(sum(coalesce(settled, amount)), 0), count(*) - count(settled) FROM fabric_reservation WHERE grant_id = ?"
_CLOSE = "UPDATE fabric_grant SET state = 'closed', used = ?, closed_at = ? WHERE id = ?"
_RESERVE = """
INSERT INTO fabric_reservation (run_id, command_id, attempt, grant_id, amount, settled, reason, reserved_at, settled_at)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING
"""
_SETTLE = """
UPDATE fabric_reservation SET settled = coalesce(?, amount), reason = ?, settled_at = ?
WHERE run_id = ? AND command_id = ? AND attempt = ? AND settled IS NULL
"""
_LEASED = "SELECT name FROM fabric_incarnation WHERE retired_at IS NULL AND lease_until > :now"

_REAPABLE = f"""
WITH leased AS ({_LEASED})
SELECT id, scope, amount, incarnation NOT IN (SELECT name FROM leased) FROM fabric_grant
WHERE closed_at IS NULL AND (state = 'closing' OR incarnation NOT IN (SELECT name FROM leased)) ORDER BY id
"""  # noqa: S608 - constants
_WORST = (
    "UPDATE fabric_reservation SET settled = amount, reason = ?, settled_at = ? WHERE grant_id = ? AND settled IS NULL"
)


def _read_budget(db: sqlite3.Connection, scope: str, now: int, *, change: bool) -> Budget | None:
    """Return a budget without spending older than an hour. ``change``: those windows are deleted, as any writer of the
    budget must.
    """
    found = db.execute(_BUDGET, (scope,)).fetchone()
    if found is None:
        return None
    _, cap, spent, granted, overrun, hourly = found
    left = (scope, now - rules.LEAVES_US)
    where = "FROM fabric_budget_window WHERE scope = ? AND window_at <= ?"
    (past,) = db.execute(f"SELECT coalesce(sum(spent), 0) {where}", left).fetchone()
    if change and past:
        db.execute(f"DELETE {where}", left)
    return Budget(
        scope=scope,
        cap=cap,
        spent=spent - past,
        granted=granted,
        overrun=overrun,
        hourly=bool(hourly),
        asked_at=now,
    )


def _stand(db: sqlite3.Connection, budget: Budget, *, spent: int = 0, granted: int = 0, overrun: int = 0) -> None:
    """Write a budget, changed by these amounts."""
    values = {"scope": budget.scope, "spent": budget.spent + spent, "granted": budget.granted + granted}
    db.execute(_STAND, values | {"overrun": budget.overrun + overrun})


def _settle(db: sqlite3.Connection, grants: Iterable[tuple[str, str, int]], now: int) -> list[str]:
    """Close those of these grants (id, scope, amount) that have no open reservation; return their ids.

    Those of one budget are closed together, so that their order does not matter: the rest of one covers the overrun
    of another.
    """
    closed: list[str] = []
    sums: dict[str, tuple[int, int]] = {}
    for grant_id, scope, amount in grants:
        used, still_open = db.execute(_USED, (grant_id,)).fetchone()
        if still_open:
            continue
        db.execute(_CLOSE, (used, now, grant_id))
        closed.append(grant_id)
        amounts, all_used = sums.get(scope, (0, 0))
        sums[scope] = amounts + amount, all_used + used
    for scope, (amount, used) in sums.items():
        budget = _read_budget(db, scope, now, change=True)
        assert budget is not None
        done = rules.close_grant(budget.cap - budget.spent - budget.granted, amount, used)
        _stand(db, budget, spent=done.spent, granted=-amount, overrun=done.overrun)
        if budget.hourly and done.spent:
            db.execute(_WINDOW, (scope, rules.find_window(now), done.spent))
    return closed


def entry_fates(db: sqlite3.Connection, entries: Sequence[Entries]) -> list[BatchFate]:
    """Return the fates of these entries in the transaction of ``db``. GRANT_GONE: the entry reserves from a grant that
    is not open.
    """
    wanted = {one.grant_id for each in entries for one in each.reserved}
    asked = "SELECT id FROM fabric_grant WHERE state = 'open' AND id IN (SELECT value FROM json_each(?))"
    standing = {row[0] for row in db.execute(asked, (json.dumps(sorted(wanted)),))} if wanted else set()
    return [
        BatchFate.COMMITTED if all(one.grant_id in standing for one in each.reserved) else BatchFate.GRANT_GONE
        for each in entries
    ]


def write_entries(db: sqlite3.Connection, entries: Sequence[Entries], now: int) -> None:
    """Write these entries in the transaction of ``db``, where their fates were decided."""
    for each in entries:
        fresh, settlements = rules.lines(each)
        rows = [(line.reservation, line.settlement, line.settled_amount) for line in fresh]
        db.executemany(
            _RESERVE,
            [
                (
                    one.run_id,
                    one.command_id,
                    one.attempt,
                    one.grant_id,
                    one.usd_micros,
                    settled,
                    settlement.reason.value if settlement else "",
                    now,
                    now if settlement else None,
                )
                for one, settlement, settled in rows
            ],
        )
        db.executemany(
            _SETTLE,
            [(one.usd_micros, one.reason.value, now, one.run_id, one.command_id, one.attempt) for one in settlements],
        )


class SqliteGrants(SharedFile):
    """``ports.spending.GrantStore`` on one SQLite file that has its tables. ``clock`` is the machine's unless a test
    passes another.
    """

    def set_cap(
        self, scope: str, cap: int, *, workspace_id: str, hourly: bool = False, only_new: bool = False
    ) -> Budget:
        """See ``ports.spending.GrantStore``."""
        values = {"scope": scope, "cap": cap, "workspace_id": workspace_id, "hourly": hourly, "only_new": only_new}
        with self.transaction() as db:
            db.execute(_SET_CAP, values)
        return self.budgets([scope])[0]

    def budgets(self, scopes: Sequence[str]) -> list[Budget]:
        """See ``ports.spending.GrantStore``."""
        now = self._now()
        with self._file.use() as db:
            found = [_read_budget(db, scope, now, change=False) for scope in scopes]
        self.count(statements=1)
        return [budget for budget in found if budget is not None]

    def take(self, incarnation: str, scope: str, *, grant_id: str, enough: int, chunk: int) -> Grant | Budget:
        """See ``ports.spending.GrantStore``."""
        now = self._now()
        with self.transaction() as db:
            if (incarnation,) not in db.execute(_LEASED, {"now": now}).fetchall():
                raise StoreUnavailable(f"the incarnation {incarnation!r} has no lease: nothing is granted to it")
            budget = _read_budget(db, scope, now, change=True)
            if budget is None:
                raise BudgetMissing(scope)
            known = db.execute("SELECT amount FROM fabric_grant WHERE id = ?", (grant_id,)).fetchone()
            amount = 0 if known else rules.compute_chunk(budget.grantable, enough, chunk)
            _stand(db, budget, granted=amount)
            if amount:
                db.execute(
                    "INSERT INTO fabric_grant (id, incarnation, scope, state, amount, used, opened_at) VALUES (?, ?, ?, 'open', ?, 0, ?)",
                    (grant_id, incarnation, scope, amount, now),
                )
        amount = known[0] if known else amount
        return Grant(grant_id, scope, amount) if amount else budget

    def keep(self, incarnation: str, amounts: Mapping[str, int]) -> None:
        """See ``ports.spending.GrantStore``."""
        asked = "SELECT scope, amount FROM fabric_grant WHERE id = ? AND incarnation = ? AND state = 'open'"
        with self.transaction() as db:
            for grant_id, kept in amounts.items():
                held = db.execute(asked, (grant_id, incarnation)).fetchone()
                if held is None or not 0 <= kept < held[1]:
                    continue
                db.execute("UPDATE fabric_grant SET amount = ?, wanted_at = NULL WHERE id = ?", (kept, grant_id))
                budget = _read_budget(db, held[0], self._now(), change=True)
                assert budget is not None
                _stand(db, budget, granted=kept - held[1])

    def close(self, incarnation: str, grant_ids: Sequence[str]) -> list[str]:
        """See ``ports.spending.GrantStore``."""
        asked = "SELECT state, scope, amount FROM fabric_grant WHERE id = ? AND incarnation = ?"
        closed, closing = [], []
        with self.transaction() as db:
            for grant_id in sorted(set(grant_ids)):
                held = db.execute(asked, (grant_id, incarnation)).fetchone()
                if held is None:
                    continue
                state, scope, amount = held
                if state == "open":
                    db.execute("UPDATE fabric_grant SET state = 'closing' WHERE id = ?", (grant_id,))
                if state == "closed":
                    closed.append(grant_id)
                else:
                    closing.append((grant_id, scope, amount))
            closed += _settle(db, closing, self._now())
        return sorted(closed)

    def reclaim(self, incarnation: str, scope: str) -> int:
        """See ``ports.spending.GrantStore``."""
        where = "closed_at IS NULL AND scope = ? AND state = 'open' AND incarnation <> ?"
        with self.transaction() as db:
            others = db.execute(f"SELECT id, amount FROM fabric_grant WHERE {where}", (scope, incarnation)).fetchall()  # noqa: S608 - constants
            marked = f"UPDATE fabric_grant SET wanted_at = ? WHERE {where} AND wanted_at IS NULL"  # noqa: S608 - constants
            db.execute(marked, (self._now(), scope, incarnation))
            return sum(max(0, amount - db.execute(_USED, (grant_id,)).fetchone()[0]) for grant_id, amount in others)

    def list_wanted(self, incarnation: str) -> list[str]:
        """See ``ports.spending.GrantStore``."""
        return [row[0] for row in self.look(_OF, (incarnation,))]

    def reserve(self, entries: Sequence[Entries]) -> list[BatchFate]:
        """See ``ports.spending.GrantStore``. The flush uses ``entry_fates`` and ``write_entries`` in its own
        transaction.
        """
        rules.distinct(entries)
        with self.transaction() as db:
            fates = entry_fates(db, entries)
            written = [one for one, fate in zip(entries, fates, strict=True) if fate is BatchFate.COMMITTED]
            write_entries(db, written, self._now())
        return fates

    def list_reservations(self, grant_id: str) -> list[OpenReservation]:
        """See ``ports.spending.GrantStore``."""
        asked = "SELECT run_id, command_id, attempt, amount, settled, reason FROM fabric_reservation WHERE grant_id = ? ORDER BY 1, 2, 3"
        return [
            OpenReservation(
                run_id=run_id,
                command_id=command_id,
                attempt=attempt,
                usd_micros=amount,
                settled=settled,
                reason=reason,
            )
            for run_id, command_id, attempt, amount, settled, reason in self.look(asked, (grant_id,))
        ]

    def reap(self) -> ReaperWork:
        """See ``ports.spending.GrantStore``. Looking first takes no lock; most looks find nothing."""
        now = {"now": self._now()}
        if not self.look(f"{_REAPABLE} LIMIT 1", now):
            return ReaperWork(0, 0)
        settled = 0
        with self.transaction() as db:
            found = db.execute(_REAPABLE, now).fetchall()
            for grant_id, _, _, dead in found:
                if dead:
                    settled += db.execute(_WORST, (SettledBy.REAPED.value, now["now"], grant_id)).rowcount
            closed = _settle(db, [one[:3] for one in found], now["now"])
        return ReaperWork(len(closed), settled)
