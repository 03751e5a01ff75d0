"""Live drills on this installation, asked for and waited for by a command: each cell as it comes, the same as any other drill's."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence

from fabric.core.taxonomy import FailureType, Tier
from fabric.services.workspaces import owner_actor
from simulator.drills.cells import Cell, Verdict
from simulator.drills.covers import Cell as Picked
from simulator.drills.models import LIVE, OPEN_STATUSES, Drill
from simulator.drills.selectors import DrillView, drill_get
from simulator.drills.services import drill_ask, drill_stop

LOOK_S = 0.2
VERDICTS: dict[str, Verdict] = {"pass": "pass", "deviated": "deviated", "error": "error", "unknown": "unknown"}


def drilled_here(
    fabric: str, cells: Sequence[Picked], *, seed: int, cap_s: int | None, wake: Callable[[], None]
) -> Iterator[Cell]:
    """Asks for the cells, and gives each as soon as it has ended. Whoever stops listening stops what is left. Raises Refused as ``drill_ask`` does."""
    actor = owner_actor()
    asked = drill_ask(actor=actor, fabric=fabric, cells=cells, seed=seed, mode=LIVE, cap_s=cap_s, wake=wake)
    try:
        for drill_id in asked.drills:
            while not (seen := drill_get(actor, drill_id)).ended:
                time.sleep(LOOK_S)
            yield cell_of(seen)
    finally:
        if Drill.objects.filter(batch=asked.batch, status__in=OPEN_STATUSES).exists():
            drill_stop(actor=actor, batch=asked.batch, reason="the command that waited for them was ended")


def cell_of(seen: DrillView) -> Cell:
    """A stored drill of a cell as the command tells it. What came to no verdict is unknown, which is no pass."""
    assert seen.failure is not None
    verdict = VERDICTS.get(seen.verdict, "unknown")
    why = seen.why if seen.verdict else f"{seen.status}: {seen.why}".removesuffix(": ")
    observed = seen.observed or "not drilled"
    return Cell(
        failure=FailureType(seen.failure),
        tier=Tier(seen.tier),
        verdict=verdict,
        expected=seen.expected or "not known",
        observed=observed,
        seed=seen.seed,
        why=why,
        equipped=" and ".join(seen.equipped),
        seconds=(seen.took or 0) / 1e6,
    )
