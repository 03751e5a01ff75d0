"""The runs of an installation under chaos, started and read from outside its workers."""

from __future__ import annotations

import json
import time
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg

from simulator.installation.workers import Rows, Site, publish_and_start
from tests.chaos.judging.remembered import Kept
from tests.chaos.judging.shares import Attempt, Shared

Connection = psycopg.Connection[tuple[Any, ...]]
ENDED = "('completed', 'stopped', 'failed', 'aborted', 'cancelled')"
NOTES = [("notes.md", "The bridge is 40 metres long. It was built in 1931.")]

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
    """Starts runs of the chaos fabric, or of another ``source``, in batch; returns their ids."""
    source = source or FABRIC.replace("OPTIONS", json.dumps(options or {}))
    asked = {"fabric": source, "runs": runs, "tier": "batch", "text": "What do the notes say?", "documents": NOTES}
    return publish_and_start(made, [asked])


@dataclass(frozen=True, slots=True)
class Review:
    """A run's request to a person."""

    id: str
    item: str
    run: str


class ChaosRows(Rows):
    """A database under chaos, read from outside. ``keep``: connections to PostgreSQL are kept until ``close``, for one who reads again and again."""

    def __init__(self, where: str | Path, *, keep: bool = False) -> None:
        super().__init__(where)
        self._keep = keep
        self._kept: list[Connection] = []
        """Open connections that no query uses at this moment."""
        self.backends: set[int] = set()
        """The database's processes behind the connections: a strike that stops one of them stops the process that asks here."""

    @property
    def on_postgresql(self) -> bool:
        """Return True if it is PostgreSQL."""
        return isinstance(self._where, str)

    def read_postgresql(self, address: str, statement: str) -> list[tuple[Any, ...]]:
        """Returns the rows of a statement, on a connection that was kept if it still answers, else on a new one."""
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

    def costs(self) -> dict[str, int]:
        """Micro-dollars that the row of every run says."""
        return {str(run): int(cost) for run, cost in self.read_patiently("SELECT id, cost_usd_micros FROM fabric_run")}

    def live(self, *, asking: bool = True) -> int:
        """Runs that have not ended, with those that wait for a person or without. DatabaseAway when the database does not answer."""
        ask = "SELECT 1 FROM fabric_review e WHERE e.run_id = r.id AND e.decided_at IS NULL"
        but = "" if asking else f" AND NOT EXISTS ({ask})"
        return int(self.read(f"SELECT count(*) FROM fabric_run r WHERE state NOT IN {ENDED}{but}")[0][0])

    def asking(self) -> list[Review]:
        """Open reviews of live runs."""
        found = self.read_patiently(
            "SELECT e.id, e.item, r.id FROM fabric_run r JOIN fabric_review e ON e.run_id = r.id"
            f" WHERE e.decided_at IS NULL AND r.state NOT IN {ENDED}"
        )
        return [Review(*map(str, row)) for row in found]

    def owned_by(self, pid: int, timeout_s: float = 60.0) -> list[str]:
        """Live runs that the last incarnation of a process owns. DatabaseAway when the database did not answer in time."""
        found = self.read_patiently(
            "SELECT r.id FROM fabric_run r JOIN fabric_incarnation i ON i.name = r.incarnation"
            f" WHERE i.pid = {pid:d} AND r.state NOT IN {ENDED}",
            timeout_s,
        )
        return [str(run) for (run,) in found]

    def left_behind(self, pids: Collection[int]) -> int:
        """Live runs that belong to none of these processes, and are not free either. DatabaseAway when the database does not answer."""
        living = ", ".join(str(int(pid)) for pid in pids) or "0"
        found = self.read(
            "SELECT count(*) FROM fabric_run r LEFT JOIN fabric_incarnation i ON i.name = r.incarnation"
            f" WHERE r.incarnation IS NOT NULL AND coalesce(i.pid, 0) NOT IN ({living}) AND r.state NOT IN {ENDED}"
        )
        return int(found[0][0])

    def working(self, pids: Collection[int]) -> set[int]:
        """Those of the processes that have a lease which is not over. DatabaseAway when the database does not answer."""
        found = self.read(f"SELECT pid FROM fabric_incarnation WHERE {self._leased()}")
        return {pid for (pid,) in found} & set(pids)

    def _leased(self) -> str:
        """The condition that an incarnation has a lease which is not over."""
        now = "extract(epoch FROM clock_timestamp()) * 1000000" if self.on_postgresql else str(time.time_ns() // 1_000)
        return f"retired_at IS NULL AND lease_until > {now}"

    # -- what runs share ----------------------------------------------------------------------------------------------

    def shared(self) -> list[Shared]:
        """Every shared budget with what was reserved of it."""
        booked: dict[str, dict[Attempt, int]] = {}
        for scope, run, command, attempt, amount in self.read_patiently(
            "SELECT g.scope, r.run_id, r.command_id, r.attempt, sum(coalesce(r.settled, r.amount))"
            " FROM fabric_reservation r JOIN fabric_grant g ON g.id = r.grant_id GROUP BY 1, 2, 3, 4"
        ):
            booked.setdefault(str(scope), {})[str(run), str(command), int(attempt)] = int(amount)
        runs: dict[str, set[str]] = {}
        for run, fabric, session in self.read_patiently("SELECT id, fabric_id, session_key FROM fabric_run"):
            for scope in (f"fabric:{fabric}", f"session:{fabric}:{session}"):
                runs.setdefault(scope, set()).add(str(run))
        standing = self.read_patiently(
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
        """Grants of workers without a lease that no worker has closed yet. DatabaseAway when the database does not answer."""
        found = self.read(
            "SELECT count(*) FROM fabric_grant WHERE closed_at IS NULL"
            f" AND incarnation NOT IN (SELECT name FROM fabric_incarnation WHERE {self._leased()})"
        )
        return int(found[0][0])

    def memory(self) -> list[Kept]:
        """Every entry of what fabrics remember."""
        found = self.read_patiently(
            "SELECT call_key, memory, key, version, run_id, undone_at FROM fabric_memory_entry ORDER BY memory, key, version"
        )
        return [
            Kept(call_key=call, memory=memory, key=key, version=int(version), run=run, undone=bool(undone))
            for call, memory, key, version, run, undone in found
        ]

    # -- who writes ---------------------------------------------------------------------------------------------------

    def watch_writes(self) -> None:
        """On PostgreSQL: has the database itself note each write of a run by one who does not own its row."""
        if self.on_postgresql:
            self.read_patiently(WATCH)

    def stale(self) -> list[str]:
        """Return what was noted. Nothing on SQLite, where one process holds the lock of all runs."""
        if not self.on_postgresql:
            return []
        found = self.read_patiently("SELECT run_id, fence, last_seq, owner, writer FROM chaos_stale ORDER BY at")
        return [
            f"run {run}, fence {fence}, event {seq}: owned by {owner or 'no worker'}, written by {writer}"
            for run, fence, seq, owner, writer in found
        ]

    def writes_seen(self) -> int:
        """How many writes of runs were looked at."""
        found = self.read_patiently("SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM chaos_writes")
        return int(found[0][0])


def states(made: Site) -> dict[str, str]:
    """The state of every run of a site."""
    return Rows.from_environment(made.environment).read_states()


def facts_by_run(made: Site) -> dict[str, list[dict[str, Any]]]:
    """Every run's facts of a site."""
    return Rows.from_environment(made.environment).read_facts()
