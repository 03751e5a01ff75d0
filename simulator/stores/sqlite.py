"""The production SQLite stores under the virtual clock, on a file of their own, with the world's additions."""

from __future__ import annotations

import shutil
import sqlite3
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fabric.core.conversations.memory import Entry
from fabric.core.events.envelope import JournalRow
from fabric.core.values.flow import RunState
from fabric.runtime.ports.batch_parts import COLUMNS, LISTS, ReviewChange, RunColumns, list_names
from fabric.runtime.ports.journal import Batch, BatchFate, ClaimedRun, Clock, StoredRow, StoreUnavailable
from fabric.runtime.ports.spending import Budget
from fabric.stores.errors import StoreBusy
from fabric.stores.memories import COLUMNS as MEMORY_COLUMNS
from fabric.stores.memories import build_entry
from fabric.stores.rows import HOLDS_SQL, stored_row
from fabric.stores.sqlite.grants import SqliteGrants
from fabric.stores.sqlite.guards import SqliteGuards
from fabric.stores.sqlite.journal import SqliteStore
from fabric.stores.sqlite.memories import SqliteMemories
from simulator.stores.contract import Failure, Stores

WORKSPACE = "workspace"
IN_MEMORY = Path("/dev/shm")  # noqa: S108 - a world's file is thrown away with it, and need not outlive the machine
_MADE_AT = "2026-01-01 00:00:00+00:00"
_WORKSPACE = "INSERT INTO fabric_workspace (id, name, created_at) VALUES (?, 'virtual', ?)"
# The store in memory knows no fabrics: there, each revision is a fabric of that id.
_FABRIC = "INSERT INTO fabric_fabric (id, name, title, created_at, workspace_id) VALUES (?, 'virtual', '', ?, ?)"
_REVISION = """
INSERT INTO fabric_revision (id, number, digest, spec, published_at, published_by, fabric_id, workspace_id)
VALUES (?1, 1, 'virtual', '{}', ?2, '', ?1, ?3)
"""
_ROWS = """
SELECT at, seq, kind, version, header, payload, payload_hash, hash FROM fabric_event WHERE run_id = ? ORDER BY seq
"""
_COLUMNS = """
SELECT state, stage, epoch, cost_usd_micros, tokens, reason, recovered, truncated, cause, failure, fired,
  breakers, unconfirmed_usd_micros, spent_on, started_at, ended_at, deadline_at
FROM fabric_run WHERE id = ?
"""
_LEDGER = f"SELECT {MEMORY_COLUMNS} FROM fabric_memory_entry WHERE fabric_id = ? AND memory = ? ORDER BY rowid"  # noqa: S608
_USER = """
INSERT INTO auth_user (password, is_superuser, username, first_name, last_name, email, is_staff, is_active, date_joined)
VALUES ('', 0, ?, '', '', '', 0, 1, '2026-01-01') ON CONFLICT DO NOTHING
"""
_MEMBER = """
INSERT INTO fabric_member (id, workspace_id, user_id, name, roles, service, created_at, created_by, removed_by)
VALUES (?, ?, (SELECT id FROM auth_user WHERE username = ?), ?3, ?, 0, 1, '', '')
"""
_HOLDS = HOLDS_SQL.format(workspace="?1", name="?2")
_REVIEWS = f"SELECT id, run_id, {', '.join(COLUMNS)} FROM fabric_review ORDER BY rowid"  # noqa: S608 - constants


@contextmanager
def open_stores(template: Path, clock: Clock, revision_id: str) -> Iterator[Stores]:
    """Yield stores on a temporary copy of ``template``, a file with all tables, empty. Raises OSError."""
    with tempfile.TemporaryDirectory(prefix="fabric-world-", dir=IN_MEMORY if IN_MEMORY.is_dir() else None) as folder:
        path = Path(folder) / "world.sqlite3"
        shutil.copyfile(template, path)
        with closing(sqlite3.connect(path, isolation_level=None)) as db:
            db.execute(_WORKSPACE, (WORKSPACE, _MADE_AT))
            db.execute(_FABRIC, (revision_id, _MADE_AT, WORKSPACE))
            db.execute(_REVISION, (revision_id, _MADE_AT, WORKSPACE))
        journal = SqliteWorldStore(path, clock=clock)
        grants, buckets = SqliteWorldGrants(path, clock=clock), SqliteGuards(path, clock=clock)
        memories = SqliteWorldMemories(path, clock=clock)
        try:
            yield Stores(journal, grants, buckets, buckets, memories)
        finally:
            journal.close()
            grants.close_connections()
            buckets.close_connections()
            memories.close_connections()


class SqliteWorldMemories(SqliteMemories):
    """``contract.WorldMemories`` on a file."""

    def ledger(self, fabric_id: str, memory: str) -> list[Entry]:
        """See ``contract.WorldMemories``."""
        return [build_entry(row) for row in self.look(_LEDGER, (fabric_id, memory))]


