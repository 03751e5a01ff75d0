"""One cell of the decision table, driven through the production engine in virtual time and held against what the table promises."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Literal

from fabric.core.decision_table import table_with
from fabric.core.spec import FabricSpec
from fabric.core.taxonomy import FailureType, Tier
from simulator.drills import baseline, steady
from simulator.drills.afterwards import STARTS_S, until_put_back
from simulator.drills.baseline import Work
from simulator.drills.bounds import NotComputed
from simulator.drills.circumstances import promise
from simulator.drills.covers import CELLS
from simulator.drills.equipping import equipped
from simulator.drills.expectation import Chain, Person
from simulator.drills.observed import observed
from simulator.drills.sustained import SUSTAINED, Sustained
from simulator.kernel.swarm import AS_DRAWN, Names
from simulator.kernel.world import World

Verdict = Literal["pass", "deviated", "error", "unknown"]


@dataclass(frozen=True, slots=True)
class Cell:
    """What came of one cell."""

    failure: FailureType
    tier: Tier
    verdict: Verdict
    expected: str
    observed: str
    seed: int
    why: str = ""
    """What an error is, and why something is unknown; empty where the two chains say it."""
    equipped: str = ""
    """What the fabric lacked for the failure to be met in it, and was given; empty: nothing."""
    seconds: float = field(default=0.0, compare=False)
    """That it took."""


def verdict_of(seen: Chain, promised: Chain | None) -> Verdict:
    """``deviated``: other decisions, or another end, than was promised; ``unknown``: nothing was decided, or no promise is known, so nothing was shown."""
    return "unknown" if promised is None or not seen.links else "pass" if seen == promised else "deviated"


def drive(
    spec: FabricSpec,
    met: Sustained,
    tier: Tier,
    *,
    seed: int,
    person: Person = "reject",
    recovers_after: int | None = None,
    names: Names = AS_DRAWN,
) -> World:
    """The world of one run that meets the failure as often as it goes on, or until so many decisions were made about it, and of one after it that does not; to their ends."""
    disturbed, work = until_put_back(met.disturbing(spec, recovers_after)), Work(starts_s=STARTS_S)
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
    """The promise, or why it is not known. ``alone``: no other run meets the same breakers and retry tokens."""
    table = table_with(spec.decision_table)
    try:
        return promise(spec, table, failure, tier, person, recovers_after, alone=alone), ""
    except NotComputed as error:
        return None, str(error)


def judged(world: World, promised: Chain | None) -> tuple[Verdict, str]:
    """The verdict about a world's run, and what was seen. ``error``: an invariant was broken on the way."""
    if world.watch.violations:
        broken = world.watch.violations[0]
        return "error", f"{broken.invariant}: {broken.sentence}"
    seen = observed(world)
    return verdict_of(seen, promised), str(seen)


@dataclass(frozen=True, slots=True)
class Told:
    """A cell that was drilled, with the worlds that it was drilled in."""

    cell: Cell
    spec: FabricSpec
    """The fabric as it was drilled: with scripted models, and with what it lacked."""
    before: World
    """The world that nothing disturbs."""
    world: World | None
    """The disturbed one; None: the one before did not hold."""


def drill(
    spec: FabricSpec,
    failure: FailureType,
    tier: Tier,
    *,
    seed: int = 1,
    person: Person = "reject",
    recovers_after: int | None = None,
) -> Cell:
    """Drives the cell and judges it by the fabric's own table. ``error`` where the fabric's run does not complete even undisturbed."""
    return drill_told(spec, failure, tier, seed=seed, person=person, recovers_after=recovers_after).cell


def drill_told(
    spec: FabricSpec,
    failure: FailureType,
    tier: Tier,
    *,
    seed: int = 1,
    person: Person = "reject",
    recovers_after: int | None = None,
    names: Names = AS_DRAWN,
) -> Told:
    """The same, with the worlds. ``names``: what their runs are called, where they are to be kept."""
    began = time.perf_counter()
    met, lacked = equipped(baseline.scripted_models(spec), failure)
    promised, unknown = promised_by(met, failure, tier, person, recovers_after)

    def told(verdict: Verdict, seen: str, why: str = "", world: World | None = None) -> Told:
        expected = str(promised) if promised is not None else "not known"
        cell = Cell(failure, tier, verdict, expected, seen, seed, why, lacked, time.perf_counter() - began)
        return Told(cell, met, before.world, world)

    before = baseline.undisturbed(met, tier, seed=seed, names=names.of("before"))
    if before.why:
        return told("error", "not drilled", before.why)
    during = names.of("during")
    world = drive(met, SUSTAINED[failure], tier, seed=seed, person=person, recovers_after=recovers_after, names=during)
    verdict, seen = judged(world, promised)
    if verdict == "error":
        return told("error", "an invariant was broken", seen, world)
    if unknown:
        return told("unknown", seen, unknown, world)
    if verdict == "pass" and (left := _left_behind(world, before.world)):
        return told("deviated", seen, left, world)
    nobody = "the failure was met by nobody: no decision was made" if verdict == "unknown" else ""
    return told(verdict, seen, nobody, world)


def _left_behind(world: World, before: World) -> str:
    """What the failure has left in the way of the run after it; empty: nothing, or a circuit breaker, which is there for that."""
    why = steady.not_held_after(steady.after_of(world, before))
    return f"afterwards, once the failure is over: {why}" if why and not steady.held_by_a_breaker(world) else ""


def drilled(
    spec: FabricSpec,
    cells: Iterable[tuple[FailureType, Tier]] = CELLS,
    *,
    seed: int = 1,
    recovers_after: int | None = None,
) -> Iterator[Cell]:
    """The cells one after the other, as they come."""
    for failure, tier in cells:
        yield drill(spec, failure, tier, seed=seed, recovers_after=recovers_after)


def matrix(spec: FabricSpec, *, seed: int = 1) -> tuple[Cell, ...]:
    """All 24 cells, row by row."""
    return tuple(drilled(spec, seed=seed))
