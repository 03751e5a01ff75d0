"""Where the caps of keys stand in this day and month."""

from __future__ import annotations

import time
from dataclasses import dataclass

from fabric.core.actor import Actor
from fabric.core.key_caps import ENVIRONMENT, KEY_DAY
from fabric.models import SharedBudget
from fabric.services.here import installation


@dataclass(frozen=True, slots=True)
class KeyBudget:
    """One cap of one endpoint, micro-dollars."""

    origin: str
    period: str
    """``day`` or ``month``."""
    cap: int
    spent: int
    granted: int
    """What workers hold of it, spent or not."""
    operators: bool
    """Whether the operator sets it; else the workspace's policy does."""

    @property
    def left(self) -> int:
        """What can still be granted."""
        return max(0, self.cap - self.spent - self.granted)


def key_budgets(actor: Actor) -> list[KeyBudget]:
    """The caps of keys that hold in the actor's workspace, as they stand now. One statement."""
    now = time.time_ns() // 1_000
    caps = installation(workspace_id=actor.workspace_id).key_caps
    wanted = [(scope, one) for one in caps for scope in one.scopes(now)]
    rows = {row.scope: row for row in SharedBudget.objects.filter(scope__in=[scope for scope, _ in wanted])}
    found = []
    for scope, one in wanted:
        row, cap = rows.get(scope), one.cap_of(scope)
        assert cap is not None
        spent, granted = (row.spent, row.granted) if row else (0, 0)
        period = "day" if scope.startswith(f"{KEY_DAY}:") else "month"
        found.append(KeyBudget(one.origin, period, cap, spent, granted, one.owner == ENVIRONMENT))
    return found