class SqliteWorldStore(SqliteStore):
    """``contract.WorldStore`` on a file. Writes and claims can be made to fail; the world itself does ``late``."""

    def __init__(self, path: Path, *, clock: Clock) -> None:
        super().__init__(path, clock=clock)
        self._failures: dict[str, list[Failure]] = {}

    def fail_next(self, failure: Failure, *, call: str = "write", times: int = 1) -> None:
        """See ``WorldStore``. Raises ValueError for an unsupported failure."""
        if call not in ("write", "claim") or failure == "late":
            raise ValueError(f"the store in a file does not fail as {failure!r} at {call!r}")
        self._failures.setdefault(call, []).extend([failure] * times)

    def _lands(self, call: str) -> bool:
        """Raise the ordered failure of this call; return True if the change is to be made, and its answer lost."""
        ordered = self._failures.get(call)
        failure = ordered.pop(0) if ordered else None
        if failure == "busy":
            raise StoreBusy("the store was told to be busy")
        if failure in ("away", "lost"):
            raise StoreUnavailable("the store was told not to answer", unknown=failure == "lost")
        return failure == "landed"

    def claim(self, incarnation: str, **asked: Any) -> list[ClaimedRun]:
        """See ``ports.JournalStore``."""
        landing = self._lands("claim")
        claims = super().claim(incarnation, **asked)
        if landing:
            raise StoreUnavailable("the store was told to lose its answer", unknown=True)
        return claims

    def write(self, batches: Sequence[Batch]) -> list[BatchFate]:
        """See ``ports.JournalStore``."""
        landing = self._lands("write")
        fates = super().write(batches)
        if landing:
            raise StoreUnavailable("the store was told to lose its answer", unknown=True)
        return fates

    # -- looking into it ----------------------------------------------------------------------------------------------

    @property
    def reviews(self) -> Mapping[str, tuple[str, ReviewChange]]:
        """See ``WorldStore``."""
        return {row[0]: (row[1], _review(row)) for row in self._read(_REVIEWS, ())}

    def holds(self, name: str) -> str | None:
        """See ``WorldStore``."""
        found = self._read(_HOLDS, (WORKSPACE, name))
        return found[0][0] if found else None

    def hold(self, name: str, roles: str | None) -> None:
        """See ``WorldStore``."""
        with self._writer.transaction() as db:
            db.execute(_USER, (name,))
            db.execute("DELETE FROM fabric_member WHERE name = ?", (name,))
            if roles is not None:
                db.execute(_MEMBER, (name, WORKSPACE, name, roles))

    def rows(self, run_id: str) -> tuple[JournalRow, ...]:
        """See ``WorldStore``."""
        return tuple(_row(at, stored_row(*row)) for at, *row in self._read(_ROWS, (run_id,)))

    def columns(self, run_id: str) -> RunColumns:
        """See ``WorldStore``."""
        ((state, stage, epoch, cost, tokens, reason, recovered, truncated, *trouble, started, ended, deadline),) = (
            self._read(_COLUMNS, (run_id,))
        )
        cause, failure, fired, breakers, unconfirmed, spent_on = trouble
        return RunColumns(
            state=RunState(state),
            stage=stage,
            epoch=epoch,
            cost_usd_micros=cost,
            tokens=tokens,
            reason=reason,
            recovered=bool(recovered),
            truncated=bool(truncated),
            cause=cause,
            failure=failure,
            fired=fired,
            breakers=breakers,
            unconfirmed_usd_micros=unconfirmed,
            spent_on=spent_on,
            started_at=started,
            ended_at=ended,
            deadline_at=deadline,
        )

    def read_standing(self, run_id: str) -> tuple[str | None, int, int]:
        """See ``WorldStore``."""
        ((owner, fence, claims),) = self._read(
            "SELECT incarnation, fence, claims FROM fabric_run WHERE id = ?", (run_id,)
        )
        return owner, fence, claims

    def run_ids(self) -> tuple[str, ...]:
        """See ``WorldStore``."""
        return tuple(run_id for (run_id,) in self._read("SELECT id FROM fabric_run ORDER BY rowid", ()))


def _row(at: int, stored: StoredRow) -> JournalRow:
    return JournalRow(
        seq=stored.seq,
        at=at,
        kind=stored.kind,
        version=stored.version,
        header=stored.header,
        payload=stored.payload,
        payload_hash=stored.payload_hash,
        hash=stored.hash,
    )


def _review(row: tuple[Any, ...]) -> ReviewChange:
    name, _, *rest = row
    fields = dict(zip(COLUMNS, rest, strict=True))
    fields |= {one: list_names(fields[one]) for one in LISTS}
    fields |= {one: bool(fields[one]) for one in ("by_system", "alone", "reminded", "onward")}
    return ReviewChange(**fields | {"review_id": name, "verbs": tuple(filter(None, fields["verbs"].split(",")))})


@dataclass(frozen=True, slots=True)
class _Grant:
    grant_id: str
    scope: str
    amount: int
    state: str


class SqliteWorldGrants(SqliteGrants):
    """``contract.WorldGrants`` on a file."""

    def all_budgets(self) -> list[tuple[str, Budget]]:
        """See ``WorldGrants``."""
        scopes = [scope for (scope,) in self.look("SELECT scope FROM fabric_budget ORDER BY scope", ())]
        return list(zip(scopes, self.budgets(scopes), strict=True))

    def all_grants(self) -> list[_Grant]:
        """See ``WorldGrants``."""
        return [
            _Grant(*row) for row in self.look("SELECT id, scope, amount, state FROM fabric_grant ORDER BY rowid", ())
        ]
