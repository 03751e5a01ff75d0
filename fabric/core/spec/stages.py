"""Settings of single stages (``policy.stages``): the cells in force in them, and problems of their values."""

from __future__ import annotations

from collections.abc import Iterator

from fabric.core.spec.cells import OwnCell
from fabric.core.spec.policies.decision_table import Ladder, table_with
from fabric.core.spec.policies.stages import HERE, list_misplaced
from fabric.core.spec.tree import FabricTree
from fabric.core.values.flow import Stage
from fabric.core.values.taxonomy import FailureType, Tier


def cells_in_force(spec: FabricTree) -> Iterator[OwnCell]:
    """Yield the cells that a run may come to. Each row has one for each tier that a run may pick; the stages' own
    follow.
    """
    table = table_with(spec.decision_table)
    for tier in spec.tiers.allowed:
        for failure in FailureType:
            own = tier in spec.decision_table.get(failure, {})
            yield OwnCell(f"decision_table.{failure}.{tier}", None, failure, tier, table[failure, tier], own)
    yield from (cell for cell in spec.cells if cell.stage is not None and cell.tier in spec.tiers.allowed)


def cell_at(spec: FabricTree, failure: FailureType, tier: Tier, stage: Stage | str) -> Ladder:
    """The cell of a failure that happened in a stage, without the layers that lie around it. ``stage``: empty where
    none is known.
    """
    own = (one.ladder for one in spec.cells if (one.failure, one.tier, one.stage) == (failure, tier, stage))
    return next(own, None) or table_with(spec.decision_table)[failure, tier]


def stage_problems(spec: FabricTree) -> Iterator[str]:
    """Yield each problem of ``policy.stages``: values without meaning in their stage, and values that contradict the
    fabric's.
    """
    for stage, own in spec.policy.stages.items():
        for path, sentence in list_misplaced(stage, own):
            yield f"{HERE}.{stage}.{path}: {sentence}"
        if own.loop_detector.detectors is not None and spec.policy.loop_detector.preset is not None:
            yield f"{HERE}.{stage}.loop_detector.detectors: the fabric has one rule in place of detectors (policy.loop_detector.preset); leave one of the two out"
