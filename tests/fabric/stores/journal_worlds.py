"""The three journal stores, each with what a test needs to set its scene and to look behind it."""

import shutil
import sqlite3
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from typing import Any

import psycopg

from fabric.core.events import InputIgnored
from fabric.core.events.envelope import Event, JournalRow, to_row
from fabric.core.people.roles import Role, write_roles
from fabric.core.values.fingerprint import ZERO_HASH
from fabric.core.values.flow import RunState
from fabric.core.values.taxonomy import Tier
from fabric.runtime.ports.batch_parts import ReviewChange, RunColumns
from fabric.runtime.ports.journal import Batch, NewRun
from fabric.stores.postgresql.journal import PostgresqlStore
from fabric.stores.sqlite.journal import SqliteStore
from simulator.installation.database import clean_environment
from simulator.stores.memory.journal import MemoryStore
from tests.servers.unguarded import AS_REPLICA

ROOT = Path(__file__).resolve().parents[3]
SECOND = 1_000_000
NOON = 1_800_000_000 * SECOND
WORKSPACE = "workspace-1"
REVISION = "revision-1"
BOBS = write_roles(list(Role))
SEED = f"""
INSERT INTO fabric_workspace (id, name, created_at) VALUES ('{WORKSPACE}', 'One', '2026-01-01 00:00:00+00:00');
INSERT INTO fabric_fabric (id, name, title, created_at, workspace_id)
  VALUES ('fabric-1', 'first', '', '2026-01-01 00:00:00+00:00', '{WORKSPACE}');
INSERT INTO fabric_revision (id, number, digest, spec, published_at, published_by, fabric_id, workspace_id)
  VALUES ('{REVISION}', 1, 'digest', '{{}}', '2026-01-01 00:00:00+00:00', '', 'fabric-1', '{WORKSPACE}');
INSERT INTO auth_user (id, password, is_superuser, username, first_name, last_name, email, is_staff, is_active, date_joined)
  VALUES (1001, '', FALSE, 'bob', '', '', '', FALSE, TRUE, '2026-01-01 00:00:00+00:00'),
    (1002, '', FALSE, 'ann', '', '', '', FALSE, TRUE, '2026-01-01 00:00:00+00:00');
INSERT INTO fabric_member (id, workspace_id, user_id, name, roles, created_at, created_by, removed_by)
  VALUES ('member-bob', '{WORKSPACE}', 1001, 'bob', '{BOBS}', 1, '', ''), ('member-ann', '{WORKSPACE}', 1002, 'ann', 'viewer', 1, '', '');
"""
TABLES = (
    "event",
    "inbox",
    "attachment",
    "review",
    "incarnation",
    "snapshot",
    "family",
    "run",
    "audit",
    "checkpoint",
    "duty",
    "stopped_run",
    "start_stop",
)


def installed(data: Path, **environment: str) -> dict[str, str]:
    """The environment of a program of the installation whose folder that is."""
    settings = {"DJANGO_SETTINGS_MODULE": "console.settings", "FABRIC_DATA": str(data), "PYTHONPATH": str(ROOT)}
    return clean_environment() | settings | environment


def migrate(data: Path, **environment: str) -> None:
    """Make the tables the way an installation does."""
    command = [sys.executable, "-m", "django", "migrate", "--verbosity", "0", "--skip-checks"]
    subprocess.run(command, env=installed(data, **environment), cwd=ROOT, check=True)


class Hand:
    """A clock that stands still until it is moved."""

    def __init__(self) -> None:
        self.us = NOON

    def now(self) -> int:
        return self.us


