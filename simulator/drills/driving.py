"""What it takes to drive one stored drill, by its mode and by whether it plays a scenario; and what comes of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from fabric.core.spec import FabricSpec
from fabric.core.taxonomy import FailureType, Tier
from simulator.drills.cells import drill_told
from simulator.drills.driven import Driven
from simulator.drills.driving_scenarios import virtual_scenario
from simulator.drills.models import Drill, Status


def virtual_cell(one: Drill, spec: FabricSpec) -> Driven:
    """A cell in virtual time."""
    told = drill_told(spec, FailureType(one.failure), Tier(one.tier), seed=one.seed)
    cell = told.cell
    return Driven(
        status=Status.FAILED if cell.verdict == "error" else Status.COMPLETED,
        verdict=cell.verdict,
        expected=cell.expected,
        observed=cell.observed,
        why=cell.why,
        body={"equipped": [cell.equipped] if cell.equipped else []},
    )


DRIVES: Mapping[tuple[str, bool], Callable[[Drill, FabricSpec], Driven]] = {
    ("virtual", False): virtual_cell,
    ("virtual", True): virtual_scenario,
}
"""By mode, and by whether a scenario is played."""


def driven(one: Drill, spec: FabricSpec) -> Driven:
    """Drives it in the revision's fabric. KeyError for a mode that there is not; whatever the engine or its world raises."""
    return DRIVES[one.mode, bool(one.scenario)](one, spec)
