"""Faults of the world around the engine, at chosen moments of a virtual world: its workers, database, broker, clocks and people."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from fabric.runtime.batch_parts import EscalationChange
from simulator.kernel.clock import US
from simulator.kernel.outside import Answer
from simulator.scenarios.parameters import Answered, Asked, Clicks, Crash, Late, Occurrences, Skew, Zombie
from simulator.scenarios.scenario import Disturbance
from simulator.scenarios.selecting import Tally

if TYPE_CHECKING:
    from simulator.kernel.process import Process
    from simulator.kernel.world import World

Struck = Counter[str]
CHANCES: Mapping[str, str] = {
    "message_lost": "nudge_lost",
    "message_doubled": "nudge_doubled",
    "input_doubled": "twin_input",
    "commit_lost": "commit_lost",
    "commit_landed": "commit_landed",
    "store_away": "away",
    "crash": "crash",
}
"""Faults that strike at some of the chances which the world gives them, and what it calls those (``World.strikes``)."""


def befall(world: World, disturbances: Sequence[Disturbance], struck: Struck) -> None:
    """Sees to it that disturbances of the world strike in it. Before it is run."""
    chances: dict[str, list[tuple[str, Tally]]] = {}
    asked: list[tuple[Disturbance, Tally]] = []
    for one in disturbances:
        name, given = one.fault.name, one.parameters
        if isinstance(given, Crash) and given.at_s is not None:
            world.later(given.at_s, _crash, world, struck)
        elif isinstance(given, Crash):
            chances.setdefault(CHANCES[name], []).append((name, Tally(given.at_effect or 1, 1, given.times)))
        elif isinstance(given, Zombie):
            world.later(given.at_s, _stand_still, world, given.still_s, struck)
        elif isinstance(given, Skew):
            world.set_skew(given.worker, int(given.skew_s * US))
            struck[name] += 1
        elif isinstance(given, Asked):
            asked.append((one, Tally(given.from_question, given.every, given.times)))
        elif isinstance(given, Occurrences) and name in CHANCES:
            tally = Tally(given.from_occurrence, given.every, given.times)
            chances.setdefault(CHANCES[name], []).append((name, tally))
    world.scripted = {chance: _any_of(some, struck) for chance, some in chances.items()}
    if asked:
        world.outside.script = _people(world, asked, struck)


def _any_of(some: Sequence[tuple[str, Tally]], struck: Struck) -> Callable[[], bool]:
    """Whether one of them takes a chance; each counts all of them."""

    def strikes() -> bool:
        taken = [name for name, tally in some if tally.takes()]
        struck.update(taken[:1])
        return bool(taken)

    return strikes


# -- workers -----------------------------------------------------------------------------------------------------------


def _at_work(world: World) -> Process | None:
    """The first worker that has a run in its hands; else the first that lives."""
    standing = [process for process in world.processes if process.alive and not process.paused]
    return next((process for process in standing if process.owned), standing[0] if standing else None)


def _crash(world: World, struck: Struck) -> None:
    process = _at_work(world)
    if process is not None:
        struck["crash"] += 1
        world.died(process)


def _stand_still(world: World, still_s: float, struck: Struck) -> None:
    process = _at_work(world)
    if process is not None:
        struck["zombie"] += 1
        world.pause(process, still_s)


# -- people ------------------------------------------------------------------------------------------------------------


def _people(
    world: World, asked: Sequence[tuple[Disturbance, Tally]], struck: Struck
) -> Callable[[str, EscalationChange], tuple[Answer, ...] | None]:
    """What they say to a question: the first disturbance that takes it decides."""

    def script(run_id: str, change: EscalationChange) -> tuple[Answer, ...] | None:
        due_s = (change.due_at - world.clock.now()) / US
        for one, tally in asked:
            answers = _answers(one, change, due_s)
            if answers is not None and tally.takes(run_id):
                struck[one.fault.name] += 1
                return answers
        return None

    return script


def _answers(one: Disturbance, change: EscalationChange, due_s: float) -> tuple[Answer, ...] | None:
    """None: this disturbance is not about such a question."""
    given = one.parameters
    if isinstance(given, Late):
        return (Answer(max(0.0, due_s) + given.after_due_s),)
    if isinstance(given, Clicks):
        return (Answer(1.0), Answer(1.0 + given.apart_s))
    if isinstance(given, Answered):
        verb = "edit" if one.fault.name == "person_edits" else "reject"
        return (Answer(given.after_s, verb),) if verb in change.verbs else None
    return ()
