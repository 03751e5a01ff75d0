"""Reads changes of fabrics that wait, or waited, for a second person, and the effect of a publication.

The effect is on a fabric's runs and revisions.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum

from django.db.models import Count, F, Max, OuterRef, Q, QuerySet, Subquery

from fabric.core.people.actor import Actor, may
from fabric.core.people.roles import Right, holders
from fabric.core.texts.text import clean_text
from fabric.core.values.flow import LIVE_STATES
from fabric.core.values.units import US
from fabric.models import ChangeRequest, Fabric, Revision, Run
from fabric.program.name import program
from fabric.runtime.ports.batch_parts import list_names
from fabric.selectors.drafts.lookup import DraftView
from fabric.selectors.errors import Refused
from fabric.selectors.reach import build_reach_condition, match_visible

REQUESTS_MAX = 100
ID_CHARS_MAX = 64
FAILED_SHOWN = timedelta(days=7)
"""Time for which a fabric's page shows a scheduled publication that failed."""
AGREEING = "agree to changes of fabrics"
"""The act in the sentence for a person without the right to it."""


class ChangeState(StrEnum):
    """State of a change request."""

    OPEN = "open"
    STALE = "stale"
    """Open, but another revision was published since: it can no longer be approved."""
    PUBLISHED = "published"
    REJECTED = "rejected"
    WITHDRAWN = "withdrawn"
    VOIDED = "voided"
    """Its content was changed."""
    FAILED = "failed"
    """Its time came, and it could not be published."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeView:
    """A change request, about one content over one published revision."""

    id: str
    name: str
    """Name of the fabric."""
    author: str
    caused_by: tuple[str, ...]
    """Other people who made the token or link that the author acted with."""
    base: int | None
    """Number of the published revision at the request; None: there was none."""
    text: str
    digest: str
    message: str
    state: ChangeState
    publish_at: int | None
    """Time at which it is published, microseconds since the epoch; None: a second person decides."""
    opened_at: datetime
    decided_at: datetime | None
    decided_by: str
    reason: str
    published: int | None
    """Number of the resulting revision."""
    now: int | None
    """Number of the published revision now."""

    @property
    def waits(self) -> bool:
        """Return True if it can still be approved."""
        return self.state is ChangeState.OPEN


def change_requests(
    actor: Actor, name: str = "", *, waiting: bool = True, author: str = "", most: int = REQUESTS_MAX
) -> list[ChangeView]:
    """Return change requests of the workspace, the newest first. ``waiting``: only undecided ones, and scheduled
    publications that failed within ``FAILED_SHOWN``. One statement.
    """
    rows = _rows(actor.workspace_id).filter(build_reach_condition(actor, ChangeRequest))
    if name:
        rows = rows.filter(name=clean_text(name)[0])
    if author:
        rows = rows.filter(author=author)
    if waiting:
        late = Q(state=ChangeState.FAILED, decided_at__gte=datetime.now(UTC) - FAILED_SHOWN)
        rows = rows.filter(Q(state=ChangeState.OPEN) | late)
    return [_view(row) for row in rows.order_by("-opened_at", "id")[:most]]


def why_not_agree(actor: Actor, found: ChangeView) -> str:
    """Return the reason why this actor may not approve a change, in a sentence; empty if it may."""
    return _why_not(actor, found.name, found.author, found.caused_by)


def _why_not(actor: Actor, fabric: str, author: str, caused_by: tuple[str, ...]) -> str:
    if not may(actor, Right.EDIT, fabric):
        return f"{actor.name} may not {AGREEING}: that is for {holders(Right.EDIT)}"
    if actor.kind != "person":
        return f"{actor.name} is no person: a second person agrees to a change"
    if author == actor.name:
        return f"{actor.name} made this request and cannot approve it: another editor or owner must"
    if behind := {author, *caused_by} & {actor.name, *actor.behind}:
        who = ", ".join(sorted(behind))
        return f"{who} caused {author} to make this request and cannot approve it: another editor or owner must"
    return ""


@dataclass(frozen=True, slots=True)
class ChangeToApprove:
    """A change that waits for a person's approval."""

    id: str
    name: str
    """Name of the fabric."""
    author: str
    opened_at: int
    """Microseconds since the epoch, UTC."""


def changes_to_approve(actor: Actor) -> list[ChangeToApprove]:
    """Return the changes that wait for this actor's approval, the newest first. One statement."""
    rows = _rows(actor.workspace_id).filter(build_reach_condition(actor, ChangeRequest), state=ChangeState.OPEN)
    rows = rows.filter(Q(base_id=F("now_id")) | Q(base_id__isnull=True, now_id__isnull=True), publish_at=None)
    found = rows.order_by("-opened_at", "id").values_list("id", "name", "author", "caused_by", "opened_at")[
        :REQUESTS_MAX
    ]
    return [
        ChangeToApprove(change_id, name, author, int(opened_at.timestamp() * US))
        for change_id, name, author, caused_by, opened_at in found
        if not _why_not(actor, name, author, list_names(caused_by))
    ]


