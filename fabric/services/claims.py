"""Having a question in hand: a lease on the database's clock, which hinders others and decides nothing.

Every change of hands is one statement whose condition the row itself answers, and has a number: what an older page says of an older lease
changes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.db import connection, transaction
from django.db.models import F, QuerySet

from fabric.core.actor import Actor, may
from fabric.core.audit import Act
from fabric.core.eligibility import is_asked
from fabric.core.roles import Right
from fabric.core.text import clean_text
from fabric.core.words import clock
from fabric.models import Escalation, ReviewClaim, ReviewViewer
from fabric.selectors.escalations import EscalationView, escalation_get
from fabric.selectors.review_asked import asked_of, may_answer, who_is_asked
from fabric.selectors.review_claims import VIEWER_S, ClaimView, claim_of, viewers_of
from fabric.selectors.review_lateness import is_over, takes_none_now
from fabric.selectors.review_people import person_named
from fabric.selectors.review_queue import ANY, QueueFilter, next_for
from fabric.selectors.store_time import StoreNow, store_now_sql
from fabric.selectors.tickets import closure_of
from fabric.services.audit import audit_record
from fabric.services.errors import Refused

US = 1_000_000
LEASE_S = 300
"""How long a claim holds without a sign of life from the page that made it."""
HANDED_S = 1_800
"""How long one holds that somebody else made: its holder has yet to open the page."""
BEAT_S = 60
"""How often an open page renews it."""
TRIES = 20
"""How often the next question is looked for again that somebody else got while it was looked at."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Claimed:
    """A question that somebody has in hand now."""

    claim: ClaimView
    fresh: bool
    """False: they had it before, and have it for longer now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Beat:
    """What an open page is told when it gives a sign of life."""

    claim: ClaimView | None
    """As it is by now, whoever has it; None: nobody ever claimed the question."""
    kept: bool
    """Whether the page's own lease was renewed; False: it had none, or has lost it."""
    viewers: tuple[str, ...]
    """Who else has the page open."""
    open: bool
    """Whether the question still waits."""


def review_claim(*, actor: Actor, escalation_id: str) -> Claimed:
    """Takes a question in hand, or keeps it there for longer. A lease of somebody else that has lapsed is taken over.

    Raises Refused: not_found, forbidden (no person, or not asked), conflict (in somebody else's hand, or closed).
    """
    item = _claimable(actor, escalation_id)
    row = Escalation.objects.filter(id=item.id, workspace_id=actor.workspace_id)
    with transaction.atomic():
        taken = _take(actor, row)
        if taken is not None:
            return taken
    raise in_other_hands(item.id, claim_of(actor, item.id))


def review_claim_next(*, actor: Actor, wanted: QueueFilter = ANY) -> Claimed | None:
    """Takes the next question in hand: due first of those that the actor may let pass and nobody has. None: there is none.

    Several who ask at once get one each. Raises Refused: forbidden, unavailable (others were faster again and again).
    """
    _person(actor)
    for _ in range(TRIES):
        with transaction.atomic():
            taken = _take(actor, next_for(actor, wanted)[:1], passing_over_locked=True)
        if taken is not None:
            return taken
        if not next_for(actor, wanted).exists():
            return None
    raise Refused("others take the next questions at this moment; try again", code="unavailable", field="escalation")


def review_heartbeat(*, actor: Actor, escalation_id: str, lease: int = 0) -> Beat:
    """Notes that somebody has a question's page open, and renews their lease of that number; 0: they have none. Raises Refused: not_found."""
    item = escalation_get(actor, escalation_id)
    # A statement each, and no transaction: two pages that forget one another would wait for each other.
    kept = bool(lease) and bool(_held(actor, item.id, lease).update(lease_until=StoreNow() + LEASE_S * US))
    _seen(actor, item.id)
    return Beat(claim=claim_of(actor, item.id), kept=kept, viewers=viewers_of(actor, item.id), open=item.open)


def review_release(*, actor: Actor, escalation_id: str, lease: int) -> bool:
    """Lets a question go. False: the lease of that number was not, or no longer, the actor's, and nothing changed. Raises Refused: not_found."""
    item = escalation_get(actor, escalation_id)
    with transaction.atomic():
        released = bool(_held(actor, item.id, lease).update(**_LET_GO))
        if released:
            _told(actor, Act.REVIEW_RELEASED, item.id, item.run_id, lease=lease)
    return released


