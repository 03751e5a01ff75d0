"""Lists the review queue by tabs, earliest due time first, filtered by the address, and updates open pages."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from console.pages.lists.grammar import ROWS, ListRequest, list_page
from console.pages.reviews.answers import toast
from console.pages.reviews.assignments import QUEUE, TABS
from console.pages.reviews.parts.queue import URGENCIES, Urgency, find_group
from console.site.access.actors import find_actor
from console.templatetags.figures import COUNT_MAX, capped_count
from console.templatetags.marks import ITEMS, spell_name
from console.words.reviews import SAID
from fabric.core.people.actor import Actor
from fabric.core.values.taxonomy import Tier
from fabric.selectors.database_time import TookTooLong
from fabric.selectors.drafts.change_requests import changes_to_approve
from fabric.selectors.list_file import read_place
from fabric.selectors.overview.waiting import waiting_count
from fabric.selectors.reviews.decisions.history import DAY_US, DecisionsSince, decided_since
from fabric.selectors.reviews.eligibility import who_is_asked
from fabric.selectors.reviews.inbox import count_new
from fabric.selectors.reviews.lookup import list_named_reviews
from fabric.selectors.reviews.queue import (
    COUNTED,
    QueueFilter,
    QueuePage,
    QueueRow,
    Tab,
    can_claim_next,
    queue_counts,
    queue_page,
    queue_rows,
)
from fabric.selectors.reviews.review_view import ReviewView
from fabric.selectors.runs.query.list_pages import fabric_ids

NEWS_MAX = 100
"""Number of rows of an open page that ``news`` updates at once."""
ID_CHARS_MAX = 64
ANSWERED = "answered"
HUMAN = frozenset({Tab.YOURS, Tab.MINE})
"""Tabs whose count has the colour of work that waits for the viewer."""
PICKED = frozenset({Tab.YOURS, Tab.OPEN, Tab.MINE, Tab.UNCLAIMED})
"""Tabs of which several reviews are answered together."""


@dataclass(frozen=True, slots=True)
class ReviewRow:
    """A review as a row of the list."""

    seen: QueueRow
    group: str
    """Key of ``URGENCIES`` by due time; ``answered`` if it waits no more."""

    @property
    def review(self) -> ReviewView:
        """Return the review."""
        return self.seen.review

    @property
    def state_word(self) -> str:
        """Return the state of the row as a word. The page redraws the row when the word changes."""
        assignment = self.seen.assignment
        hand = f"{assignment.lease}{'h' if assignment.live else 'f'}" if assignment else "0"
        rest = f"{'c' if self.seen.closure else ''}{'w' if self.seen.answer else ''}"
        return f"{self.group}-{hand}-{len(self.review.agreed)}{rest}"

    @property
    def urgency(self) -> Urgency | None:
        """Return the urgency of the row; None if it is not urgent."""
        found = URGENCIES.get(self.group)
        return found if found and found.tone else None

    @property
    def like(self) -> str:
        """Return the same word for reviews that one answer can decide."""
        return f"{self.review.fabric_name} {self.review.item} {self.review.stage}"

    @property
    def cause(self) -> tuple[str, ...]:
        """Return the cause that failures share; empty if the review is about no failure, or its cause is unknown."""
        item, cause = self.review, str(self.review.content.get("cause") or "")
        return (self.like, item.failure_type, cause) if item.item == "failure" and cause and item.open else ()

    @property
    def kind(self) -> str:
        """Return the review's kind in words."""
        return ITEMS.get(self.review.item, self.review.item)

    @property
    def asked(self) -> str:
        """Return the roles and people who may answer."""
        return who_is_asked(self.review)

    @property
    def high_stakes(self) -> bool:
        """Return True if the review may not be answered together with others."""
        return self.review.tier == Tier.HIGH_STAKES

    @property
    def answer_words(self) -> str:
        """Return the answer and its author, even before the run has received it."""
        if (given := self.seen.answer) is not None:
            return f"{SAID.get(given.verb, given.verb)} by {given.decided_by}"
        said = SAID.get(self.review.verb, self.review.verb)
        if self.review.verb == "withdrawn":
            return said
        return f"{said} by {'the system: no one answered in time' if self.review.by_system else self.review.decided_by}"

    @property
    def took(self) -> int | None:
        """Return the microseconds from opening to the answer."""
        return None if self.review.decided_at is None else self.review.decided_at - self.review.opened_at


