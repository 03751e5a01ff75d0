"""The review queue: what waits for whom, by tabs, due first; what was decided, the newest first."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from django.db import connection
from django.db.models import Exists, OuterRef, Q, QuerySet

from fabric.core.actor import Actor
from fabric.core.text import clean_text
from fabric.models import Escalation, ReviewClaim, TicketClosure
from fabric.models.escalations import OPEN, TICKET
from fabric.selectors.answers import Answer, answers_waiting
from fabric.selectors.cursors import behind
from fabric.selectors.escalations import EscalationView, views_of
from fabric.selectors.reach import read_by, seen_by
from fabric.selectors.review_asked import asks, lets_pass, may_answer, why_not
from fabric.selectors.review_claims import ClaimView, claims_of
from fabric.selectors.review_lateness import in_time, takes_none
from fabric.selectors.store_time import StoreNow
from fabric.selectors.tickets import ClosureView, closures_of, for_reader
from fabric.selectors.time_limit import time_limit

PAGE_MAX = 200
COUNT_MAX = 999
"""Counts go so far."""
LIMIT_S = 2.0
TEXT_CHARS_MAX = 200


class Tab(StrEnum):
    """The parts of the queue, in the order in which they are shown."""

    MINE = "mine"
    """In hand by whoever looks."""
    UNCLAIMED = "unclaimed"
    """In nobody's hand, and whoever looks may answer."""
    SECOND = "second"
    """One has agreed, a second person is waited for."""
    OPEN = "open"
    """All that wait for a person."""
    TICKETS = "tickets"
    """They park nothing; those that nobody has closed."""
    DECIDED = "decided"
    """The newest first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueFilter:
    """What of a tab is asked for; what is empty narrows nothing."""

    fabric: str = ""
    """A fabric's name."""
    tier: str = ""
    item: str = ""
    """The kind: ``failure``, ``post_stage`` ..."""
    stage: str = ""
    failure: str = ""
    """A failure type, a row of the decision table."""
    role: str = ""
    """Who is asked: a role or a user's name."""
    holder: str = ""
    """Who has it in hand; of what was decided, who decided."""
    text: str = ""
    """Part of the reason or of the run's title, or the beginning of an id."""
    run: str = ""
    """A run's id."""

    @property
    def empty(self) -> bool:
        """Whether it narrows nothing."""
        return self == QueueFilter()


ANY = QueueFilter()


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueRow:
    """A question as a row of the queue, for whoever looks."""

    question: EscalationView
    claim: ClaimView | None = None
    """Live, lapsed or released; None: nobody ever claimed it."""
    may: bool = False
    """Whether whoever looks may answer, whatever the verb."""
    why_not: str = ""
    """The reason why they may not let it pass, who answered it already, or that its time is over, one sentence; empty: they may."""
    answer: Answer | None = None
    """The answer that is on its way to its run; None: there is none."""
    closure: ClosureView | None = None
    """Of a ticket, when and by whom it was closed."""

    @property
    def holder(self) -> str:
        """Who has it in hand; empty: nobody."""
        return self.claim.holder if self.claim is not None and self.claim.live else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuePage:
    """Some rows of a tab, and where the next page begins."""

    rows: tuple[QueueRow, ...]
    next: str
    """Cursor of the next page; empty: this is the last."""


@dataclass(frozen=True, slots=True)
class Count:
    """How many there are, counted to ``COUNT_MAX``."""

    n: int
    more: bool = False

    def __str__(self) -> str:
        return f"{self.n}+" if self.more else str(self.n)


# -- pages -------------------------------------------------------------------------------------------------------------


def queue_page(actor: Actor, tab: Tab, wanted: QueueFilter = ANY, *, limit: int = 50, after: str = "") -> QueuePage:
    """A page of a tab: due first, what was decided and tickets newest first. ``after``: the cursor of the page before.

    At most six statements. Refused invalid for a cursor that is none; raises TookTooLong.
    """
    limit = max(1, min(limit, PAGE_MAX))
    rows = _matching(actor, tab, wanted)
    by = _ORDER[tab]
    if after:
        rows = rows.filter(behind(after, by))
    with time_limit(LIMIT_S):
        found = views_of(actor, rows.order_by(by, "id"), limit + 1)
    more, found = len(found) > limit, found[:limit]
    return QueuePage(rows=_rows(actor, found), next=_cursor(found[-1], by) if more else "")


def queue_rows(actor: Actor, questions: Sequence[EscalationView]) -> tuple[QueueRow, ...]:
    """Questions that were read already, as rows for whoever looks; in their order."""
    return _rows(actor, questions)


def _rows(actor: Actor, questions: Sequence[EscalationView]) -> tuple[QueueRow, ...]:
    claims = claims_of(actor, [one.id for one in questions if one.open or one.ticket])
    closed = closures_of(actor, [one.id for one in questions if one.ticket])
    waiting = answers_waiting(questions)
    now = time.time_ns() // 1_000  # As pages do: an answer is judged by the database's clock.
    return tuple(
        QueueRow(
            question=one,
            claim=claims.get(one.id),
            may=may_answer(one, actor),
            why_not=(takes_none(one, waiting.get(one.id), now) or why_not(one, actor)) if one.open else "",
            answer=waiting.get(one.id),
            closure=for_reader(closed.get(one.id), reads=one.reads),
        )
        for one in questions
    )


