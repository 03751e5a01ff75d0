"""One process that spends against shared caps as an engine does, and can be killed between any two lines of that.

It is the real book, desk and store; what stands in for runs is a loop that reserves the next call and settles the one before in one write. What a call
cost is appended to a ledger before its settlement is written, as a provider bills: the truth that the store is held to.
"""

from __future__ import annotations

import json
import os
import queue
import signal
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

from fabric.core.values.command_ids import unit
from fabric.runtime.ports.journal import BatchFate, StoreUnavailable
from fabric.runtime.ports.spending import Budget, Entries, Reservation, SettledBy, Settlement
from fabric.runtime.spending import rules as grant_rules
from fabric.stores.errors import RowRefused
from fabric.stores.postgresql import grants as grants_postgresql
from fabric.stores.postgresql.grants import PostgresqlGrants
from fabric.stores.postgresql.guards import PostgresqlGuards
from fabric.stores.sqlite import grants as grants_sqlite
from fabric.stores.sqlite.grants import SqliteGrants
from fabric.stores.sqlite.guards import SqliteGuards
from fabric.worker.process import turn_thread
from fabric.worker.spending import grant_desk, grants
from fabric.worker.spending.grant_desk import GrantDesk
from fabric.worker.spending.grants import GrantBook

WORST_USD_MICROS = 150
UNKNOWN_SHARE = 0.1
WATCHED = frozenset(
    str(module.__file__) for module in (grant_desk, grants, grants_postgresql, grants_sqlite, turn_thread, grant_rules)
) | {__file__}
Trace = Callable[[FrameType, str, Any], Any]


@dataclass(frozen=True, slots=True)
class Plan:
    """The orders of one process."""

    db: str
    address: str
    """A libpq connection string, or the path of the SQLite file."""
    name: str
    """Its incarnation, which has a lease; and the run that its calls belong to."""
    scopes: tuple[str, ...]
    """Each call is reserved in all of them."""
    spends: int
    seed: int
    folder: str
    """Where it leaves its ledger and its result."""
    die_after: int = 0
    """It kills itself when so many lines were run; 0: never."""


@dataclass(slots=True)
class _Done:
    spent: int = 0
    refused: int = 0
    gone: int = 0
    """Batches refused because their grant was not open."""
    checks: int = 0
    """Rows that the database refused: its checks never fire."""


def stores(db: str, address: str) -> tuple[Any, Any]:
    """The grants and the guards of that database."""
    if db == "sqlite":
        return SqliteGrants(address), SqliteGuards(address)
    return PostgresqlGrants(address), PostgresqlGuards(address)


class _OneAtATime:
    """Lets one thread at a time to the store, so that a process has one connection."""

    def __init__(self, store: Any, done: _Done) -> None:
        self._store, self._done, self._lock = store, done, threading.Lock()

    def __getattr__(self, name: str) -> Any:
        call = getattr(self._store, name)

        def alone(*given: Any, **named: Any) -> Any:
            with self._lock:
                try:
                    return call(*given, **named)
                except RowRefused:
                    self._done.checks += 1
                    raise

        return alone


