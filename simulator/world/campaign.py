"""Simulates many seeds, in one process or several, with equal findings."""

from __future__ import annotations

import signal
from collections import Counter, deque
from collections.abc import Generator, Iterable
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from itertools import islice
from multiprocessing import get_context
from pathlib import Path
from traceback import extract_tb

from simulator.clockwork.clock import VirtualClock
from simulator.clockwork.garbage import collect_after
from simulator.rules.runs import bugs as plants
from simulator.stores import sqlite as sqlite_stores
from simulator.stores.contract import Stores
from simulator.swarm import setups as swarm
from simulator.world.watch import Violation
from simulator.world.world import World

CHUNK = 10
"""Number of seeds that a process takes at once; a person who interrupts it waits for that many."""
SAID_MAX = 300
"""Characters kept of an error's message."""
ALL_SWEPT_EVERY = 1_000
"""Number of seeds between full garbage collections; others collect only the objects of the last world."""


@dataclass(frozen=True, slots=True)
class SeedReport:
    """Findings about one seed."""

    seed: int
    violations: tuple[Violation, ...]
    digest: str
    """Digest of all journals and the order of all writes; equal for a seed on any machine."""
    events: int
    sometimes: Counter[str] = field(default_factory=Counter)


def simulate(seed: int, plant: str = "", file: Path | None = None) -> SeedReport:
    """Simulate one seed's world from its beginning to its end. Raises KeyError for an unknown plant.

    ``file``: a SQLite file with all tables, empty. The world's stores are then the real ones on a copy of it, and
    must match those in memory write for write. Default: the stores in memory.
    """
    report = _simulate_seed(seed, plant, file)
    if file is None or report.violations:
        return report
    there = _simulate_seed(seed, plant)
    if there.digest == report.digest:
        return report
    said = f"on the file its trace is {report.digest} of {report.events} events, in memory {there.digest} of {there.events}"
    return replace(report, violations=(Violation(seed, "stores_agree", "", said, 0.0),))


def _simulate_seed(seed: int, plant: str, file: Path | None = None) -> SeedReport:
    with collect_after(whole=(seed + 1) % ALL_SWEPT_EVERY == 0):
        return simulate_setup(swarm.draw(seed), plant, file)


def simulate_setup(setup: swarm.Setup, plant: str = "", file: Path | None = None) -> SeedReport:
    """Simulate the world of a setup, on the stores in memory or on a copy of the file."""
    with plants.plant_bug(plant), ExitStack() as stack:

        def on_file(clock: VirtualClock) -> Stores:
            assert file is not None
            return stack.enter_context(sqlite_stores.open_stores(file, clock, setup.fabric.revision_id))

        world = World(setup, plants=plants.in_store(plant), stores=on_file if file else None)
        try:
            world.run()
        except Exception as error:  # noqa: BLE001 - whatever it is, it is told with its seed
            return _broken_off(world, error)
        events = sum(run.seq for run in world.watch.runs())
        return SeedReport(setup.seed, tuple(world.watch.violations), world.digest(), events, world.sometimes)


def _broken_off(world: World, error: Exception) -> SeedReport:
    """Return the report of a world that ended early, because the engine or a check raised an exception."""
    frame = extract_tb(error.__traceback__)[-1]
    said = (
        f"{type(error).__name__}: {str(error)[:SAID_MAX]} ({Path(frame.filename).name}:{frame.lineno}, in {frame.name})"
    )
    broken = Violation(world.setup.seed, "nothing_raises", "", said, 0.0)
    return SeedReport(world.setup.seed, (*world.watch.violations, broken), "", 0, world.sometimes)


def campaign(
    seeds: Iterable[int], plant: str = "", jobs: int = 1, file: Path | None = None
) -> Generator[SeedReport, None, None]:
    """Yield the reports of many seeds, in order. Closing the generator cancels seeds that have not begun."""
    if jobs == 1:
        for seed in seeds:
            yield simulate(seed, plant, file)
        return
    left = iter(seeds)
    pool = ProcessPoolExecutor(jobs, mp_context=get_context("spawn"), initializer=_ignore_interrupts)
    under_way: deque[Future[list[SeedReport]]] = deque()
    try:
        while True:
            while len(under_way) < 2 * jobs and (chunk := list(islice(left, CHUNK))):
                under_way.append(pool.submit(_chunk, (chunk, plant, file)))
            if not under_way:
                return
            yield from under_way.popleft().result()
    finally:
        pool.shutdown(cancel_futures=True)


def _ignore_interrupts() -> None:
    """Ignore Ctrl-C, because a terminal sends it to every process: the main process handles it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _chunk(given: tuple[list[int], str, Path | None]) -> list[SeedReport]:
    seeds, plant, file = given
    return [simulate(seed, plant, file) for seed in seeds]
