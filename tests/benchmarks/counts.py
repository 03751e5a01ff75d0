"""Counts of one flow5 run and of one agent's turn that are equal on every machine with the same version of Python.

``python -m tests.benchmarks.counts`` prints them, and ``--write`` records them in ``counts.json``; a test holds the
record. The production driver runs without threads, store and clock: each batch commits at once, and each model answers
at once. So the counts are of the engine alone; statements, rows and commits are counted where a store is used.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import types
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec

from fabric.core.events.commands import CallModel
from fabric.core.events.envelope import JournalRow
from fabric.core.events.inputs import INBOX, ModelReplied, RunRequested
from fabric.core.values.taxonomy import Tier
from fabric.core.values.units import US
from fabric.runtime.driver import RunDriver
from fabric.runtime.happenings import Append, Committed, Perform, PortAnswered, Taken
from fabric.runtime.ports.journal import ClaimedRun, InboxItem
from tests.benchmarks.throughput.answers import ANSWERS, REQUEST
from tests.benchmarks.throughput.spec import compile_flow5
from tests.benchmarks.turns import EARLY, LATE, Turns

FILE = Path(__file__).with_name("counts.json")
BEGIN = 1_700_000_000 * US
DAY = 86_400 * US
RUNS = 3
"""Runs before the counted one: they fill the caches that a process fills once."""


@dataclass(slots=True)
class Counts:
    """Work of one run, or of one turn."""

    calls: int = 0
    """Calls of functions written in Python."""
    builtins: int = 0
    """Calls of functions written in C."""
    hashed_bytes: int = 0
    encoded_bytes: int = 0


@contextmanager
def counted() -> Iterator[Counts]:
    """Count what happens within."""
    found = Counts()

    def count(frame: Any, event: str, arg: Any) -> None:
        if event == "call":
            found.calls += 1
        elif event == "c_call":
            found.builtins += 1

    with _watched(found):
        sys.setprofile(count)
        try:
            yield found
        finally:
            sys.setprofile(None)
    found.builtins -= 1  # The call that ended the counting.


@contextmanager
def _watched(found: Counts) -> Iterator[None]:
    """Replace the product's hash function and encoders by ones that count bytes, wherever a module names them."""
    swapped = []
    for module in [one for name, one in sorted(sys.modules.items()) if name.startswith("fabric.")]:
        for name, given in list(vars(module).items()):
            watching = _watching(given, found)
            if watching is not None:
                swapped.append((module, name, given))
                setattr(module, name, watching)
    try:
        yield
    finally:
        for module, name, given in swapped:
            setattr(module, name, given)


def _watching(given: Any, found: Counts) -> Callable[..., Any] | None:
    if given is sha256:
        return lambda raw: _hashed(raw, found)
    if isinstance(given, types.BuiltinMethodType) and isinstance(given.__self__, msgspec.json.Encoder):
        return lambda value: _encoded(given(value), found)
    return None


def _hashed(raw: bytes, found: Counts) -> Any:
    found.hashed_bytes += len(raw)
    return sha256(raw)


def _encoded(raw: bytes, found: Counts) -> bytes:
    found.encoded_bytes += len(raw)
    return raw


class OneRun:
    """A flow5 run from its claim to its end, as one function call after another."""

    def __init__(self) -> None:
        self.compiled, self.batches = compile_flow5(), 0
        self.written: list[JournalRow] = []

    def drive(self) -> RunDriver:
        """Drive one run to its end, and return its driver."""
        driver, now = RunDriver(self.compiled), BEGIN
        self.written, self.batches = [], 0
        waiting = deque(driver.step(Taken(claim_flow5(), "bench"), now))
        while waiting:
            now += 1_000
            match waiting.popleft():
                case Append(batch):
                    self.written += batch.rows
                    self.batches += 1
                    waiting += driver.step(Committed(batch.new_seq), now)
                case Perform(CallModel() as command):
                    waiting += driver.step(PortAnswered(_answer(command)), now)
        assert driver.run.state == "completed", driver.run.state
        return driver


def claim_flow5() -> ClaimedRun:
    """Return a new flow5 run as its worker claims it."""
    asked = RunRequested(input_id="start", request={"text": REQUEST}, deadline_at=BEGIN + DAY)
    item = InboxItem("run-1", "start", INBOX.dump_json(asked))
    return ClaimedRun(
        run_id="run-1", fence=1, revision_id="r", trace_id="0" * 32, seed=7, tier=Tier.BATCH, rows=(), inbox=(item,),
        taken_over=False, fabric_id="fabric-1", workspace_id="w",
    )  # fmt: skip


def _answer(command: CallModel) -> ModelReplied:
    return ModelReplied(
        command_id=command.command_id,
        attempt=command.attempt,
        text=ANSWERS[command.output],
        input_tokens=200,
        output_tokens=250,
    )


def count_flow5() -> dict[str, int]:
    """Return the counts of a flow5 run: four branches, eight model calls."""
    run = OneRun()
    for _ in range(RUNS):
        run.drive()
    with counted() as found:
        run.drive()
    return {**_fields(found), "rows": len(run.written), "batches": run.batches}


def count_turn(number: int = EARLY) -> dict[str, int]:
    """Return the counts of an agent's turn: a model proposes a tool call, and the tool answers."""
    run = Turns()
    for _ in range(number - 1):
        run.turn()
    with counted() as found:
        run.turn()
    return _fields(found)


def _fields(found: Counts) -> dict[str, int]:
    return {name: getattr(found, name) for name in Counts.__slots__}


def count_all() -> dict[str, dict[str, int]]:
    """Return all counts of this process."""
    return {"flow5": count_flow5(), f"turn {EARLY}": count_turn(EARLY), f"turn {LATE}": count_turn(LATE)}


def count_apart() -> dict[str, dict[str, int]]:
    """Return all counts of a fresh process with fixed hashes: sets have the same order in each."""
    environment = {**os.environ, "PYTHONHASHSEED": "0"}
    command = [sys.executable, "-m", "tests.benchmarks.counts"]
    said = subprocess.run(command, check=True, capture_output=True, text=True, env=environment, cwd=FILE.parents[2])
    found: dict[str, dict[str, int]] = json.loads(said.stdout)
    return found


if __name__ == "__main__":
    if sys.argv[1:] == ["--write"]:
        FILE.write_text(json.dumps(count_apart(), indent=1) + "\n")
    else:
        print(json.dumps(count_all()))