def claims_let_go(*, actor: Actor, escalation_id: str) -> None:
    """Lets a question go that the actor has answered, whichever lease they had: where a second person is asked, they find it free."""
    rows = ReviewClaim.objects.filter(escalation=escalation_id, workspace_id=actor.workspace_id, holder=actor.name)
    rows.update(**_LET_GO)


def review_reassign(*, actor: Actor, escalation_id: str, to: str) -> Claimed:
    """Hands a question to somebody else, who has half an hour to open it. For whoever has it in hand, and for owners and operators.

    Raises Refused: not_found, invalid (nobody of that name, or not asked), forbidden, conflict (it changed hands meanwhile, or is closed).
    """
    item = _claimable(actor, escalation_id, asked=False)
    seen = claim_of(actor, item.id)
    if not (may(actor, Right.OPERATE, item.fabric_name) or (seen is not None and seen.is_of(actor.name))):
        message = f"item {item.id} is not in your hand: whoever has it hands it on, or an owner or operator does"
        raise Refused(message, code="forbidden", field="actor")
    name = _receiver(actor, item, to)
    row = Escalation.objects.filter(id=item.id, workspace_id=actor.workspace_id)
    with transaction.atomic():
        taken = _take(actor, row, holder=name, over=seen.lease if seen is not None else 0)
        if taken is not None:
            return taken
    raise in_other_hands(item.id, claim_of(actor, item.id))


def in_other_hands(escalation_id: str, claim: ClaimView | None) -> Refused:
    """Why a question cannot be taken or answered that somebody else has in hand."""
    if claim is None or not claim.live:
        message = f"item {escalation_id} changed hands at this moment; look at it again"
    else:
        message = f"item {escalation_id} is in {claim.holder}'s hand until {clock(claim.lease_until)} UTC: wait until then, or ask them to let it go"
    return Refused(message, code="conflict", field="claim")


# -- who may -----------------------------------------------------------------------------------------------------------


def _person(actor: Actor) -> None:
    if actor.kind != "person":
        message = f"{actor.name} is a {actor.kind} account, and only people take reviews in hand: log in as a person"
        raise Refused(message, code="forbidden", field="actor")


def _claimable(actor: Actor, escalation_id: str, *, asked: bool = True) -> EscalationView:
    _person(actor)
    item = escalation_get(actor, escalation_id)
    if not item.open and not (item.ticket and closure_of(actor, item.id) is None):
        raise Refused(f"item {item.id} waits for nobody any more: it is closed", code="conflict", field="escalation")
    if is_over(item):
        raise Refused(takes_none_now(item), code="conflict", field="due_at")
    if asked and not may_answer(item, actor):
        message = f"{actor.name} is not asked about item {item.id}: it is for {who_is_asked(item)}"
        raise Refused(message, code="forbidden", field="actor")
    return item


def _receiver(actor: Actor, item: EscalationView, to: str) -> str:
    name = clean_text(to)[0].strip()
    person = person_named(actor, name, item.fabric_name)
    if person is None:
        message = f"nobody here is named {name[:60]!r}: name a member of this workspace"
        raise Refused(message, code="invalid", field="to")
    if not is_asked(asked_of(item), person):
        message = f"{name[:60]} is not asked about item {item.id}: hand it to {who_is_asked(item)}"
        raise Refused(message, code="invalid", field="to")
    return name


# -- the lease ---------------------------------------------------------------------------------------------------------

