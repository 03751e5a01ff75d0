"""Lists decisions of people, and those that expiry made for them: author, time, duration.

They are filtered in SQL, the newest first, and also written as a file. Follow-ups are left out: they park nothing and
no run waits for them. Withdrawn reviews have no decision; they are listed on request.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from django.db.models import Count, F, Q, QuerySet

from fabric.core.audit.lines import Act
from fabric.core.people.actor import Actor
from fabric.core.texts.notifications import rfc3339
from fabric.core.texts.text import clean_text
from fabric.core.values.units import JSON, US
from fabric.models import AuditLine, Review
from fabric.models.reviews import DECIDED, FOLLOW_UP, WITHDRAWN
from fabric.runtime.ports.batch_parts import list_names
from fabric.selectors.contents import line_for, may_read, title_for
from fabric.selectors.database_time import time_limit
from fabric.selectors.list_file import ListLines, build_cursor_condition
from fabric.selectors.reach import match_visible

DAY_US = 86_400 * US
PAGE_MAX = 200
LIMIT_S = 2.0
"""Seconds after which the database gives up a query."""
CLAIMS_MAX = 2_000
"""Lines of the audit stream that are read for one page."""
VERBS = ("approve", "edit", "reject", "respond", "decline", WITHDRAWN)
"""Possible outcomes of a review."""
Who = Literal["", "people", "system"]
_TAKEN = (Act.REVIEW_CLAIMED.value, Act.REVIEW_TAKEN_OVER.value)


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryFilter:
    """Filter of the history; an empty field narrows nothing. Instants are microseconds since the epoch, UTC."""

    since: int = 0
    """Earliest decision, included."""
    until: int | None = None
    """Latest decision, excluded; None: until now."""
    fabric: str = ""
    """A fabric's name."""
    tier: str = ""
    item: str = ""
    """Kind, such as ``failure`` or ``post_stage``."""
    verb: str = ""
    failure: str = ""
    """A failure type, a row of the decision table."""
    by: str = ""
    """Author of the decisions."""
    who: Who = ""
    """People's decisions alone, or the system's alone: the expired ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DecidedReview:
    """A decided review. Instants are microseconds since the epoch, UTC."""

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
    """Earlier approvers, where two people had to agree."""
    opened_at: int
    due_at: int
    decided_at: int
    score: float | None
    """The critic's score, where low confidence caused the review."""
    tau: float | None
    """Least score that passes."""
    claimed_at: int | None = None
    """Time at which the author claimed it, from the audit stream; None: never, or unknown."""

    @property
    def took_us(self) -> int:
        """Return the time from the review's opening to its decision."""
        return self.decided_at - self.opened_at

    @property
    def worked_us(self) -> int | None:
        """Return the time from its claim to its decision; None: unknown."""
        return None if self.claimed_at is None else self.decided_at - self.claimed_at

    @property
    def expired(self) -> bool:
        """Return True if it expired without an answer."""
        return self.by_system and self.verb != WITHDRAWN

    @property
    def late(self) -> bool:
        """Return True if a person decided it after it was due."""
        return not self.by_system and self.decided_at > self.due_at

    @property
    def cursor(self) -> str:
        """Return the cursor that ``decided_page`` takes as ``after`` to continue after this one."""
        return f"{self.decided_at}.{self.id}"


@dataclass(frozen=True, slots=True)
class DecidedPage:
    """Some decisions, the newest first, with the beginning of the next page."""

    rows: tuple[DecidedReview, ...]
    next: str
    """Cursor of the next page; empty: this is the last."""


_OWN = ("id", "run_id", "item", "stage", "reason", "failure_type", "verb", "decided_by", "by_system", "agreed")
_OWN_TOO = ("opened_at", "due_at", "decided_at", "score", "tau")
_OF_RUN = {"run_title": F("run__title"), "fabric": F("run__fabric__name"), "tier": F("run__tier")}


def decided_page(actor: Actor, wanted: HistoryFilter, *, limit: int = 50, after: str = "") -> DecidedPage:
    """Return a page of the decisions of the actor's workspace: two statements. ``after``: the cursor of the page
    before.

    Raises Refused invalid for a bad cursor; TookTooLong.
    """
    limit = max(1, min(limit, PAGE_MAX))
    rows = find_decided(actor, wanted)
    if after:
        rows = rows.filter(build_cursor_condition(after, "-decided_at"))
    columns = rows.order_by("-decided_at", "id").values(*_OWN, *_OWN_TOO, **_OF_RUN)
    with time_limit(LIMIT_S):
        found = list(columns[: limit + 1])
    more, found = len(found) > limit, found[:limit]
    taken = _claims_by_review(actor, found)
    page = tuple(
        DecidedReview(
            **{**row, "agreed": list_names(row["agreed"]), **_read(row, reads=may_read(actor, row["fabric"]))},
            claimed_at=_claim_time(row, taken.get(row["id"], ())),
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


def find_decided(actor: Actor, wanted: HistoryFilter) -> QuerySet[Review]:
    """Return the decided reviews of a filter, in no order."""
    rows = Review.objects.filter(match_visible(actor, Review), DECIDED, decided_at__gte=wanted.since)
    rows = rows.exclude(item=FOLLOW_UP)
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
class DecisionsSince:
    """Numbers of people's decisions since an instant; decisions of the system are left out."""

    mine: int
    """Decisions of the actor."""
    people: int
    """Decisions of all people, the actor included."""


def decided_since(actor: Actor, since: int) -> DecisionsSince:
    """Count people's decisions since an instant, microseconds since the epoch: one statement, from the index of
    decided reviews.
    """
    rows = find_decided(actor, HistoryFilter(since=since, who="people"))
    found = rows.aggregate(mine=Count("id", filter=Q(decided_by=actor.name)), people=Count("id"))
    return DecisionsSince(found["mine"], found["people"])


def _claims_by_review(actor: Actor, rows: Sequence[Mapping[str, Any]]) -> Mapping[str, list[tuple[str, int]]]:
    """Return by review the people who claimed it and when, from the audit stream."""
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


def _claim_time(row: Mapping[str, Any], taken: Iterable[tuple[str, int]]) -> int | None:
    mine = (at for name, at in taken if name == row["decided_by"] and at <= row["decided_at"])
    return max(mine, default=None)


class DecisionLines(ListLines):
    """Decisions of a filter, the newest first."""

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
        """Return the next rows."""
        page = decided_page(self._actor, self._wanted, limit=PAGE_MAX, after=self._after)
        self._after = page.next
        return [decision_json(one) for one in page.rows], bool(page.next)


def decision_json(one: DecidedReview) -> dict[str, JSON]:
    """Return a decision as a program reads it."""
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
