"""Starts live drills or a live scenario on this installation for a command, and yields each result.

They are ordinary drills. A scenario yields each tier like a virtual one.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing
from functools import partial

from fabric.core.people.actor import Actor
from fabric.core.values.taxonomy import FailureType, Tier
from fabric.core.values.units import JSON
from fabric.core.values.words import words
from fabric.selectors.whole_ids import short_id
from fabric.services.actors import owner_actor
from simulator.drills.library.requests import scenario_ask
from simulator.drills.models.tables import LIVE, OPEN_STATUSES, Drill
from simulator.drills.reports.drills import journal
from simulator.drills.reports.scenarios import Play
from simulator.drills.runs.names import PART_WORDS, PARTS
from simulator.drills.selectors.drill_views import DrillView
from simulator.drills.selectors.drills import drill_get
from simulator.drills.services.drills import DrillsAsked, drill_ask, stop_drills
from simulator.scenarios.play.verdicts import Cell, Verdict
from simulator.scenarios.promises.digests import Cell as Picked
from simulator.scenarios.spec.scenario import Scalar

LOOK_S = 0.2
VERDICTS: dict[str, Verdict] = {"pass": "pass", "deviated": "deviated", "error": "error", "unknown": "unknown"}


def drilled_here(
    fabric: str,
    cells: Sequence[Picked],
    *,
    seed: int,
    cap_s: int | None,
    cap_usd_micros: int | None,
    wake: Callable[[], None],
    say: Callable[[str], None],
) -> Iterator[Cell]:
    """Start drills of the cells, and yield each result at its end. Closing the generator stops the rest.

    ``say``: takes a line a phase. Raises Refused as ``drill_ask`` does.
    """
    actor = owner_actor()
    asked = drill_ask(
        actor=actor, fabric=fabric, cells=cells, seed=seed, mode=LIVE, cap_s=cap_s, cap_usd_micros=cap_usd_micros, wake=wake,
    )  # fmt: skip
    with closing(ended_here(actor, asked, say)) as ended:
        for seen in ended:
            yield build_cell(seen)


def ended_here(
    actor: Actor, asked: DrillsAsked, say: Callable[[str], None], driven: Iterator[str] | None = None
) -> Generator[DrillView]:
    """Yield each requested drill at its end. Closing the generator stops the rest. ``say``: takes a line a phase.

    ``driven``: executes the next waiting drill at each step, where no worker does.
    """
    try:
        for drill_id in asked.drills:
            told = 0
            while True:
                seen = drill_get(actor, drill_id)
                phases = list_phases(seen)
                for line in phases[told:]:
                    say(line)
                told = len(phases)
                if seen.ended:
                    break
                if driven is None or next(driven, None) is None:
                    time.sleep(LOOK_S)
            yield seen
    finally:
        if Drill.objects.filter(batch=asked.batch, status__in=OPEN_STATUSES).exists():
            stop_drills(actor=actor, batch=asked.batch, reason="the command that waited for them was ended")


def list_phases(seen: DrillView) -> list[str]:
    """Return a line for each phase that a drill has reached."""
    what = " x ".join(filter(None, (seen.scenario or words(seen.failure or ""), words(seen.tier))))
    runs = seen.body.get("runs", {})
    began = [f"{what}: the {PART_WORDS[part]} run {short_id(runs[part])} began" for part in PARTS if part in runs]
    return [f"{what}: waits for a worker", *began]


def verdict_here(seen: DrillView) -> tuple[Verdict, str]:
    """Return verdict and reason. A drill without a verdict is unknown, which is no pass."""
    why = seen.why if seen.verdict else f"{seen.status}: {seen.why}".removesuffix(": ")
    return VERDICTS.get(seen.verdict, "unknown"), why


def build_cell(seen: DrillView) -> Cell:
    """Return a stored drill of a cell in the command's form."""
    assert seen.failure is not None
    verdict, why = verdict_here(seen)
    return Cell(
        failure=FailureType(seen.failure),
        tier=Tier(seen.tier),
        verdict=verdict,
        expected=seen.expected or "not known",
        observed=seen.observed or "not drilled",
        seed=seen.seed,
        why=why,
        equipped=" and ".join(seen.equipment),
        seconds=(seen.took or 0) / 1e6,
    )


ABSENT: Mapping[str, JSON] = {"equipped": [], "steady": {}, "struck": {}, "lines": [], "aborted": ""}
"""Further results of a scenario that ended early."""


def played_here(
    fabric: str,
    scenario: str,
    tiers: Sequence[Tier],
    *,
    parameters: Mapping[str, Scalar],
    seed: int | None,
    cap_s: int | None,
    cap_usd_micros: int | None,
    wake: Callable[[], None],
    say: Callable[[str], None],
) -> Iterator[Play]:
    """Start the scenario, and yield each tier at its end. Closing the generator stops the rest.

    ``say``: takes a line a phase. Raises Refused as ``scenario_ask`` does.
    """
    actor = owner_actor()
    asked = scenario_ask(
        actor=actor, fabric=fabric, scenario=scenario, tiers=tiers, parameters=parameters, seed=seed,
        mode=LIVE, cap_s=cap_s, cap_usd_micros=cap_usd_micros, wake=wake,
    )  # fmt: skip
    with closing(ended_here(actor, asked, say)) as ended:
        for seen in ended:
            yield build_play(seen)


def build_play(seen: DrillView) -> Play:
    """Return a stored drill of a scenario in the command's form."""
    verdict, why = verdict_here(seen)
    return Play(
        tier=seen.tier,
        verdict=verdict,
        expected=seen.expected or "not known",
        observed=seen.observed or "not drilled",
        why=why,
        seed=seen.seed,
        equipped=" and ".join(seen.equipment),
        seconds=(seen.took or 0) / 1e6,
        body={name: seen.body.get(name, absent) for name, absent in ABSENT.items()},
        journal=partial(journal, seen),
    )