@dataclass(slots=True)
class Spender:
    """The loop of one process: its turn is what came back from the desk, then the next call."""

    plan: Plan
    store: Any
    done: _Done = field(default_factory=_Done)
    _posted: queue.SimpleQueue[Callable[[], None]] = field(default_factory=queue.SimpleQueue)
    _before: tuple[Settlement, ...] = ()

    def run(self) -> _Done:
        """Spends until it is through; what it did."""
        store: Any = _OneAtATime(self.store, self.done)
        desk = GrantDesk(store, store, lambda: self.plan.name, self._posted.put)
        book = GrantBook(desk, time.monotonic)
        desk.start(book)
        for number in range(self.plan.spends):
            self._one(store, book, number)
        while not self._write(store, book, ()):
            pass
        self._turns()
        book.end()
        desk.stop()
        return self.done

    def _one(self, store: _OneAtATime, book: GrantBook, number: int) -> None:
        command, seed = f"call-{number}", self.plan.seed
        worst = 1 + int(unit(seed, "worst", command) * WORST_USD_MICROS)
        reserved = self._reserved(book, command, worst)
        while reserved and not self._write(store, book, reserved):
            reserved = self._reserved(book, command, worst)
        if not reserved:
            self.done.refused += 1
            return
        actual = int(unit(seed, "actual", command) * (worst + 1))
        self._bill(command, actual)
        unknown = unit(seed, "unknown", command) < UNKNOWN_SHARE
        self._before = (
            Settlement(
                run_id=self.plan.name,
                command_id=command,
                attempt=1,
                usd_micros=None if unknown else actual,
                reason=SettledBy.UNKNOWN if unknown else SettledBy.ANSWERED,
            ),
        )
        self.done.spent += 1

    def _reserved(self, book: GrantBook, command: str, worst: int) -> tuple[Reservation, ...]:
        """A reservation in each scope, once all have room; empty when one is refused."""
        self._turns()
        while True:
            found = {
                scope: next((name for name, left in book.chunks(scope) if left >= worst), None)
                for scope in self.plan.scopes
            }
            lacking = [scope for scope, name in found.items() if name is None]
            if not lacking:
                break
            answers: list[Budget | None] = []
            book.need(lacking[0], worst, answers.append)
            while not answers:
                self._posted.get()()
            if answers[0] is not None:
                return ()
        reserved = tuple(
            Reservation(run_id=self.plan.name, command_id=command, attempt=1, grant_id=name or "", usd_micros=worst)
            for name in found.values()
        )
        book.spend(reserved)
        return reserved

    def _write(self, store: _OneAtATime, book: GrantBook, reserved: tuple[Reservation, ...]) -> bool:
        """Writes a batch until its fate is known, as the journal's writer does; False when a grant was gone."""
        entries = Entries(run_id=self.plan.name, reserved=reserved, settled=self._before)
        while True:
            try:
                (fate,) = store.reserve([entries])
                break
            except StoreUnavailable:
                threading.Event().wait(0.05)
        if fate is BatchFate.GRANT_GONE:
            self.done.gone += 1
            book.unspend(reserved)
            book.drop_grants({one.grant_id for one in reserved})
            return False
        book.settle_grants(self._before)
        self._before = ()
        return True

    def _turns(self) -> None:
        while not self._posted.empty():
            self._posted.get()()

    def _bill(self, command: str, actual: int) -> None:
        line = json.dumps({"run": self.plan.name, "command": command, "cost": actual})
        append(Path(self.plan.folder) / "ledger.ndjson", line)


def append(path: Path, line: str) -> None:
    """Write one whole line, though other processes write to the file."""
    file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(file, f"{line}\n".encode())
    finally:
        os.close(file)


def arm(folder: Path, lines: int) -> None:
    """Has this process kill itself before the line that comes after so many, on whatever thread, of the modules that handle money."""
    left = lines

    def line(frame: FrameType, event: str, _: Any) -> Trace | None:
        nonlocal left
        if event == "line":
            left -= 1
            if left == 0:
                append(folder / "killed.txt", f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno}")
                os.kill(os.getpid(), signal.SIGKILL)
        return line

    def call(frame: FrameType, _: str, __: Any) -> Trace | None:
        return line if frame.f_code.co_filename in WATCHED else None

    threading.settrace(call)
    sys.settrace(call)


def main(plan: Plan) -> None:
    """Runs a plan, and leaves a line about it in ``results.ndjson``. Ends without any destructor, as nothing here needs one."""
    store, _ = stores(plan.db, plan.address)
    if plan.die_after:
        arm(Path(plan.folder), plan.die_after)
    done = Spender(plan, store).run()
    sys.settrace(None)
    found = {"name": plan.name, "spent": done.spent, "refused": done.refused, "gone": done.gone, "checks": done.checks}
    append(Path(plan.folder) / "results.ndjson", json.dumps(found))
    os._exit(0)
