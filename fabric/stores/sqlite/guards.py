"""Retry tokens and guard rows on SQLite: a few statements in one BEGIN IMMEDIATE transaction."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence

from fabric.core.values.units import US
from fabric.runtime.ports.spending import GuardChanged, GuardRow, RunLine, SignalCount, TokenAsk, TokensLeft
from fabric.runtime.spending import rules
from fabric.stores.rows import audit_values
from fabric.stores.sqlite.grants import SharedFile
from fabric.stores.sqlite.statements import AUDIT

_BUCKET = "SELECT level, credited_at FROM fabric_bucket WHERE scope = ?"
_FILL = """
INSERT INTO fabric_bucket (scope, level, credited_at) VALUES (?, ?, ?)
ON CONFLICT (scope) DO UPDATE SET level = excluded.level, credited_at = excluded.credited_at
"""
_GUARD = "SELECT state, generation, changed_at, permits FROM fabric_guard WHERE scope = ? AND kind = ?"
_GENERATION = (
    "coalesce((SELECT generation FROM fabric_guard g WHERE g.scope = :scope AND g.kind = :kind), 0) = :generation"
)
_COUNT = f"""
INSERT INTO fabric_guard_count AS t (scope, kind, signal, ring, slot_at, generation, n)
SELECT :scope, :kind, :signal, :ring, :slot_at, :generation, :n WHERE {_GENERATION}
ON CONFLICT (scope, kind, signal, ring) DO UPDATE SET generation = excluded.generation, slot_at = excluded.slot_at,
  n = CASE WHEN :reset OR t.generation <> excluded.generation OR t.slot_at <> excluded.slot_at THEN excluded.n ELSE t.n + excluded.n END
