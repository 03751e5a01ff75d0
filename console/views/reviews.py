"""The review queue as a list: by tabs, due first, narrowed by the address, and true while it is looked at."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from console.access import actor_of
from console.shell import COUNTED as COUNTED_IN_NAV
from console.shell import capped
from console.templatetags.marks import ITEMS
from console.views.list_grammar import Asked
from console.views.list_page import ROWS, list_page
from console.views.questions import SAID
from console.views.review_acts import toast
from console.views.review_filter import QUEUE, TABS
from console.views.review_marks import URGENCIES, Urgency, group_of
from fabric.core.actor import Actor
from fabric.core.taxonomy import Tier
from fabric.selectors.cursors import place_of
from fabric.selectors.decision_history import DAY_US, Since, decided_since
from fabric.selectors.escalations import EscalationView, escalations_named
from fabric.selectors.review_queue import (
    COUNTED,
    QueueFilter,
    QueuePage,
    QueueRow,
    Tab,
    queue_counts,
    queue_page,
    queue_rows,
    reviews_waiting_count,
)
from fabric.selectors.runs_list import fabric_ids
from fabric.selectors.time_limit import TookTooLong

NEWS_MAX = 100
"""Rows of an open page that are told of at once."""
ID_CHARS_MAX = 64
ANSWERED = "answered"
HUMAN = frozenset({Tab.MINE, Tab.SECOND, Tab.OPEN})
"""Tabs whose count is told in the colour of what waits for people."""


@dataclass(frozen=True, slots=True)
class Row:
    """A question as a row of the list."""

    seen: QueueRow
    group: str
    """How near it is to its due time, a key of ``URGENCIES``; ``answered`` for what waits no more."""

    @property
    def question(self) -> EscalationView:
        """The question."""
        return self.seen.question

    @property
    def standing(self) -> str:
        """How it stands; the row is drawn again when this is another word."""
        claim = self.seen.claim
        hand = f"{claim.lease}{'h' if claim.live else 'f'}" if claim else "0"
        rest = f"{'c' if self.seen.closure else ''}{'w' if self.seen.answer else ''}"
        return f"{self.group}-{hand}-{len(self.question.agreed)}{rest}"

    @property
    def urgency(self) -> Urgency | None:
        """How it stands out; None: it does not."""
        found = URGENCIES.get(self.group)
        return found if found and found.tone else None

    @property
    def kind(self) -> str:
        """The question's kind in words."""
        return ITEMS.get(self.question.item, self.question.item)

    @property
    def high_stakes(self) -> bool:
        """Whether it is never answered together with others."""
        return self.question.tier == Tier.HIGH_STAKES

    @property
    def said(self) -> str:
        """How it was answered, and by whom, also where its run has not taken the answer yet."""
        if (given := self.seen.answer) is not None:
            return f"{SAID.get(given.verb, given.verb)} by {given.decided_by}"
        said = SAID.get(self.question.verb, self.question.verb)
        if self.question.verb == "withdrawn":
            return said
        return f"{said} by {'the system: nobody answered in time' if self.question.by_system else self.question.decided_by}"

    @property
    def took(self) -> int | None:
        """From opening to the answer, microseconds."""
        return None if self.question.decided_at is None else self.question.decided_at - self.question.opened_at


@dataclass(frozen=True, slots=True)
class TabLink:
    """A tab as it is shown."""

    tab: Tab
    word: str
    href: str
    count: str
    """Empty: it is not counted."""
    tone: str
    current: bool


@require_safe
def reviews(request: HttpRequest) -> HttpResponse:
    """What waits for a person, a page at a time. ``?tab=`` and the filters say what of it, ``?after=`` goes on after the last one of a page."""
    actor, now = actor_of(request.user), time.time_ns() // 1_000

    def beside(asked: Asked[QueueFilter], page: QueuePage, after: str) -> dict[str, Any]:
        tab, wanted = Tab(asked.choice), asked.wanted()
        counts, rows = queue_counts(actor, wanted), [_row(one, now) for one in page.rows]
        return {
            "tabs": [_link(asked, one, counts) for one in TABS],
            "rows": rows,
            "groups": list(_grouped(rows)) if tab not in (Tab.DECIDED, Tab.TICKETS) else [("", rows)],
            "down": page.next,
            "today": _today(actor, now),
            "picks": tab in (Tab.OPEN, Tab.MINE, Tab.UNCLAIMED) and any(not row.high_stakes for row in rows),
            "last": _last_decided(actor) if not rows and wanted.empty else None,
            "news": asked.address("reviews-news", after=after),
            "live": True,
        }

    return list_page(
        request,
        QUEUE,
        "reviews/list.html",
        page_of=lambda asked, after: queue_page(actor, Tab(asked.choice), asked.wanted(), limit=ROWS, after=after),
        beside=beside,
        shown={"toast": toast(actor, request), "me": actor.name},
        names={"fabric": list(fabric_ids(actor))},
    )


