"""The virtual world: worker processes, a database, models, tools, people and their accidents, on one virtual clock.

1. A seed decides everything.
2. In the first phase things go wrong.
3. In the second phase nothing does: every run must end, or wait for an open review. Then people answer, and every run
   must end.
4. The database is watched all the time (``simulator/rules/runs/checks.py``).
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from random import Random
from typing import Any

from fabric.core.events.commands import Call, CallModel
from fabric.core.events.inputs import CallFailed, CallStreamed, Result
from fabric.core.values.fingerprint import digest
from fabric.core.values.taxonomy import Cause
from fabric.core.values.units import US
from fabric.runtime import prompts
from fabric.runtime.happenings import Happening
from fabric.runtime.hosting.ownership import OwnedRun
from fabric.runtime.journal.batches import ends
from fabric.runtime.journal.snapshots import STATE_DIGEST
from fabric.runtime.ports.calls import ToolRequest
from fabric.runtime.ports.journal import Batch, ClaimedRun, Document, StoreUnavailable
from simulator.cast import people
from simulator.cast.agents import Agents, Reply
from simulator.cast.memories import Remembering
from simulator.clockwork.clock import SKEWS_US, Schedule, VirtualClock
from simulator.faults import catalogue as faults
from simulator.rules.durability import checks as damage_checks
from simulator.rules.grants import checks as grant_checks
from simulator.rules.retries.checks import TokenWatch
from simulator.stores.contract import Failure, MakesStores, Stores
from simulator.stores.memory.guards import MemoryGuards
from simulator.stores.memory.journal import MemoryStore
from simulator.stores.memory.memories import MemoryMemories
from simulator.swarm.setups import Setup
from simulator.world.actions import SentBatch
from simulator.world.outside import Outside
from simulator.world.process import Process
from simulator.world.watch import Watch

STEPS_MAX = 60_000
"""Number of actions in one world; more means that it does not come to rest."""
HEAL_S = 400_000.0
"""Virtual seconds in which every run must come to rest without faults: longer than any deadline and due time."""

WRITE_FAILURES: tuple[tuple[str, Failure], ...] = (
    ("commit_lost", "lost"),
    ("commit_landed", "landed"),
    ("busy", "busy"),
    ("store_away", "away"),
)


class World:
    """One seed's world. ``run`` it once, then look at ``watch.violations``, ``sometimes`` and ``trace``."""

    def __init__(
        self,
        setup: Setup,
        *,
        plants: frozenset[str] = frozenset(),
        ask: Callable[..., Reply] | None = None,
        stores: MakesStores | None = None,
    ) -> None:
        self.setup = setup
        self.rng = Random(setup.seed ^ 0x5EED)  # noqa: S311 - a simulation is to be repeatable
        self.clock = VirtualClock()
        self.schedule = Schedule()
        self._skews: dict[str, int] = {}
        made = stores(self.clock) if stores else _in_memory(self.clock, plants)
        self.store, self.grants, self.guards = made.journal, made.grants, made.guards
        self.buckets = TokenWatch(
            made.buckets, self.clock, lambda name, said: self.watch.record_violation(name, "", said)
        )
        self.memories = made.memories
        for name in people.MEMBERS:
            self.store.hold(name, people.ALL)
        grant_checks.cap_workspace(self)
        self.sometimes: Counter[str] = Counter()
        self.rates = setup.rates
        self.agents = Agents(setup.fabric.compiled.spec, self.rng, self.sometimes)
        self.agents.rates = setup.rates
        self.ask = ask or self.agents.ask
        self.serve: Callable[[ToolRequest], Reply] = self.agents.run
        """Answers the calls of tools."""
        self.scripted: Mapping[str, Callable[[], bool]] = {}
        """Faults that strike on command, at any rate; each is called at every chance."""
        self.service = self.agents.service
        self.agents.remembering = Remembering(self, self.rng)
        self.watch: Watch = Watch(self)
        self.outside = Outside(self)
        self.processes: list[Process] = []
        self.steps = 0
        self.forgetful = "no_fence" in plants
        """True if the store writes for any process."""
        self.mixed = damage_checks.is_mixed(setup.processes, setup.seed)
        """True if the fleet runs two versions of the program."""
        self.healed = False
        self._born = 0
        self._lapses: list[int] = []
        self._hash = hashlib.blake2b(digest_size=16)

    # -- time ----------------------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Run both phases, to the end or to the first violation."""
        for _ in range(self.setup.processes):
            self.start_process()
        self.outside.begin()
        until = self.clock.now() + int(self.setup.fault_phase_s * US)
        self._go(self.watch.all_over, until)
        self._heal()
        self._settle("to rest", self.watch.all_resting)
        self.outside.answer_everything()
        self._settle("to its end", self.watch.all_over)
        self.watch.finish()

    def _settle(self, to_what: str, done: Callable[[], bool]) -> None:
        if not self._go(done, self.clock.now() + int(HEAL_S * US)) and not self.watch.violations:
            self.watch.record_stuck(to_what)

    def _go(self, done: Callable[[], bool], until: int) -> bool:
        """Execute actions until it is done, the time is over, or a violation. Return True if it is done."""
        while not self.watch.violations:
            if self.watch.changed and done():
                return True
            self.watch.changed = False
            instant = self.schedule.next_at()
            if instant is None or instant > until or self.steps >= STEPS_MAX:
                return done()
            instant, action, args = self.schedule.pop()
            self.steps += 1
            self.clock.move_to(instant)
            for process in self.processes:
                if process.next_beat <= instant:
                    process.beat_until(instant)
            action(*args)
        return True

    def _heal(self) -> None:
        """End all faults: resume paused processes, and replace dead ones."""
        self.healed = True
        self.rates = self.agents.rates = faults.NONE
        for name in people.MEMBERS:
            self.store.hold(name, people.ALL)
        self.scripted = {}
        for process in list(self.processes):
            process.deaf_until = 0
            process.resume()
        if not self.processes:
            self.start_process()
        self.watch.changed = True
        for process in self.processes:
            process.sweep_at(self.clock.now() + 1)

    def strikes(self, name: str) -> bool:
        """Return True if a fault strikes now."""
        if self.scripted and name in self.scripted and self.scripted[name]():
            self.sometimes[name] += 1
            return True
        rate = self.rates.rates.get(
            name
        )  # Asked at every point of every process: most seeds have few faults, and later none.
        if rate and self.rng.random() < rate:
            self.sometimes[name] += 1
            return True
        return False

    def skew_us(self, name: str) -> int:
        """Return the offset of a process's clock from the store's, in microseconds. It grows after a jump."""
        if name not in self._skews:
            self._skews[name] = Random(f"clock {self.setup.seed} {name}").choice(SKEWS_US)  # noqa: S311 - a simulation is to be repeatable
        self.sometimes["skewed_clock"] += self._skews[name] != 0
        return self._skews[name]

    def set_skew(self, worker: int, skew_us: int) -> None:
        """Set the clock offset of the n-th started worker, in place of a drawn one."""
        self._skews[f"worker-{worker}"] = skew_us

    def put_back(self) -> None:
        """End a script's faults of the database, the broker, the clocks and people."""
        self.scripted = {}
        self._skews = dict.fromkeys(self._skews, 0)
        self.outside.script = lambda run_id, change: None

    def later(self, delay_s: float, action: Callable[..., None], *args: Any) -> None:
        """Schedule an action outside of processes."""
        self.schedule.call_at(self.clock.now() + int(delay_s * US), action, *args)

    # -- processes -----------------------------------------------------------------------------------------------------

    def start_process(self) -> None:
        """Starts a worker process."""
        self._born += 1
        # In a mixed fleet one process always runs the newer version: inputs that only it reads would wait for it.
        newer = self.mixed and self._born > 1 and not any(process.newer for process in self.processes)
        process = Process(self, f"worker-{self._born}", newer=newer)
        self.processes.append(process)
        for lapse in self._lapses:
            if lapse >= self.clock.now():
                process.sweep_at(lapse + 1)

    def end_process(self, process: Process) -> None:
        """End a process with its memory, and start another one."""
        process.alive = False
        self.processes.remove(process)
        self._await_lapse(process)
        if self.rng.random() < 0.3:
            # The supervisor knows that its child is dead, and says so.
            self.store.retire(process.name)
        self.later(0.1 + 5.0 * self.rng.random(), self._start_successor)

    def _start_successor(self) -> None:
        if len(self.processes) < self.setup.processes:
            self.start_process()

    def pause(self, process: Process, still_s: float | None = None) -> None:
        """Pause a process, for longer than its lease unless ``still_s`` is given."""
        process.paused = True
        self.later(2.0 + 30.0 * self.rng.random() if still_s is None else still_s, process.resume)
        self._await_lapse(process)

    def _await_lapse(self, process: Process) -> None:
        self._lapses.append(process.lease_until)
        for other in self.processes:
            other.sweep_at(process.lease_until + 1)

    def next_sweep(self, process: Process) -> None:
        """Schedule a sweep for the next known due time: of all processes, if not every process can read every run."""
        due_s = self.store.next_due_s()
        if due_s is not None:
            for one in self.processes if self.mixed else (process,):
                one.sweep_at(self.clock.now() + int(max(0.0, due_s) * US) + 1)

    def accident(self, name: str) -> None:
        """Let an accident happen to a process at a drawn instant."""
        if not self.rates[name] or not self.processes:
            return
        process = self.rng.choice(self.processes)
        self.sometimes[name] += 1
        if name == "sudden_death":
            self.end_process(process)
        elif name == "deaf":
            process.deaf_until = self.clock.now() + int((5.0 + 20.0 * self.rng.random()) * US)
            self._await_lapse(process)
        elif name == "retired":
            self.store.retire(process.name)
            for other in self.processes:
                other.sweep_at(self.clock.now() + 1)
            process.sweep_at(process.next_beat)  # Its next heartbeat tells it, and then it begins again.
        else:
            process.act(process.stop, (40.0 * self.rng.random() ** 3,))

    # -- the database --------------------------------------------------------------------------------------------------

    def claim(self, name: str, again: tuple[str, ...], format: int) -> list[ClaimedRun]:
        """Claim runs for a process. Raises StoreUnavailable if the answer is lost, or the database is away."""
        claims = self.store.claim(name, limit=2, queues=("default",), again=again, format=format, digest=STATE_DIGEST)
        if claims and self.strikes("claim_landed"):
            for claimed in claims:
                self.watch.register_claim(claimed, name, heard=False)
            raise StoreUnavailable("the answer to a claim is lost", unknown=True)
        return claims

    def write(self, process: Process, sent: list[SentBatch]) -> None:
        """Write batches to the database, even if their process has died."""
        if self.strikes("commit_late"):
            # The connection is cut while the commit is under way: a look-up of its fate meanwhile finds nothing.
            self.later(1.5 * self.rng.random(), self._lands, process, sent)
            process.later(0.001, process.unknown, sent)
            return
        failing = next((failure for fault, failure in WRITE_FAILURES if self.strikes(fault)), None)
        if failing is not None:
            self.store.fail_next(failing)
        batches = [one.batch for one in sent]
        marks = [self._mark(batch) for batch in batches]
        back_s = 0.001 + 0.005 * self.rng.random()
        try:
            fates = self.store.write(batches)
        except StoreUnavailable as error:
            for one, mark in zip(sent, marks, strict=True):
                # A repetition of a write that landed unheard was refused: its inputs are consumed.
                if failing == "landed" and not self.watch.landed_before(one.batch):
                    self._take_commit(process, one, mark)
            process.later(back_s, process.unknown if error.unknown else process.unwritten, sent)
            return
        for one, fate, mark in zip(sent, fates, marks, strict=True):
            self.trace("write", one.batch.run_id, one.batch.last_seq, len(one.batch.rows), fate)
            if fate == "committed":
                self._take_commit(process, one, mark)
        process.later(back_s, process.take_fates, sent, fates)

    def _lands(self, process: Process, sent: list[SentBatch]) -> None:
        marks = [self._mark(one.batch) for one in sent]
        fates = self.store.write([one.batch for one in sent])
        for one, fate, mark in zip(sent, fates, marks, strict=True):
            self.trace("late", one.batch.run_id, one.batch.last_seq, len(one.batch.rows), fate)
            if fate == "committed":
                self._take_commit(process, one, mark)

    def _mark(self, batch: Batch) -> int:
        """Return the sequence number of a batch's run. -1: another process owns it, so the store will refuse
        the batch.
        """
        owner, fence, _ = self.store.read_standing(batch.run_id)
        mine = owner is not None and (fence == batch.fence or self.forgetful)
        return self.store.heads([batch.run_id])[batch.run_id].last_seq if mine else -1

    def _take_commit(self, process: Process, one: SentBatch, mark: int) -> None:
        if self.watch.check_batch(process, one, mark):
            self.outside.show_reviews(one.batch)
        for run_id in dict.fromkeys(
            [run.run_id for run in one.batch.children] + [send.run_id for send in one.batch.sends]
        ):
            self.outside.nudge(0.0)
            self.trace("told", run_id)

    def register_decision(self, run_id: str, batch: Batch) -> None:
        """Register a process's decision before its commit."""
        if ends(batch):
            self.outside.hands.cancel_perhaps(run_id)

    def fork_perhaps(self, run_id: str) -> None:
        """Perhaps fork a run that has ended."""
        self.outside.hands.fork_perhaps(run_id)

    # -- models and tools ----------------------------------------------------------------------------------------------

    def call(self, owned: OwnedRun, command: Call) -> Iterator[tuple[float, Result | CallStreamed]]:
        """Execute a call. Yield results with their delays in seconds; of a streamed answer, its calls first."""
        left_s = (command.deadline_at - self.clock.now()) / US
        if left_s <= 0:
            # The process stood still before it could send it.
            yield 0.0, _timeout(command, billed=False)
            return
        self.watch.check_call(owned, command)
        reply = self._reply(owned, command)
        late = reply.silent or reply.delay_s > left_s
        self.watch.record_bill(owned, command, reply)
        yield from (told for told in reply.streamed if told[0] < left_s)
        if late:
            yield left_s, _timeout(command, billed=not reply.silent or reply.billed)
            if self.strikes("late_result"):
                yield left_s + 3.0 * self.rng.random(), reply.result
            return
        delay_s = reply.delay_s + (5.0 * self.rng.random() if self.strikes("slow_result") else 0.0)
        yield min(delay_s, left_s), reply.result
        if self.strikes("twin_result"):
            yield min(delay_s, left_s) + 2.0 * self.rng.random(), reply.result

    def _reply(self, owned: OwnedRun, command: Call) -> Reply:
        fabric, claimed = self.setup.fabric, owned.claimed
        spec = owned.driver.compiled_fabric.spec
        shared: dict[str, Any] = {"trace": prompts.find_run_trace(claimed), "spec": spec}

        def documents() -> tuple[Document, ...]:
            return self.setup.documents

        if isinstance(command, CallModel):
            asked = prompts.model_request(
                command,
                **shared,
                contents=owned.driver.contents,
                documents=documents,
                offers=fabric.offers,
                child=owned.driver.run.family.lineage is not None,
            )
            return self.ask(asked)
        wanted = prompts.tool_request(
            command, **shared, contents=owned.driver.contents, documents=documents, fabric_id=fabric.revision_id
        )
        return self.serve(wanted)

    # -- what came of it -----------------------------------------------------------------------------------------------

    def record_error(self, run_id: str, happening: Happening, error: Exception) -> None:
        """Record a violation, because a driver must never raise."""
        self.watch.record_violation(
            "no_exception", run_id, f"the driver raised {type(error).__name__} on {type(happening).__name__}: {error}"
        )

    def trace(self, *what: Any) -> None:
        """Add a database event to the digest."""
        self._hash.update(f"{self.clock.now()}|{what}\n".encode())

    def digest(self) -> str:
        """Return the digest that two worlds of one seed share: all journals, the order of writes, and shared
        budgets.
        """
        run_ids = self.store.run_ids()
        heads = self.store.heads(run_ids)
        ends = [f"{run_id}:{heads[run_id].last_seq}:{heads[run_id].head.hex()}" for run_id in run_ids]
        ends += [f"{scope}:{one.spent}:{one.granted}:{one.overrun}" for scope, one in self.grants.all_budgets()]
        return digest(self._hash.hexdigest(), *ends)


def _in_memory(clock: VirtualClock, plants: frozenset[str]) -> Stores:
    journal = MemoryStore(clock, plants=plants)
    guards = MemoryGuards(clock)
    return Stores(journal, journal.grants, guards, guards, MemoryMemories(clock))


def _timeout(command: Call, *, billed: bool) -> CallFailed:
    return CallFailed(
        command_id=command.command_id,
        attempt=command.attempt,
        cause=Cause.TIMEOUT,
        message="no answer before the call's deadline",
        billed=billed,
    )
