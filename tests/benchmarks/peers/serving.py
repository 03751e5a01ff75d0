"""The benchmark's end in another engine's process: a closed loop of callers, told by lines what to run. Nothing but the standard library.

The process says ``{"engine"}`` once it is ready; ``RUNS AT_ONCE`` on its standard input is answered with ``{"seconds", "latencies_ms"}``.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

Told = dict[str, object]


def serve(engine: str, go: Callable[[int, int], Told]) -> None:
    """Answers until standard input closes. ``go``: runs so many, so many at once."""
    _say({"engine": engine})
    for line in sys.stdin:
        runs, at_once = map(int, line.split())
        _say(go(runs, at_once))


def on_threads(one: Callable[[], object]) -> Callable[[int, int], Told]:
    """Callers on threads; ``one`` returns when its run has ended."""

    def go(runs: int, at_once: int) -> Told:
        def timed(_: int) -> float:
            begun = time.perf_counter()
            one()
            return 1_000 * (time.perf_counter() - begun)

        begun = time.perf_counter()
        with ThreadPoolExecutor(at_once) as callers:
            latencies = list(callers.map(timed, range(runs)))
        return {"seconds": time.perf_counter() - begun, "latencies_ms": latencies}

    return go


def on_a_loop(one: Callable[[], Awaitable[object]]) -> Callable[[int, int], Told]:
    """Callers as tasks of one event loop, which stays the same."""
    loop = asyncio.new_event_loop()

    async def caller(left: Iterator[int], latencies: list[float]) -> None:
        for _ in left:
            begun = time.perf_counter()
            await one()
            latencies.append(1_000 * (time.perf_counter() - begun))

    async def all_of(runs: int, at_once: int) -> Told:
        latencies: list[float] = []
        left = iter(range(runs))
        begun = time.perf_counter()
        await asyncio.gather(*(caller(left, latencies) for _ in range(at_once)))
        return {"seconds": time.perf_counter() - begun, "latencies_ms": latencies}

    return lambda runs, at_once: loop.run_until_complete(all_of(runs, at_once))


def _say(told: Told) -> None:
    print(json.dumps(told), flush=True)
