"""Assignments of reviews: leases on the database's clock, which keep others away and decide nothing.

Every change of the holder is one statement whose condition is in the row itself, and has a number: an older page's
act on an older lease changes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.db import connection, transaction
from django.db.models import F, QuerySet

from fabric.core.audit.lines import Act
from fabric.core.people.actor import Actor, may
from fabric.core.people.eligibility import is_asked
from fabric.core.people.roles import Right
from fabric.core.texts.text import clean_text
from fabric.core.values.units import US
from fabric.core.values.words import clock
from fabric.models import Review, ReviewAssignment, ReviewSnooze, ReviewViewer
from fabric.selectors.database_time import StoreNow, store_now_sql
from fabric.selectors.reviews.answers import is_over, takes_none_now
from fabric.selectors.reviews.assignments import OPENED_S, AssignmentView, find_assignment, list_viewers
from fabric.selectors.reviews.eligibility import build_review_rules, may_answer, who_is_asked
from fabric.selectors.reviews.lookup import get_review, list_receivers, person_named
from fabric.selectors.reviews.queue import ANY, QueueFilter, find_closure, next_for
from fabric.selectors.reviews.review_view import ReviewView
from fabric.services.acts import audit_record
from fabric.services.errors import Refused

LEASE_S = 300
"""Seconds for which an assignment lasts without a heartbeat of its page."""
HANDED_S = 1_800
"""Seconds for which an assignment by another person lasts: its holder has yet to open the page."""
TRIES = 20
"""Largest number of tries to find the next review while others take the found ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Claimed:
    """A review that was just assigned."""

    assignment: AssignmentView
    fresh: bool
    """False: the actor had it before, and has it for longer now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeartbeatAnswer:
    """Answer to an open page's heartbeat."""

    assignment: AssignmentView | None
    """Present assignment; None: the review was never assigned."""
    kept: bool
    """True if the page's own lease was renewed; False: it had none, or has lost it."""
    viewers: tuple[str, ...]
    """Other people with the page open."""
    open: bool
    """True while the review waits."""


def review_claim(*, actor: Actor, review_id: str) -> Claimed:
    """Claim a review, or keep it for longer. A lapsed lease of another person is taken over.

    Raises Refused: not_found, forbidden (no person, or not asked), conflict (assigned to another person, or closed).
    """
    item = _claimable(actor, review_id)
    row = Review.objects.filter(id=item.id, workspace_id=actor.workspace_id)
    with transaction.atomic():
        taken = _take(actor, row)
        if taken is not None:
            return taken
    raise refuse_assigned(item.id, find_assignment(actor, item.id))


def review_claim_next(*, actor: Actor, wanted: QueueFilter = ANY) -> Claimed | None:
    """Claim the next review: the first due of those that the actor may approve and that are free. None: there is
    none.

    Several callers at once get one each. Raises Refused: forbidden, unavailable (others were faster each time).
    """
    _person(actor)
    for _ in range(TRIES):
        with transaction.atomic():
            taken = _take(actor, next_for(actor, wanted)[:1], passing_over_locked=True)
        if taken is not None:
            return taken
        if not next_for(actor, wanted).exists():
            return None
    raise Refused("others take the next reviews at this moment; try again", code="unavailable", field="review")


def review_heartbeat(*, actor: Actor, review_id: str, lease: int = 0) -> HeartbeatAnswer:
    """Record that the actor has a review's page open, and renew the lease of that number; 0: none. Raises Refused:
    not_found.
    """
    item = get_review(actor, review_id)
    # A statement each, and no transaction: two pages that forget one another would wait for each other.
    kept = bool(lease) and bool(_own_assignment(actor, item.id, lease).update(lease_until=StoreNow() + LEASE_S * US))
    _record_viewer(actor, item.id)
    return HeartbeatAnswer(
        assignment=find_assignment(actor, item.id), kept=kept, viewers=list_viewers(actor, item.id), open=item.open
    )


def review_release(*, actor: Actor, review_id: str, lease: int) -> bool:
    """Release a review. Returns False, without a change, if the lease of that number is not the actor's (any more).
    Raises Refused: not_found.
    """
    item = get_review(actor, review_id)
    with transaction.atomic():
        released = bool(_own_assignment(actor, item.id, lease).update(**_LET_GO))
        if released:
            _record_act(actor, Act.REVIEW_RELEASED, item.id, item.run_id, lease=lease)
    return released


def assignment_release(*, actor: Actor, review_id: str) -> None:
    """Release a review that the actor has answered, under any lease: a second person who is asked finds it free. The
    row names the actor, so that ``assignment_restore`` can give it back.
    """
    rows = ReviewAssignment.objects.filter(review=review_id, workspace_id=actor.workspace_id, holder=actor.name)
    rows.update(**{**_LET_GO, "taken_from": actor.name})


def assignment_restore(*, actor: Actor, review_id: str) -> None:
    """Give a review back to the actor whose answer released it and was undone, unless another person has it."""
    rows = ReviewAssignment.objects.filter(review=review_id, workspace_id=actor.workspace_id, holder="")
    until = StoreNow() + LEASE_S * US
    rows.filter(taken_from=actor.name).update(
        **{**_LET_GO, "holder": actor.name, "claimed_at": StoreNow(), "lease_until": until}
    )


