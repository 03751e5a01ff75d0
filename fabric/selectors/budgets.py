"""Where the budgets of a workspace stand that its runs share."""

from __future__ import annotations

import time
from dataclasses import dataclass

from django.db.models import Q, Sum

from fabric.core.actor import Actor
from fabric.core.grants import unit_of
from fabric.models import BudgetWindow, SharedBudget
from fabric.runtime.grant_rules import LEAVES_US


@dataclass(frozen=True, slots=True)
class Standing:
    """One budget, micro-dollars or tokens."""

    scope: str
    cap: int
    spent: int
    """Of an hourly one, within the last hour."""
    granted: int
    """What workers hold of it, spent or not."""
    overrun: int
    hourly: bool

    @property
    def unit(self) -> str:
        """``usd_micros`` or ``tokens``."""
        return unit_of(self.scope)

    @property
    def left(self) -> int:
        """What can still be granted."""
        return max(0, self.cap - self.spent - self.granted)


def budgets_of(actor: Actor, *, now: int | None = None) -> list[Standing]:
    """All of the actor's workspace, by scope; none for who sees some fabrics alone: what runs share is everybody's. ``now``: microseconds since the epoch."""
    if actor.narrow:
        return []
    at = (time.time_ns() // 1_000 if now is None else now) - LEAVES_US
    rows = list(SharedBudget.objects.filter(workspace_id=actor.workspace_id).order_by("scope"))
    past = BudgetWindow.objects.filter(Q(scope__in=[row.scope for row in rows], window_at__lte=at))
    left = dict(past.values_list("scope").annotate(sum=Sum("spent")))
    return [
        Standing(row.scope, row.cap_wanted, row.spent - left.get(row.scope, 0), row.granted, row.overrun, row.hourly)
        for row in rows
    ]
