"""Changes of fabrics that wait, or waited, for a second person."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from django.db.models import F, OuterRef, QuerySet, Subquery

from fabric.core.actor import Actor
from fabric.core.text import clean_text
from fabric.models import ChangeRequest, Fabric
from fabric.runtime.batch_parts import names_of
from fabric.selectors.drafts import DraftView
from fabric.selectors.errors import Refused
from fabric.selectors.reach import seen_by, within

REQUESTS_MAX = 100
ID_CHARS_MAX = 64


class ChangeState(StrEnum):
    """How a change request stands."""

    OPEN = "open"
    STALE = "stale"
    """Open, and another revision was published since: nobody can agree to it any more."""
    PUBLISHED = "published"
    REJECTED = "rejected"
    WITHDRAWN = "withdrawn"
    VOIDED = "voided"
    """What it was about was changed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeView:
    """A change request. It is about one content over one published revision."""

    id: str
    name: str
    """The fabric's."""
    author: str
    caused_by: tuple[str, ...]
    """Who made what the author acted with, where it was somebody else."""
    base: int | None
    """Number of the revision that was published when it was asked for; None: none was."""
    text: str
    digest: str
    message: str
    state: ChangeState
    opened_at: datetime
    decided_at: datetime | None
    decided_by: str
    reason: str
    published: int | None
    """Number of the revision that came of it."""
    now: int | None
    """Number of the revision that is published now."""

    @property
    def waits(self) -> bool:
        """Whether somebody can still agree to it."""
        return self.state is ChangeState.OPEN


def change_requests(
    actor: Actor, name: str = "", *, waiting: bool = True, author: str = "", most: int = REQUESTS_MAX
) -> list[ChangeView]:
    """Change requests of the workspace, the newest first. ``waiting``: only those that are not decided. One statement."""
    rows = _rows(actor.workspace_id).filter(within(actor, ChangeRequest))
    if name:
        rows = rows.filter(name=clean_text(name)[0])
    if author:
        rows = rows.filter(author=author)
    if waiting:
        rows = rows.filter(state=ChangeState.OPEN)
    return [_view(row) for row in rows.order_by("-opened_at", "id")[:most]]


def requests_open(actor: Actor) -> Counter[str]:
    """How many wait for a second person, by fabric. One statement."""
    rows = ChangeRequest.objects.filter(seen_by(actor, ChangeRequest), state=ChangeState.OPEN)
    return Counter(rows.values_list("name", flat=True))


def change_request_get(actor: Actor, request_id: str) -> ChangeView:
    """One of them. Raises Refused not_found. One statement."""
    row = (
        _rows(actor.workspace_id).filter(within(actor, ChangeRequest), id=clean_text(request_id)[0]).first()
        if len(request_id) <= ID_CHARS_MAX
        else None
    )
    if row is None:
        message = f"there is no change request {request_id[:80]!r}; manage.py fabric requests lists those that wait"
        raise Refused(message, code="not_found", field="request")
    return _view(row)


def change_state(workspace_id: str, request_id: str) -> ChangeState | None:
    """How one stands at this moment; None: there is none such. One statement."""
    row = _rows(workspace_id).filter(id=request_id).first()
    return None if row is None else _view(row).state


def last_request(actor: Actor, draft: DraftView) -> ChangeView | None:
    """The last request of a draft's author for that fabric, unless it was published or withdrawn; None: none says anything now. One statement."""
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
        caused_by=names_of(row.caused_by),
        base=given["base_number"],
        text=row.text,
        digest=row.digest,
        message=row.message,
        state=state,
        opened_at=row.opened_at,
        decided_at=row.decided_at,
        decided_by=row.decided_by,
        reason=row.reason,
        published=given["published_number"],
        now=given["now_number"],
    )
