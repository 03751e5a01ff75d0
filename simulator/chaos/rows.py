"""A site's runs, read and made from outside its workers: through its own commands and its database."""

# ruff: noqa: S608 - Every statement is put together here, from constants and numbers.

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg

from fabric.packing.rows import unpack
from simulator.bench.database import ROOT
from simulator.chaos.harness import Site
from simulator.chaos.remembered import Kept
from simulator.chaos.shares import Attempt, Shared

Connection = psycopg.Connection[tuple[Any, ...]]
ENDED = "('completed', 'stopped', 'failed', 'aborted', 'cancelled')"

# Flushes carry their incarnation as application_name; what a process calls itself after its lease was taken away is the same with a number.
# A row that moves under the name of another process than its owner's was written by one who should have been fenced out.
WATCH = r"""
CREATE TABLE chaos_stale (at timestamptz DEFAULT clock_timestamp(), run_id text, fence bigint, last_seq bigint, owner text, writer text);
CREATE SEQUENCE chaos_writes;
CREATE FUNCTION chaos_process(name text) RETURNS text LANGUAGE sql IMMUTABLE AS $$ SELECT regexp_replace(name, '-\d{1,4}$', '') $$;
CREATE FUNCTION chaos_watch() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  PERFORM nextval('chaos_writes');
  IF chaos_process(OLD.incarnation) IS DISTINCT FROM chaos_process(current_setting('application_name')) THEN
    INSERT INTO chaos_stale (run_id, fence, last_seq, owner, writer)
    VALUES (OLD.id, OLD.fence, NEW.last_seq, OLD.incarnation, current_setting('application_name'));
  END IF;
  RETURN NEW;
END $$;
CREATE TRIGGER chaos_watch AFTER UPDATE ON fabric_run FOR EACH ROW WHEN (NEW.last_seq <> OLD.last_seq) EXECUTE FUNCTION chaos_watch();
"""

START = """
import json, sys
import django
django.setup()
from fabric import wiring
from fabric.core.actor import Actor
from fabric.runtime.ports import Document
from fabric.services.fabrics import fabric_publish
from fabric.services.runs import run_start
from fabric.services.workspaces import workspace_default
NOTES = [("notes.md", "The bridge is 40 metres long. It was built in 1931.")]
actor = Actor("chaos", workspace_default(), "system")
ids = []
for asked in json.load(sys.stdin):
    name = fabric_publish(actor=actor, source=asked["fabric"], origin="chaos").name
    for n in range(asked["runs"]):
        documents = [Document(*one) for one in asked.get("documents", NOTES)]
        started = run_start(store=wiring.store(), nudge=wiring.nudge(), actor=actor, fabric=name, text=asked.get("text", "What do the notes say?"),
                            documents=documents, tier=asked["tier"])
        ids.append(started.run_id)
print(json.dumps(ids))
"""

FABRIC = """
name: chaos
title: Chaos
tiers: {default: batch, allowed: [batch]}
models:
  - {name: scripted, provider: scripted, price: {input_usd_per_mtok: "1", output_usd_per_mtok: "2"}, options: OPTIONS}
tools:
  - {name: read_document}
agents:
  - {name: planner, instructions: Plan., model: scripted}
  - {name: reader, instructions: Read., model: scripted, tools: [read_document]}
  - {name: lead, instructions: Merge., model: scripted}
topology: {planner: planner, workers: [reader], aggregator: lead}
policy: {budget: {run_usd_micros: 20000000}}
reviewers: [owner]
"""


def start_runs(made: Site, runs: int, options: dict[str, Any] | None = None, *, source: str = "") -> list[str]:
    """Starts runs of the chaos fabric, or of another ``source``, in batch; their ids."""
    source = source or FABRIC.replace("OPTIONS", json.dumps(options or {}))
    return start_each(made, [{"fabric": source, "runs": runs, "tier": "batch"}])


def start_each(made: Site, asked: Sequence[Mapping[str, Any]]) -> list[str]:
    """Publishes each ``{"fabric", "runs", "tier"}`` and starts its runs as the console does: by the service, from another process; their ids.

    ``text`` and ``documents`` (pairs of name and text) may stand beside them.
    """
    command = [sys.executable, "-c", START]
    environment = {**made.environment, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        command, input=json.dumps(list(asked)), text=True, env=environment, cwd=ROOT, check=True, stdout=subprocess.PIPE
    )
    ids: list[str] = json.loads(done.stdout.strip().splitlines()[-1])
    return ids


@dataclass(frozen=True, slots=True)
class Question:
    """What a run asks a person."""

    id: str
    item: str
    run: str


class Away(RuntimeError):
    """The database does not answer at this moment."""


