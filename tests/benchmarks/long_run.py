"""A run of any length: what a step costs at its hundredth event and at its ten thousandth, and how long its resume takes.

An agent polls a tool, fails, and a person approves one more try, again and again: each round the run is given back and claimed anew, so that it is
loaded as often as a run can be. One thread interprets the driver over the real store, without sweeps, so that everything that is
counted is the same on every machine.
"""

from __future__ import annotations

import statistics
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fabric.core.events.commands import AbortCall, CallModel, Command
from fabric.core.events.inputs import INBOX, CallFailed, DecisionMade, ModelReplied, Result, ToolCall, ToolFinished
from fabric.core.spec.fabric import FabricSpec
from fabric.core.values.taxonomy import Cause
from fabric.models.fields.identities import new_id
from fabric.runtime.driver import RunDriver
from fabric.runtime.happenings import Append, Committed, Happening, Perform, PortAnswered, Taken
from fabric.runtime.journal.snapshots import STATE_DIGEST
from fabric.runtime.ports.journal import Batch, BatchFate, JournalStore
from fabric.worker.process.clock import SYSTEM_CLOCK
from tests.benchmarks.throughput.flow5 import new_run
from tests.benchmarks.throughput.spec import compile_flow5

TURNS = 5
"""Turns of the agent before it fails."""
LEASE_S = 3_600.0
MANY = 10**9
ANSWERS = "bob"
"""Who approves: has to be a member of the workspace, and hold the role that the fabric asks for."""

SPEC = FabricSpec.model_validate(
    {
        "name": "long",
        "title": "A long run",
        "tiers": {"default": "batch", "allowed": ["batch"]},
        "models": [
            {"name": "instant", "provider": "instant", "price": {"input_usd_per_mtok": "0", "output_usd_per_mtok": "0"}}
        ],
        "tools": [{"name": "poll", "polling": True}],
        "agents": [{"name": "worker", "instructions": "Poll.", "model": "instant", "tools": ["poll"]}],
        "topology": {
            "workers": ["worker"],
            "plan": {
                "goal": "Go on.",
                "briefs": [{"agent": "worker", "title": "All", "instructions": "Poll."}],
                "exit_criteria": ["Never."],
            },
        },
        "policy": {
            "budget": {"run_usd_micros": MANY},
            "limits": {"sub_agents_spawned": MANY, "run_events": MANY, "run_payload_bytes": MANY},
            "humans": {"failure_rounds": MANY},
            "failure_signature": {"limit": MANY},
        },
        "decision_table": {"unsafe_output": {"batch": {"rungs": [{"reaction": "escalate"}]}}},
        "reviewers": ["reviewer"],
    }
)


@dataclass(slots=True)
class Read:
    """Reads, writes and work between two moments."""

    steps: int = 0
    """Calls journaled with their answers."""
    statements: int = 0
    rows: int = 0
    """Journal rows read."""
    seconds: float = 0.0
    events: int = 0

    def __sub__(self, before: Read) -> Read:
        """Return what was added."""
        return Read(*(getattr(self, name) - getattr(before, name) for name in self.__slots__))

    def a_step(self) -> dict[str, float]:
        """By step."""
        return {
            "statements_per_step": round(self.statements / self.steps, 4),
            "rows_read_per_step": round(self.rows / self.steps, 4),
            "ms_per_step": round(1_000 * self.seconds / self.steps, 4),
        }


