"""Cost per success: all that a fabric's runs cost, over those that completed with the oracle passed, or the gates where none is set (semantics.md 1).

Per fabric, revision and tier, of the runs that were asked for within a window; what a run spawned is part of its cost. A run that is not over counts with
what it has cost so far. Money is micro-dollars. Bounded like the overview, and it says where it was cut.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from django.db.models import Count, Q, Sum

from fabric.core.actor import Actor
from fabric.core.decision_table import Reaction
from fabric.core.flow import STATIC_ANSWER, RunState
from fabric.core.taxonomy import Tier
from fabric.models import Revision, Run
from fabric.models.runs import ASKED_FOR
from fabric.selectors.fabrics import fabric_get, revision_spec
from fabric.selectors.overview import DAY, NEWEST_RUNS
from fabric.selectors.reach import seen_by

Basis = Literal["oracle", "gates", "mixed"]
"""An oracle of the revision; its gates alone, where it has none; of several revisions some have one."""
FELL_BACK = Q(reason=str(Reaction.SAFE_FALLBACK)) | Q(reason__startswith=STATIC_ANSWER)
"""Completed with the fabric's static answer: no gate has passed what its agents said, so it is no success."""
DAYS = 7
DAYS_MAX = 90


@dataclass(frozen=True, slots=True, kw_only=True)
class SuccessCost:
    """What a set of runs cost, and what came of it."""

    revision: int | None = None
    """Number of the revision; None: of all together."""
    tier: Tier | None = None
    """None: of all together."""
    runs: int = 0
    completed: int = 0
    cost_usd_micros: int = 0
    by: Basis = "gates"
    """What says that a run was a success."""

    @property
    def per_success(self) -> int | None:
        """Micro-dollars for each run that completed, rounded up; None: none did."""
        return -(-self.cost_usd_micros // self.completed) if self.completed else None


@dataclass(frozen=True, slots=True)
class SuccessCosts:
    """A fabric's cost per success, altogether and in its parts."""

    days: int
    whole: SuccessCost
    parts: tuple[SuccessCost, ...]
    """By revision, the newest first, and tier; those without runs are left out."""
    cut: bool
    """True: only the newest runs were looked at."""


def success_costs(actor: Actor, name: str, now: int, days: int = DAYS) -> SuccessCosts:
    """What a success cost in a fabric lately. ``now``: microseconds since the epoch. Refused not_found."""
    fabric = fabric_get(actor, name)
    rows = Run.objects.filter(seen_by(actor, Run), ASKED_FOR, fabric_id=fabric.id, created_at__gt=now - days * DAY)
    oldest = rows.order_by("-created_at").values_list("created_at", flat=True)[NEWEST_RUNS : NEWEST_RUNS + 1]
    cut = next(iter(oldest), None)
    rows = rows if cut is None else rows.filter(created_at__gt=cut)
    found = rows.order_by().values_list("revision_id", "tier").annotate(
        runs=Count("id"),
        completed=Count("id", filter=Q(state=RunState.COMPLETED.value) & ~FELL_BACK),
        cost=Sum("cost_usd_micros"),
    )  # fmt: skip
    groups = list(found)
    numbers = dict(Revision.objects.filter(id__in={one[0] for one in groups}).values_list("id", "number"))
    order = list(Tier)
    bases = {revision_id: _basis(revision_id) for revision_id in numbers}
    parts = sorted(
        (
            SuccessCost(
                revision=numbers.get(revision_id, 0),
                tier=Tier(tier),
                runs=runs,
                completed=completed,
                cost_usd_micros=cost,
                by=bases.get(revision_id, "gates"),
            )
            for revision_id, tier, runs, completed, cost in groups
        ),
        key=lambda part: (-(part.revision or 0), order.index(part.tier or order[0])),
    )
    whole = SuccessCost(
        runs=sum(part.runs for part in parts),
        completed=sum(part.completed for part in parts),
        cost_usd_micros=sum(part.cost_usd_micros for part in parts),
        by=_together({part.by for part in parts}),
    )
    return SuccessCosts(days, whole, tuple(parts), cut is not None)


def _basis(revision_id: str) -> Basis:
    return "oracle" if revision_spec(revision_id).gates.oracle else "gates"


def _together(found: set[Basis]) -> Basis:
    return next(iter(found), "gates") if len(found) < 2 else "mixed"