@require_safe
def news(request: HttpRequest) -> HttpResponse:
    """What an open list asks every two seconds: how many questions it lacks, and its own rows that stand otherwise by now.

    ``seen``: its rows, each with how it stood; ``down``: the cursor of its last one, where others follow; the rest as in the list's own address.
    """
    actor, now = actor_of(request.user), time.time_ns() // 1_000
    asked = QUEUE.read(request.GET)
    tab, wanted = Tab(asked.choice), asked.wanted()
    seen = _seen(request.GET.get("seen", ""))
    try:
        page = queue_page(actor, tab, wanted, limit=ROWS, after=request.GET.get("after", ""))
        waits = reviews_waiting_count(actor, COUNTED_IN_NAV + 1)
    except TookTooLong:
        return HttpResponse("The database is slow.", status=503, content_type="text/plain; charset=utf-8")
    upto = _place_of(request.GET.get("down", ""), tab)
    here = [_row(one, now) for one in page.rows if upto is None or _place(one.question, tab) <= upto]
    there = {row.question.id for row in here}
    gone = escalations_named(actor, [name for name in seen if name not in there][:NEWS_MAX])
    rows = [*here, *(_row(one, now) for one in queue_rows(actor, gone))]
    shown = {
        "count": len(there - set(seen)),
        "waits": capped(waits),
        "rows": [row for row in rows if row.question.id in seen and seen[row.question.id] != row.standing],
        "picks": False,
        "now_ms": now // 1_000,
    }
    return render(request, "reviews/news.html", shown)


def _place(item: EscalationView, tab: Tab) -> tuple[int, str]:
    """Where a question stands in the order of a tab."""
    at = -(item.decided_at or 0) if tab is Tab.DECIDED else -item.opened_at if tab is Tab.TICKETS else item.due_at
    return at, item.id


def _place_of(cursor: str, tab: Tab) -> tuple[int, str] | None:
    """The same of a cursor; None for none. Refused invalid for an unknown cursor."""
    if not cursor:
        return None
    at, item_id = place_of(cursor, "down")
    return -at if tab in (Tab.DECIDED, Tab.TICKETS) else at, item_id


def _row(one: QueueRow, now: int) -> Row:
    item = one.question
    waits = item.open or (item.ticket and one.closure is None)
    group = group_of(item.due_at, now) if waits else ANSWERED
    return Row(one, "onward" if waits and item.onward and group != "overdue" else group)


def _grouped(rows: Sequence[Row]) -> Iterable[tuple[str, list[Row]]]:
    """The rows of a page by how near they are to their due time."""
    for name, one in URGENCIES.items():
        found = [row for row in rows if row.group == name]
        if found:
            yield one.word, found


def _link(asked: Asked[QueueFilter], one: Tab, counts: Any) -> TabLink:
    count = counts[one] if one in COUNTED else None
    tone = "human" if one in HUMAN and count is not None and count.n else ""
    said = "" if count is None else str(count)
    return TabLink(one, TABS[one], asked.chosen(one.value), said, tone, one.value == asked.choice)


def _last_decided(actor: Actor) -> EscalationView | None:
    found = queue_page(actor, Tab.DECIDED, limit=1).rows
    return found[0].question if found else None


def _today(actor: Actor, now: int) -> Since:
    """What people decided since the day began, in UTC."""
    return decided_since(actor, now - now % DAY_US)


def _seen(text: str) -> dict[str, str]:
    """``id.standing,id.standing`` of a page's rows; what is anything else is passed over."""
    pairs = (part.partition(".") for part in text.split(",", ROWS)[:ROWS])
    return {name: word for name, _, word in pairs if name.isascii() and name.isalnum() and len(name) <= ID_CHARS_MAX}
