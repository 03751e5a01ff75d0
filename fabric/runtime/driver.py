"""The sans-I/O driver of one run: ``step(happening, now) -> effects``. It never waits, and it does nothing itself.

State in memory runs ahead of the journal. Facts are decided at once and returned as ``Append``, but a command goes
out as ``Perform`` only when the batch with its intent has committed. After anything but a confirmed commit the whole
state is void and the run is released (docs/specification/durability.md). ``runtime/hosting`` steps the driver, for
the worker and for the simulator.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

from fabric.core import engine
from fabric.core.budgets.grants import HeldGrants, Need, NoGrants
from fabric.core.decision.work import EmittedFact
from fabric.core.events.commands import AbortCall, Command, Outgoing
from fabric.core.events.envelope import JournalRow, find_format, to_rows
from fabric.core.events.inputs import (
    INBOX,
    DecisionMade,
    InboxInput,
    Input,
    InputUnreadable,
    OwnerChanged,
    TimeReached,
    WorkerStopping,
)
from fabric.core.state.context import CompiledFabric, Contents, Context, MissingContent
from fabric.core.state.living import is_resting
from fabric.core.state.run import Run, awaits
from fabric.core.values.fingerprint import ZERO_HASH
from fabric.core.values.flow import FORMAT, RunState
from fabric.core.values.saga import errands_out
from fabric.runtime.arrivals import Arrivals, Todo, UndecidedInputs, expires, is_late, moves, next_wake
from fabric.runtime.breakers import breaker_changes, overdue
from fabric.runtime.happenings import (
    Append,
    Arrived,
    BatchRefused,
    Committed,
    CutShort,
    Denied,
    Draining,
    Due,
    Effect,
    Granted,
    Happening,
    Perform,
    PortAnswered,
    Quarantine,
    Release,
    Streamed,
    Taken,
    WakeAt,
)
from fabric.runtime.journal import batches as outgoing
from fabric.runtime.journal import projection
from fabric.runtime.journal.loader import JournalDamage, find_texts, load, slim
from fabric.runtime.journal.snapshots import Cadence, build_snapshot, live_refs, unsent_refs
from fabric.runtime.ports.batch_parts import Snapshot
from fabric.runtime.ports.journal import Batch, ClaimedRun, InboxItem
from fabric.runtime.spending.overruns import Surprises
from fabric.runtime.spending.shares import build_shares, list_entries
from fabric.runtime.spending.usual_rates import UsualRates


class RunDriver:
    """One owned run in memory."""

    def __init__(
        self,
        compiled: CompiledFabric,
        cadence: Cadence = Cadence(),  # noqa: B008 - it is frozen
        *,
        reads: Callable[[bytes], InboxInput] = INBOX.validate_json,
        format: int = FORMAT,
        held: HeldGrants | None = None,
        surprises: Surprises | None = None,
        usual: UsualRates | None = None,
    ) -> None:
        self._compiled, self._cadence = compiled, cadence
        self._held = held or NoGrants()
        self._surprises = surprises or Surprises()
        self._usual = usual or UsualRates()
        self._todo = UndecidedInputs()
        self.contents = Contents()
        self.run = Run("")
        self.claimed: ClaimedRun | None = None
        self._head = ZERO_HASH
        self._waiting: deque[tuple[int, Command]] = deque()
        """Commands whose intent has not committed yet, with the seq that must."""
        self._outbox: list[Outgoing] = []
        """Messages that leave with the next batch."""
        self._family_full = False
        """True: its children were refused, so none is spawned for as long as this process drives the run."""
        self._arrivals = Arrivals(reads, format)
        self._snapped = 0
        """Seq of the newest snapshot."""
        self._wake: int | None = None
        self._durable = 0
        """Seq up to which the journal is known to be committed."""
        self._draining = self._released = self._gone = False

    @property
    def compiled_fabric(self) -> CompiledFabric:
        """The revision that the run is pinned to, with the topology that it runs."""
        return self._compiled.select_topology(self.run.topology) if self._compiled.nested else self._compiled

    def step(self, happening: Happening, now: int) -> list[Effect]:
        """Return the effects of a happening. ``now``: microseconds since the epoch; if the clock is behind the run's
        last event, that event's time is used.
        """
        now = max(now, self.run.at)
        if self._gone or (self._released and not isinstance(happening, Committed | BatchRefused)):
            return []
        self._todo.shares.taken = {}  # The interpreter has spent the amounts of the step before.
        try:
            return _STEPS[type(happening)](self, happening, now)
        except MissingContent as error:
            claimed = happening.claimed if isinstance(happening, Taken) else None
            return self._quarantine(JournalDamage("payload", self.contents.seqs.get(error.ref, 0), str(error)), claimed)

    # -- happenings ---------------------------------------------------------------------------------------------------

    def _take_claim(self, happening: Taken, now: int) -> list[Effect]:
        claimed, loaded = happening.claimed, load(happening.claimed, self._compiled.revision)
        now, self.claimed = max(now, claimed.at), slim(claimed)
        if isinstance(loaded, JournalDamage):
            return self._quarantine(loaded, claimed)
        self.run, self._head = loaded.run, loaded.head
        self.contents, self._snapped = loaded.contents, loaded.snapshot_seq
        self._durable = self.run.seq
        now = max(now, self.run.at)
        self._lately = self._surprises.select_revision(claimed.fabric_id, self._compiled.revision)
        self._todo.shares = build_shares(claimed, self._compiled.spec.policy, self._held, self._lately)
        todo = self._read([*claimed.inbox, *self._arrivals.ripe(claimed.announced, now)])
        if self.run.state is RunState.QUEUED and todo and isinstance(todo[0][0], InputUnreadable):
            return self._quarantine(JournalDamage("input", 0, f"the run cannot start: {todo[0][0].reason}"), claimed)
        owner = OwnerChanged(input_id=f"fence:{claimed.fence}", fence=claimed.fence, incarnation=happening.incarnation)
        todo.insert(0, (owner, ""))
        unseen = is_late(claimed.at, now) or expires(self.run, now, seen_at=claimed.at)
        if not self._arrivals.format and not unseen and self._overdue(now):
            todo.append((TimeReached(), ""))
        self._family_full = happening.family_full
        return self._decide_inputs(todo, now)

    def _read(self, items: list[InboxItem]) -> list[Todo]:
        """Return the inputs in inbox rows. A row that only a newer program reads stays for that program: the run
        drains, and is released to it.
        """
        given, consumed = self._arrivals.read(items)
        self._draining = self._draining or self._arrivals.format > 0
        return list(zip(given, consumed, strict=True))

    def _quarantine(self, damage: JournalDamage, claimed: ClaimedRun | None) -> list[Effect]:
        self._gone = True
        return [Quarantine(damage, claimed)]

    def _take_inputs(self, happening: Arrived, now: int) -> list[Effect]:
        item = happening.item
        if self._arrivals.is_known(item):
            return []
        if item.announced and not self._arrivals.ripe([item], now):
            self._draining = self._draining or self._arrivals.format > 0
            return self._rest(now) if self._arrivals.format else self._rewoken()
        todo = self._read([item])
        return self._decide_inputs(todo, now) if todo else self._rest(now)

    def _due(self, happening: Due, now: int) -> list[Effect]:
        if self._draining:  # The next owner handles it at once.
            return []
        todo = self._read(self._arrivals.due(now))
        if not self._arrivals.format and self._overdue(now):
            todo.append((TimeReached(), ""))
        if not todo and not self._arrivals.format:
            self._wake = self._next_wake(self.compiled_fabric)
            return [WakeAt(self._wake)]
        self._wake = None  # It has come, so the next instant is requested anew, even an equal one.
        return self._decide_inputs(todo, now)

    def _take_commit(self, happening: Committed, now: int) -> list[Effect]:
        effects: list[Effect] = []
        self._durable = max(self._durable, happening.seq)
        while self._waiting and self._waiting[0][0] <= happening.seq:
            _, command = self._waiting.popleft()
            effects += self._perform(command, now)
        if self._released and happening.seq >= self.run.seq:
            self._gone = True
            effects.append(Release("released"))
        elif self._draining:
            effects += self._rest(now)
        return effects

    def _drains(self, happening: Draining, now: int) -> list[Effect]:
        self._draining = True
        # Nothing is issued any more, so no shares are needed: the waiting inputs are taken in.
        return (self._anew(now) if self._todo else []) or self._rest(now)

    def _rest(self, now: int) -> list[Effect]:
        """Release the run when nothing is out. A batch of its own, after those that are being written, so that it is
        not mistaken for one of them.
        """
        if self._released or self._todo or self._calls_out() or self._durable < self.run.seq:
            return []
        return self._out(self.run, [], [], (), now)

    def _cut_short(self, happening: CutShort, now: int) -> list[Effect]:
        self._draining = True
        waiting = {(command.command_id, command.attempt) for _, command in self._waiting}
        self._todo.add([(WorkerStopping(unsent=happening.unsent | waiting), "")])
        return self._anew(now, last=True)

    def _take_refusal(self, happening: BatchRefused, now: int) -> list[Effect]:
        self._gone = True
        return [Release(happening.reason)]

    # -- deciding -----------------------------------------------------------------------------------------------------

    def _take_input(self, given: Input, now: int) -> list[Effect]:
        return self._decide_inputs([(given, "")], now)

    def _decide_inputs(self, todo: list[Todo], now: int) -> list[Effect]:
        """Decide about these, after the inputs that wait for an answer."""
        self._todo.add(todo)
        return [] if self._todo.waits else self._go_on(now)

    def _go_on(self, now: int, *, last: bool = False) -> list[Effect]:
        """Decide one input after another, up to one that needs shared state: that and the rest wait for the answer.
        A batch consumes only decided inputs. ``last``: no answer will come, so such an input is left to the next
        owner.
        """
        before = self.run
        emitted: list[EmittedFact] = []
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
        """Go on without the requested shares."""
        self._todo.give_up()
        return self._go_on(now, last=last)

    def _take_answer(self, happening: Granted | Denied, now: int) -> list[Effect]:
        answer = happening.refusal if isinstance(happening, Denied) else happening.given
        return self._go_on(now) if self._todo.take_answer(happening.want, answer) else []

    def _decide(self, given: Input, now: int) -> engine.Decision | Need:
        claimed = self._require_claim()
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
            find_texts(claimed),
            claimed.workspace_id,
            self._arrivals.person(given, self._compiled.spec.name) if isinstance(given, DecisionMade) else None,
            self._arrivals.sent_at(given) if isinstance(given, DecisionMade) else None,
            () if self.run.seq else self._usual.find_rates(claimed.fabric_id),
        )
        return engine.decide(self.run, given, ctx)

    def _require_claim(self) -> ClaimedRun:
        assert self.claimed is not None, "a driver is stepped with Taken first"
        return self.claimed

    def _overdue(self, now: int) -> bool:
        at = engine.wake_at(self.run, self._arrivals.answers(), self.compiled_fabric.spec.policy)
        return at is not None and at <= now

    def _rewoken(self) -> list[Effect]:
        compiled = self.compiled_fabric
        at = self._next_wake(compiled)
        if self._draining or not moves(self._wake, at, self.run, compiled.spec.policy):
            return []
        self._wake = at
        return [WakeAt(at)]

    def _next_wake(self, compiled: CompiledFabric) -> int | None:
        return next_wake(self.run, self._arrivals.answers(), self._arrivals.next_at(), compiled.spec.policy)

    def _calls_out(self) -> bool:
        return any(not pending.failed for pending in self.run.pending.values()) or bool(errands_out(self.run.saga))

    def _perform(self, command: Command, now: int) -> list[Effect]:
        """Return the command, unless it was superseded meanwhile; one that committed too late times out without
        being sent.
        """
        if isinstance(command, AbortCall):
            return [Perform(command)]
        if not awaits(self.run, command.command_id, command.attempt):
            return []
        if command.deadline_at > now:
            return [Perform(command)]
        return self._take_input(overdue(command), now)

    # -- effects ------------------------------------------------------------------------------------------------------

    def _out(
        self, before: Run, emitted: list[EmittedFact], commands: list[Command], consumed: tuple[str, ...], now: int
    ) -> list[Effect]:
        """Return the batch, and the instant of the next step. The last batch of a run that rests, has ended, or
        drains, releases it. ``before``: the run before this.
        """
        rows, claimed, compiled = self._rows(emitted), self._require_claim(), self.compiled_fabric
        self._lately.note(before, self.run, now)
        self._usual.note(claimed.fabric_id, self._compiled.spec.policy.cost_velocity, before, self.run, now)
        self._waiting.extend([(self.run.seq, command) for command in commands])
        at = self._next_wake(compiled)
        rests = is_resting(self.run)
        drained = self._draining and not self.run.terminal and not self._calls_out()
        release = (rests or drained) and not self._released and not self._todo
        effects: list[Effect] = list(breaker_changes(claimed.fabric_id, compiled, before, self.run, emitted))
        if rows or consumed or release:
            due = now if drained else at  # The next owner goes on from here at once.
            effects.append(Append(self._batch(claimed, before, rows, consumed, emitted, due, release)))
        self._released = self._released or release
        if moves(self._wake, at, self.run, compiled.spec.policy):
            self._wake = at
            effects.append(WakeAt(None if self._released else at))
        return effects

    def _rows(self, emitted: list[EmittedFact]) -> tuple[JournalRow, ...]:
        rows = tuple(to_rows(emitted, self._head))
        if rows:
            self._head = rows[-1].hash
        for one in emitted:
            if one.content is not None:
                self.contents.seqs[one.event.content_ref] = one.event.seq
        return rows

    def _snapshot(self, *, release: bool) -> Snapshot | None:
        """Return a snapshot when it is due; memory then has no more contents than the snapshot."""
        if self.run.terminal or not self._cadence.due(self.run.seq - self._snapped, release=release):
            return None
        self._snapped = self.run.seq
        keeps = self.compiled_fabric.spec.gates.reads_sources
        live = live_refs(self.run, self.contents.seqs, sources=keeps)
        self.contents.keep((*live, *unsent_refs(command for _, command in self._waiting)))
        return build_snapshot(self.run, self._head, self.contents, sources=keeps)

    def _batch(
        self,
        claimed: ClaimedRun,
        before: Run,
        rows: tuple[JournalRow, ...],
        consumed: tuple[str, ...],
        emitted: list[EmittedFact],
        at: int | None,
        release: bool,
    ) -> Batch:
        leaving, self._outbox = self._outbox, []
        children = outgoing.new_runs(claimed, leaving) if leaving else ()
        reserved, settled = list_entries(before, emitted)
        return Batch(
            run_id=self.run.id,
            fence=claimed.fence,
            last_seq=before.seq,
            rows=rows,
            head=self._head,
            columns=projection.columns(self.run),
            consumed=consumed,
            standings=self._arrivals.take_judged(consumed) if consumed else (),
            reviews=projection.review_changes(emitted),
            wake_at=at if release else None,
            release=release,
            children=children,
            caps=outgoing.caps(self._compiled) if children else None,
            sends=outgoing.sends(leaving) if leaving else (),
            snapshot=self._snapshot(release=release),
            format=max(self._arrivals.format if release else 0, find_format([one.event.fact.kind for one in emitted])),
            reserved=reserved,
            settled=settled,
        )


_STEPS: Mapping[type[Any], Callable[[RunDriver, Any, int], list[Effect]]] = {
    Taken: RunDriver._take_claim,
    Arrived: RunDriver._take_inputs,
    Streamed: lambda driver, happening, now: driver._take_input(happening.given, now),
    PortAnswered: lambda driver, happening, now: driver._take_input(happening.result, now),
    Due: RunDriver._due,
    Committed: RunDriver._take_commit,
    BatchRefused: RunDriver._take_refusal,
    Draining: RunDriver._drains,
    CutShort: RunDriver._cut_short,
    Granted: RunDriver._take_answer,
    Denied: RunDriver._take_answer,
}
"""One step a happening; total by test."""
