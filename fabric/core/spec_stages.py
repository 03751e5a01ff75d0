"""What single stages of a fabric have otherwise (``policy.stages``): where its own cells stand, and what of it does not fit its stage."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from fabric.core.decision_table import Ladder, table_with
from fabric.core.flow import Stage
from fabric.core.frozen import value
from fabric.core.stage_policy import Cells, misplaced
from fabric.core.taxonomy import FailureType, Tier

if TYPE_CHECKING:
    from fabric.core.spec import FabricSpec

HERE = "policy.stages"


@value()
class OwnCell:
    """A cell of the decision table that a fabric, or one of its stages, has of its own."""

    path: str
    stage: Stage | None
    """None: it is the fabric's, and holds in each stage that has none of its own."""
    failure: FailureType
    tier: Tier
    ladder: Ladder
    own: bool = True
    """False: the author wrote none, and the default table's holds."""


def cells_in_force(spec: FabricSpec) -> Iterator[OwnCell]:
    """The cells that a run may come to: each row in each tier that a run may pick, then what stages have of their own there."""
    table = table_with(spec.decision_table)
    for tier in spec.tiers.allowed:
        for failure in FailureType:
            own = tier in spec.decision_table.get(failure, {})
            yield OwnCell(f"decision_table.{failure}.{tier}", None, failure, tier, table[failure, tier], own)
    yield from (cell for cell in spec.cells if cell.stage is not None and cell.tier in spec.tiers.allowed)


def cell_at(spec: FabricSpec, failure: FailureType, tier: Tier, stage: Stage | str) -> Ladder:
    """The cell of a failure that happened in a stage, without the layers that lie around it. ``stage``: empty where none is known."""
    own = (one.ladder for one in spec.cells if (one.failure, one.tier, one.stage) == (failure, tier, stage))
    return next(own, None) or table_with(spec.decision_table)[failure, tier]


def cells_of(spec: FabricSpec) -> Iterator[OwnCell]:
    """The cells that an author wrote: the fabric's, then those of its stages."""
    yield from _cells("decision_table", None, spec.decision_table)
    for stage, own in spec.policy.stages.items():
        yield from _cells(f"{HERE}.{stage}.decision_table", stage, own.decision_table)


def _cells(path: str, stage: Stage | None, table: Cells) -> Iterator[OwnCell]:
    for failure, row in table.items():
        for tier, ladder in row.items():
            yield OwnCell(f"{path}.{failure}.{tier}", stage, failure, tier, ladder)


def stage_problems(spec: FabricSpec) -> Iterator[str]:
    """What is wrong with ``policy.stages``: values that mean nothing in their stage, and those that do not fit the fabric's."""
    for stage, own in spec.policy.stages.items():
        for path, sentence in misplaced(stage, own):
            yield f"{HERE}.{stage}.{path}: {sentence}"
        if own.loop_detector.detectors is not None and spec.policy.loop_detector.preset is not None:
            yield f"{HERE}.{stage}.loop_detector.detectors: the fabric has one rule in place of detectors (policy.loop_detector.preset); leave one of the two out"
