"""Live drills on this installation, asked for and waited for by a command: each as it comes, the same as any other drill's."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing

from fabric.core.actor import Actor
from fabric.core.taxonomy import FailureType, Tier
from fabric.services.workspaces import owner_actor
from simulator.drills.cells import Cell, Verdict
from simulator.drills.covers import Cell as Picked
from simulator.drills.models import LIVE, OPEN_STATUSES, Drill
from simulator.drills.selectors import DrillView, drill_get
from simulator.drills.services import Asked, drill_ask, drill_stop

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
) -> Iterator[Cell]:
    """Asks for the cells, and gives each as soon as it has ended. Whoever stops listening stops what is left. Raises Refused as ``drill_ask`` does."""
    actor = owner_actor()
    asked = drill_ask(
        actor=actor, fabric=fabric, cells=cells, seed=seed, mode=LIVE, cap_s=cap_s, cap_usd_micros=cap_usd_micros, wake=wake,
    )  # fmt: skip
    with closing(ended_here(actor, asked)) as ended:
        for seen in ended:
            yield cell_of(seen)


def ended_here(actor: Actor, asked: Asked) -> Generator[DrillView]:
    """Each drill that was asked for as soon as it has ended. Whoever stops listening stops what is left."""
    try:
        for drill_id in asked.drills:
            while not (seen := drill_get(actor, drill_id)).ended:
                time.sleep(LOOK_S)
            yield seen
    finally:
        if Drill.objects.filter(batch=asked.batch, status__in=OPEN_STATUSES).exists():
            drill_stop(actor=actor, batch=asked.batch, reason="the command that waited for them was ended")


def verdict_here(seen: DrillView) -> tuple[Verdict, str]:
    """The verdict and why. What came to no verdict is unknown, which is no pass."""
    why = seen.why if seen.verdict else f"{seen.status}: {seen.why}".removesuffix(": ")
    return VERDICTS.get(seen.verdict, "unknown"), why


def cell_of(seen: DrillView) -> Cell:
    """A stored drill of a cell as the command tells it."""
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
        equipped=" and ".join(seen.equipped),
        seconds=(seen.took or 0) / 1e6,
    )
