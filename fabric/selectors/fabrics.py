"""Fabrics and their published revisions."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import QuerySet

from fabric.core.actor import Actor
from fabric.core.spec import FabricSpec
from fabric.core.taxonomy import Tier
from fabric.core.text import clean_text
from fabric.models import Fabric, Revision
from fabric.selectors.errors import Refused


@dataclass(frozen=True, slots=True, kw_only=True)
class FabricView:
    """A published fabric as people pick it."""

    id: str
    name: str
    title: str
    description: str
    example: str
    """A request that shows what it is for; empty when the author gave none."""
    tier: Tier
    """The tier of a run that asks for none."""
    tiers: tuple[Tier, ...]
    """The tiers that a run may ask for."""
    revision_id: str
    """Row id of the published revision: what a new run pins."""
    number: int
    digest: str
    published_at: datetime
    published_by: str


def fabrics_list(actor: Actor) -> list[FabricView]:
    """The workspace's published fabrics by name."""
    return [_view(fabric) for fabric in _published(actor).order_by("name")]


def fabric_get(actor: Actor, name: str) -> FabricView:
    """One published fabric by name. Refused not_found, with the names that there are."""
    found = _published(actor).filter(name=clean_text(name)[0]).first()
    if found is not None:
        return _view(found)
    names = list(_published(actor).order_by("name").values_list("name", flat=True)[:20])
    known = (
        f"there are: {', '.join(names)}"
        if names
        else "none is published yet; publish one with manage.py fabric publish"
    )
    raise Refused(f"no fabric is named {name[:80]!r}; {known}", code="not_found", field="fabric")


def revision_spec(revision_id: str) -> FabricSpec:
    """The spec of a revision by row id, for the engine: whoever names a run's revision was allowed to see the run."""
    stored = Revision.objects.filter(id=revision_id).values_list("spec", flat=True).first()
    if stored is None:
        raise Refused(f"there is no revision {revision_id[:80]!r}", code="not_found", field="revision")
    return FabricSpec.model_validate_json(stored)


def _published(actor: Actor) -> QuerySet[Fabric]:
    rows = Fabric.objects.filter(workspace_id=actor.workspace_id, published__isnull=False)
    return rows.select_related("published")


def _view(fabric: Fabric) -> FabricView:
    revision = fabric.published
    assert revision is not None
    # Read as it was stored: a list must not fail over a spec that a later version would no longer accept.
    spec: dict[str, Any] = json.loads(revision.spec)
    tiers = spec.get("tiers", {})
    return FabricView(
        id=fabric.id,
        name=fabric.name,
        title=spec.get("title", fabric.title),
        description=spec.get("description", ""),
        example=spec.get("example", ""),
        tier=Tier(tiers.get("default", Tier.INTERACTIVE)),
        tiers=tuple(Tier(tier) for tier in tiers.get("allowed", list(Tier))),
        revision_id=revision.id,
        number=revision.number,
        digest=revision.digest,
        published_at=revision.published_at,
        published_by=revision.published_by,
    )
