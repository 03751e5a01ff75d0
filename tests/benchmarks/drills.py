"""Drills in virtual time: cells and simulated runs a second of one core (performance.md P16)."""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Sequence
from typing import Any
from weakref import WeakSet

from fabric.core.spec.fabric import FabricSpec
from fabric.core.values.taxonomy import FailureType, Tier
from simulator.clockwork.garbage import collect_after
from simulator.drills.fabrics import default_table, samples
from simulator.scenarios.play.cells import drill_told
from simulator.scenarios.promises.digests import CELLS
from simulator.world.world import World


def measure(rounds: int, specs: Sequence[FabricSpec] | None = None) -> dict[str, Any]:
    """All 24 cells of the default table and of each sample, or of these fabrics, ``rounds`` times; the medians. Times of this process's processor, so that others on the machine change little.

    A run is counted as often as it is simulated: the undisturbed one once for each fabric as it is drilled and tier, the disturbed one and whatever is
    started after it with each cell. Compiling a fabric is counted in the first round alone, which is left out where there is another.
    """
    specs = [default_table(), *samples()] if specs is None else specs
    taken: list[float] = []
    walls: list[float] = []
    failed = runs = 0
    for number in range(rounds + (rounds > 1)):
        began, wall = time.process_time(), time.perf_counter()
        runs, wrong = _round(specs, seed=number + 1)
        failed += wrong
        taken.append(time.process_time() - began)
        walls.append(time.perf_counter() - wall)
    warm = slice(rounds > 1, None)
    seconds, cells = statistics.median(taken[warm]), len(specs) * len(CELLS)
    return {
        "work": "drills",
        "rounds": rounds,
        "cells": cells,
        "runs": runs,
        "not_passed": failed,
        "seconds_of_one_core": round(seconds, 3),
        "wall_seconds": round(statistics.median(walls[warm]), 3),
        "cells_per_s": round(cells / seconds, 1),
        "runs_per_s_a_core": round(runs / seconds, 1),
        "calls_per_run": count_calls(specs[0]),
    }


def count_calls(spec: FabricSpec) -> int:
    """Return the calls of functions, of Python's and C's, that a simulated run of the fabric's cells makes. A busy machine changes nothing."""
    _round([spec], seed=1)  # It fills caches.
    calls = 0

    def count(frame: Any, event: str, arg: Any) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        runs, _ = _round([spec], seed=2)
    finally:
        sys.setprofile(None)
    return calls // runs


def _round(specs: Sequence[FabricSpec], *, seed: int) -> tuple[int, int]:
    """``(runs that were simulated, cells that did not pass)``."""
    counted: WeakSet[World] = WeakSet()
    runs = failed = 0
    for spec in specs:
        for failure, tier in CELLS:
            with collect_after():  # As the commands do.
                new, passed = _drill(spec, failure, tier, seed, counted)
            runs += new
            failed += not passed
    return runs, failed


def _drill(spec: FabricSpec, failure: FailureType, tier: Tier, seed: int, counted: WeakSet[World]) -> tuple[int, bool]:
    """Return the number of runs in worlds that were not ``counted`` yet, and True if the cell passed."""
    told = drill_told(spec, failure, tier, seed=seed)
    new = [world for world in (told.before, told.world) if world is not None and world not in counted]
    counted.update(new)
    return sum(len(world.watch.runs()) for world in new), told.cell.verdict == "pass"
