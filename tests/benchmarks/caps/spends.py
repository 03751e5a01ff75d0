"""Real processes that spend against shared caps, watched from outside: M1 to M3 of docs/specification/durability.md.

While they run, every look at the database must show the caps kept, the grants adding up to what is granted, and the windows of an hourly
budget adding up to what is spent. Processes may be killed between any two lines, again and again; others go on, and a reaper settles what the dead
leave. Afterwards every reservation must be settled once, nothing may be held, and no call may have been charged below its bill.
"""

from __future__ import annotations

import json
import multiprocessing
import sqlite3
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass, field
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any

import psycopg

from fabric.core.values.command_ids import unit
from fabric.stores.postgresql.journal import PostgresqlStore
from fabric.stores.sqlite.journal import SqliteStore
from tests.benchmarks.caps.spends_worker import WORST_USD_MICROS, Plan, main, stores

LEASE_S = 36_000.0
SHARES = (0.8, 0.9, 1.0, 1.2, 1.5)
"""The caps of five scopes, as shares of what would be spent without them: the first ones bind. The last is hourly."""
MEAN_USD_MICROS = WORST_USD_MICROS * 0.3
"""What a call is charged on average: half of its worst case, or all of it when its outcome is unknown."""
LOOK_S = 0.02
DIE_WITHIN = 30_000
"""Lines after which a process is killed at the latest."""
CALLS_A_LIFE = 8
"""So many calls a process makes until then, on average: the caps go by it."""
ENDS_S = 1_800.0

SNAPSHOT = """
SELECT scope, cap, spent, granted, hourly,
  (SELECT coalesce(sum(amount), 0) FROM fabric_grant g WHERE g.scope = b.scope AND g.closed_at IS NULL),
  (SELECT coalesce(sum(w.spent), 0) FROM fabric_budget_window w WHERE w.scope = b.scope)
FROM fabric_budget b
"""
OPEN = "SELECT count(*) FROM fabric_reservation WHERE settled IS NULL"
SETTLED = "SELECT run_id, command_id, grant_id, count(*) FROM bench_settled GROUP BY run_id, command_id, grant_id"
CHARGED = """
SELECT r.run_id, r.command_id, g.scope, r.amount, r.settled, r.reason FROM fabric_reservation r JOIN fabric_grant g ON g.id = r.grant_id
"""
LOG = "CREATE TABLE bench_settled (run_id text, command_id text, grant_id text, was bigint, now bigint)"
_LOGGED = "INSERT INTO bench_settled VALUES (NEW.run_id, NEW.command_id, NEW.grant_id, OLD.settled, NEW.settled)"
# The database itself notes each settlement, by any process.
TRIGGERS = {
    "sqlite": [
        LOG,
        f"CREATE TRIGGER bench_log AFTER UPDATE OF settled ON fabric_reservation BEGIN {_LOGGED}; END",
    ],
    "postgresql": [
        LOG,
        f"CREATE FUNCTION bench_log() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN {_LOGGED}; RETURN NULL; END $$",
        "CREATE TRIGGER bench_log AFTER UPDATE OF settled ON fabric_reservation FOR EACH ROW EXECUTE FUNCTION bench_log()",
    ],
}


@dataclass(slots=True)
class Found:
    """The report. All that stands before ``calls`` must be nought."""

    caps_broken: int = 0
    """Looks that showed more spent and granted than a cap."""
    sums_wrong: int = 0
    """Looks that showed grants or windows that do not add up."""
    checks_fired: int = 0
    """Statements that the database's own checks refused."""
    overspent_usd_micros: int = 0
    """Charged above a cap, in all scopes."""
    still_granted_usd_micros: int = 0
    still_open: int = 0
    settled_again: int = 0
    """Reservations with more than one settlement, or none."""
    undercharged: int = 0
    """Reservations settled below what their call was billed."""
    worst_case_missed: int = 0
    """Unknown outcomes, or calls of the dead, that were not settled at the worst case."""
    calls: int = 0
    refused: int = 0
    gone: int = 0
    snapshots: int = 0
    reservations: int = 0
    unknown: int = 0
    reaped: int = 0
    killed: int = 0
    killed_at_lines: int = 0
    """Different lines among them."""
    grants: int = 0
    seconds: float = 0.0
    calls_per_s: float = 0.0

    def faults(self) -> dict[str, int]:
        """Return what is not nought and must be."""
        names = list(asdict(self))
        return {name: getattr(self, name) for name in names[: names.index("calls")] if getattr(self, name)}


@dataclass(slots=True)
class Site:
    """The database, asked from outside, and the processes."""

    db: str
    address: str
    folder: Path
    scopes: tuple[str, ...]
    spends: int
    ask: Callable[[str], list[tuple[Any, ...]]]
    found: Found = field(default_factory=Found)
    living: dict[str, ForkServerProcess] = field(default_factory=dict)
    started: int = 0

    @property
    def journal(self) -> Any:
        """The journal store, for leases."""
        return PostgresqlStore(self.address) if self.db == "postgresql" else SqliteStore(self.address)

    def start(self, *, die: bool) -> None:
        """One more process under a name of its own."""
        number = self.started
        self.started += 1
        name = f"spender-{number}"
        with closing(self.journal) as journal:
            journal.register(name, lease_s=LEASE_S)
        die_after = 1 + int(unit(number, "die", name) * DIE_WITHIN) if die else 0
        plan = Plan(
            self.db, self.address, name, self.scopes, self.spends, number, str(self.folder), die_after=die_after
        )
        made = multiprocessing.get_context("forkserver").Process(target=main, args=(plan,))
        made.start()
        self.living[name] = made

    def bury(self) -> int:
        """Retires those that have ended; how many of them were killed."""
        ended = [name for name, process in self.living.items() if not process.is_alive()]
        killed = 0
        for name in ended:
            killed += bool(self.living.pop(name).exitcode)
            with closing(self.journal) as journal:
                journal.retire(name)
        return killed

    def look(self) -> None:
        """One snapshot, compared with the promises."""
        self.found.snapshots += 1
        for _, cap, spent, granted, hourly, held, windows in self.ask(SNAPSHOT):
            self.found.caps_broken += spent + granted > cap
            self.found.sums_wrong += granted != held or (bool(hourly) and spent != windows)

    def lines(self, name: str) -> list[str]:
        """Return what processes have left in a file."""
        file = self.folder / name
        return file.read_text().splitlines() if file.exists() else []


