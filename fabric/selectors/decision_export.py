"""The history of decisions as a file."""

from __future__ import annotations

from typing import Any

from fabric.core.actor import Actor
from fabric.core.notifications import rfc3339
from fabric.selectors.decision_history import PAGE_MAX, Decided, HistoryFilter, decided_page
from fabric.selectors.list_file import ListLines

US = 1_000_000
JSON = Any


class DecisionLines(ListLines):
    """The decisions that a filter asks for, the newest first."""

    name = "decisions"
    called = "decisions"
    columns = (
        *("id", "run_id", "fabric", "tier", "kind", "stage", "failure_type", "reason", "verb", "decided_by"),
        *("by_system", "agreed_before", "opened_at", "due_at", "claimed_at", "decided_at", "took_s", "worked_s"),
        *("late", "score", "tau"),
    )

    def __init__(self, actor: Actor, wanted: HistoryFilter, form: str) -> None:
        super().__init__(form)
        self._actor, self._wanted, self._after = actor, wanted, ""

    def rows(self) -> tuple[list[dict[str, JSON]], bool]:
        """The next rows."""
        page = decided_page(self._actor, self._wanted, limit=PAGE_MAX, after=self._after)
        self._after = page.next
        return [said(one) for one in page.rows], bool(page.next)


def said(one: Decided) -> dict[str, JSON]:
    """A decision as a program reads it."""
    return {
        "id": one.id,
        "run_id": one.run_id,
        "fabric": one.fabric,
        "tier": one.tier,
        "kind": one.item,
        "stage": one.stage,
        "failure_type": one.failure_type,
        "reason": one.reason,
        "verb": one.verb,
        "decided_by": one.decided_by,
        "by_system": one.by_system,
        "agreed_before": list(one.agreed),
        "opened_at": rfc3339(one.opened_at),
        "due_at": rfc3339(one.due_at),
        "claimed_at": None if one.claimed_at is None else rfc3339(one.claimed_at),
        "decided_at": rfc3339(one.decided_at),
        "took_s": round(one.took_us / US, 3),
        "worked_s": None if one.worked_us is None else round(one.worked_us / US, 3),
        "late": one.late,
        "score": one.score,
        "tau": one.tau,
    }