# -- counts ------------------------------------------------------------------------------------------------------------

COUNTED = (Tab.MINE, Tab.UNCLAIMED, Tab.SECOND, Tab.OPEN, Tab.TICKETS)
"""What was decided is not counted: it grows without end."""


def queue_counts(actor: Actor, wanted: QueueFilter = ANY) -> Mapping[Tab, Count]:
    """How many each tab has, but for what was decided: one statement beside those that say who is asked. Raises TookTooLong."""
    parts: list[str] = []
    params: list[Any] = []
    for tab in COUNTED:
        part, more = _matching(actor, tab, wanted).order_by().values("id")[: COUNT_MAX + 1].query.sql_with_params()
        parts.append(f"(SELECT count(*) FROM ({part}) AS counted)")  # noqa: S608 - Django wrote the part.
        params += more
    with time_limit(LIMIT_S), connection.cursor() as cursor:
        cursor.execute(f"SELECT {', '.join(parts)}", params)
        found = cursor.fetchone()
    return {tab: Count(min(n, COUNT_MAX), n > COUNT_MAX) for tab, n in zip(COUNTED, found, strict=True)}


def reviews_waiting(actor: Actor) -> Count:
    """Returns the number of open questions that the actor may answer in time, and that no other person has in hand."""
    n = reviews_waiting_count(actor, COUNT_MAX + 1)
    return Count(min(n, COUNT_MAX), n > COUNT_MAX)


def reviews_waiting_count(actor: Actor, most: int) -> int:
    """The same as a number; at most ``most``. One statement, from the partial index of open questions."""
    rows = Escalation.objects.filter(seen_by(actor, Escalation), OPEN & asks(actor), lets_pass(actor), in_time())
    return rows.exclude(_in_hand(but=actor.name)).order_by().values("id")[:most].count()


def next_for(actor: Actor, wanted: QueueFilter = ANY) -> QuerySet[Escalation]:
    """The open, unclaimed questions that a person may still answer in time, due first: ``review_claim_next`` picks from them."""
    rows = _matching(actor, Tab.UNCLAIMED, wanted)
    return rows.filter(lets_pass(actor), in_time()).order_by("due_at", "id")


# -- conditions --------------------------------------------------------------------------------------------------------


def _in_hand(*, of: str = "", but: str = "") -> Exists:
    claims = ReviewClaim.objects.filter(escalation=OuterRef("id"), lease_until__gt=StoreNow()).exclude(holder="")
    claims = claims.filter(holder=of) if of else claims.exclude(holder=but) if but else claims
    return Exists(claims)


def _mine(actor: Actor) -> Q:
    dealt_with = Exists(TicketClosure.objects.filter(escalation=OuterRef("id")))
    return Q(_in_hand(of=actor.name)) & (OPEN | (Q(item=TICKET) & ~Q(dealt_with)))


def _unclaimed(actor: Actor) -> Q:
    return OPEN & asks(actor) & ~Q(_in_hand())


def _second(actor: Actor) -> Q:
    return OPEN & ~Q(agreed="")


def _open(actor: Actor) -> Q:
    return OPEN


def _tickets(actor: Actor) -> Q:
    return Q(item=TICKET) & ~Q(Exists(TicketClosure.objects.filter(escalation=OuterRef("id"))))


def _decided(actor: Actor) -> Q:
    return Q(decided_at__isnull=False) & ~Q(item=TICKET)


_TABS: Mapping[Tab, Callable[[Actor], Q]] = {
    Tab.MINE: _mine,
    Tab.UNCLAIMED: _unclaimed,
    Tab.SECOND: _second,
    Tab.OPEN: _open,
    Tab.TICKETS: _tickets,
    Tab.DECIDED: _decided,
}
"""Total by test."""
_ORDER: Mapping[Tab, str] = dict.fromkeys(Tab, "due_at") | {Tab.TICKETS: "-opened_at", Tab.DECIDED: "-decided_at"}


def _matching(actor: Actor, tab: Tab, wanted: QueueFilter) -> QuerySet[Escalation]:
    rows = Escalation.objects.filter(seen_by(actor, Escalation), _TABS[tab](actor))
    exact = {
        "run__fabric__name": wanted.fabric,
        "run__tier": wanted.tier,
        "item": wanted.item,
        "stage": wanted.stage,
        "failure_type": wanted.failure,
        "required_role": wanted.role,
        "run_id": wanted.run,
    }
    rows = rows.filter(**{name: clean_text(given)[0] for name, given in exact.items() if given})
    if wanted.holder:
        holder = clean_text(wanted.holder)[0]
        rows = rows.filter(decided_by=holder) if tab is Tab.DECIDED else rows.filter(_in_hand(of=holder))
    if text := clean_text(wanted.text)[0].strip()[:TEXT_CHARS_MAX]:
        about = (read_by(actor, Escalation) | asks(actor)) & (Q(reason__icontains=text) | Q(run__title__icontains=text))
        rows = rows.filter(about | Q(id__startswith=text) | Q(run__id__startswith=text))
    return rows


def _cursor(last: EscalationView, by: str) -> str:
    return f"{getattr(last, by.lstrip('-'))}.{last.id}"
