"""Executes a stored drill according to its mode, as a cell or a scenario.

A scenario is played in simulated time; the result is the columns of the drill's row.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from fabric.core.spec.fabric import FabricSpec
from fabric.core.values.taxonomy import FailureType, Tier
from fabric.core.values.units import JSON
from fabric.core.values.words import words
from simulator.drills.models.tables import Drill, Status
from simulator.drills.runs.storage import Driven, build_kept_runs, build_names
from simulator.scenarios.play.cells import DrilledCell, drill_told
from simulator.scenarios.play.player import DecisionLine, Played, play_told
from simulator.scenarios.play.steady_state import list_phases
from simulator.scenarios.spec.probes import CheckedProbe
from simulator.scenarios.spec.toml import parse_scenario
from simulator.scenarios.stories.story import build_story


def virtual_scenario(one: Drill, spec: FabricSpec) -> Driven:
    """Play the stored scenario.

    Raises ``Unreadable`` if this version cannot read it, and ``catalogue.FaultRefused`` if it does not fit the fabric.
    """
    told = play_told(
        spec,
        parse_scenario(one.source, origin=one.scenario),
        Tier(one.tier),
        seed=one.seed,
        overrides=json.loads(one.parameters or "{}"),
        names=build_names(one),
    )
    title = f"{told.played.scenario.name} in {words(told.played.tier)}"
    kept = build_kept_runs(one, title, told.spec, told.before, told.world)
    return replace(read_driven(told.played, build_story(told.world, told.before)), kept=kept)


def read_driven(played: Played, story: Mapping[str, JSON]) -> Driven:
    """Return the columns of the result."""
    return Driven(
        status=build_status(played),
        verdict=played.verdict,
        expected=played.expected_decisions if played.during is not None else "",
        observed=played.observed_chain,
        why=played.why,
        body={**build_body(played), "story": story},
    )


def build_status(played: Played) -> Status:
    """Return ``aborted`` if it met one of its own abort conditions; ``failed`` if it proves nothing about the
    fabric.
    """
    if played.aborted:
        return Status.ABORTED
    return Status.FAILED if played.verdict == "error" else Status.COMPLETED


def build_body(played: Played) -> Mapping[str, JSON]:
    """Return the further results as JSON: steady states, decisions, and strikes of each fault."""
    steady: dict[str, JSON] = {"title": played.scenario.steady_state.title, "before": _list_probes(played.before)}
    if played.during is not None:
        steady["during"] = _list_probes(played.scenario.check_disturbed(played.during))
        steady["after"] = _list_probes(played.after)
    return {
        "equipped": [played.equipped] if played.equipped else [],
        "steady": steady,
        "struck": dict(played.struck),
        "lines": [_line(line) for line in played.lines],
        "aborted": played.why if played.aborted else "",
    }


def _list_probes(checked: Sequence[CheckedProbe]) -> list[JSON]:
    return [{"probe": one.probe, "output": one.output, "why_not": one.why_not} for one in checked]


def _line(line: DecisionLine) -> JSON:
    return {"seq": line.seq, "expected": line.expected, "observed": line.observed, "evidence": f"event {line.seq}"}


def virtual_cell(one: Drill, spec: FabricSpec) -> Driven:
    """Drill a cell in simulated time. Its runs are kept: the undisturbed one, the disturbed one, and the
    one after it.
    """
    failure, tier = FailureType(one.failure), Tier(one.tier)
    told = drill_told(spec, failure, tier, seed=one.seed, names=build_names(one))
    cell = told.cell
    return Driven(
        status=Status.FAILED if cell.verdict == "error" else Status.COMPLETED,
        verdict=cell.verdict,
        expected=cell.expected,
        observed=cell.observed,
        why=cell.why,
        body=_cell_body(told),
        kept=build_kept_runs(
            one, f"{words(failure).capitalize()} in {words(tier)}", told.spec, told.before, told.world
        ),
    )


def _cell_body(told: DrilledCell) -> dict[str, JSON]:
    """Return the further results of a cell, besides its verdict."""
    return {
        "equipped": [told.cell.equipped] if told.cell.equipped else [],
        "story": build_story(told.world, told.before),
        "steady": list_phases(told.before, told.world),
    }


def live_cell(one: Drill, spec: FabricSpec) -> Driven:
    """Drill a cell on the installation itself."""
    from simulator.drills.live import cells as in_place  # It loads the ports, which a virtual drill does without.

    return in_place.live_cell(one, spec)


def live_scenario(one: Drill, spec: FabricSpec) -> Driven:
    """Play a scenario on the installation itself."""
    from simulator.drills.live import scenarios as in_place_scenarios  # The same.

    return in_place_scenarios.live_scenario(one, spec)


DRIVES: Mapping[tuple[str, bool], Callable[[Drill, FabricSpec], Driven]] = {
    ("virtual", False): virtual_cell,
    ("virtual", True): virtual_scenario,
    ("live", False): live_cell,
    ("live", True): live_scenario,
}
"""Function for each mode, and for a cell (False) or a scenario (True)."""


def drive_drill(one: Drill, spec: FabricSpec) -> Driven:
    """Execute it in the revision's fabric. Raises KeyError for an unknown mode, and every error of the engine or its
    world.
    """
    return DRIVES[one.mode, bool(one.scenario)](one, spec)
