"""The virtual world: worker processes, a database, models, tools, people and their accidents, on one virtual clock.

A seed decides everything. First comes a phase in which things go wrong, then one in which nothing does: every run must come to its end, or
to an open question; then people answer, and every run must end. What is committed is watched all the time (``invariants.py``).
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

from fabric.core.commands import Call, CallModel
from fabric.core.fingerprint import digest
from fabric.core.flow import TERMINAL
from fabric.core.inputs import CallFailed, Result
from fabric.core.taxonomy import Cause
from fabric.runtime import prompts
from fabric.runtime.happenings import Happening
from fabric.runtime.ports import Batch, Document, StoreUnavailable
from simulator.kernel import faults
from simulator.kernel.agents import Agents, Reply
from simulator.kernel.clock import US, VirtualClock
from simulator.kernel.memory_store import Failure, MemoryStore
from simulator.kernel.outside import Outside
from simulator.kernel.process import Owned, Process, Sent
from simulator.kernel.schedule import Schedule
from simulator.kernel.swarm import DOCUMENTS, Setup
from simulator.kernel.watch import Watch

STEPS_MAX = 60_000
"""Actions in one world; more means that it does not come to rest."""
HEAL_S = 400_000.0
"""Virtual seconds within which every run must come to rest once nothing goes wrong any more: longer than any deadline and due time."""

WRITE_FAILURES: tuple[tuple[str, Failure], ...] = (
    ("commit_lost", "lost"),
    ("commit_landed", "landed"),
    ("busy", "busy"),
    ("away", "away"),
)


class World:
    """One seed's world. ``run`` it once, then look at ``watch.violations``, ``sometimes`` and ``trace``."""

    def __init__(
        self, setup: Setup, *, plants: frozenset[str] = frozenset(), ask: Callable[..., Reply] | None = None
    ) -> None:
        self.setup = setup
        self.rng = Random(setup.seed ^ 0x5EED)  # noqa: S311 - a simulation is to be repeatable
        self.clock = VirtualClock()
        self.schedule = Schedule()
        self.store = MemoryStore(self.clock, plants=plants)
        self.sometimes: Counter[str] = Counter()
        self.rates = setup.rates
        self.agents = Agents(setup.fabric.compiled.spec, self.rng, self.sometimes)
        self.agents.rates = setup.rates
        self.ask = ask or self.agents.ask
        self.watch = Watch(self)
        self.outside = Outside(self)
        self.processes: list[Process] = []
        self.steps = 0
        self.healed = False
        self._born = 0
        self._lapses: list[int] = []
        self._hash = hashlib.blake2b(digest_size=16)

    # -- time ----------------------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Both phases, to the end or to the first violation."""
        for _ in range(self.setup.processes):
            self.born()
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
            self.watch.stuck(to_what)

    def _go(self, done: Callable[[], bool], until: int) -> bool:
        """Acts until it is done, the time is over, or something is wrong; True when it is done."""
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
        """Ends all faults: what stands still goes on, what is dead has a successor."""
        self.healed = True
        self.rates = self.agents.rates = faults.NONE
        for process in list(self.processes):
            process.deaf_until = 0
            process.resume()
        if not self.processes:
            self.born()
        self.watch.changed = True
        for process in self.processes:
            process.sweep_at(self.clock.now() + 1)

    def strikes(self, name: str) -> bool:
        """Whether a fault strikes here and now."""
        rate = self.rates[name]
        if rate and self.rng.random() < rate:
            self.sometimes[name] += 1
            return True
        return False

    def later(self, delay_s: float, action: Callable[..., None], *args: Any) -> None:
        """Schedules something that no process does."""
        self.schedule.at(self.clock.now() + int(delay_s * US), action, *args)

    # -- processes -----------------------------------------------------------------------------------------------------

    def born(self) -> None:
        """Starts a worker process."""
        self._born += 1
        process = Process(self, f"worker-{self._born}")
        self.processes.append(process)
        for lapse in self._lapses:
            if lapse >= self.clock.now():
                process.sweep_at(lapse + 1)

    def died(self, process: Process) -> None:
        """A process is gone with all that it held in memory; another takes its place."""
        process.alive = False
        self.processes.remove(process)
        self._await_lapse(process)
        if self.rng.random() < 0.3:
            # The supervisor knows that its child is dead, and says so.
            self.store.retire(process.name)
        self.later(0.1 + 5.0 * self.rng.random(), self._succeed)

    def _succeed(self) -> None:
        if len(self.processes) < self.setup.processes:
            self.born()

    def pause(self, process: Process) -> None:
        """A process stands still, mostly for longer than its lease."""
        process.paused = True
        self.later(2.0 + 30.0 * self.rng.random(), process.resume)
        self._await_lapse(process)

    def _await_lapse(self, process: Process) -> None:
        self._lapses.append(process.lease_until)
        for other in self.processes:
            other.sweep_at(process.lease_until + 1)

    def next_sweep(self, process: Process) -> None:
        """Sees to a sweep when something that is known now will be due."""
        due_s = self.store.next_due_s()
        if due_s is not None:
            process.sweep_at(self.clock.now() + int(max(0.0, due_s) * US) + 1)

    def accident(self, name: str) -> None:
        """Something befalls a process at an instant of its own choosing."""
        if not self.rates[name] or not self.processes:
            return
        process = self.rng.choice(self.processes)
        self.sometimes[name] += 1
        if name == "sudden_death":
            self.died(process)
        elif name == "deaf":
            process.deaf_until = self.clock.now() + int((5.0 + 20.0 * self.rng.random()) * US)
            self._await_lapse(process)
        elif name == "retired":
            self.store.retire(process.name)
            for other in self.processes:
                other.sweep_at(self.clock.now() + 1)
        else:
            # Asked to stop: it gives up its lease and goes, whatever is still out.
            self.store.retire(process.name)
            self.died(process)

    # -- the database --------------------------------------------------------------------------------------------------

    def write(self, process: Process, sent: list[Sent]) -> None:
        """A write reaches the database, whatever has become of the process that sent it."""
        failing = next((failure for fault, failure in WRITE_FAILURES if self.strikes(fault)), None)
        if failing is not None:
            self.store.fail_next(failing)
        batches = [one.batch for one in sent]
        marks = [self.store.heads([batch.run_id])[batch.run_id].last_seq for batch in batches]
        back_s = 0.001 + 0.005 * self.rng.random()
        try:
            fates = self.store.write(batches)
        except StoreUnavailable as error:
            for one, mark in zip(sent, marks, strict=True):
                if failing == "landed":
                    self._committed(process, one, mark)
            process.later(back_s, process.unknown if error.unknown else process.unwritten, sent)
            return
        for one, fate, mark in zip(sent, fates, marks, strict=True):
            self.trace("write", one.batch.run_id, one.batch.last_seq, len(one.batch.rows), fate)
            if fate == "committed":
                self._committed(process, one, mark)
        process.later(back_s, process.written, sent, fates)

    def _committed(self, process: Process, one: Sent, mark: int) -> None:
        self.watch.committed(process, one.owned, one.batch, mark)
        self.outside.committed(one.batch)

    def deciding(self, run_id: str, batch: Batch) -> None:
        """A process has decided something that has not committed yet."""
        if batch.columns.state in TERMINAL:
            self.outside.ending(run_id)

    # -- models and tools ----------------------------------------------------------------------------------------------

    def call(self, owned: Owned, command: Call) -> Iterator[tuple[float, Result]]:
        """Executes a call: what comes back, and after how many seconds each."""
        left_s = (command.deadline_at - self.clock.now()) / US
        if left_s <= 0:
            # The process stood still before it could send it.
            yield 0.0, _timeout(command, billed=False)
            return
        self.watch.executing(owned, command)
        reply = self._reply(owned, command)
        late = reply.silent or reply.delay_s > left_s
        self.watch.billed(owned, command, reply)
        if late:
            yield left_s, _timeout(command, billed=not reply.silent or reply.billed)
            if self.strikes("late_result"):
                yield left_s + 3.0 * self.rng.random(), reply.result
            return
        delay_s = reply.delay_s + (5.0 * self.rng.random() if self.strikes("slow_result") else 0.0)
        yield min(delay_s, left_s), reply.result
        if self.strikes("twin_result"):
            yield min(delay_s, left_s) + 2.0 * self.rng.random(), reply.result

    def _reply(self, owned: Owned, command: Call) -> Reply:
        fabric, claimed = self.setup.fabric, owned.claimed
        shared: dict[str, Any] = {"run_id": claimed.run_id, "trace_id": claimed.trace_id, "spec": fabric.compiled.spec}

        def documents() -> tuple[Document, ...]:
            return DOCUMENTS

        if isinstance(command, CallModel):
            asked = prompts.model_request(
                command, **shared, contents=owned.driver.contents, documents=documents, offers=fabric.offers
            )
            return self.ask(asked)
        wanted = prompts.tool_request(command, **shared, contents=owned.driver.contents, documents=documents)
        return self.agents.run(wanted)

    # -- what came of it -----------------------------------------------------------------------------------------------

    def raised(self, run_id: str, happening: Happening, error: Exception) -> None:
        """A driver raised: never right, whatever the reason."""
        self.watch.violated(
            "no_exception", run_id, f"the driver raised {type(error).__name__} on {type(happening).__name__}: {error}"
        )

    def trace(self, *what: Any) -> None:
        """Adds to the digest of everything that happened at the database."""
        self._hash.update(f"{self.clock.now()}|{what}\n".encode())

    def digest(self) -> str:
        """What two worlds of one seed must have in common: the heads of all journals and the order of all writes."""
        heads = self.store.heads(self.store.run_ids())
        return digest(
            self._hash.hexdigest(), *(f"{run_id}:{head.last_seq}:{head.head.hex()}" for run_id, head in heads.items())
        )


def _timeout(command: Call, *, billed: bool) -> CallFailed:
    return CallFailed(
        command_id=command.command_id,
        attempt=command.attempt,
        cause=Cause.TIMEOUT,
        message="no answer before the call's deadline",
        billed=billed,
    )
