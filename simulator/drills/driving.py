"""What it takes to drive one stored drill, by its mode and by whether it plays a scenario; and what comes of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from fabric.core.spec import FabricSpec
from fabric.core.taxonomy import FailureType, Tier
from simulator.drills.cells import drill_told
from simulator.drills.models import Drill, Status

JSON = Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Driven:
    """What came of a drill: columns of its row."""

    status: Status
    verdict: str
    """``pass``, ``deviated``, ``error`` or ``unknown``."""
    expected: str = ""
    observed: str = ""
    why: str = ""
    run_id: str = ""
    """The run that was disturbed, where it is kept."""
    body: Mapping[str, JSON] = field(default_factory=dict)
    """What else is told; JSON."""


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


DRIVES: Mapping[tuple[str, bool], Callable[[Drill, FabricSpec], Driven]] = {("virtual", False): virtual_cell}
"""By mode, and by whether a scenario is played."""


def driven(one: Drill, spec: FabricSpec) -> Driven:
    """Drives it in the revision's fabric. KeyError for a mode that there is not; whatever the engine or its world raises."""
    return DRIVES[one.mode, bool(one.scenario)](one, spec)
