"""Fabrics and their published revisions."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Any

from django.db.models import QuerySet
from pydantic import ValidationError

from fabric.core.actor import Actor
from fabric.core.spec import FabricSpec
from fabric.core.taxonomy import Tier
from fabric.core.text import clean_text
from fabric.models import Fabric, Revision
from fabric.selectors.errors import Refused
from fabric.selectors.reach import seen_by


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
    topology: str
    """Kind of the topology: ``supervisor``."""
    agents: int
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


@lru_cache(maxsize=256)
def revision_spec(revision_id: str) -> FabricSpec:
    """The spec of a revision by row id, for the engine: whoever names a run's revision was allowed to see the run. A revision never changes."""
    stored = Revision.objects.filter(id=revision_id).values_list("spec", flat=True).first()
    if stored is None:
        raise Refused(f"there is no revision {revision_id[:80]!r}", code="not_found", field="revision")
    return FabricSpec.model_validate_json(stored)


@dataclass(frozen=True, slots=True, kw_only=True)
class RevisionPage:
    """One published version of a fabric, in full."""

    fabric: FabricView
    """The fabric as it is published now, which may be another version."""
    number: int
    digest: str
    published_at: datetime
    published_by: str
    spec: FabricSpec
    source: str
    """The text that it was last published with; empty: there is none."""

    @property
    def current(self) -> bool:
        """Whether a new run pins it."""
        return self.number == self.fabric.number


def revision_get(actor: Actor, name: str, number: int | None = None) -> RevisionPage:
    """One version of a published fabric; without a number the one that a new run pins. Refused not_found, and conflict for a version whose
    spec this version of the engine does not read any more.
    """
    fabric = fabric_get(actor, name)
    asked = fabric.number if number is None else number
    rows = Revision.objects.filter(seen_by(actor, Revision), fabric_id=fabric.id)
    revision = rows.filter(number=asked).first() if asked < 2**31 else None
    if revision is None:
        newest = rows.order_by("-number").values_list("number", flat=True).first()
        raise Refused(
            f"fabric {name[:80]!r} has no version r{str(asked)[:12]}; the newest is r{newest}",
            code="not_found",
            field="number",
        )
    try:
        spec = FabricSpec.model_validate_json(revision.spec)
    except ValidationError:
        raise Refused(
            f"version r{asked} of fabric {name[:80]!r} was published by another version of Fabric Flow and cannot be shown; publish it again",
            code="conflict",
            field="number",
        ) from None
    return RevisionPage(
        fabric=fabric,
        number=revision.number,
        digest=revision.digest,
        published_at=revision.published_at,
        published_by=revision.published_by,
        spec=spec,
        source=revision.source,
    )


@lru_cache(maxsize=1024)
def run_cap(revision_id: str) -> int:
    """Most that a run of this revision may spend, micro-dollars; 0 for a revision that there is not. A revision never changes."""
    return int(_stored(revision_id).get("policy", {}).get("budget", {}).get("run_usd_micros") or 0)


@lru_cache(maxsize=1024)
def scripted(revision_id: str) -> bool:
    """Whether all its agents are scripted: it runs without a model and without a key. A revision never changes."""
    models = _stored(revision_id).get("models", [])
    return bool(models) and all(model.get("provider") == "scripted" for model in models)


def _stored(revision_id: str) -> dict[str, Any]:
    """A spec as it was stored: what is counted must not fail over one that a later version would no longer accept."""
    stored = Revision.objects.filter(id=revision_id).values_list("spec", flat=True).first()
    found: dict[str, Any] = json.loads(stored) if stored else {}
    return found


def _published(actor: Actor) -> QuerySet[Fabric]:
    rows = Fabric.objects.filter(seen_by(actor, Fabric), published__isnull=False)
    return rows.select_related("published").defer("published__source")


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
        topology=str(spec.get("topology", {}).get("kind", "")),
        agents=len(spec.get("agents", [])),
        number=revision.number,
        digest=revision.digest,
        published_at=revision.published_at,
        published_by=revision.published_by,
    )
