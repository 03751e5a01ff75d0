"""How the published fabrics of a workspace stand with their drills, for who looks at all of them at once: four statements, however many there are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from django.db.models import Max

from fabric.core.actor import Actor
from fabric.selectors.errors import Refused
from fabric.selectors.fabrics import FabricView, fabrics_list
from simulator.drills.covers import Cell
from simulator.drills.models import VIRTUAL, Drill
from simulator.drills.selectors import State, cell_digests

FABRICS_MAX = 40
"""Fabrics that are looked at; the rest, by name, is said to be more."""
WRONG = (State.DEVIATED, State.ERROR, State.STALE, State.NEVER)
"""What somebody should do something about, the most harmful first."""


@dataclass(frozen=True, slots=True)
class Stand:
    """How a fabric stands as it is published."""

    fabric: str
    number: int
    counts: Mapping[State, int]
    """Cells by state. What waits or runs is told by its last verdict."""

    @property
    def proven(self) -> int:
        """Cells that have been shown to do, as they are now, what the table says."""
        return self.counts.get(State.PASS, 0)

    @property
    def cells(self) -> int:
        """All of them."""
        return sum(self.counts.values())

    @property
    def never(self) -> bool:
        """Whether none of it was ever drilled."""
        return self.counts.get(State.NEVER, 0) == self.cells

    @property
    def harm(self) -> tuple[int, ...]:
        """By which the worst comes first."""
        return tuple(-self.counts.get(state, 0) for state in WRONG)


@dataclass(frozen=True, slots=True)
class Standing:
    """How all of them stand."""

    wrong: tuple[Stand, ...]
    """Fabrics of which a cell deviated, could not be drilled, is stale or was never drilled; the worst first."""
    undrilled: tuple[str, ...]
    """Names of those that were never drilled at all."""
    whole: int
    """How many do what their tables say, as they are now."""
    unseen: int
    """How many were not looked at: beyond ``FABRICS_MAX``, or published by another version."""


def drills_standing(actor: Actor) -> Standing:
    """How the workspace's published fabrics stand."""
    published = fabrics_list(actor)
    stands = fabric_stands(published)
    wrong = [one for one in stands if not one.never and any(one.counts.get(state) for state in WRONG)]
    return Standing(
        wrong=tuple(sorted(wrong, key=lambda one: (one.harm, one.fabric))),
        undrilled=tuple(one.fabric for one in stands if one.never),
        whole=sum(not one.never and one not in wrong for one in stands),
        unseen=len(published) - len(stands),
    )


def fabric_stands(published: Sequence[FabricView]) -> list[Stand]:
    """How each of these fabrics stands, in their order; without those that are not looked at. Two statements."""
    digests = {one.id: (one, found) for one in published[:FABRICS_MAX] if (found := _digests(one))}
    fresh, drilled = _verdicts(digests), _drilled(list(digests))
    return [_stand(one, found, fresh, drilled) for one, found in digests.values()]


def _digests(one: FabricView) -> Mapping[Cell, str]:
    try:
        return cell_digests(one.revision_id)
    except (Refused, ValueError):  # Published by another version, which this one cannot read.
        return {}


def _verdicts(digests: Mapping[str, tuple[FabricView, Mapping[Cell, str]]]) -> Mapping[tuple[str, str], str]:
    """By fabric and digest: the last verdict about it."""
    known = [digest for _, found in digests.values() for digest in found.values()]
    rows = Drill.objects.filter(fabric_id__in=list(digests), mode=VIRTUAL, scenario="", covers__in=known)
    newest = rows.exclude(verdict="").values("fabric_id", "covers").annotate(newest=Max("id")).order_by()
    ids = list(newest.values_list("newest", flat=True))
    told = Drill.objects.filter(id__in=ids).values_list("fabric_id", "covers", "verdict")
    return {(fabric, digest): verdict for fabric, digest, verdict in told}


def _drilled(fabrics: Sequence[str]) -> set[tuple[str, str, str]]:
    """Fabric, failure and tier of each cell that was ever drilled."""
    rows = Drill.objects.filter(fabric_id__in=fabrics, mode=VIRTUAL, scenario="").exclude(verdict="")
    return set(rows.values_list("fabric_id", "failure", "tier").order_by().distinct())


def _stand(
    one: FabricView,
    digests: Mapping[Cell, str],
    fresh: Mapping[tuple[str, str], str],
    drilled: set[tuple[str, str, str]],
) -> Stand:
    counts: Counter[State] = Counter()
    for (failure, tier), digest in digests.items():
        verdict = fresh.get((one.id, digest))
        before = State.STALE if (one.id, str(failure), str(tier)) in drilled else State.NEVER
        counts[State(verdict) if verdict else before] += 1
    return Stand(one.name, one.number, counts)