class MemoryWorld:
    def __init__(self) -> None:
        self.clock = Hand()
        self.store = MemoryStore(self.clock, fabrics={REVISION: "fabric-1"})

    def another(self) -> MemoryStore:
        return self.store

    def pass_time(self, seconds: float) -> None:
        self.clock.us += round(seconds * SECOND)

    def give_bob(self, roles: str | None) -> None:
        """Give bob these roles from now on; None: he is no member any more."""
        self.store.people = {"ann": "viewer"} if roles is None else {"ann": "viewer", "bob": roles}

    def leave_bob(self, ann: str | None = None) -> None:
        """Only bob may sign in, where ann holds nothing."""
        self.store.people = {"bob": BOBS} if ann is None else {"ann": ann, "bob": BOBS}

    def claims(self, run_id: str) -> int:
        return self.store.read_standing(run_id)[2]

    def set_claims(self, run_id: str, claims: int, by: str | None = None) -> None:
        """Of one run, or of all. ``by``: whose they are from now on."""
        for one in [run_id] if run_id else self.store.tables.runs:
            run = self.store.tables.runs[one]
            run.claims, run.incarnation = claims, by or run.incarnation

    def orphans(self) -> list[int]:
        """The claims of the runs whose owners are gone, in the order of their ids."""
        gone = {name for name, one in self.store.tables.incarnations.items() if one.retired}
        return [run.claims for _, run in sorted(self.store.tables.runs.items()) if run.incarnation in gone]

    def refused_writes(self, incarnation: str) -> int:
        return self.store.tables.incarnations[incarnation].refused_writes

    def state(self, run_id: str) -> tuple[str, int]:
        columns = self.store.columns(run_id)
        return columns.state.value, columns.cost_usd_micros

    def row(self, run_id: str, *names: str) -> tuple[Any, ...]:
        run = self.store.tables.runs[run_id]
        places = (run, run.columns, run.new)
        return tuple(next(getattr(place, name) for place in places if hasattr(place, name)) for name in names)

    def labels(self, run_id: str) -> tuple[tuple[str, str], ...]:
        return self.store.tables.runs[run_id].new.labels

    def family(self, root: str) -> tuple[int, ...] | None:
        found = self.store.tables.families.get(root)
        return (found.alive, found.spawned, found.caps.alive, found.caps.spawned) if found else None

    def unconsumed(self, run_id: str) -> int:
        return sum(item.consumed_seq is None for item in self.store.tables.runs[run_id].inbox)

    def review(self, name: str) -> tuple[Any, ...]:
        run_id, change = self.store.reviews[name]
        return (
            run_id,
            change.step_id,
            ",".join(change.verbs),
            bytes(change.content),
            change.decided_at,
            change.verb,
            change.due_at,
        )

    def acts(self) -> list[tuple[Any, ...]]:
        given = [entry for _, entry in self.store.audit]
        return [(one.entry_id, one.actor, one.via, one.act.value, one.subject, one.body) for one in given]

    def close(self) -> None:
        pass


class SqlWorld:
    """SQLite and PostgreSQL have this in common: they can be asked."""

    def ask(self, statement: str) -> list[tuple[Any, ...]]:
        raise NotImplementedError

    def give_bob(self, roles: str | None) -> None:
        """Give bob these roles from now on; None: he is no member any more."""
        gone = 1 if roles is None else "NULL"
        self.ask(f"UPDATE fabric_member SET roles = '{roles or BOBS}', removed_at = {gone} WHERE name = 'bob'")

    def leave_bob(self, ann: str | None = None) -> None:
        """Only bob may sign in, where ann holds nothing."""
        gone = 1 if ann is None else "NULL"
        self.ask(f"UPDATE fabric_member SET roles = '{ann or ''}', removed_at = {gone} WHERE name = 'ann'")

    def claims(self, run_id: str) -> int:
        return int(self.ask(f"SELECT claims FROM fabric_run WHERE id = '{run_id}'")[0][0])

    def set_claims(self, run_id: str, claims: int, by: str | None = None) -> None:
        """Of one run, or of all. ``by``: whose they are from now on."""
        owner = f", incarnation = '{by}'" if by else ""
        self.ask(f"UPDATE fabric_run SET claims = {claims}{owner} WHERE '{run_id}' IN ('', id)")

    def orphans(self) -> list[int]:
        """The claims of the runs whose owners are gone, in the order of their ids."""
        owner = "JOIN fabric_incarnation i ON i.name = r.incarnation AND i.retired_at IS NOT NULL"
        return [claims for (claims,) in self.ask(f"SELECT r.claims FROM fabric_run r {owner} ORDER BY r.id")]

    def refused_writes(self, incarnation: str) -> int:
        return int(self.ask(f"SELECT refused_writes FROM fabric_incarnation WHERE name = '{incarnation}'")[0][0])

    def state(self, run_id: str) -> tuple[str, int]:
        ((state, cost),) = self.ask(f"SELECT state, cost_usd_micros FROM fabric_run WHERE id = '{run_id}'")
        return state, cost

    def row(self, run_id: str, *names: str) -> tuple[Any, ...]:
        (found,) = self.ask(f"SELECT {', '.join(names)} FROM fabric_run WHERE id = '{run_id}'")
        return found

    def labels(self, run_id: str) -> tuple[tuple[str, str], ...]:
        return tuple(self.ask(f"SELECT key, value FROM fabric_run_label WHERE run_id = '{run_id}' ORDER BY key"))

    def family(self, root: str) -> tuple[int, ...] | None:
        columns = "alive, spawned, cap_alive, cap_spawned"
        found = self.ask(f"SELECT {columns} FROM fabric_family WHERE root_run_id = '{root}'")
        return found[0] if found else None

    def unconsumed(self, run_id: str) -> int:
        where = f"run_id = '{run_id}' AND consumed_seq IS NULL"
        return int(self.ask(f"SELECT count(*) FROM fabric_inbox WHERE {where}")[0][0])

    def acts(self) -> list[tuple[Any, ...]]:
        rows = self.ask("SELECT id, actor, via, kind, subject, body FROM fabric_audit ORDER BY id")
        return [(*told, bytes(body)) for *told, body in rows]

    def review(self, name: str) -> tuple[Any, ...]:
        columns = "run_id, step_id, verbs, content, decided_at, verb, due_at"
        ((*before, content, decided, verb, due),) = self.ask(f"SELECT {columns} FROM fabric_review WHERE id = '{name}'")
        return (*before, bytes(content), decided, verb, due)


