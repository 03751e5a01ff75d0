"""Who has which question in hand, and who looks at it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from django.db.models import F

from fabric.core.actor import Actor
from fabric.core.text import clean_text
from fabric.models import ReviewClaim, ReviewViewer
from fabric.selectors.store_time import StoreNow

US = 1_000_000
VIEWER_S = 150
"""How long after a page's last sign of life it is taken for open: two of them may be lost."""
VIEWERS_MAX = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimView:
    """A claim as it stood when it was read. Instants are microseconds since the epoch, on the database's clock."""

    escalation_id: str
    holder: str
    """Who has, or had, the question in hand; empty: it was released."""
    lease: int
    """The number of this change of hands: a heartbeat and a release name it."""
    claimed_at: int
    lease_until: int
    assigned_by: str = ""
    """Who handed it to the holder; empty: they took it."""
    taken_from: str = ""
    """Who had it before and let the lease lapse; empty: nobody."""
    read_at: int
    """When that was so."""

    @property
    def live(self) -> bool:
        """Whether it hinders others."""
        return bool(self.holder) and self.lease_until > self.read_at

    @property
    def lapsed(self) -> bool:
        """Whether somebody had it and let it go without saying so: anybody asked may take over."""
        return bool(self.holder) and not self.live

    @property
    def left_s(self) -> int:
        """Seconds until others may take it over; 0: they may."""
        return max(0, -(-(self.lease_until - self.read_at) // US)) if self.live else 0

    def is_of(self, name: str) -> bool:
        """Whether that person has it in hand."""
        return self.live and self.holder == name

    def hinders(self, name: str) -> bool:
        """Whether somebody else than that person has it in hand."""
        return self.live and self.holder != name


_COLUMNS = ("holder", "lease", "claimed_at", "lease_until", "assigned_by", "taken_from")


def claims_of(actor: Actor, escalation_ids: Collection[str]) -> Mapping[str, ClaimView]:
    """The claims of those questions, live, lapsed and released, by the questions' ids; a question that was never claimed is left out."""
    if not escalation_ids:
        return {}
    rows = ReviewClaim.objects.filter(workspace_id=actor.workspace_id, escalation__in=list(escalation_ids))
    found = rows.annotate(read_at=StoreNow(), escalation_id=F("escalation"))
    return {row["escalation_id"]: ClaimView(**row) for row in found.values("escalation_id", "read_at", *_COLUMNS)}


def claim_of(actor: Actor, escalation_id: str) -> ClaimView | None:
    """The claim of one question; None: it was never claimed."""
    named = clean_text(escalation_id)[0]
    return claims_of(actor, [named]).get(named)


def viewers_of(actor: Actor, escalation_id: str) -> tuple[str, ...]:
    """The others who have that question's page open, by name; at most 20."""
    rows = ReviewViewer.objects.filter(workspace_id=actor.workspace_id, escalation=clean_text(escalation_id)[0])
    seen = rows.filter(seen_at__gt=StoreNow() - VIEWER_S * US).exclude(name=actor.name)
    return tuple(seen.order_by("name").values_list("name", flat=True)[:VIEWERS_MAX])
