"""A backlog of flow5 runs, which one, two or more worker processes claim and host, as behind a broker that is away.

Speed counts from the word that lets ready processes begin to the end of the last run.
"""

from __future__ import annotations

import multiprocessing
import statistics
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from typing import Any

from fabric.models.fields.identities import new_id
from tests.benchmarks.backlog.worker import Orders, main
from tests.benchmarks.caps.capped_worker import journal
from tests.benchmarks.throughput.flow5 import new_run

ENDS_S = 120.0
"""The measurement fails if no worker starts, or ends a run, for so long (seconds)."""


def measure(
    db: str, address: str, ids: tuple[str, str], sizes: Sequence[int], runs: int, rounds: int
) -> dict[str, Any]:
    """Return, by the number of workers, the median of runs a second and the smallest share that one of them had."""
    rates: dict[int, list[float]] = {size: [] for size in sizes}
    shares: dict[int, list[float]] = {size: [] for size in sizes}
    for _ in range(rounds):
        for size in sizes:
            rate, ended = drain(db, address, ids, size, runs)
            rates[size].append(rate)
            shares[size].append(min(ended.values()) * size / runs if len(ended) == size else 0.0)
    return {
        f"{size} workers": {
            "runs_per_s": round(statistics.median(rates[size]), 1),
            "slowest_and_fastest": [round(min(rates[size]), 1), round(max(rates[size]), 1)],
            "smallest_part_of_an_equal_share": round(statistics.median(shares[size]), 2),
        }
        for size in sizes
    }


def drain(db: str, address: str, ids: tuple[str, str], workers: int, runs: int) -> tuple[float, Counter[str]]:
    """Return the runs a second at which so many workers end a backlog, and the runs that each of them ended."""
    with closing(journal(db, address)) as store:  # type: ignore[type-var]
        for _ in range(runs):
            store.create(new_run(new_id(), *ids))
    context = multiprocessing.get_context("forkserver")
    shared = (context.Semaphore(0), context.Event(), context.Queue(), context.Event())
    names = [f"backlog-{n}-{new_id()[-6:]}" for n in range(workers)]
    processes = [context.Process(target=main, args=(Orders(db, address, name, *shared),)) for name in names]
    ready, begin, queue, over = shared
    for process in processes:
        process.start()
    try:
        for _ in processes:
            if not ready.acquire(timeout=ENDS_S):
                raise TimeoutError(f"a worker did not start within {ENDS_S:.0f} s")
        begun = time.perf_counter()
        begin.set()
        ended = Counter(queue.get(timeout=ENDS_S) for _ in range(runs))
        return runs / (time.perf_counter() - begun), ended
    finally:
        over.set()
        for process in processes:
            process.join(30.0)
            process.kill()
