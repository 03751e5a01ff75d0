"""Cells of single stages that no drill meets: each failure is drilled in the stage in which ``sustained`` makes it."""

from __future__ import annotations

from fabric.core.flow import Stage
from fabric.core.spec import FabricSpec
from fabric.core.spec_stages import OwnCell
from fabric.core.taxonomy import FailureType
from simulator.drills.layers import met_in


def unmet(spec: FabricSpec) -> tuple[OwnCell, ...]:
    """The cells that stages have of their own and that no drill meets."""
    return tuple(
        cell for cell in spec.cells if cell.stage is not None and cell.stage not in _drilled_in(spec, cell.failure)
    )


def unmet_said(spec: FabricSpec) -> str:
    """One sentence about them; empty: there are none."""
    found = [f"{cell.stage}: {cell.failure} x {cell.tier}" for cell in unmet(spec)]
    if not found:
        return ""
    return f"No drill meets these cells of single stages, so nothing is shown about them: {', '.join(found)}"


def _drilled_in(spec: FabricSpec, failure: FailureType) -> frozenset[Stage]:
    """Returns the stages in which drills meet the row. A branch without a result also leaves a gap in the fan-out. A drill meets an overrun once more in the new plan."""
    found = {met_in(spec, failure)}
    found |= {Stage.FAN_OUT} if failure is FailureType.SCHEMA_GROUNDING else set()
    return frozenset(found | ({Stage.PLAN} if failure is FailureType.COST_OVERRUN else set()))
