"""The sans-I/O driver of one run: ``step(happening, now) -> effects``. It never waits, and it does nothing itself.

State in memory runs ahead of the journal: facts are decided at once and handed out as ``Append``, but a command goes out as ``Perform`` only when the
batch with its intent has committed. On anything but a confirmed commit the whole state is void and the run is let go (design.md 5).
Two interpreters run it: ``adapters/host.py`` and ``simulator/kernel/world.py``.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

from fabric.core import engine
from fabric.core.commands import AbortCall, Command
from fabric.core.context import Compiled, Contents, Context
from fabric.core.envelope import Row, from_row, to_row
from fabric.core.evolve import evolve
from fabric.core.fingerprint import ZERO_HASH
from fabric.core.inputs import INBOX, CallFailed, Input, OwnerChanged, TimeReached
from fabric.core.run import Run, live
from fabric.core.taxonomy import Cause
from fabric.core.work import Emitted
from fabric.runtime import projection
from fabric.runtime.happenings import (
    Answered,
    Append,
    Arrived,
    Committed,
    Due,
    Effect,
    Happening,
    Perform,
    Refused,
    Release,
    Taken,
    WakeAt,
)
from fabric.runtime.ports import Batch, Claimed, StoredRow


class RunDriver:
    """One owned run in memory."""

    def __init__(self, compiled: Compiled) -> None:
        self._compiled = compiled
        self.contents = Contents()
        self.run = Run("")
        self.claimed: Claimed | None = None
        self._head = ZERO_HASH
        self._waiting: deque[tuple[int, Command]] = deque()
        """Commands whose intent has not committed yet, with the seq that must."""
        self._consumed: set[str] = set()
        self._wake: int | None = None
        self._released = False
        self._gone = False

    @property
    def compiled(self) -> Compiled:
        """The revision that the run is pinned to."""
        return self._compiled

    def step(self, happening: Happening, now: int) -> list[Effect]:
        """What to do next. ``now``: microseconds since the epoch. Raises MissingContent when a needed content was erased."""
        if self._gone or (self._released and not isinstance(happening, Committed | Refused)):
            return []
        return _STEPS[type(happening)](self, happening, now)

    # -- happenings ----------------------------------------------------------------------------------------------------

    def _taken(self, happening: Taken, now: int) -> list[Effect]:
        claimed = self.claimed = happening.claimed
        self.run = Run(claimed.run_id, tier=claimed.tier, seed=claimed.seed)
        for row in claimed.rows:
            self._fold(row)
        emitted: list[Emitted] = []
        commands: list[Command] = []
        owner = OwnerChanged(input_id=f"fence:{claimed.fence}", fence=claimed.fence, incarnation=happening.incarnation)
        given: list[Input] = [owner]
        consumed = [item.input_id for item in claimed.inbox]
        given += [INBOX.validate_json(item.body) for item in claimed.inbox]
        if self._overdue(now):
            given.append(TimeReached())
        for one in given:
            decision = self._decide(one, now)
            emitted += decision.emitted
            commands += decision.commands
        self._consumed.update(consumed)
        return self._out(emitted, commands, tuple(consumed), now)

    def _fold(self, row: StoredRow) -> None:
        event = from_row(row.seq, row.kind, row.version, row.header)
        if row.payload is not None:
            self.contents.put(event.content_ref, json.loads(row.payload), event.content_bytes)
        self.run = evolve(self.run, event)
        self._head = row.hash

    def _arrived(self, happening: Arrived, now: int) -> list[Effect]:
        item = happening.item
        if item.input_id in self._consumed:
            return []
        self._consumed.add(item.input_id)
        decision = self._decide(INBOX.validate_json(item.body), now)
        return self._out(list(decision.emitted), list(decision.commands), (item.input_id,), now)

    def _answered(self, happening: Answered, now: int) -> list[Effect]:
        return self._given(happening.result, now)

    def _due(self, happening: Due, now: int) -> list[Effect]:
        if not self._overdue(now):
            return [WakeAt(self._wake)]
        self._wake = None  # It has come, so whatever is due next is asked for anew, be it the same instant.
        return self._given(TimeReached(), now)

    def _committed(self, happening: Committed, now: int) -> list[Effect]:
        effects: list[Effect] = []
        while self._waiting and self._waiting[0][0] <= happening.seq:
            _, command = self._waiting.popleft()
            effects += self._perform(command, now)
        if self._released and happening.seq >= self.run.seq:
            self._gone = True
            effects.append(Release("released"))
        return effects

    def _refused(self, happening: Refused, now: int) -> list[Effect]:
        self._gone = True
        return [Release(happening.reason)]

    # -- deciding ------------------------------------------------------------------------------------------------------

    def _given(self, given: Input, now: int) -> list[Effect]:
        decision = self._decide(given, now)
        return self._out(list(decision.emitted), list(decision.commands), (), now)

    def _decide(self, given: Input, now: int) -> engine.Decision:
        claimed = self._owned()
        ctx = Context(now, claimed.run_id, claimed.trace_id, claimed.seed, self._compiled, self.contents)
        decision = engine.decide(self.run, given, ctx)
        self.run = decision.run
        return decision

    def _owned(self) -> Claimed:
        assert self.claimed is not None, "a driver is stepped with Taken first"
        return self.claimed

    def _overdue(self, now: int) -> bool:
        at = engine.wake_at(self.run)
        return at is not None and at <= now

    def _perform(self, command: Command, now: int) -> list[Effect]:
        """The command, unless it was superseded meanwhile; one that committed too late has timed out without being sent."""
        if isinstance(command, AbortCall):
            return [Perform(command)]
        pending = self.run.pending.get(command.command_id)
        if pending is None or pending.issued.attempt != command.attempt or pending.failed:
            return []
        if command.deadline_at > now:
            return [Perform(command)]
        late = CallFailed(
            command_id=command.command_id,
            attempt=command.attempt,
            cause=Cause.TIMEOUT,
            message="its deadline passed before it could be sent",
        )
        return self._given(late, now)

    # -- effects -------------------------------------------------------------------------------------------------------

    def _out(
        self, emitted: list[Emitted], commands: list[Command], consumed: tuple[str, ...], now: int
    ) -> list[Effect]:
        """The batch, and when to be woken. The last batch of a run that only waits for people, or has ended, releases it."""
        before = self.run.seq - len(emitted)
        rows = tuple(self._row(one) for one in emitted)
        self._waiting.extend((self.run.seq, command) for command in commands)
        at = engine.wake_at(self.run)
        resting = self.run.terminal or (not live(self.run) and bool(self.run.questions))
        release = resting and not self._released
        effects: list[Effect] = []
        if rows or consumed or release:
            effects.append(Append(self._batch(rows, before, consumed, emitted, at, release)))
        self._released = self._released or release
        if at != self._wake:
            self._wake = at
            effects.append(WakeAt(None if self._released else at))
        return effects

    def _row(self, one: Emitted) -> Row:
        row = to_row(one.event, one.content, self._head)
        self._head = row.hash
        return row

    def _batch(
        self,
        rows: tuple[Row, ...],
        before: int,
        consumed: tuple[str, ...],
        emitted: list[Emitted],
        at: int | None,
        release: bool,
    ) -> Batch:
        return Batch(
            run_id=self.run.id,
            fence=self._owned().fence,
            last_seq=before,
            rows=rows,
            head=self._head,
            columns=projection.columns(self.run),
            consumed=consumed,
            escalations=projection.escalations(emitted),
            wake_at=at if release else None,
            release=release,
        )


_STEPS: Mapping[type[Any], Callable[[RunDriver, Any, int], list[Effect]]] = {
    Taken: RunDriver._taken,
    Arrived: RunDriver._arrived,
    Answered: RunDriver._answered,
    Due: RunDriver._due,
    Committed: RunDriver._committed,
    Refused: RunDriver._refused,
}
"""One step a happening; total by test."""


def merged(first: Batch, second: Batch) -> Batch:
    """Two consecutive batches of one run as one, so that what became ready together is one commit.

    A release stands: what a released run still records (a late result) does not take it back.
    """
    assert first.fence == second.fence
    assert first.new_seq == second.last_seq
    return Batch(
        run_id=first.run_id,
        fence=first.fence,
        last_seq=first.last_seq,
        rows=first.rows + second.rows,
        head=second.head,
        columns=second.columns,
        consumed=first.consumed + second.consumed,
        escalations=first.escalations + second.escalations,
        wake_at=second.wake_at if second.release else first.wake_at,
        release=first.release or second.release,
    )
