"""Drives one cell of the decision table through the engine in simulated time, and compares it with the
table's promise.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from fabric.core.spec.fabric import FabricSpec
from fabric.core.spec.policies.decision_table import table_with
from fabric.core.values.taxonomy import FailureType, Tier
from simulator.clockwork.garbage import collect_after
from simulator.scenarios.baseline import work as baseline
from simulator.scenarios.baseline.equipment import equip_fabric
from simulator.scenarios.baseline.work import STARTS_S, Work, observe_chain, until_put_back
from simulator.scenarios.play import steady_state as steady
from simulator.scenarios.play.circumstances import promise
from simulator.scenarios.play.verdicts import Cell, Deviation, Verdict, deviate
from simulator.scenarios.promises.digests import CELLS
from simulator.scenarios.promises.expectation import Chain, Person
from simulator.scenarios.promises.layers import NotComputed
from simulator.scenarios.strikes.failures import SUSTAINED, Sustained
from simulator.swarm.setups import AS_DRAWN, WorldNames
from simulator.world.world import World


def find_verdict(seen: Chain, promised: Chain | None) -> Verdict:
    """Return the verdict about an observed chain.

    - ``deviated``: other decisions, or another end, than promised.
    - ``unknown``: no decision, or no known promise, so nothing was proven.
    """
    return "unknown" if promised is None or not seen.links else "pass" if seen == promised else "deviated"


def drive(
    spec: FabricSpec,
    met: Sustained,
    tier: Tier,
    *,
    seed: int,
    person: Person = "reject",
    recovers_after: int | None = None,
    names: WorldNames = AS_DRAWN,
) -> World:
    """Simulate a run that meets the failure throughout, or for a number of decisions, and a run after it."""
    disturbed, work = until_put_back(met.build_disturbing(spec, recovers_after)), Work(starts_s=STARTS_S)
    return baseline.drive(spec, tier, seed=seed, person=person, disturbed=disturbed, work=work, names=names)


def promised_by(
    spec: FabricSpec,
    failure: FailureType,
    tier: Tier,
    person: Person,
    recovers_after: int | None = None,
    *,
    alone: bool = True,
) -> tuple[Chain | None, str]:
    """Return the promise, or why it is unknown. ``alone``: no other run uses its breakers and retry tokens."""
    table = table_with(spec.decision_table)
    try:
        return promise(spec, table, failure, tier, person, recovers_after, alone=alone), ""
    except NotComputed as error:
        return None, str(error)


def judge_world(world: World, promised: Chain | None) -> tuple[Verdict, str]:
    """Return the verdict about a world's run, and the observation. ``error``: an invariant was violated."""
    if world.watch.violations:
        broken = world.watch.violations[0]
        return "error", f"{broken.invariant}: {broken.sentence}"
    seen = observe_chain(world)
    return find_verdict(seen, promised), str(seen)


@dataclass(frozen=True, slots=True)
class DrilledCell:
    """A drilled cell, with its worlds."""

    cell: Cell
    spec: FabricSpec
    """The fabric as it was drilled: with scripted models and added parts."""
    before: World
    """The undisturbed world."""
    world: World | None
    """The disturbed world; None if the undisturbed run failed."""


def drill(
    spec: FabricSpec,
    failure: FailureType,
    tier: Tier,
    *,
    seed: int = 1,
    person: Person = "reject",
    recovers_after: int | None = None,
) -> Cell:
    """Drive the cell and judge it by the fabric's own table. ``error`` if even the undisturbed run does not
    complete.
    """
    with collect_after():
        return drill_told(spec, failure, tier, seed=seed, person=person, recovers_after=recovers_after).cell


def drill_told(
    spec: FabricSpec,
    failure: FailureType,
    tier: Tier,
    *,
    seed: int = 1,
    person: Person = "reject",
    recovers_after: int | None = None,
    names: WorldNames = AS_DRAWN,
) -> DrilledCell:
    """Drive and judge the cell, and return its worlds too. ``names``: names of their runs, if they are to be kept."""
    began = time.perf_counter()
    met, lacked = equip_fabric(baseline.scripted_models(spec), failure)
    promised, unknown = promised_by(met, failure, tier, person, recovers_after)

    def end_drill(verdict: Verdict, seen: str, why: str = "", world: World | None = None) -> DrilledCell:
        expected = str(promised) if promised is not None else "not known"
        cell = Cell(failure, tier, verdict, expected, seen, seed, why, lacked, time.perf_counter() - began)
        return DrilledCell(cell, met, before.world, world)

    before = baseline.drive_undisturbed(met, tier, seed=seed, names=names.select_part("before"))
    if before.why:
        return end_drill("error", "not drilled", before.why)
    during = names.select_part("during")
    world = drive(met, SUSTAINED[failure], tier, seed=seed, person=person, recovers_after=recovers_after, names=during)
    verdict, seen = judge_world(world, promised)
    if verdict == "error":
        return end_drill("error", "an invariant was broken", seen, world)
    if unknown:
        return end_drill("unknown", seen, unknown, world)
    if verdict == "pass" and (left := _left_behind(world, before.world)):
        verdict, why = deviate(Deviation.STEADY, left)
        return end_drill(verdict, seen, why, world)
    undecided = "no protection met the failure: no decision was made" if verdict == "unknown" else ""
    return end_drill(verdict, seen, undecided, world)


def _left_behind(world: World, before: World) -> str:
    """Return the failure's effect on the run after it. Empty: none, or a circuit breaker, which is meant to stay."""
    why = steady.not_held_after(steady.list_after(world, before))
    return "" if steady.held_by_a_breaker(world) else why


def drill_cells(
    spec: FabricSpec,
    cells: Iterable[tuple[FailureType, Tier]] = CELLS,
    *,
    seed: int = 1,
    recovers_after: int | None = None,
) -> Iterator[Cell]:
    """Drill the cells in turn, and yield each result."""
    for failure, tier in cells:
        yield drill(spec, failure, tier, seed=seed, recovers_after=recovers_after)


def matrix(spec: FabricSpec, *, seed: int = 1) -> tuple[Cell, ...]:
    """Drill all 24 cells, row by row."""
    return tuple(drill_cells(spec, seed=seed))