_LET_GO: Mapping[str, Any] = {
    "holder": "",
    "lease": F("lease") + 1,
    "lease_until": StoreNow(),
    "assigned_by": "",
    "taken_from": "",
}
_MINE = "fabric_review_claim.holder = excluded.holder AND fabric_review_claim.lease_until > excluded.claimed_at"
_FREE = "fabric_review_claim.holder = '' OR fabric_review_claim.lease_until <= excluded.claimed_at"
_LAPSED = (
    "fabric_review_claim.holder NOT IN ('', excluded.holder) AND fabric_review_claim.lease_until <= excluded.claimed_at"
)
_TAKE = """
INSERT INTO fabric_review_claim (escalation, workspace_id, run_id, holder, lease, claimed_at, lease_until, assigned_by, taken_from)
SELECT picked.id, picked.workspace_id, picked.run_id, %s, 1, picked.moment, picked.moment + %s, %s, ''
FROM (SELECT found.*, {now} AS moment FROM ({found}) AS found) AS picked WHERE true
ON CONFLICT (escalation) DO UPDATE SET holder = excluded.holder, assigned_by = excluded.assigned_by, lease_until = excluded.lease_until,
  lease = fabric_review_claim.lease + CASE WHEN {mine} THEN 0 ELSE 1 END,
  claimed_at = CASE WHEN {mine} THEN fabric_review_claim.claimed_at ELSE excluded.claimed_at END,
  taken_from = CASE WHEN {mine} THEN fabric_review_claim.taken_from WHEN {lapsed} THEN fabric_review_claim.holder ELSE '' END
WHERE {may}
RETURNING escalation, run_id, holder, lease, claimed_at, lease_until, assigned_by, taken_from
"""
"""One question changes hands, or none: whoever comes second to a row finds its condition false."""


def _take(
    actor: Actor,
    rows: QuerySet[Escalation],
    *,
    holder: str = "",
    over: int | None = None,
    passing_over_locked: bool = False,
) -> Claimed | None:
    """Puts the question that ``rows`` find into a hand. ``holder``: whose, where it is not the actor's own; ``over``: the lease that was seen."""
    found, params = rows.values("id", "workspace_id", "run_id").query.sql_with_params()
    if passing_over_locked and connection.vendor == "postgresql":
        # Whoever asks at the same moment goes on to the next one. On SQLite there is one writer at a time anyway.
        found += ' FOR NO KEY UPDATE OF "fabric_escalation" SKIP LOCKED'
    now, clock = store_now_sql()
    may = f"({_FREE}) OR ({_MINE})" if over is None else "fabric_review_claim.lease = %s"
    statement = _TAKE.format(now=now, found=found, mine=_MINE, lapsed=_LAPSED, may=may)
    handed = bool(holder) and holder != actor.name
    lease = HANDED_S if handed else LEASE_S
    given: list[Any] = [holder or actor.name, lease * US, actor.name if handed else "", *clock, *params]
    with connection.cursor() as cursor:
        cursor.execute(statement, given if over is None else [*given, over])
        row = cursor.fetchone()
    if row is None:
        return None
    names = ("escalation_id", "run_id", "holder", "lease", "claimed_at", "lease_until", "assigned_by", "taken_from")
    columns = dict(zip(names, row, strict=True))
    run_id = columns.pop("run_id")
    claim = ClaimView(**columns, read_at=columns["lease_until"] - lease * US)
    fresh = claim.claimed_at == claim.read_at
    if fresh:
        act = Act.REVIEW_REASSIGNED if handed else Act.REVIEW_TAKEN_OVER if claim.taken_from else Act.REVIEW_CLAIMED
        more = {"to": claim.holder if handed else None, "from": claim.taken_from or None}
        _told(actor, act, claim.escalation_id, run_id, lease=claim.lease, **more)
    return Claimed(claim=claim, fresh=fresh)


def _held(actor: Actor, escalation_id: str, lease: int) -> QuerySet[ReviewClaim]:
    rows = ReviewClaim.objects.filter(escalation=escalation_id, workspace_id=actor.workspace_id)
    return rows.filter(holder=actor.name, lease=max(0, min(lease, 2**31 - 1)))


def _seen(actor: Actor, escalation_id: str) -> None:
    """Notes that the page is open, and forgets all whose page is closed, whichever it was."""
    ReviewViewer.objects.bulk_create(
        [ReviewViewer(workspace_id=actor.workspace_id, escalation=escalation_id, name=actor.name, seen_at=StoreNow())],
        update_conflicts=True,
        unique_fields=["escalation", "name"],
        update_fields=["seen_at"],
    )
    gone = ReviewViewer.objects.filter(workspace_id=actor.workspace_id, seen_at__lt=StoreNow() - VIEWER_S * US)
    gone.delete()


def _told(actor: Actor, act: Act, escalation_id: str, run_id: str, **more: Any) -> None:
    audit_record(actor=actor, act=act, subject=run_id, item=escalation_id, **more)
