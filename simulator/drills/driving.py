"""What it takes to drive one stored drill, by its mode and by whether it plays a scenario; and what comes of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from fabric.core.spec import FabricSpec
from fabric.core.taxonomy import FailureType, Tier
from fabric.core.words import words
from simulator.drills.cells import Told, drill_told
from simulator.drills.driven import JSON, Driven
from simulator.drills.driving_scenarios import virtual_scenario
from simulator.drills.keeping import kept_of, names_of
from simulator.drills.models import Drill, Status
from simulator.drills.steady import steady_of
from simulator.drills.story import story_of


def virtual_cell(one: Drill, spec: FabricSpec) -> Driven:
    """A cell in virtual time. Its runs are kept: the undisturbed one, the one that met the failure, and the one after it."""
    failure, tier = FailureType(one.failure), Tier(one.tier)
    told = drill_told(spec, failure, tier, seed=one.seed, names=names_of(one))
    cell = told.cell
    return Driven(
        status=Status.FAILED if cell.verdict == "error" else Status.COMPLETED,
        verdict=cell.verdict,
        expected=cell.expected,
        observed=cell.observed,
        why=cell.why,
        body=_told(told),
        kept=kept_of(one, f"{words(failure).capitalize()} in {words(tier)}", told.spec, told.before, told.world),
    )


def _told(told: Told) -> dict[str, JSON]:
    """What is kept of a cell beside its verdict."""
    return {
        "equipped": [told.cell.equipped] if told.cell.equipped else [],
        "story": story_of(told.world, told.before),
        "steady": steady_of(told.before, told.world),
    }


def live_cell(one: Drill, spec: FabricSpec) -> Driven:
    """A cell on the installation itself."""
    from simulator.drills import (
        in_place,
    )  # It loads the ports, which a virtual drill does without.

    return in_place.live_cell(one, spec)


def live_scenario(one: Drill, spec: FabricSpec) -> Driven:
    """A scenario on the installation itself."""
    from simulator.drills import in_place_scenarios  # The same.

    return in_place_scenarios.live_scenario(one, spec)


DRIVES: Mapping[tuple[str, bool], Callable[[Drill, FabricSpec], Driven]] = {
    ("virtual", False): virtual_cell,
    ("virtual", True): virtual_scenario,
    ("live", False): live_cell,
    ("live", True): live_scenario,
}
"""By mode, and by whether a scenario is played."""


def driven(one: Drill, spec: FabricSpec) -> Driven:
    """Drives it in the revision's fabric. KeyError for a mode that there is not; whatever the engine or its world raises."""
    return DRIVES[one.mode, bool(one.scenario)](one, spec)