def review_reassign(*, actor: Actor, review_id: str, to: str) -> Claimed:
    """Hand a review to another person, who has half an hour to open it. For its holder, and for owners and
    operators.

    Raises Refused: not_found, invalid (an unknown name, or not asked), forbidden, conflict (it changed hands
    meanwhile, or is closed).
    """
    item, seen = _assignable(actor, review_id)
    name = _receiver(actor, item, to)
    row = Review.objects.filter(id=item.id, workspace_id=actor.workspace_id)
    with transaction.atomic():
        taken = _take(actor, row, holder=name, over=seen.lease if seen is not None else 0)
        if taken is not None:
            ReviewAssignment.objects.filter(review=item.id).update(role="")
            ReviewSnooze.objects.filter(review=item.id, name=name).delete()
            return taken
    raise refuse_assigned(item.id, find_assignment(actor, item.id))


def review_assign_to_role(*, actor: Actor, review_id: str, role: str) -> None:
    """Assign a review to a role: any of its holders who are asked may claim it. Its present lease ends.

    It is for the same people as ``review_reassign``, with the same refusals. Raises Refused invalid where no member who
    is asked has the role.
    """
    item, seen = _assignable(actor, review_id)
    name = clean_text(role)[0].strip()
    if name not in list_receivers(actor, item)[1]:
        message = (
            f"no member who is asked about review {item.id} has the role {name[:60]!r}: it is for {who_is_asked(item)}"
        )
        raise Refused(message, code="invalid", field="to")
    with transaction.atomic():
        moved = {**_LET_GO, "role": name, "assigned_by": actor.name, "claimed_at": StoreNow()}
        if seen is None:
            own = {"workspace_id": actor.workspace_id, "run_id": item.run_id, "role": name, "assigned_by": actor.name}
            first = {**own, "lease": 1, "claimed_at": StoreNow(), "lease_until": StoreNow()}
            done = ReviewAssignment.objects.get_or_create(review=item.id, defaults=first)[1]
        else:
            rows = ReviewAssignment.objects.filter(review=item.id, workspace_id=actor.workspace_id)
            done = bool(rows.filter(lease=seen.lease).update(**moved))
        if not done:
            raise refuse_assigned(item.id, find_assignment(actor, item.id))
        ReviewSnooze.objects.filter(review=item.id).delete()
        _record_act(actor, Act.REVIEW_ASSIGNED_TO_ROLE, item.id, item.run_id, to=name)


def _assignable(actor: Actor, review_id: str) -> tuple[ReviewView, AssignmentView | None]:
    """Return a review that the actor may hand on, and its assignment. Raises Refused."""
    item = _claimable(actor, review_id, asked=False)
    seen = find_assignment(actor, item.id)
    if not (may(actor, Right.OPERATE, item.fabric_name) or (seen is not None and seen.is_of(actor.name))):
        message = f"you have not claimed review {item.id}: its holder, an owner or an operator can assign it"
        raise Refused(message, code="forbidden", field="actor")
    return item, seen


def refuse_assigned(review_id: str, assignment: AssignmentView | None) -> Refused:
    """Return the Refused for a review that is assigned to another person."""
    if assignment is None or not assignment.live:
        message = f"review {review_id} changed hands at this moment; look at it again"
    else:
        message = f"{assignment.holder} has claimed review {review_id} until {clock(assignment.lease_until)} UTC: wait until then, or ask them to release it"
    return Refused(message, code="conflict", field="assignment")


# -- rights ----------------------------------------------------------------------------------------------------------


def _person(actor: Actor) -> None:
    if actor.kind != "person":
        message = f"{actor.name} is a {actor.kind} account, and only people claim reviews: sign in as a person"
        raise Refused(message, code="forbidden", field="actor")


def _claimable(actor: Actor, review_id: str, *, asked: bool = True) -> ReviewView:
    _person(actor)
    item = get_review(actor, review_id)
    if not item.open and not (item.follow_up and find_closure(actor, item.id) is None):
        raise Refused(f"review {item.id} is closed", code="conflict", field="review")
    if is_over(item):
        raise Refused(takes_none_now(item), code="conflict", field="due_at")
    if asked and not may_answer(item, actor):
        message = f"{actor.name} is not asked about review {item.id}: it is for {who_is_asked(item)}"
        raise Refused(message, code="forbidden", field="actor")
    return item


def _receiver(actor: Actor, item: ReviewView, to: str) -> str:
    name = clean_text(to)[0].strip()
    person = person_named(actor, name, item.fabric_name)
    if person is None:
        message = f"there is no member {name[:60]!r}: name a member of this workspace"
        raise Refused(message, code="invalid", field="to")
    if not is_asked(build_review_rules(item), person):
        message = f"{name[:60]} is not asked about review {item.id}: hand it to {who_is_asked(item)}"
        raise Refused(message, code="invalid", field="to")
    return name


