"""Reads the drill results of all published fabrics of a workspace, by five statements in total."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from django.db.models import Max, Min

from fabric.core.people.actor import Actor
from fabric.selectors.errors import Refused
from fabric.selectors.fabrics.lookup import FabricView, fabrics_list
from simulator.drills.models.tables import VIRTUAL, Drill
from simulator.drills.selectors.draft_fabrics import convert_instant, list_draft_fabrics
from simulator.drills.selectors.drill_views import State, cell_digests
from simulator.scenarios.promises.digests import Cell

FABRICS_MAX = 40
"""Number of fabrics that are read; further ones, by name, are only counted."""
WRONG = (State.DEVIATED, State.ERROR, State.STALE, State.NEVER)
"""States that need an act, the worst first."""


@dataclass(frozen=True)
class FabricStanding:
    """Drill results of a published fabric."""

    fabric: str
    number: int
    states: Mapping[Cell, State]
    """State of each cell. A waiting or running cell has the state of its last verdict."""
    last_at: int | None = None
    """End of the newest drill that counts, microseconds since the epoch; None if it was never drilled."""

    @cached_property
    def counts(self) -> Mapping[State, int]:
        """Return the number of cells by state."""
        return Counter(self.states.values())

    @property
    def proven(self) -> int:
        """Return the number of cells that passed as they are now."""
        return self.counts.get(State.PASS, 0)

    @property
    def cells(self) -> int:
        """Return the number of cells."""
        return len(self.states)

    @property
    def never(self) -> bool:
        """Return True if no cell was ever drilled."""
        return self.counts.get(State.NEVER, 0) == self.cells

    @property
    def harm(self) -> tuple[int, ...]:
        """Return the sort key: the worst comes first."""
        return tuple(-self.counts.get(state, 0) for state in WRONG)


@dataclass(frozen=True, slots=True)
class WorkspaceStanding:
    """Drill results of all fabrics."""

    wrong: tuple[FabricStanding, ...]
    """Fabrics with a deviated, failed, stale or never drilled cell; the worst first."""
    undrilled: tuple[str, ...]
    """Names of fabrics that were never drilled."""
    whole: int
    """Number of fabrics of which every cell passed as it is now."""
    unseen: int
    """Number of fabrics that were not read: beyond ``FABRICS_MAX``, or published by another version."""


def drills_standing(actor: Actor) -> WorkspaceStanding:
    """Return the drill results of the workspace's published fabrics."""
    published = fabrics_list(actor)
    stands = fabric_stands(actor, published)
    wrong = [one for one in stands if not one.never and any(one.counts.get(state) for state in WRONG)]
    return WorkspaceStanding(
        wrong=tuple(sorted(wrong, key=lambda one: (one.harm, one.fabric))),
        undrilled=tuple(one.fabric for one in stands if one.never),
        whole=sum(not one.never and one not in wrong for one in stands),
        unseen=len(published) - len(stands),
    )


def fabric_stands(actor: Actor, published: Sequence[FabricView]) -> list[FabricStanding]:
    """Return the drill results of these fabrics, in order, without those that are not read. Three statements.

    Verdicts about drafts count as in ``drills.cells_known``.
    """
    digests = {one.id: (one, found) for one in published[:FABRICS_MAX] if (found := _digests(one))}
    by_name = {one.name: one for one, _ in digests.values()}
    drafts = {
        each: by_name[name].id for each, name in list_draft_fabrics(actor.workspace_id).items() if name in by_name
    }
    of = {each: each for each in digests} | drafts
    fresh, drilled = _verdicts(digests, of), _drilled_cells(digests, of)
    return [_stand(one, found, fresh, drilled) for one, found in digests.values()]


def _digests(one: FabricView) -> Mapping[Cell, str]:
    try:
        return cell_digests(one.revision_id)
    except (Refused, ValueError):  # Published by another version, which this one cannot read.
        return {}


Drilled = Mapping[tuple[str, str, str], int | None]
"""End of the newest drill by fabric, failure and tier; microseconds."""
Digests = Mapping[str, tuple[FabricView, Mapping[Cell, str]]]
"""Each fabric that is read, by id, with the digests of its cells."""


def _verdicts(digests: Digests, of: Mapping[str, str]) -> Mapping[tuple[str, str], str]:
    """Return the last verdict by fabric and digest. ``of``: the published fabric of each drilled one."""
    known = [digest for _, found in digests.values() for digest in found.values()]
    rows = Drill.objects.filter(fabric_id__in=list(of), mode=VIRTUAL, scenario="", covers__in=known)
    newest = rows.exclude(verdict="").values("fabric_id", "covers").annotate(newest=Max("id")).order_by()
    ids = list(newest.values_list("newest", flat=True))
    told = Drill.objects.filter(id__in=ids).order_by("id").values_list("fabric_id", "covers", "verdict")
    return {(of[fabric], digest): verdict for fabric, digest, verdict in told}


def _drilled_cells(digests: Digests, of: Mapping[str, str]) -> Drilled:
    """Return each cell that was ever drilled, itself or in a draft before its revision."""
    rows = Drill.objects.filter(fabric_id__in=list(of), mode=VIRTUAL, scenario="").exclude(verdict="")
    asked = rows.values("fabric_id", "failure", "tier").annotate(first=Min("asked_at"), last=Max("ended_at")).order_by()
    found: dict[tuple[str, str, str], int | None] = {}
    for each, failure, tier, first, last in asked.values_list("fabric_id", "failure", "tier", "first", "last"):
        if each in digests or first < convert_instant(digests[of[each]][0].published_at):
            cell = (of[each], failure, tier)
            found[cell] = max(filter(None, (found.get(cell), last)), default=None)
    return found


def _stand(
    one: FabricView, digests: Mapping[Cell, str], fresh: Mapping[tuple[str, str], str], drilled: Drilled
) -> FabricStanding:
    states: dict[Cell, State] = {}
    for (failure, tier), digest in digests.items():
        verdict = fresh.get((one.id, digest))
        before = State.STALE if (one.id, str(failure), str(tier)) in drilled else State.NEVER
        states[failure, tier] = State(verdict) if verdict else before
    last = max((at for (fabric, _, _), at in drilled.items() if fabric == one.id and at), default=None)
    return FabricStanding(one.name, one.number, states, last)
