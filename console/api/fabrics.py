"""Fabrics: the list, and one with its revisions."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Annotated

from django.http import HttpRequest
from ninja import Path, Query, Router
from pydantic import Field

from console.api.callers import actor_of
from console.api.schemas import Instant, Told
from fabric.core.taxonomy import Tier
from fabric.selectors.fabrics import FabricView, fabrics_list
from fabric.selectors.revisions import REVISIONS_MAX, RevisionView, fabric_revisions
from fabric.selectors.success_cost import DAYS, DAYS_MAX, Basis, SuccessCost, success_costs

router = Router(tags=["fabrics"])
Digest = Annotated[str, Field(description="Content hash of the specification: the same content is the same revision.")]


class FabricOut(Told):
    """A published fabric, as a run picks it."""

    name: str = Field(description="What a run is started with.", examples=["research-desk"])
    title: str = Field(description="What people call it.", examples=["Research desk"])
    description: str = Field(description="What it does, in the author's words; may be empty.")
    example: str = Field(description="A request that shows what it is for; may be empty.")
    tier: Tier = Field(description="The tier of a run that asks for none.")
    tiers: list[Tier] = Field(description="The tiers that a run may ask for.")
    revision: int = Field(description="Number of the published revision: what a new run pins.", examples=[3])
    digest: Digest
    published_at: Instant = Field(description="When that revision was published.")
    published_by: str = Field(description="Who published it.", examples=["owner"])


class RevisionOut(Told):
    """One published version of a fabric. It never changes."""

    id: str = Field(description="Its id; runs name it as revision_id.")
    number: int = Field(description="Counts from 1 within the fabric.", examples=[3])
    digest: Digest
    published_at: Instant = Field(description="When it was published first.")
    published_by: str = Field(description="Who published it.", examples=["owner"])
    current: bool = Field(description="Whether a new run pins it.")


class FabricsOut(Told):
    """The published fabrics."""

    fabrics: list[FabricOut] = Field(description="All of them, by name.")


class FabricDetailOut(FabricOut):
    """A published fabric with its revisions."""

    revisions: list[RevisionOut] = Field(description=f"The newest first; at most {REVISIONS_MAX}.")


@router.get("/fabrics", response=FabricsOut, url_name="api-fabrics", operation_id="listFabrics")
def list_fabrics(request: HttpRequest) -> FabricsOut:
    """List fabrics. All that a run can be started with, by name."""
    return FabricsOut(fabrics=[FabricOut(**_told(view)) for view in fabrics_list(actor_of(request))])


@router.get("/fabrics/{name}", response=FabricDetailOut, url_name="api-fabric", operation_id="getFabric")
def get_fabric(
    request: HttpRequest, name: str = Path(..., description="The fabric's name.", example="research-desk")
) -> FabricDetailOut:
    """Get a fabric. With its published revisions, the newest first."""
    view, revisions = fabric_revisions(actor_of(request), name)
    return FabricDetailOut(**_told(view), revisions=[_revision(one) for one in revisions])


class SuccessCostOut(Told):
    """What runs cost, and what came of it."""

    revision: int | None = Field(description="Number of the revision; null: of all together.", examples=[3])
    tier: Tier | None = Field(description="The tier; null: of all together.")
    runs: int = Field(description="Runs that were asked for within the window.")
    completed: int = Field(
        description="Those of them that were a success: completed with the oracle passed, or the gates where there is none; not with the static answer."
    )
    cost_usd_micros: int = Field(description="What all of them have cost, in micro-dollars.")
    success_by: Basis = Field(
        description="What says that a run was a success: the revision's oracle, or its gates where it has none; mixed: of all together, both."
    )
    per_success_usd_micros: int | None = Field(
        description="What each that completed cost, in micro-dollars, rounded up; null: none has completed."
    )


class SuccessCostsOut(Told):
    """A fabric's cost per success."""

    days: int = Field(description="How far back it looks.", examples=[7])
    whole: SuccessCostOut = Field(description="All runs together.")
    parts: list[SuccessCostOut] = Field(description="By revision, the newest first, and tier.")
    cut: bool = Field(description="True: only the newest runs of the window were looked at.")


@router.get(
    "/fabrics/{name}/cost-per-success",
    response=SuccessCostsOut,
    url_name="api-fabric-cost",
    operation_id="getCostPerSuccess",
)
def get_cost_per_success(
    request: HttpRequest,
    name: Annotated[str, Path(description="The fabric's name.", example="research-desk")],
    days: Annotated[int, Query(ge=1, le=DAYS_MAX, description="How far back to look.")] = DAYS,
) -> SuccessCostsOut:
    """Get a fabric's cost per success. All that its runs cost, over those that completed, by revision and tier."""
    found = success_costs(actor_of(request), name, time.time_ns() // 1_000, days)
    parts = [_success(part) for part in found.parts]
    return SuccessCostsOut(days=found.days, whole=_success(found.whole), parts=parts, cut=found.cut)


def _success(part: SuccessCost) -> SuccessCostOut:
    return SuccessCostOut(
        revision=part.revision,
        tier=part.tier,
        runs=part.runs,
        completed=part.completed,
        cost_usd_micros=part.cost_usd_micros,
        success_by=part.by,
        per_success_usd_micros=part.per_success,
    )


def _told(view: FabricView) -> dict[str, object]:
    return {
        "name": view.name,
        "title": view.title,
        "description": view.description,
        "example": view.example,
        "tier": view.tier,
        "tiers": list(view.tiers),
        "revision": view.number,
        "digest": view.digest,
        "published_at": _iso(view.published_at),
        "published_by": view.published_by,
    }


def _revision(view: RevisionView) -> RevisionOut:
    return RevisionOut(
        id=view.id,
        number=view.number,
        digest=view.digest,
        published_at=_iso(view.published_at),
        published_by=view.published_by,
        current=view.current,
    )


def _iso(at: datetime) -> str:
    return f"{at.astimezone(UTC):%Y-%m-%dT%H:%M:%S.%f}Z"
