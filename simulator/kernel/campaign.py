"""Many seeds one after another, in one process or several, with the same findings either way."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from multiprocessing import get_context

from simulator.kernel import plants, swarm
from simulator.kernel.watch import Violation
from simulator.kernel.world import World

CHUNK = 50
"""Seeds that a process takes at once."""


@dataclass(frozen=True, slots=True)
class SeedReport:
    """What one seed brought to light."""

    seed: int
    violations: tuple[Violation, ...]
    digest: str
    """Over all journals and the order of all writes: the same for the same seed, anywhere."""
    events: int
    sometimes: Counter[str] = field(default_factory=Counter)


def simulate(seed: int, plant: str = "") -> SeedReport:
    """One seed's world, from its beginning to its end. KeyError for an unknown plant."""
    with plants.planted(plant):
        world = World(swarm.draw(seed), plants=plants.in_store(plant))
        world.run()
    events = sum(run.seq for run in world.watch.runs())
    return SeedReport(seed, tuple(world.watch.violations), world.digest(), events, world.sometimes)


def campaign(seeds: Iterable[int], plant: str = "", jobs: int = 1) -> Iterator[SeedReport]:
    """The reports of many seeds, in order."""
    if jobs == 1:
        for seed in seeds:
            yield simulate(seed, plant)
        return
    listed = list(seeds)
    chunks = [(listed[n : n + CHUNK], plant) for n in range(0, len(listed), CHUNK)]
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        for reports in pool.map(_chunk, chunks):
            yield from reports


def _chunk(given: tuple[list[int], str]) -> list[SeedReport]:
    seeds, plant = given
    return [simulate(seed, plant) for seed in seeds]
