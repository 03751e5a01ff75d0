"""The history of decisions as a file, a page of rows in memory at a time: CSV for spreadsheets, lines of JSON for programs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from fabric.core.actor import Actor
from fabric.core.csv_cells import line
from fabric.core.notifications import rfc3339
from fabric.selectors.decision_history import PAGE_MAX, Decided, HistoryFilter, decided_page
from fabric.selectors.errors import Refused

US = 1_000_000
JSON = Any
FORMS: Mapping[str, str] = {"csv": "text/csv; charset=utf-8", "ndjson": "application/x-ndjson"}
"""The two forms, and their types of content."""
COLUMNS = (
    *("id", "run_id", "fabric", "tier", "kind", "stage", "failure_type", "reason", "verb", "decided_by", "by_system"),
    *("agreed_before", "opened_at", "due_at", "claimed_at", "decided_at", "took_s", "worked_s", "late", "score", "tau"),
)
"""What stands of each decision, in this order; total by test."""


class DecisionLines:
    """The decisions that a filter asks for, the newest first. Refused invalid for a form that there is none of."""

    def __init__(self, actor: Actor, wanted: HistoryFilter, form: str) -> None:
        if form not in FORMS:
            message = f"decisions are not given as {form[:40]!r}; there are: {', '.join(FORMS)}"
            raise Refused(message, code="invalid", field="form")
        self._actor, self._wanted, self._form = actor, wanted, form
        self._after, self._more, self._first = "", True, True
        self.count = 0
        """Decisions given so far."""

    def next_page(self) -> bytes:
        """The next lines; empty after the last. Raises TookTooLong."""
        if not self._more:
            return b""
        page = decided_page(self._actor, self._wanted, limit=PAGE_MAX, after=self._after)
        self._after, self._more = page.next, bool(page.next)
        head = line(COLUMNS) if self._form == "csv" and self._first else ""
        self._first, self.count = False, self.count + len(page.rows)
        rows = (said(one) for one in page.rows)
        if self._form == "csv":
            return (head + "".join(line([_flat(one[name]) for name in COLUMNS]) for one in rows)).encode()
        return "".join(json.dumps(one, ensure_ascii=False) + "\n" for one in rows).encode()


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


def _flat(value: JSON) -> JSON:
    return ", ".join(value) if isinstance(value, list) else value
