"""Cells of the decision table that an author wrote, for the fabric or for one stage."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from fabric.core.spec.policies.decision_table import Ladder
from fabric.core.spec.policies.stages import HERE, Cells, StagePolicy
from fabric.core.values.flow import Stage
from fabric.core.values.frozen import value
from fabric.core.values.taxonomy import FailureType, Tier


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


def list_cells(table: Cells, stages: Mapping[Stage, StagePolicy]) -> Iterator[OwnCell]:
    """The cells that an author wrote: the fabric's, then those of its stages."""
    yield from _cells("decision_table", None, table)
    for stage, own in stages.items():
        yield from _cells(f"{HERE}.{stage}.decision_table", stage, own.decision_table)


def _cells(path: str, stage: Stage | None, table: Cells) -> Iterator[OwnCell]:
    for failure, row in table.items():
        for tier, ladder in row.items():
            yield OwnCell(f"{path}.{failure}.{tier}", stage, failure, tier, ladder)