def changes_to_approve_count(actor: Actor, most: int) -> int:
    """Return the number of changes that wait for this actor's approval, at most ``most``. One statement."""
    return min(most, len(changes_to_approve(actor)))


def requests_open(actor: Actor) -> Counter[str]:
    """Return the number of requests for a second person by fabric. One statement."""
    waits = {"state": ChangeState.OPEN, "publish_at": None}
    rows = ChangeRequest.objects.filter(match_visible(actor, ChangeRequest), **waits)
    return Counter(rows.values_list("name", flat=True))


def change_request_get(actor: Actor, request_id: str) -> ChangeView:
    """Return one change request, with one SQL statement. Raises Refused not_found."""
    row = (
        _rows(actor.workspace_id)
        .filter(build_reach_condition(actor, ChangeRequest), id=clean_text(request_id)[0])
        .first()
        if len(request_id) <= ID_CHARS_MAX
        else None
    )
    if row is None:
        message = f"there is no change request {request_id[:80]!r}; {program()} fabric requests lists those that wait"
        raise Refused(message, code="not_found", field="request")
    return _view(row)


def change_state(workspace_id: str, request_id: str) -> ChangeState | None:
    """Return a request's present state; None: there is no such request. One statement."""
    row = _rows(workspace_id).filter(id=request_id).first()
    return None if row is None else _view(row).state


def last_request(actor: Actor, draft: DraftView) -> ChangeView | None:
    """Return the last request of a draft's author for that fabric, unless it was published or withdrawn. None: there is
    none. One statement.
    """
    found = next(iter(change_requests(actor, draft.name, waiting=False, author=draft.author, most=1)), None)
    over = (ChangeState.PUBLISHED, ChangeState.WITHDRAWN)
    return found if found is not None and found.state not in over else None


def _rows(workspace_id: str) -> QuerySet[ChangeRequest]:
    fabric = Fabric.objects.filter(workspace_id=workspace_id, name=OuterRef("name"))
    return (
        ChangeRequest.objects.filter(workspace_id=workspace_id)
        .select_related(None)
        .annotate(
            base_number=F("base__number"),
            published_number=F("published__number"),
            now_id=Subquery(fabric.values("published_id")[:1]),
            now_number=Subquery(fabric.values("published__number")[:1]),
        )
    )


def _view(row: ChangeRequest) -> ChangeView:
    given = vars(row)
    state = ChangeState(row.state)
    if state is ChangeState.OPEN and given["now_id"] != row.base_id:
        state = ChangeState.STALE
    return ChangeView(
        id=row.id,
        name=row.name,
        author=row.author,
        caused_by=list_names(row.caused_by),
        base=given["base_number"],
        text=row.text,
        digest=row.digest,
        message=row.message,
        state=state,
        publish_at=row.publish_at,
        opened_at=row.opened_at,
        decided_at=row.decided_at,
        decided_by=row.decided_by,
        reason=row.reason,
        published=given["published_number"],
        now=given["now_number"],
    )


@dataclass(frozen=True, slots=True)
class PublicationOutlook:
    """Effect of a publication."""

    number: int
    """Number that the revision would have."""
    new: bool
    """True if the revision would be created; False: this very content is a revision already."""
    published: int | None
    """Number of the published revision; None: there is none."""
    same: bool
    """True if the published content is this content."""
    going: tuple[tuple[int, int], ...]
    """Numbers of revisions with live runs, and the number of those runs, which keep theirs. The newest revision
    first.
    """

    @property
    def runs(self) -> int:
        """Return the number of live runs."""
        return sum(count for _, count in self.going)


def change_outlook(actor: Actor, name: str, digest: str) -> PublicationOutlook:
    """Return the effect of publishing a content under a name. Four statements at most."""
    fabrics = Fabric.objects.filter(match_visible(actor, Fabric), name=clean_text(name)[0])
    fabric = fabrics.values_list("id", "published__number", "published__digest").first()
    if fabric is None:
        return PublicationOutlook(1, True, None, False, ())
    fabric_id, published, published_digest = fabric
    rows = Revision.objects.filter(fabric_id=fabric_id)
    number = rows.filter(digest=digest).values_list("number", flat=True).first() if digest else None
    last = number or (rows.aggregate(last=Max("number"))["last"] or 0) + 1
    runs = Run.objects.filter(match_visible(actor, Run), fabric_id=fabric_id, state__in=LIVE_STATES).order_by()
    going = runs.values_list("revision__number").annotate(count=Count("id"))
    return PublicationOutlook(
        last, number is None, published, published_digest == digest, tuple(sorted(going, reverse=True))
    )


def publications_due(now: int) -> QuerySet[ChangeRequest]:
    """Return the open publications whose time has come. ``now``: microseconds since the epoch."""
    return ChangeRequest.objects.filter(state=ChangeState.OPEN, publish_at__lte=now)