class LongRun:
    """One run that never ends. StoreUnavailable when the database is away, RuntimeError when a write is refused."""

    def __init__(self, store: Any, workspace_id: str, revision_id: str) -> None:
        self._store = store
        journal: JournalStore = store
        self._journal = journal
        self._compiled = compile_flow5(SPEC)
        self.incarnation = f"long-{new_id()}"
        self.run_id = new_id()
        self.read = Read()
        self.snapshots: list[int] = []
        """Where snapshots were taken."""
        self._review: tuple[str, str] | None = None
        journal.register(self.incarnation, lease_s=LEASE_S)
        journal.create(new_run(self.run_id, workspace_id, revision_id, text="Go on.", queue="long", title="long"))
        self._rounds = self._go_on()
        next(self._rounds)

    @property
    def seq(self) -> int:
        """The journal's end."""
        return self.read.events

    def until(self, seq: int) -> None:
        """Goes on until the journal is at least so long."""
        while self.seq < seq:
            next(self._rounds)

    def until_snapshot(self) -> None:
        """Goes on until the next snapshot was taken."""
        taken = len(self.snapshots)
        while len(self.snapshots) == taken:
            next(self._rounds)

    def claim(self, *, digest: str = STATE_DIGEST) -> tuple[RunDriver, list[Any]]:
        """Claims the run and loads it: its driver, and what that asks for first."""
        [claimed] = self._journal.claim(self.incarnation, limit=1, queues=("long",), digest=digest)
        self.read.rows += len(claimed.rows) + len(claimed.kept)
        driver = RunDriver(self._compiled)
        return driver, driver.step(Taken(claimed, self.incarnation), SYSTEM_CLOCK.now())

    def resumes(self, times: int, *, digest: str = STATE_DIGEST) -> Iterator[float]:
        """Milliseconds from asking for the run to knowing what to do next, each time after it was given back."""
        for _ in range(times):
            self._decide("another review", "")  # It changes nothing but that it is taken in.
            begun = time.perf_counter()
            driver, effects = self.claim(digest=digest)
            yield 1_000 * (time.perf_counter() - begun)
            self._carry_out(driver, effects)

    # -- interpreting -------------------------------------------------------------------------------------------------

    def _go_on(self) -> Iterator[None]:
        while True:
            before, begun = self._store.statements, time.perf_counter()
            if self._review is not None:
                self._decide(*self._review)
            driver, effects = self.claim()
            self._carry_out(driver, effects)
            self.read.statements += self._store.statements - before
            self.read.seconds += time.perf_counter() - begun
            yield

    def _carry_out(self, driver: RunDriver, effects: Sequence[Any]) -> None:
        waiting = deque(effects)
        while waiting:
            match waiting.popleft():
                case Append(batch):
                    self._write(batch)
                    waiting += self._step(driver, Committed(batch.new_seq))
                case Perform(command) if not isinstance(command, AbortCall):
                    self.read.steps += 1
                    waiting += self._step(driver, PortAnswered(_answer(command)))
                case _:
                    pass

    @staticmethod
    def _step(driver: RunDriver, happening: Happening) -> list[Any]:
        return driver.step(happening, SYSTEM_CLOCK.now())

    def _write(self, batch: Batch) -> None:
        [fate] = self._journal.write([batch])
        if fate is not BatchFate.COMMITTED:
            raise RuntimeError(f"the batch after event {batch.last_seq} was not written: {fate}")
        self.read.events = batch.new_seq
        if batch.snapshot is not None:
            self.snapshots.append(batch.snapshot.seq)
        for change in batch.reviews:
            if change.opens or change.decided_at is not None:
                self._review = (change.review_id, change.digest) if change.opens else None

    def _decide(self, review: str, digest: str) -> None:
        given = DecisionMade(
            input_id=f"decision:{review}:{self.seq}",
            review_id=review,
            verb="approve",
            actor=ANSWERS,
            digest=digest,
        )
        self._journal.put_input(self.run_id, given.input_id, INBOX.dump_json(given))


def _answer(command: Command) -> Result:
    assert not isinstance(command, AbortCall)
    about: Mapping[str, Any] = {"command_id": command.command_id, "attempt": command.attempt}
    if not isinstance(command, CallModel):
        return ToolFinished(**about, result="not yet")
    turn = int(command.command_id.rpartition(".t")[2])
    if turn <= TURNS:
        return ModelReplied(**about, text="", calls=(ToolCall(call_id=f"call-{turn}", tool="poll", args={}),))
    return CallFailed(**about, cause=Cause.CONTENT_FILTER, message="it cannot go on")


def measure(
    store: Any, workspace_id: str, revision_id: str, marks: Sequence[int], *, cycles: int = 2
) -> dict[str, Any]:
    """Return what a step costs at each of the marks, counted over whole cycles from one snapshot to another, the first from the mark on."""
    run = LongRun(store, workspace_id, revision_id)
    found: dict[str, Any] = {}
    for mark in sorted(marks):
        run.until(mark)
        run.until_snapshot()
        before, begun = Read(**{name: getattr(run.read, name) for name in Read.__slots__}), run.seq
        for _ in range(cycles):
            run.until_snapshot()
        found[str(mark)] = {"from_event": begun, "to_event": run.seq, **(run.read - before).a_step()}
    first, last = found[str(min(marks))], found[str(max(marks))]
    return {"work": "long", "marks": found, "time_ratio": round(last["ms_per_step"] / first["ms_per_step"], 3)}


def resume(store: Any, workspace_id: str, revision_id: str, *, events: int = 5_000, times: int = 100) -> dict[str, Any]:
    """Milliseconds that the resume of a run of so many events takes, from its snapshot and, beside it, from its whole journal."""
    run = LongRun(store, workspace_id, revision_id)
    run.until(events)
    warm = list(run.resumes(10))
    quick, whole = sorted(run.resumes(times)), sorted(run.resumes(max(5, times // 10), digest=""))
    assert warm
    return {
        "work": "resume",
        "events": run.seq,
        "times": times,
        "p50_ms": round(statistics.median(quick), 2),
        "p99_ms": round(quick[int(0.99 * (len(quick) - 1))], 2),
        "whole_journal_p50_ms": round(statistics.median(whole), 2),
    }