# -- the lease -------------------------------------------------------------------------------------------------------

_LET_GO: Mapping[str, Any] = {
    "holder": "",
    "lease": F("lease") + 1,
    "lease_until": StoreNow(),
    "assigned_by": "",
    "taken_from": "",
}
_MINE = (
    "fabric_review_assignment.holder = excluded.holder AND fabric_review_assignment.lease_until > excluded.claimed_at"
)
_FREE = "fabric_review_assignment.holder = '' OR fabric_review_assignment.lease_until <= excluded.claimed_at"
_LAPSED = "fabric_review_assignment.holder NOT IN ('', excluded.holder) AND fabric_review_assignment.lease_until <= excluded.claimed_at"
_TAKE = """
INSERT INTO fabric_review_assignment (review, workspace_id, run_id, holder, lease, claimed_at, lease_until, assigned_by, taken_from)
SELECT picked.id, picked.workspace_id, picked.run_id, %s, 1, picked.moment, picked.moment + %s, %s, ''
FROM (SELECT found.*, {now} AS moment FROM ({found}) AS found) AS picked WHERE true
ON CONFLICT (review) DO UPDATE SET holder = excluded.holder, assigned_by = excluded.assigned_by, lease_until = excluded.lease_until,
  lease = fabric_review_assignment.lease + CASE WHEN {mine} THEN 0 ELSE 1 END,
  claimed_at = CASE WHEN {mine} THEN fabric_review_assignment.claimed_at ELSE excluded.claimed_at END,
  taken_from = CASE WHEN {mine} THEN fabric_review_assignment.taken_from WHEN {lapsed} THEN fabric_review_assignment.holder ELSE '' END
WHERE {may}
RETURNING review, run_id, holder, lease, claimed_at, lease_until, assigned_by, taken_from
"""
"""Statement that hands over one review, or none: the second caller finds its condition false."""


def _take(
    actor: Actor,
    rows: QuerySet[Review],
    *,
    holder: str = "",
    over: int | None = None,
    passing_over_locked: bool = False,
) -> Claimed | None:
    """Assign the review that ``rows`` find. ``holder``: another person than the actor; ``over``: number of the lease
    that was seen.
    """
    found, params = rows.values("id", "workspace_id", "run_id").query.sql_with_params()
    if passing_over_locked and connection.vendor == "postgresql":
        # A simultaneous claim goes on to the next row. On SQLite there is one writer at a time anyway.
        found += ' FOR NO KEY UPDATE OF "fabric_review" SKIP LOCKED'
    now, clock = store_now_sql()
    may = f"({_FREE}) OR ({_MINE})" if over is None else "fabric_review_assignment.lease = %s"
    statement = _TAKE.format(now=now, found=found, mine=_MINE, lapsed=_LAPSED, may=may)
    handed = bool(holder) and holder != actor.name
    lease = HANDED_S if handed else LEASE_S
    given: list[Any] = [holder or actor.name, lease * US, actor.name if handed else "", *clock, *params]
    with connection.cursor() as cursor:
        cursor.execute(statement, given if over is None else [*given, over])
        row = cursor.fetchone()
    if row is None:
        return None
    names = ("review_id", "run_id", "holder", "lease", "claimed_at", "lease_until", "assigned_by", "taken_from")
    columns = dict(zip(names, row, strict=True))
    run_id = columns.pop("run_id")
    assignment = AssignmentView(**columns, read_at=columns["lease_until"] - lease * US)
    fresh = assignment.claimed_at == assignment.read_at
    if fresh:
        act = (
            Act.REVIEW_REASSIGNED if handed else Act.REVIEW_TAKEN_OVER if assignment.taken_from else Act.REVIEW_CLAIMED
        )
        more = {"to": assignment.holder if handed else None, "from": assignment.taken_from or None}
        _record_act(actor, act, assignment.review_id, run_id, lease=assignment.lease, **more)
    return Claimed(assignment=assignment, fresh=fresh)


def _own_assignment(actor: Actor, review_id: str, lease: int) -> QuerySet[ReviewAssignment]:
    rows = ReviewAssignment.objects.filter(review=review_id, workspace_id=actor.workspace_id)
    return rows.filter(holder=actor.name, lease=max(0, min(lease, 2**31 - 1)))


def _record_viewer(actor: Actor, review_id: str) -> None:
    """Record that the page is open, and remove pages that were closed long ago."""
    ReviewViewer.objects.bulk_create(
        [ReviewViewer(workspace_id=actor.workspace_id, review=review_id, name=actor.name, seen_at=StoreNow())],
        update_conflicts=True,
        unique_fields=["review", "name"],
        update_fields=["seen_at"],
    )
    gone = ReviewViewer.objects.filter(workspace_id=actor.workspace_id, seen_at__lt=StoreNow() - OPENED_S * US)
    gone.delete()


def _record_act(actor: Actor, act: Act, review_id: str, run_id: str, **more: Any) -> None:
    audit_record(actor=actor, act=act, subject=run_id, item=review_id, **more)