class SqliteWorld(SqlWorld):
    def __init__(self, template: Path, directory: Path) -> None:
        self.path = directory / "journal.sqlite3"
        shutil.copy(template, self.path)
        self.clock = Hand()
        self.stores = [SqliteStore(self.path, clock=self.clock)]
        self.store = self.stores[0]

    def another(self) -> SqliteStore:
        self.stores.append(SqliteStore(self.path, clock=self.clock))
        return self.stores[-1]

    def pass_time(self, seconds: float) -> None:
        self.clock.us += round(seconds * SECOND)

    def ask(self, statement: str) -> list[tuple[Any, ...]]:
        connection = sqlite3.connect(self.path, isolation_level=None)
        try:
            return connection.execute(statement).fetchall()
        finally:
            connection.close()

    def close(self) -> None:
        for store in self.stores:
            store.close()


class PostgresqlWorld(SqlWorld):
    def __init__(self, dsn: str) -> None:
        self.dsn = dsn
        self.connection = psycopg.connect(dsn, autocommit=True)
        # What a test does to the tables by hand is no business of the triggers; the stores' own connections meet them.
        self.ask(AS_REPLICA)
        self.ask("TRUNCATE " + ", ".join(f"fabric_{table}" for table in TABLES))
        self.give_bob(BOBS)
        self.leave_bob("viewer")
        self.stores = [PostgresqlStore(dsn)]
        self.store = self.stores[0]

    def another(self) -> PostgresqlStore:
        self.stores.append(PostgresqlStore(self.dsn))
        return self.stores[-1]

    def pass_time(self, seconds: float) -> None:
        """The server's clock cannot be moved, so what it is compared with moves the other way."""
        us = round(seconds * SECOND)
        self.ask(f"UPDATE fabric_run SET wake_at = wake_at - {us}")
        self.ask(f"UPDATE fabric_inbox SET visible_at = visible_at - {us}")
        self.ask(f"UPDATE fabric_incarnation SET lease_until = lease_until - {us}")

    def ask(self, statement: str) -> list[tuple[Any, ...]]:
        cursor = self.connection.execute(statement.encode())
        return cursor.fetchall() if cursor.description else []

    def close(self) -> None:
        for store in self.stores:
            store.close()
        with suppress(psycopg.Error):
            self.connection.close()


World = MemoryWorld | SqliteWorld | PostgresqlWorld
_numbers = count(1)


def new_run(**changed: Any) -> NewRun:
    """A run to be created; any field can be given."""
    values: dict[str, Any] = {
        "run_id": f"run-{next(_numbers):05}",
        "workspace_id": WORKSPACE,
        "revision_id": REVISION,
        "tier": Tier.BATCH,
        "queue": "default",
        "priority": "normal",
        "session_key": "",
        "start_key": "",
        "seed": 7,
        "trace_id": "0af7651916cd43dd8448eb211c80319c",
        "title": "Compare three files",
        "deadline_at": NOON + 3600 * SECOND,
        "input_id": "start",
        "input_body": b'{"request":{}}',
        "requested_by": "ada",
    }
    return NewRun(**values | changed)


def columns(state: RunState = RunState.RUNNING, **changed: Any) -> RunColumns:
    values: dict[str, Any] = {"state": state, "stage": "plan", "epoch": 0, "cost_usd_micros": 0, "tokens": 0}
    return RunColumns(**values | changed)


def review(name: str, **changed: Any) -> ReviewChange:
    values: dict[str, Any] = {
        "review_id": name,
        "step_id": "plan-1",
        "item": "failure",
        "reason": "asked",
        "failure_type": "",
    }
    values |= {
        "stage": "plan",
        "required_role": "reviewer",
        "verbs": ("approve", "reject"),
        "digest": "d",
        "due_at": NOON + 60 * SECOND,
    }
    return ReviewChange(**values | {"opened_at": NOON, "content": b'{"shown":true}'} | changed)


@dataclass
class Journal:
    """Extends one run's chain as its owner would: each batch follows the one before it."""

    run_id: str
    fence: int = 1
    last_seq: int = 0
    head: bytes = ZERO_HASH
    written: list[JournalRow] = field(default_factory=list)

    def batch(self, rows: int = 1, *, content: bytes | None = b'{"a":1}', **changed: Any) -> Batch:
        """The next batch; the journal goes on from it."""
        before = self.last_seq
        made = []
        for _ in range(rows):
            self.last_seq += 1
            event = Event(self.last_seq, NOON + self.last_seq, InputIgnored(input_kind="test", reason="Grüße"))
            made.append(to_row(event, content, self.head))
            self.head = made[-1].hash
        self.written += made
        given: dict[str, Any] = {"columns": columns()}
        return Batch(
            run_id=self.run_id, fence=self.fence, last_seq=before, rows=tuple(made), head=self.head, **given | changed
        )

    def rival(self, fence: int) -> "Journal":
        """The same run in the hands of the holder of another fence, from where it stands."""
        return replace(self, fence=fence, written=list(self.written))