@dataclass(frozen=True, slots=True)
class RowBundle:
    """Rows of the list in order; those of one cause are folded below the first."""

    rows: list[ReviewRow]
    folded: list[ReviewRow]

    @property
    def cause(self) -> str:
        """Return the cause of the folded ones in words."""
        return spell_name(self.rows[-1].cause[-1])

    @property
    def fabric(self) -> str:
        """Return the fabric of the folded ones."""
        return self.rows[-1].review.fabric_name


@dataclass(frozen=True, slots=True)
class RowGroup:
    """Rows of one urgency."""

    title: str
    """Empty: the list has no groups."""
    count: int
    bundles: list[RowBundle]


@dataclass(frozen=True, slots=True)
class TabLink:
    """A tab as the page shows it."""

    tab: Tab
    word: str
    href: str
    count: str
    """The count; empty if it is not counted."""
    tone: str
    current: bool


@require_safe
def reviews(request: HttpRequest) -> HttpResponse:
    """Show a page of the queue. ``?tab=`` and filters select reviews; ``?after=`` is the cursor of the page."""
    actor, now = find_actor(request.user), time.time_ns() // 1_000

    def build_side(asked: ListRequest[QueueFilter], page: QueuePage, after: str) -> dict[str, Any]:
        tab, wanted = Tab(asked.choice), asked.read_filter()
        counts, rows = queue_counts(actor, wanted), [_row(one, now) for one in page.rows]
        return {
            "tabs": [_link(asked, one, counts) for one in TABS],
            "rows": rows,
            "groups": _group_rows(rows) if tab not in (Tab.DECIDED, Tab.FOLLOW_UPS) else [_group("", rows)],
            "down": page.next,
            "today": _today(actor, now),
            "picks": tab in PICKED and any(not row.high_stakes for row in rows),
            "last": _last_decided(actor) if not rows and wanted.empty else None,
            "can_claim": can_claim_next(actor, wanted),
            "changes": changes_to_approve(actor) if tab is Tab.YOURS and wanted.empty and not after else (),
            "others": counts[Tab.OPEN],
            "follow_ups": counts[Tab.FOLLOW_UPS],
            "news": asked.address("reviews-news", after=after),
            "live": True,
        }

    return list_page(
        request,
        QUEUE,
        "reviews/list.html",
        page_of=lambda asked, after: queue_page(actor, Tab(asked.choice), asked.read_filter(), limit=ROWS, after=after),
        beside=build_side,
        shown={"toast": toast(actor, request), "me": actor.name, "fresh": count_new(actor)},
        names={"fabric": list(fabric_ids(actor))},
    )


