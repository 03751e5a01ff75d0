"""What people decided, and what time decided for them: who, when, how long it took. Filtered in SQL, the newest first.

Tickets are none of it: they park nothing and no run waits for them. What was withdrawn nobody decided; it is listed where it is asked for.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from django.db.models import Count, F, Q, QuerySet

from fabric.core.actor import Actor
from fabric.core.audit import Act
from fabric.core.text import clean_text
from fabric.models import AuditLine, Escalation
from fabric.models.escalations import DECIDED, TICKET
from fabric.runtime.batch_parts import names_of
from fabric.selectors.contents import line_for, may_read, title_for
from fabric.selectors.cursors import behind
from fabric.selectors.reach import seen_by
from fabric.selectors.time_limit import time_limit

US = 1_000_000
DAY_US = 86_400 * US
PAGE_MAX = 200
LIMIT_S = 2.0
"""What the database cannot answer in so long is given up."""
CLAIMS_MAX = 2_000
"""Lines of the audit stream that are read for one page."""
WITHDRAWN = "withdrawn"
VERBS = ("approve", "edit", "reject", "respond", "decline", WITHDRAWN)
"""What a question may have come to."""
Who = Literal["", "people", "system"]
WHO: tuple[Who, ...] = ("", "people", "system")
_TAKEN = (Act.REVIEW_CLAIMED.value, Act.REVIEW_TAKEN_OVER.value)


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryFilter:
    """What of the history is asked for; what is empty narrows nothing. Instants are microseconds since the epoch, UTC."""

    since: int = 0
    """Decided then or later..."""
    until: int | None = None
    """...and before this; None: until now."""
    fabric: str = ""
    """A fabric's name."""
    tier: str = ""
    item: str = ""
    """The kind: ``failure``, ``post_stage`` ..."""
    verb: str = ""
    failure: str = ""
    """A failure type, a row of the decision table."""
    by: str = ""
    """Whose decisions."""
    who: Who = ""
    """By people alone, or by the system alone: those that expired."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decided:
    """A question that was decided. Instants are microseconds since the epoch, UTC."""

    id: str
    run_id: str
    run_title: str
    fabric: str
    tier: str
    item: str
    stage: str
    reason: str
    failure_type: str
    verb: str
    decided_by: str
    by_system: bool
    agreed: tuple[str, ...]
    """Who had agreed before, where two people had to."""
    opened_at: int
    due_at: int
    decided_at: int
    score: float | None
    """What the critic gave, where confidence was why it was asked..."""
    tau: float | None
    """...and the least that passes."""
    claimed_at: int | None = None
    """When whoever decided took it in hand, as the audit stream has it; None: they did not, or it says nothing of it."""

    @property
    def took_us(self) -> int:
        """From the question to its decision."""
        return self.decided_at - self.opened_at

    @property
    def worked_us(self) -> int | None:
        """From when it was taken in hand to its decision; None: that is not known."""
        return None if self.claimed_at is None else self.decided_at - self.claimed_at

    @property
    def expired(self) -> bool:
        """Whether nobody answered in time."""
        return self.by_system and self.verb != WITHDRAWN

    @property
    def late(self) -> bool:
        """Whether a person decided it after it was due."""
        return not self.by_system and self.decided_at > self.due_at

    @property
    def cursor(self) -> str:
        """What ``decided_page`` takes as ``after`` to go on after this one."""
        return f"{self.decided_at}.{self.id}"


@dataclass(frozen=True, slots=True)
class DecidedPage:
    """Some decisions, the newest first, and where the next page begins."""

    rows: tuple[Decided, ...]
    next: str
    """Cursor of the next page; empty: this is the last."""


_OWN = ("id", "run_id", "item", "stage", "reason", "failure_type", "verb", "decided_by", "by_system", "agreed")
_OWN_TOO = ("opened_at", "due_at", "decided_at", "score", "tau")
_OF_RUN = {"run_title": F("run__title"), "fabric": F("run__fabric__name"), "tier": F("run__tier")}


def decided_page(actor: Actor, wanted: HistoryFilter, *, limit: int = 50, after: str = "") -> DecidedPage:
    """A page of the decisions of the actor's workspace: two statements. ``after``: the cursor of the page before.

    Refused invalid for a cursor that is none; raises TookTooLong.
    """
    limit = max(1, min(limit, PAGE_MAX))
    rows = matching(actor, wanted)
    if after:
        rows = rows.filter(behind(after, "-decided_at"))
    columns = rows.order_by("-decided_at", "id").values(*_OWN, *_OWN_TOO, **_OF_RUN)
    with time_limit(LIMIT_S):
        found = list(columns[: limit + 1])
    more, found = len(found) > limit, found[:limit]
    taken = _taken(actor, found)
    page = tuple(
        Decided(
            **{**row, "agreed": names_of(row["agreed"]), **_read(row, reads=may_read(actor, row["fabric"]))},
            claimed_at=_claimed(row, taken.get(row["id"], ())),
        )
        for row in found
    )
    return DecidedPage(page, page[-1].cursor if more else "")


def _read(row: Mapping[str, Any], *, reads: bool) -> Mapping[str, str]:
    """Returns the parts of a row that may quote a content, as a reader sees them."""
    return {
        "reason": line_for(row["reason"], reads=reads),
        "run_title": title_for(row["run_title"], reads=reads),
    }


def matching(actor: Actor, wanted: HistoryFilter) -> QuerySet[Escalation]:
    """The decided questions that a filter asks for, in no order."""
    rows = Escalation.objects.filter(seen_by(actor, Escalation), DECIDED, decided_at__gte=wanted.since)
    rows = rows.exclude(item=TICKET)
    if wanted.until is not None:
        rows = rows.filter(decided_at__lt=wanted.until)
    exact = {
        "run__fabric__name": wanted.fabric,
        "run__tier": wanted.tier,
        "item": wanted.item,
        "verb": wanted.verb,
        "failure_type": wanted.failure,
        "decided_by": wanted.by,
    }
    rows = rows.filter(**{name: clean_text(given)[0] for name, given in exact.items() if given})
    if wanted.verb != WITHDRAWN:
        rows = rows.exclude(verb=WITHDRAWN)
    if wanted.by:
        rows = rows.filter(by_system=False)
    return rows.filter(by_system=wanted.who == "system") if wanted.who else rows


@dataclass(frozen=True, slots=True)
class Since:
    """How much people decided since an instant; what the system decided for want of an answer is none of it."""

    mine: int
    """By whoever looks."""
    people: int
    """By anybody, whoever looks among them."""


def decided_since(actor: Actor, since: int) -> Since:
    """How much people decided since an instant, microseconds since the epoch: one statement, from the index of what was decided."""
    rows = matching(actor, HistoryFilter(since=since, who="people"))
    found = rows.aggregate(mine=Count("id", filter=Q(decided_by=actor.name)), people=Count("id"))
    return Since(found["mine"], found["people"])


def _taken(actor: Actor, rows: Sequence[Mapping[str, Any]]) -> Mapping[str, list[tuple[str, int]]]:
    """Who took those questions in hand, and when, as the audit stream has it."""
    by_people = [row for row in rows if not row["by_system"]]
    if not by_people:
        return {}
    lines = AuditLine.objects.filter(
        workspace_id=actor.workspace_id, subject__in={row["run_id"] for row in by_people}, kind__in=_TAKEN
    )
    found: dict[str, list[tuple[str, int]]] = {}
    for name, at, body in lines.values_list("actor", "at", "body")[:CLAIMS_MAX]:
        found.setdefault(str(json.loads(bytes(body)).get("item", "")), []).append((name, at))
    return found


def _claimed(row: Mapping[str, Any], taken: Iterable[tuple[str, int]]) -> int | None:
    mine = (at for name, at in taken if name == row["decided_by"] and at <= row["decided_at"])
    return max(mine, default=None)
