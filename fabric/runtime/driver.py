"""The sans-I/O driver of one run: ``step(happening, now) -> effects``. It never waits, and it does nothing itself.

State in memory runs ahead of the journal: facts are decided at once and handed out as ``Append``, but a command goes out as ``Perform`` only when the
batch with its intent has committed. On anything but a confirmed commit the whole state is void and the run is let go (design.md 5).
Two interpreters run it: ``adapters/host.py`` and ``simulator/kernel/world.py``.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

from fabric.core import engine
from fabric.core.commands import AbortCall, Command
from fabric.core.context import Compiled, Contents, Context, MissingContent
from fabric.core.envelope import Row, format_of, to_row
from fabric.core.fingerprint import ZERO_HASH
from fabric.core.flow import FORMAT, RunState
from fabric.core.grants import Held, Need, NothingHeld
from fabric.core.inputs import (
    INBOX,
    InboxInput,
    Input,
    InputUnreadable,
    OwnerChanged,
    TimeReached,
    WorkerStopping,
)
from fabric.core.living import resting
from fabric.core.outbox import Outgoing
from fabric.core.run import Run, awaits
from fabric.core.saga import errands_out
from fabric.core.work import Emitted
from fabric.runtime import outgoing, projection
from fabric.runtime.arrivals import Arrivals
from fabric.runtime.batch_parts import Snapshot
from fabric.runtime.breaking import overdue, told_breakers
from fabric.runtime.happenings import (
    Answered,
    Append,
    Arrived,
    Committed,
    CutShort,
    Denied,
    Draining,
    Due,
    Effect,
    Granted,
    Happening,
    Perform,
    Quarantine,
    Refused,
    Release,
    Streamed,
    Taken,
    WakeAt,
)
from fabric.runtime.loading import Damage, load, slim, texts_of
from fabric.runtime.ports import Batch, Claimed, InboxItem
from fabric.runtime.shares import entries_of, shares_of
from fabric.runtime.snapshots import Cadence, live_refs, snapshot_of, unsent_refs
from fabric.runtime.surprises import Surprises
from fabric.runtime.undecided import Todo, Undecided
from fabric.runtime.usual_rates import UsualRates
from fabric.runtime.waking import expires, is_late, moves, next_wake


class RunDriver:
    """One owned run in memory."""

    def __init__(
        self,
        compiled: Compiled,
        cadence: Cadence = Cadence(),  # noqa: B008 - it is frozen
        *,
        reads: Callable[[bytes], InboxInput] = INBOX.validate_json,
        format: int = FORMAT,
        held: Held | None = None,
        surprises: Surprises | None = None,
        usual: UsualRates | None = None,
    ) -> None:
        self._compiled, self._cadence = compiled, cadence
        self._held = held or NothingHeld()
        self._surprises = surprises or Surprises()
        self._usual = usual or UsualRates()
        self._todo = Undecided()
        self.contents = Contents()
        self.run = Run("")
        self.claimed: Claimed | None = None
        self._head = ZERO_HASH
        self._waiting: deque[tuple[int, Command]] = deque()
        """Commands whose intent has not committed yet, with the seq that must."""
        self._outbox: list[Outgoing] = []
        """What leaves with the next batch."""
        self._family_full = False
        """Its children were refused: for as long as this process holds the run, none is spawned."""
        self._arrivals = Arrivals(reads, format)
        self._snapped = 0
        """Where the newest snapshot stands."""
        self._wake: int | None = None
        self._durable = 0
        """How far the journal is known to reach."""
        self._draining = self._released = self._gone = False

    @property
    def compiled(self) -> Compiled:
        """The revision that the run is pinned to, with the topology that it runs."""
        return self._compiled.within(self.run.topology) if self._compiled.nested else self._compiled

    def step(self, happening: Happening, now: int) -> list[Effect]:
        """What to do next. ``now``: microseconds since the epoch; where the clock lies behind the run's last event, that is the time."""
        now = max(now, self.run.at)
        if self._gone or (self._released and not isinstance(happening, Committed | Refused)):
            return []
        self._todo.shares.taken = {}  # What was taken in the step before has been spent by whoever interpreted it.
        try:
            return _STEPS[type(happening)](self, happening, now)
        except MissingContent as error:
            claimed = happening.claimed if isinstance(happening, Taken) else None
            return self._damaged(Damage("payload", self.contents.seqs.get(error.ref, 0), str(error)), claimed)

    # -- happenings ----------------------------------------------------------------------------------------------------

    def _taken(self, happening: Taken, now: int) -> list[Effect]:
        claimed, loaded = happening.claimed, load(happening.claimed, self._compiled.revision)
        now, self.claimed = max(now, claimed.at), slim(claimed)
        if isinstance(loaded, Damage):
            return self._damaged(loaded, claimed)
        self.run, self._head = loaded.run, loaded.head
        self.contents, self._snapped = loaded.contents, loaded.snapshot_seq
        self._durable = self.run.seq
        now = max(now, self.run.at)
        self._lately = self._surprises.of(claimed.fabric_id, self._compiled.revision)
        self._todo.shares = shares_of(claimed, self._compiled.spec.policy, self._held, self._lately)
        todo = self._read([*claimed.inbox, *self._arrivals.ripe(claimed.announced, now)])
        if self.run.state is RunState.QUEUED and todo and isinstance(todo[0][0], InputUnreadable):
            return self._damaged(Damage("input", 0, f"the run cannot start: {todo[0][0].reason}"), claimed)
        owner = OwnerChanged(input_id=f"fence:{claimed.fence}", fence=claimed.fence, incarnation=happening.incarnation)
        todo.insert(0, (owner, ""))
        unseen = is_late(claimed.at, now) or expires(self.run, now, seen_at=claimed.at)
        if not self._arrivals.format and not unseen and self._overdue(now):
            todo.append((TimeReached(), ""))
        self._family_full = happening.family_full
        return self._decided(todo, now)

    def _read(self, items: list[InboxItem]) -> list[Todo]:
        """What inbox rows say. One that only a newer program reads is for that: the run drains, and is given to it."""
        given, consumed = self._arrivals.read(items)
        self._draining = self._draining or self._arrivals.format > 0
        return list(zip(given, consumed, strict=True))

    def _damaged(self, damage: Damage, claimed: Claimed | None) -> list[Effect]:
        self._gone = True
        return [Quarantine(damage, claimed)]

    def _arrived(self, happening: Arrived, now: int) -> list[Effect]:
        item = happening.item
        if self._arrivals.known(item):
            return []
        if item.announced and not self._arrivals.ripe([item], now):
            self._draining = self._draining or self._arrivals.format > 0
            return self._rested(now) if self._arrivals.format else self._rewoken()
        todo = self._read([item])
        return self._decided(todo, now) if todo else self._rested(now)

    def _due(self, happening: Due, now: int) -> list[Effect]:
        if self._draining:  # The next owner meets it at once.
            return []
        todo = self._read(self._arrivals.due(now))
        if not self._arrivals.format and self._overdue(now):
            todo.append((TimeReached(), ""))
        if not todo and not self._arrivals.format:
            self._wake = self._next_wake()
            return [WakeAt(self._wake)]
        self._wake = None  # It has come, so whatever is due next is asked for anew, be it the same instant.
        return self._decided(todo, now)

    def _committed(self, happening: Committed, now: int) -> list[Effect]:
        effects: list[Effect] = []
        self._durable = max(self._durable, happening.seq)
        while self._waiting and self._waiting[0][0] <= happening.seq:
            _, command = self._waiting.popleft()
            effects += self._perform(command, now)
        if self._released and happening.seq >= self.run.seq:
            self._gone = True
            effects.append(Release("released"))
        elif self._draining:
            effects += self._rested(now)
        return effects

    def _drains(self, happening: Draining, now: int) -> list[Effect]:
        self._draining = True
        # Nothing is issued any more, so nothing is wanted for it: what waited is taken in.
        return (self._anew(now) if self._todo else []) or self._rested(now)

    def _rested(self, now: int) -> list[Effect]:
        """A release of its own when nothing is out; behind what is being written, so that it is not taken for that."""
        if self._released or self._todo or self._calls_out() or self._durable < self.run.seq:
            return []
        return self._out(self.run, [], [], (), now)

    def _cut_short(self, happening: CutShort, now: int) -> list[Effect]:
        self._draining = True
        waiting = {(command.command_id, command.attempt) for _, command in self._waiting}
        self._todo.add([(WorkerStopping(unsent=happening.unsent | waiting), "")])
        return self._anew(now, last=True)

    def _refused(self, happening: Refused, now: int) -> list[Effect]:
        self._gone = True
        return [Release(happening.reason)]

    # -- deciding ------------------------------------------------------------------------------------------------------

    def _given(self, given: Input, now: int) -> list[Effect]:
        return self._decided([(given, "")], now)

    def _decided(self, todo: list[Todo], now: int) -> list[Effect]:
        """Decides about these, behind what waits for an answer."""
        self._todo.add(todo)
        return [] if self._todo.waits else self._go_on(now)

    def _go_on(self, now: int, *, last: bool = False) -> list[Effect]:
        """Decides one input after the other, up to one that needs what is shared: that and the rest wait for the answer. A batch consumes only what
        was decided about. ``last``: nobody will answer any more, so such an input is left to the next owner.
        """
        before = self.run
        emitted: list[Emitted] = []
        commands: list[Command] = []
        consumed: list[str] = []
        need: Need | None = None
        while self._todo:
            decision = self._decide(self._todo.first, now)
            if isinstance(decision, Need) and not last:
                need = decision
                break
            row = self._todo.take()
            if not isinstance(decision, Need):
                self.run = decision.run
                emitted += decision.emitted
                commands += decision.commands
                self._outbox += decision.outgoing
                consumed += [row] if row else []
        effects = self._out(before, emitted, commands, tuple(consumed), now)
        if need is not None:
            self._todo.wait_for(need)
            effects.append(need)
        return effects

    def _anew(self, now: int, *, last: bool = False) -> list[Effect]:
        """Goes on without what was asked for."""
        self._todo.give_up()
        return self._go_on(now, last=last)

    def _told(self, happening: Granted | Denied, now: int) -> list[Effect]:
        answer = happening.refusal if isinstance(happening, Denied) else happening.given
        return self._go_on(now) if self._todo.told(happening.want, answer) else []

    def _decide(self, given: Input, now: int) -> engine.Decision | Need:
        claimed = self._owned()
        ctx = Context(
            now,
            claimed.run_id,
            claimed.trace_id,
            claimed.seed,
            self._compiled,
            self.contents,
            self._draining,
            self._arrivals.answers(),
            self._family_full,
            self._todo.shares,
            texts_of(claimed),
            claimed.workspace_id,
            self._arrivals.person(given, self._compiled.spec.name),
            self._arrivals.sent_at(given),
            () if self.run.seq else self._usual.of(claimed.fabric_id),
        )
        return engine.decide(self.run, given, ctx)

    def _owned(self) -> Claimed:
        assert self.claimed is not None, "a driver is stepped with Taken first"
        return self.claimed

    def _overdue(self, now: int) -> bool:
        at = engine.wake_at(self.run, self._arrivals.answers(), self.compiled.spec.policy)
        return at is not None and at <= now

    def _rewoken(self) -> list[Effect]:
        at = self._next_wake()
        if self._draining or not moves(self._wake, at, self.run, self.compiled.spec.policy):
            return []
        self._wake = at
        return [WakeAt(at)]

    def _next_wake(self) -> int | None:
        return next_wake(self.run, self._arrivals.answers(), self._arrivals.next_at(), self.compiled.spec.policy)

    def _calls_out(self) -> bool:
        return any(not pending.failed for pending in self.run.pending.values()) or bool(errands_out(self.run.saga))

    def _perform(self, command: Command, now: int) -> list[Effect]:
        """The command, unless it was superseded meanwhile; one that committed too late has timed out without being sent."""
        if isinstance(command, AbortCall):
            return [Perform(command)]
        if not awaits(self.run, command.command_id, command.attempt):
            return []
        if command.deadline_at > now:
            return [Perform(command)]
        return self._given(overdue(command), now)

    # -- effects -------------------------------------------------------------------------------------------------------

    def _out(
        self, before: Run, emitted: list[Emitted], commands: list[Command], consumed: tuple[str, ...], now: int
    ) -> list[Effect]:
        """The batch, and when to be woken. The last batch of a run that rests, has ended, or drains, releases it. ``before``: the run before this."""
        rows = tuple(self._row(one) for one in emitted)
        self._lately.note(before, self.run, now)
        self._usual.note(self._owned().fabric_id, self._compiled.spec.policy.cost_velocity, before, self.run, now)
        self._waiting.extend((self.run.seq, command) for command in commands)
        at = self._next_wake()
        rests = resting(self.run)
        drained = self._draining and not self.run.terminal and not self._calls_out()
        release = (rests or drained) and not self._released and not self._todo
        effects: list[Effect] = list(told_breakers(self._owned().fabric_id, self.compiled, before, self.run, emitted))
        if rows or consumed or release:
            due = now if drained else at  # Whoever comes next goes on from here at once.
            effects.append(Append(self._batch(before, rows, consumed, emitted, due, release)))
        self._released = self._released or release
        if moves(self._wake, at, self.run, self.compiled.spec.policy):
            self._wake = at
            effects.append(WakeAt(None if self._released else at))
        return effects

    def _row(self, one: Emitted) -> Row:
        row = to_row(one.event, one.content, self._head)
        self._head = row.hash
        if one.content is not None:
            self.contents.seqs[one.event.content_ref] = row.seq
        return row

    def _snapshot(self, *, release: bool) -> Snapshot | None:
        """A snapshot when it is time for one; memory then holds no more than the snapshot does."""
        if self.run.terminal or not self._cadence.due(self.run.seq - self._snapped, release=release):
            return None
        self._snapped = self.run.seq
        keeps = self.compiled.spec.gates.reads_sources
        live = live_refs(self.run, self.contents.seqs, sources=keeps)
        self.contents.keep((*live, *unsent_refs(command for _, command in self._waiting)))
        return snapshot_of(self.run, self._head, self.contents, sources=keeps)

    def _batch(
        self,
        before: Run,
        rows: tuple[Row, ...],
        consumed: tuple[str, ...],
        emitted: list[Emitted],
        at: int | None,
        release: bool,
    ) -> Batch:
        claimed, leaving, self._outbox = self._owned(), self._outbox, []
        children = outgoing.new_runs(claimed, leaving) if leaving else ()
        reserved, settled = entries_of(before, emitted)
        return Batch(
            run_id=self.run.id,
            fence=claimed.fence,
            last_seq=before.seq,
            rows=rows,
            head=self._head,
            columns=projection.columns(self.run),
            consumed=consumed,
            standings=self._arrivals.judged(consumed),
            escalations=projection.escalations(emitted),
            wake_at=at if release else None,
            release=release,
            children=children,
            caps=outgoing.caps(self._compiled) if children else None,
            sends=outgoing.sends(leaving) if leaving else (),
            snapshot=self._snapshot(release=release),
            format=max(self._arrivals.format if release else 0, format_of(row.kind for row in rows)),
            reserved=reserved,
            settled=settled,
        )


_STEPS: Mapping[type[Any], Callable[[RunDriver, Any, int], list[Effect]]] = {
    Taken: RunDriver._taken,
    Arrived: RunDriver._arrived,
    Streamed: lambda driver, happening, now: driver._given(happening.given, now),
    Answered: lambda driver, happening, now: driver._given(happening.result, now),
    Due: RunDriver._due,
    Committed: RunDriver._committed,
    Refused: RunDriver._refused,
    Draining: RunDriver._drains,
    CutShort: RunDriver._cut_short,
    Granted: RunDriver._told,
    Denied: RunDriver._told,
}
"""One step a happening; total by test."""