@require_safe
def news(request: HttpRequest) -> HttpResponse:
    """Return the news of an open list, which its script requests every two seconds: missing reviews, and changed
    rows.

    ``seen``: the rows of the page, each with its state. ``down``: cursor of the last row, if others follow. Other
    parameters are those of the list.
    """
    actor, now = find_actor(request.user), time.time_ns() // 1_000
    asked = QUEUE.read(request.GET)
    tab, wanted = Tab(asked.choice), asked.read_filter()
    seen = _parse_seen(request.GET.get("seen", ""))
    try:
        page = queue_page(actor, tab, wanted, limit=ROWS, after=request.GET.get("after", ""))
        waits = waiting_count(actor, COUNT_MAX + 1)
    except TookTooLong:
        return HttpResponse("The database is slow.", status=503, content_type="text/plain; charset=utf-8")
    upto = _find_place(request.GET.get("down", ""), tab)
    here = [_row(one, now) for one in page.rows if upto is None or _place(one.review, tab) <= upto]
    there = {row.review.id for row in here}
    gone = list_named_reviews(actor, [name for name in seen if name not in there][:NEWS_MAX])
    rows = [*here, *(_row(one, now) for one in queue_rows(actor, gone))]
    shown = {
        "count": len(there - set(seen)),
        "waits": capped_count(waits),
        "rows": [row for row in rows if row.review.id in seen and seen[row.review.id] != row.state_word],
        "picks": False,
        "me": actor.name,
        "now_ms": now // 1_000,
    }
    return render(request, "reviews/news.html", shown)


def _place(item: ReviewView, tab: Tab) -> tuple[int, str]:
    """Return the sort key of a review in a tab."""
    at = -(item.decided_at or 0) if tab is Tab.DECIDED else -item.opened_at if tab is Tab.FOLLOW_UPS else item.due_at
    return at, item.id


def _find_place(cursor: str, tab: Tab) -> tuple[int, str] | None:
    """Return the sort key that a cursor names; None without a cursor. Raises Refused invalid for an unknown cursor."""
    if not cursor:
        return None
    at, item_id = read_place(cursor, "down")
    return -at if tab in (Tab.DECIDED, Tab.FOLLOW_UPS) else at, item_id


def _row(one: QueueRow, now: int) -> ReviewRow:
    item = one.review
    waits = item.open or (item.follow_up and one.closure is None)
    group = find_group(item.due_at, now) if waits else ANSWERED
    return ReviewRow(one, "onward" if waits and item.onward and group != "overdue" else group)


def _group_rows(rows: Sequence[ReviewRow]) -> list[RowGroup]:
    """Return the rows of a page by their urgency."""
    found = ((one.word, [row for row in rows if row.group == name]) for name, one in URGENCIES.items())
    return [_group(title, some) for title, some in found if some]


FOLDED_FROM = 4
"""Number of failures with one cause from which on all but the first are folded."""


def _group(title: str, rows: Sequence[ReviewRow]) -> RowGroup:
    """Return rows as one group. Many of one cause stand at the place of their first."""
    causes = Counter(row.cause for row in rows if row.cause)
    folds = {cause for cause, count in causes.items() if count >= FOLDED_FROM}
    bundles: list[RowBundle] = []
    for row in rows:
        if row.cause not in folds:
            if not bundles or bundles[-1].folded:
                bundles.append(RowBundle([], []))
            bundles[-1].rows.append(row)
            continue
        first, *rest = (one for one in rows if one.cause == row.cause)
        if row is first:
            bundles.append(RowBundle([row], rest))
    return RowGroup(title, len(rows), bundles)


def _link(asked: ListRequest[QueueFilter], one: Tab, counts: Any) -> TabLink:
    count = counts[one] if one in COUNTED else None
    tone = "human" if one in HUMAN and count is not None and count.n else ""
    said = "" if count is None else str(count)
    return TabLink(one, TABS[one], asked.choice_address(one.value), said, tone, one.value == asked.choice)


def _last_decided(actor: Actor) -> ReviewView | None:
    found = queue_page(actor, Tab.DECIDED, limit=1).rows
    return found[0].review if found else None


def _today(actor: Actor, now: int) -> DecisionsSince:
    """Return the decisions of people since midnight UTC."""
    return decided_since(actor, now - now % DAY_US)


def _parse_seen(text: str) -> dict[str, str]:
    """Return the ``id.standing`` pairs of a page's rows. Invalid ones are ignored."""
    pairs = (part.partition(".") for part in text.split(",", ROWS)[:ROWS])
    return {name: word for name, _, word in pairs if name.isascii() and name.isalnum() and len(name) <= ID_CHARS_MAX}