"""
_COUNTS = """
SELECT signal, sum(n) FROM fabric_guard_count WHERE scope = ? AND kind = ? AND (generation = ? OR ring = ?) AND (ring < 0 OR slot_at > ?) GROUP BY signal
"""
_UNTIL = f"""
INSERT INTO fabric_guard_count AS t (scope, kind, signal, ring, slot_at, generation, n)
SELECT :scope, :kind, :signal, {rules.UNTIL_RING}, 0, 0, :until WHERE true
ON CONFLICT (scope, kind, signal, ring) DO UPDATE
SET n = CASE WHEN :reset AND {_GENERATION} THEN excluded.n ELSE max(t.n, excluded.n) END
"""
_WAITS = "SELECT 1 FROM fabric_guard_count WHERE scope = ? AND kind = ? AND ring = ? AND n > ?"
_CHANGE = """
UPDATE fabric_guard SET state = :state, generation = generation + 1, changed_at = :now, permits = :permits
WHERE scope = :scope AND kind = :kind AND generation = :generation
"""
_FIRST = """
INSERT INTO fabric_guard (scope, kind, state, generation, changed_at)
SELECT :scope, :kind, :state, 1, :now WHERE :generation = 0 AND :holder = '' ON CONFLICT DO NOTHING
"""
_LOG = """
INSERT INTO fabric_guard_change (scope, kind, generation, state, at)
SELECT scope, kind, generation, state, changed_at FROM fabric_guard WHERE scope = :scope AND kind = :kind
"""
_CHANGES = "SELECT generation, state, at FROM fabric_guard_change WHERE scope = ? AND kind = ? ORDER BY generation"
_PERMITS = "UPDATE fabric_guard SET permits = ? WHERE scope = ? AND kind = ?"
_NEVER = ("", 0, 0, "{}")
"""A row that was never changed."""


class SqliteGuards(SharedFile):
    """``ports.spending.BucketStore`` and ``GuardStore`` on one SQLite file that has its tables."""

    # -- retry tokens --------------------------------------------------------------------------------------------------

    def retry(self, asks: Sequence[TokenAsk], *, first_in_stage: bool) -> TokensLeft:
        """See ``ports.spending.BucketStore``."""
        now = self._now()
        with self.transaction() as db:
            judged = [(ask, *_judge_token(db, ask, first_in_stage, now)) for ask in asks]
            given = all(gives is not False for *_, gives in judged)
            levels = {ask.scope: balance - rules.TOKEN * given for ask, _, balance, _ in judged}
            for ask, credited_at, _, gives in judged:
                db.execute(_FILL, (ask.scope, levels[ask.scope], now if given and gives is None else credited_at))
        return TokensLeft(given, levels)

    def earn(self, asks: Sequence[TokenAsk]) -> None:
        """See ``ports.spending.BucketStore``."""
        with self.transaction() as db:
            for ask in asks:
                level, credited_at = db.execute(_BUCKET, (ask.scope,)).fetchone() or (ask.size, 0)
                db.execute(_FILL, (ask.scope, min(ask.size, level + ask.earned), credited_at))

    # -- guard rows ----------------------------------------------------------------------------------------------------

    def guards(self, keys: Sequence[tuple[str, str]]) -> list[GuardRow]:
        """See ``ports.spending.GuardStore``."""
        now = self._now()
        with self._file.use() as db:
            rows = [_row(db, scope, kind, now) for scope, kind in keys]
        self.count(statements=2 * len(rows))
        return rows

    def tell(self, counts: Sequence[SignalCount]) -> None:
        """See ``ports.spending.GuardStore``."""
        now = self._now()
        slot = rules.find_slot(now)
        with self.transaction() as db:
            for one in counts:
                values = {"scope": one.scope, "kind": one.kind, "generation": one.generation, "signal": one.signal}
                values |= {"n": one.n, "reset": one.reset, "slot_at": slot if one.windowed else 0}
                if one.until:
                    db.execute(_UNTIL, values | {"until": now + one.n if one.n else 0})
                    continue
                db.execute(_COUNT, values | {"ring": rules.find_ring(slot) if one.windowed else -1})

    def change(
        self,
        scope: str,
        kind: str,
        *,
        generation: int,
        state: str,
        holder: str = "",
        keeps: bool = False,
        line: RunLine | None = None,
    ) -> bool:
        """See ``ports.spending.GuardStore``."""
        values = {"scope": scope, "kind": kind, "generation": generation, "state": state, "holder": holder}
        values |= {"now": self._now()}
        with self.transaction() as db:
            _, permits = _permits(db, scope, kind)
            if holder and permits.pop(holder, None) is None:
                return False
            values["permits"] = json.dumps(permits if keeps else {})
            done = db.execute(_CHANGE, values).rowcount == 1 or db.execute(_FIRST, values).rowcount == 1
            if done:
                db.execute(_LOG, values)
            if done and line is not None:
                db.execute(AUDIT, {**audit_values(line.entry), "run_id": line.run_id, "now": values["now"]})
            return done

    def changes(self, scope: str, kind: str) -> list[GuardChanged]:
        """See ``ports.spending.GuardStore``."""
        return [GuardChanged(*row) for row in self.look(_CHANGES, (scope, kind))]

    def permit(self, scope: str, kind: str, *, generation: int, holder: str, for_s: float, most: int = 1) -> bool:
        """See ``ports.spending.GuardStore``."""
        with self.transaction() as db:
            now = self._now()
            stands, permits = _permits(db, scope, kind)
            live = {one: until for one, until in permits.items() if until > now}
            if not stands or stands != generation or holder in live or len(live) >= most:
                return False
            if db.execute(_WAITS, (scope, kind, rules.UNTIL_RING, now)).fetchone():
                return False
            live[holder] = now + round(for_s * US)
            db.execute(_PERMITS, (json.dumps(live), scope, kind))
            return True

    def give_up(self, scope: str, kind: str, *, holder: str) -> bool:
        """See ``ports.spending.GuardStore``."""
        with self.transaction() as db:
            _, permits = _permits(db, scope, kind)
            if permits.pop(holder, None) is None:
                return False
            db.execute(_PERMITS, (json.dumps(permits), scope, kind))
            return True


def _permits(db: sqlite3.Connection, scope: str, kind: str) -> tuple[int, dict[str, int]]:
    """Return a row's generation, and its permits: read and written in one transaction, alone."""
    _, generation, _, permits = db.execute(_GUARD, (scope, kind)).fetchone() or _NEVER
    return generation, json.loads(permits)


def _judge_token(db: sqlite3.Connection, ask: TokenAsk, first_in_stage: bool, now: int) -> tuple[int, int, bool | None]:
    level, credited_at = db.execute(_BUCKET, (ask.scope,)).fetchone() or (ask.size, 0)
    balance, gives = rules.token(
        level, credited_at, size=ask.size, earned=ask.earned, first_in_stage=first_in_stage, now=now
    )
    return credited_at, balance, gives


def _row(db: sqlite3.Connection, scope: str, kind: str, now: int) -> GuardRow:
    state, generation, changed_at, permits = db.execute(_GUARD, (scope, kind)).fetchone() or _NEVER
    since = rules.find_slot(now) - rules.COUNTED_US
    counts = db.execute(_COUNTS, (scope, kind, generation, rules.UNTIL_RING, since)).fetchall()
    return GuardRow(
        scope=scope,
        kind=kind,
        state=state,
        generation=generation,
        changed_at=changed_at,
        permits=json.loads(permits),
        counts=dict(counts),
        asked_at=now,
    )
