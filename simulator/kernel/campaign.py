"""Many seeds one after another, in one process or several, with the same findings either way."""

from __future__ import annotations

import gc
import signal
from collections import Counter, deque
from collections.abc import Generator, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from itertools import islice
from multiprocessing import get_context
from pathlib import Path
from traceback import extract_tb

from simulator.kernel import plants, sqlite_stores, swarm
from simulator.kernel.clock import VirtualClock
from simulator.kernel.watch import Violation
from simulator.kernel.world import World
from simulator.kernel.world_store import Stores

CHUNK = 10
"""Seeds that a process takes at once: no more than whoever interrupts it will wait for."""
SAID_MAX = 300
"""Characters of what an error says of itself."""
ALL_SWEPT_EVERY = 1_000
"""Seeds after one of which every object of the process is looked at for cycles, not only what the last world made."""


@dataclass(frozen=True, slots=True)
class SeedReport:
    """What one seed brought to light."""

    seed: int
    violations: tuple[Violation, ...]
    digest: str
    """Over all journals and the order of all writes: the same for the same seed, anywhere."""
    events: int
    sometimes: Counter[str] = field(default_factory=Counter)


def simulate(seed: int, plant: str = "", file: Path | None = None) -> SeedReport:
    """One seed's world, from its beginning to its end. KeyError for an unknown plant.

    ``file``: a SQLite file with all tables and nothing in them; the world's stores are the real ones on a copy of it, and must bring about, write for
    write, what those in memory do. Without it: the stores in memory.
    """
    report = _simulated(seed, plant, file)
    if file is None or report.violations:
        return report
    there = _simulated(seed, plant)
    if there.digest == report.digest:
        return report
    said = f"on the file its trace is {report.digest} of {report.events} events, in memory {there.digest} of {there.events}"
    return replace(report, violations=(Violation(seed, "stores_agree", "", said, 0.0),))


def _simulated(seed: int, plant: str, file: Path | None = None) -> SeedReport:
    with _swept(whole=(seed + 1) % ALL_SWEPT_EVERY == 0):
        return simulate_setup(swarm.draw(seed), plant, file)


@contextmanager
def _swept(*, whole: bool) -> Iterator[None]:
    """Looks for cycles when a world is over, not again and again while it runs: almost all that it holds is needed until then, and is looked at in vain."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.collect(2 if whole else 1)
        if enabled:
            gc.enable()


def simulate_setup(setup: swarm.Setup, plant: str = "", file: Path | None = None) -> SeedReport:
    """The world of a setup, drawn or made, on the stores in memory or on a copy of the file."""
    with plants.planted(plant), ExitStack() as stack:

        def on_file(clock: VirtualClock) -> Stores:
            assert file is not None
            return stack.enter_context(sqlite_stores.opened(file, clock, setup.fabric.revision_id))

        world = World(setup, plants=plants.in_store(plant), stores=on_file if file else None)
        try:
            world.run()
        except Exception as error:  # noqa: BLE001 - whatever it is, it is told with its seed
            return _broken_off(world, error)
        events = sum(run.seq for run in world.watch.runs())
        return SeedReport(setup.seed, tuple(world.watch.violations), world.digest(), events, world.sometimes)


def _broken_off(world: World, error: Exception) -> SeedReport:
    """The report of a world that could not be run to its end: the engine, or what judges it, raised what it may not."""
    frame = extract_tb(error.__traceback__)[-1]
    said = (
        f"{type(error).__name__}: {str(error)[:SAID_MAX]} ({Path(frame.filename).name}:{frame.lineno}, in {frame.name})"
    )
    broken = Violation(world.setup.seed, "nothing_raises", "", said, 0.0)
    return SeedReport(world.setup.seed, (*world.watch.violations, broken), "", 0, world.sometimes)


def campaign(
    seeds: Iterable[int], plant: str = "", jobs: int = 1, file: Path | None = None
) -> Generator[SeedReport, None, None]:
    """The reports of many seeds, in order. Whoever wants no more closes it: what has not begun then never does."""
    if jobs == 1:
        for seed in seeds:
            yield simulate(seed, plant, file)
        return
    left = iter(seeds)
    pool = ProcessPoolExecutor(jobs, mp_context=get_context("spawn"), initializer=_uninterrupted)
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


def _uninterrupted() -> None:
    """A terminal's Ctrl-C reaches every process: the one that gives the seeds out answers it, for all."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _chunk(given: tuple[list[int], str, Path | None]) -> list[SeedReport]:
    seeds, plant, file = given
    return [simulate(seed, plant, file) for seed in seeds]
