"""Counts the processor's instructions of one flow5 run in the pure core, under valgrind's callgrind.

``python -m tests.benchmarks.instructions.count`` prints two numbers: to drive a run to its end, and to load it again from
its journal. The count is the same however busy the machine is; another machine or Python has another one. Both
processes start alike, and one works more often: the difference is the work alone.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace

from fabric.runtime.journal.loader import JournalDamage, load
from fabric.runtime.ports.journal import ClaimedRun, StoredRow
from simulator.installation.database import ROOT
from tests.benchmarks.counts import RUNS, OneRun, claim_flow5

FEW, MANY = 1, 6
"""Repetitions of the two processes."""
TOTAL = re.compile(r"Collected : (\d+)")


def count_work(work: str) -> int:
    """Return the instructions of one piece of a work of ``WORKS``. Raises RuntimeError without valgrind."""
    return (_run(work, MANY) - _run(work, FEW)) // (MANY - FEW)


def _run(work: str, times: int) -> int:
    valgrind = shutil.which("valgrind")
    if valgrind is None:
        raise RuntimeError("valgrind is not installed: install Debian's package valgrind")
    command = [valgrind, "--tool=callgrind", "--callgrind-out-file=/dev/null", sys.executable]
    command += ["-m", "tests.benchmarks.instructions.count", work, str(times)]
    environment = {**os.environ, "PYTHONHASHSEED": "0"}
    done = subprocess.run(command, check=False, capture_output=True, text=True, env=environment, cwd=ROOT)
    found = TOTAL.search(done.stderr)
    if done.returncode or found is None:
        raise RuntimeError(f"callgrind failed with exit code {done.returncode}: {done.stderr[-500:]}")
    return int(found[1])


def _prepare_drive() -> Callable[[], object]:
    return OneRun().drive


def _prepare_load() -> Callable[[], object]:
    run = OneRun()
    run.drive()
    rows = tuple(
        StoredRow(row.seq, row.kind, row.version, row.header, row.payload, row.payload_hash, row.hash)
        for row in run.written
    )
    claimed = replace(claim_flow5(), rows=rows, inbox=(), last_seq=rows[-1].last_seq, head=rows[-1].hash)
    return lambda: _load(claimed)


def _load(claimed: ClaimedRun) -> None:
    loaded = load(claimed)
    assert not isinstance(loaded, JournalDamage), loaded.sentence
    assert loaded.run.state == "completed", loaded.run.state


WORKS: Mapping[str, Callable[[], Callable[[], object]]] = {"drive": _prepare_drive, "load": _prepare_load}


def main(arguments: list[str]) -> None:
    """Print all counts, or do one work so many times."""
    if not arguments:
        print(json.dumps({work: count_work(work) for work in WORKS}))
        return
    work, times = arguments
    do = WORKS[work]()
    for _ in range(RUNS + int(times)):
        do()


if __name__ == "__main__":
    main(sys.argv[1:])