class Rows:
    """A database read from outside: ``where`` is a connection string of PostgreSQL, or a data directory with a file of SQLite.

    ``keep``: connections to PostgreSQL are kept until ``close``, for who reads again and again.
    """

    def __init__(self, where: str | Path, *, keep: bool = False) -> None:
        self._where, self._keep = where, keep
        self._kept: list[Connection] = []
        """Open connections that nobody uses at this moment."""
        self.backends: set[int] = set()
        """The database's processes behind the connections: who stops one of them stops whoever asks here."""

    @classmethod
    def of(cls, environment: Mapping[str, str]) -> Rows:
        """The database that a process with this environment uses."""
        return cls(environment.get("DATABASE_URL") or Path(environment["FABRIC_DATA"]))

    @property
    def on_postgresql(self) -> bool:
        """Whether it is PostgreSQL."""
        return isinstance(self._where, str)

    def read(self, statement: str) -> list[tuple[Any, ...]]:
        """The rows of a statement. Away when the database does not answer."""
        try:
            if isinstance(self._where, str):
                return self._read_postgresql(self._where, statement)
            file = next(found for found in sorted(self._where.glob("*.sqlite3")) if found.is_file())
            # Not mode=ro: whoever comes first after a process was killed has to recover its log.
            with closing(sqlite3.connect(f"file:{file}?mode=rw", uri=True, timeout=5)) as lite:
                return lite.execute(statement).fetchall()
        except (psycopg.OperationalError, sqlite3.OperationalError) as error:
            raise Away(str(error)) from error

    def _read_postgresql(self, address: str, statement: str) -> list[tuple[Any, ...]]:
        """On a connection that was kept, if it still answers; or on a new one."""
        with suppress(IndexError, psycopg.OperationalError):
            return self._read_on(self._kept.pop(), statement)
        opened = psycopg.connect(address, connect_timeout=3, autocommit=True)
        self.backends.add(opened.info.backend_pid)
        return self._read_on(opened, statement)

    def _read_on(self, connection: Connection, statement: str) -> list[tuple[Any, ...]]:
        backend, answered = connection.info.backend_pid, False
        try:
            cursor = connection.execute(statement.encode())
            found = cursor.fetchall() if cursor.description else []
            answered = True
        finally:
            if answered and self._keep:
                self._kept.append(connection)
            else:
                connection.close()
                self.backends.discard(backend)
        return found

    def close(self) -> None:
        """Lets go of the database."""
        while self._kept:
            self._kept.pop().close()

    def surely(self, statement: str, timeout_s: float = 60.0) -> list[tuple[Any, ...]]:
        """The same, waiting for the database. Away after ``timeout_s``."""
        give_up = time.monotonic() + timeout_s
        while True:
            try:
                return self.read(statement)
            except Away:
                if time.monotonic() > give_up:
                    raise
                time.sleep(0.1)

    # -- runs ----------------------------------------------------------------------------------------------------------

    def states(self) -> dict[str, str]:
        """The state of every run."""
        return {str(run): str(state) for run, state in self.surely("SELECT id, state FROM fabric_run")}

    def costs(self) -> dict[str, int]:
        """Micro-dollars that the row of every run says."""
        return {str(run): int(cost) for run, cost in self.surely("SELECT id, cost_usd_micros FROM fabric_run")}

    def live(self, *, asking: bool = True) -> int:
        """Runs that have not ended, with those that wait for a person or without. Away when the database does not answer."""
        ask = "SELECT 1 FROM fabric_escalation e WHERE e.run_id = r.id AND e.decided_at IS NULL"
        but = "" if asking else f" AND NOT EXISTS ({ask})"
        return int(self.read(f"SELECT count(*) FROM fabric_run r WHERE state NOT IN {ENDED}{but}")[0][0])

    def asking(self) -> list[Question]:
        """Open questions of live runs."""
        found = self.surely(
            "SELECT e.id, e.item, r.id FROM fabric_run r JOIN fabric_escalation e ON e.run_id = r.id"
            f" WHERE e.decided_at IS NULL AND r.state NOT IN {ENDED}"
        )
        return [Question(*map(str, row)) for row in found]

    def owned_by(self, pid: int, timeout_s: float = 60.0) -> list[str]:
        """Live runs that the last incarnation of a process owns. Away when the database did not answer in time."""
        found = self.surely(
            "SELECT r.id FROM fabric_run r JOIN fabric_incarnation i ON i.name = r.incarnation"
            f" WHERE i.pid = {pid:d} AND r.state NOT IN {ENDED}",
            timeout_s,
        )
        return [str(run) for (run,) in found]

    def left_behind(self, pids: Collection[int]) -> int:
        """Live runs that belong to none of these processes, and are not free either. Away when the database does not answer."""
        living = ", ".join(str(int(pid)) for pid in pids) or "0"
        found = self.read(
            "SELECT count(*) FROM fabric_run r LEFT JOIN fabric_incarnation i ON i.name = r.incarnation"
            f" WHERE r.incarnation IS NOT NULL AND coalesce(i.pid, 0) NOT IN ({living}) AND r.state NOT IN {ENDED}"
        )
        return int(found[0][0])

    def working(self, pids: Collection[int]) -> set[int]:
        """Those of the processes that have a lease which is not over. Away when the database does not answer."""
        found = self.read(f"SELECT pid FROM fabric_incarnation WHERE {self._leased()}")
        return {pid for (pid,) in found} & set(pids)

    def _leased(self) -> str:
        """The condition that an incarnation has a lease which is not over."""
        now = "extract(epoch FROM clock_timestamp()) * 1000000" if self.on_postgresql else str(time.time_ns() // 1_000)
        return f"retired_at IS NULL AND lease_until > {now}"

    # -- what runs share -----------------------------------------------------------------------------------------------

    def shared(self) -> list[Shared]:
        """Every shared budget with what was reserved of it."""
        booked: dict[str, dict[Attempt, int]] = {}
        for scope, run, command, attempt, amount in self.surely(
            "SELECT g.scope, r.run_id, r.command_id, r.attempt, sum(coalesce(r.settled, r.amount))"
            " FROM fabric_reservation r JOIN fabric_grant g ON g.id = r.grant_id GROUP BY 1, 2, 3, 4"
        ):
            booked.setdefault(str(scope), {})[str(run), str(command), int(attempt)] = int(amount)
        runs: dict[str, set[str]] = {}
        for run, fabric, session in self.surely("SELECT id, fabric_id, session_key FROM fabric_run"):
            for scope in (f"fabric:{fabric}", f"session:{fabric}:{session}"):
                runs.setdefault(scope, set()).add(str(run))
        standing = self.surely(
            "SELECT scope, cap_wanted, spent, granted, overrun, hourly,"
            " (SELECT coalesce(sum(g.amount), 0) FROM fabric_grant g WHERE g.scope = b.scope AND g.closed_at IS NULL),"
            " (SELECT coalesce(sum(g.used), 0) FROM fabric_grant g WHERE g.scope = b.scope AND g.closed_at IS NOT NULL)"
            " FROM fabric_budget b ORDER BY scope"
        )
        return [
            Shared(
                scope=str(scope),
                cap=int(cap),
                spent=int(spent),
                granted=int(granted),
                overrun=int(overrun),
                hourly=bool(hourly),
                held=int(held),
                used=int(used),
                runs=frozenset(runs.get(str(scope), ())),
                booked=booked.get(str(scope), {}),
            )
            for scope, cap, spent, granted, overrun, hourly, held, used in standing
        ]

    def left_open(self) -> int:
        """Grants of those who have no lease any more that nobody has closed yet. Away when the database does not answer."""
        found = self.read(
            "SELECT count(*) FROM fabric_grant WHERE closed_at IS NULL"
            f" AND incarnation NOT IN (SELECT name FROM fabric_incarnation WHERE {self._leased()})"
        )
        return int(found[0][0])

    def memory(self) -> list[Kept]:
        """Every entry of what fabrics remember."""
        found = self.surely(
            "SELECT call_key, memory, key, version, run_id, undone_at FROM fabric_memory_entry ORDER BY memory, key, version"
        )
        return [
            Kept(call_key=call, memory=memory, key=key, version=int(version), run=run, undone=bool(undone))
            for call, memory, key, version, run, undone in found
        ]

    def facts(self) -> dict[str, list[dict[str, Any]]]:
        """Every run's facts in order, each with its kind and its instant."""
        rows = self.surely("SELECT run_id, kind, at, header FROM fabric_event ORDER BY run_id, seq")
        found: dict[str, list[dict[str, Any]]] = {}
        for run_id, kind, at, header in rows:
            fact = {"attempt": 1, **json.loads(unpack(bytes(header)))["d"], "kind": kind, "at": at}
            found.setdefault(str(run_id), []).append(fact)
        return found

    # -- who writes ----------------------------------------------------------------------------------------------------

    def watch_writes(self) -> None:
        """On PostgreSQL: has the database itself note each write of a run by one who does not own its row."""
        if self.on_postgresql:
            self.surely(WATCH)

    def stale(self) -> list[str]:
        """What was noted. Nothing on SQLite, where one process holds the lock of all runs."""
        if not self.on_postgresql:
            return []
        found = self.surely("SELECT run_id, fence, last_seq, owner, writer FROM chaos_stale ORDER BY at")
        return [
            f"run {run}, fence {fence}, event {seq}: owned by {owner or 'nobody'}, written by {writer}"
            for run, fence, seq, owner, writer in found
        ]

    def writes_seen(self) -> int:
        """How many writes of runs were looked at."""
        found = self.surely("SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM chaos_writes")
        return int(found[0][0])


def states(made: Site) -> dict[str, str]:
    """The state of every run of a site."""
    return Rows.of(made.environment).states()


def facts_by_run(made: Site) -> dict[str, list[dict[str, Any]]]:
    """Every run's facts of a site."""
    return Rows.of(made.environment).facts()