def measure(db: str, address: str, workspace_id: str, *, processes: int, spends: int, scopes: int, kills: int) -> Found:
    """``processes`` at a time; with ``kills`` each kills itself somewhere and is replaced until so many have been. ValueError for too many scopes."""
    if scopes > len(SHARES):
        raise ValueError(f"{scopes} scopes: give at most {len(SHARES)}")
    multiprocessing.get_context("forkserver").set_forkserver_preload(["tests.benchmarks.caps.spends_worker"])
    names = tuple(f"fabric:{number}" for number in range(scopes))
    with tempfile.TemporaryDirectory(prefix="fabric-spends-") as folder, _asking(db, address) as ask:
        site = Site(db, address, Path(folder), names, spends, ask)
        for statement in TRIGGERS[db]:
            ask(statement)
        grants, _ = stores(db, address)
        demand = (processes * spends if not kills else kills * CALLS_A_LIFE) * MEAN_USD_MICROS
        for name, share in zip(names, SHARES[-scopes:] if scopes == 1 else SHARES, strict=False):
            cap = max(WORST_USD_MICROS, round(demand * share))
            grants.set_cap(name, cap, workspace_id=workspace_id, hourly=share == SHARES[-1])
        begun = time.monotonic()
        _spend(site, grants, processes, kills)
        site.found.seconds = round(time.monotonic() - begun, 1)
        _settle(site, grants)
        _judge(site)
        grants.close_connections()
        return site.found


def _spend(site: Site, grants: Any, processes: int, kills: int) -> None:
    give_up = time.monotonic() + ENDS_S
    while site.living or not site.started:
        while len(site.living) < processes and (
            site.started < processes if not kills else site.found.killed + len(site.living) < kills
        ):
            site.start(die=bool(kills))
        killed = site.bury()
        if killed:
            grants.reap()
            site.found.killed += killed
        site.look()
        if time.monotonic() > give_up:
            raise TimeoutError(f"{len(site.living)} processes had not ended after {ENDS_S:.0f} s")
        time.sleep(LOOK_S)


def _settle(site: Site, grants: Any) -> None:
    """The last reaper: every process is gone."""
    while grants.reap().grants:
        site.look()
    site.look()


def _judge(site: Site) -> None:
    found = site.found
    budgets = {row[0]: row for row in site.ask(SNAPSHOT)}
    found.still_granted_usd_micros = sum(row[3] for row in budgets.values())
    ((found.still_open,),) = site.ask(OPEN)
    charged = site.ask(CHARGED)
    times = {row[:3]: row[3] for row in site.ask(SETTLED)}
    found.reservations = len(charged)
    found.settled_again = abs(len(charged) - len(times)) + sum(n != 1 for n in times.values())
    bills = {(one["run"], one["command"]): one["cost"] for one in map(json.loads, site.lines("ledger.ndjson"))}
    sums = dict.fromkeys(budgets, 0)
    for run_id, command_id, scope, amount, settled, reason in charged:
        sums[scope] += settled or 0
        found.undercharged += (settled or 0) < bills.get((run_id, command_id), 0)
        found.unknown += reason == "unknown"
        found.reaped += reason == "reaped"
        found.worst_case_missed += reason in ("unknown", "reaped") and settled != amount
    found.overspent_usd_micros = sum(max(0, sums[scope] - row[1]) for scope, row in budgets.items())
    found.sums_wrong += sum(sums[scope] != row[2] for scope, row in budgets.items())
    results = [json.loads(line) for line in site.lines("results.ndjson")]
    found.checks_fired = sum(one["checks"] for one in results)
    found.refused = sum(one["refused"] for one in results)
    found.gone = sum(one["gone"] for one in results)
    found.calls = len(bills)
    found.calls_per_s = round(found.calls / found.seconds, 1) if found.seconds else 0.0
    ((found.grants,),) = site.ask("SELECT count(*) FROM fabric_grant")
    found.killed_at_lines = len(set(site.lines("killed.txt")))


@contextmanager
def _asking(db: str, address: str) -> Iterator[Callable[[str], list[tuple[Any, ...]]]]:
    """Asks the database from outside, each question a snapshot of its own."""
    if db == "sqlite":
        with closing(sqlite3.connect(address, isolation_level=None, timeout=30)) as opened:
            yield lambda statement: opened.execute(statement).fetchall()
        return
    with psycopg.connect(address, autocommit=True) as connection:

        def ask(statement: str) -> list[tuple[Any, ...]]:
            cursor = connection.execute(statement.encode())
            return cursor.fetchall() if cursor.description else []

        yield ask
