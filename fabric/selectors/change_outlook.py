"""What becomes of a fabric's runs and revisions once a content is published."""

from __future__ import annotations

from dataclasses import dataclass

from django.db.models import Count, Max

from fabric.core.actor import Actor
from fabric.core.text import clean_text
from fabric.models import Fabric, Revision, Run
from fabric.selectors.overview import LIVE_STATES
from fabric.selectors.reach import seen_by


@dataclass(frozen=True, slots=True)
class Outlook:
    """What would follow."""

    number: int
    """That the revision would have."""
    new: bool
    """Whether it would be made; False: this very content is a revision already."""
    published: int | None
    """Number of the revision that is published now; None: none is."""
    same: bool
    """Whether that is this content."""
    going: tuple[tuple[int, int], ...]
    """Numbers of revisions with runs that have not ended, and how many there are: they keep theirs. The newest revision first."""

    @property
    def runs(self) -> int:
        """Runs that have not ended."""
        return sum(count for _, count in self.going)


def change_outlook(actor: Actor, name: str, digest: str) -> Outlook:
    """What would follow from publishing a content under a name. Four statements at most."""
    fabrics = Fabric.objects.filter(seen_by(actor, Fabric), name=clean_text(name)[0])
    fabric = fabrics.values_list("id", "published__number", "published__digest").first()
    if fabric is None:
        return Outlook(1, True, None, False, ())
    fabric_id, published, published_digest = fabric
    rows = Revision.objects.filter(fabric_id=fabric_id)
    number = rows.filter(digest=digest).values_list("number", flat=True).first() if digest else None
    last = number or (rows.aggregate(last=Max("number"))["last"] or 0) + 1
    runs = Run.objects.filter(seen_by(actor, Run), fabric_id=fabric_id, state__in=LIVE_STATES).order_by()
    going = runs.values_list("revision__number").annotate(count=Count("id"))
    return Outlook(last, number is None, published, published_digest == digest, tuple(sorted(going, reverse=True)))
