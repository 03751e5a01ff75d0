"""Operations on fabrics: lists and revisions for readers, and files for pipelines.

A fabric comes with its revisions and its cost per success. All belong to the router of fabrics, because one of them
shares its address with the list.
"""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime
from io import BytesIO
from typing import Annotated, Any, Literal

from django.http import FileResponse, HttpRequest
from ninja import Path, Query, Router
from pydantic import Field

from console.api.shapes.common import Instant, RequestShape, ResponseShape
from console.site.access.callers import find_actor
from fabric.composition.models import provider_names
from fabric.core.values.taxonomy import Tier
from fabric.selectors.fabrics.differences import SpecChange
from fabric.selectors.fabrics.lookup import (
    REVISIONS_MAX,
    FabricView,
    RevisionView,
    fabric_revisions,
    fabrics_list,
    revision_get,
)
from fabric.selectors.overview.success_cost import DAYS, DAYS_MAX, Basis, SuccessCost, success_costs
from fabric.services.errors import Placed
from fabric.services.fabrics.checks import fabric_lint
from fabric.services.fabrics.comparison import DryRun, build_side, compare_sides, fabric_dry_run
from fabric.services.fabrics.revisions import MESSAGE_CHARS_MAX, PublishedFabric, fabric_publish, fabric_revert
from fabric.services.fabrics.schema import MEDIA_TYPE, fabric_schema
from fabric.services.fabrics.yaml.export import export_revision, written_out
from fabric.services.fabrics.yaml.tree import BYTES_MAX

__all__ = [
    "Digest",
    "FabricDetailOut",
    "FabricOut",
    "FabricsOut",
    "RevisionOut",
    "SuccessCostOut",
    "SuccessCostsOut",
    "get_cost_per_success",
    "get_fabric",
    "list_fabrics",
    "router",
]


router = Router(tags=["fabrics"])
Digest = Annotated[str, Field(description="Content hash of the specification: the same content is the same revision.")]


class FabricOut(ResponseShape):
    """A published fabric, as a run picks it."""

    name: str = Field(description="Identifier that runs are started with.", examples=["research-desk"])
    title: str = Field(description="Display name.", examples=["Research desk"])
    description: str = Field(description="Description by the author; may be empty.")
    example: str = Field(description="A request that shows what it is for; may be empty.")
    tier: Tier = Field(description="The tier of a run that asks for none.")
    tiers: list[Tier] = Field(description="The tiers that a run may ask for.")
    revision: int = Field(description="Number of the published revision: what a new run pins.", examples=[3])
    digest: Digest
    published_at: Instant = Field(description="When that revision was published.")
    published_by: str = Field(description="Member who published it.", examples=["owner"])


class RevisionOut(ResponseShape):
    """One published version of a fabric. It never changes."""

    id: str = Field(description="Its id; runs name it as revision_id.")
    number: int = Field(description="Counts from 1 within the fabric.", examples=[3])
    digest: Digest
    published_at: Instant = Field(description="When it was published first.")
    published_by: str = Field(description="Member who published it.", examples=["owner"])
    message: str = Field(description="The author's reason for it; empty for none.")
    current: bool = Field(description="True if new runs use it.")


class FabricsOut(ResponseShape):
    """The published fabrics."""

    fabrics: list[FabricOut] = Field(description="All of them, by name.")


class FabricDetailOut(FabricOut):
    """A published fabric with its revisions."""

    revisions: list[RevisionOut] = Field(description=f"The newest first; at most {REVISIONS_MAX}.")


@router.get("/fabrics", response=FabricsOut, url_name="api-fabrics", operation_id="listFabrics")
def list_fabrics(request: HttpRequest) -> FabricsOut:
    """List fabrics. All that can run, by name."""
    return FabricsOut(fabrics=[FabricOut(**_fabric_shape(view)) for view in fabrics_list(find_actor(request))])


@router.get("/fabrics/{name}", response=FabricDetailOut, url_name="api-fabric", operation_id="getFabric")
def get_fabric(
    request: HttpRequest, name: str = Path(..., description="The fabric's name.", example="research-desk")
) -> FabricDetailOut:
    """Get a fabric. With its published revisions, the newest first."""
    view, revisions = fabric_revisions(find_actor(request), name)
    return FabricDetailOut(**_fabric_shape(view), revisions=[_revision(one) for one in revisions])


class SuccessCostOut(ResponseShape):
    """Costs of runs, and their outcomes."""

    revision: int | None = Field(description="Number of the revision; null: of all together.", examples=[3])
    tier: Tier | None = Field(description="The tier; null: of all together.")
    runs: int = Field(description="Runs that were asked for within the window.")
    completed: int = Field(
        description="Those of them that were a success: completed with the oracle passed, or the gates where there is none; not with the static answer."
    )
    cost_usd_micros: int = Field(description="Total cost of these runs, in micro-dollars.")
    success_by: Basis = Field(
        description="Criterion of success: the revision's oracle, or its gates if it has none; mixed: both among the runs."
    )
    per_success_usd_micros: int | None = Field(
        description="Cost of each completed run, in micro-dollars, rounded up; null: none completed."
    )


class SuccessCostsOut(ResponseShape):
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
    """Get a fabric's cost per success. The cost of all runs for each completed one, by revision and tier."""
    found = success_costs(find_actor(request), name, time.time_ns() // 1_000, days)
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


def _fabric_shape(view: FabricView) -> dict[str, object]:
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
        message=view.message,
        current=view.current,
    )


def _iso(at: datetime) -> str:
    return f"{at.astimezone(UTC):%Y-%m-%dT%H:%M:%S.%f}Z"


YAML = "application/yaml"
ORIGIN_MAX = 200
NUMBER_MAX = 2**31
Named = Annotated[str, Path(description="The fabric's name.", example="research-desk")]
EXAMPLE = "name: desk\ntitle: A desk\n..."


class FabricSourceIn(RequestShape):
    """A fabric as text."""

    source: str = Field(description=f"YAML; at most {BYTES_MAX:,} bytes are read.", examples=[EXAMPLE])
    origin: str = Field(
        "", max_length=ORIGIN_MAX, description="Its file's name, for what is said about it.", examples=["desk.yaml"]
    )


Expected = Annotated[
    int | None,
    Field(
        ge=0,
        lt=NUMBER_MAX,
        description="Revision that must still be the published one, else 409. 0: none published; null: any.",
        examples=[3],
    ),
]


class PublishIn(FabricSourceIn):
    """Text of a fabric for publication."""

    dry_run: bool = Field(False, description="Say what would change, and change nothing.", examples=[False])
    expect_revision: Expected = None
    message: str = Field(
        "", max_length=MESSAGE_CHARS_MAX, description="Reason for the change.", examples=["A lower cap."]
    )


class RevertIn(RequestShape):
    """Revision to publish again."""

    revision: int = Field(ge=1, lt=NUMBER_MAX, description="Its number.", examples=[2])
    expect_revision: Expected = None


class PlacedOut(ResponseShape):
    """A finding in a text, with its place."""

    path: str = Field(description="Path of the field; empty: of no single one.", examples=["agents.0.model"])
    line: int | None = Field(description="From 1; null: it is not known.", examples=[12])
    column: int | None = Field(description="From 1; null: it is not known.", examples=[12])
    sentence: str = Field(description="Title of the fabric.", examples=["no model is named 'big'; there are: script"])


class DeviationOut(PlacedOut):
    """A setting that is laxer than required."""

    reason: str = Field(description="Its author's reason.", examples=["A pilot with five users."])


class LintOut(ResponseShape):
    """Findings in a fabric's text."""

    name: str | None = Field(description="The fabric's; null: it cannot be read.", examples=["desk"])
    publishable: bool = Field(description="True if the file can be published.")
    problems: list[PlacedOut] = Field(description="Errors that prevent publication.")
    warnings: list[PlacedOut] = Field(description="Warnings: probable mistakes.")
    deviations: list[DeviationOut] = Field(description="Where it is laxer than required, with reasons.")
    notes: list[str] = Field(description="Sentences about the check itself.")


class ChangeOut(ResponseShape):
    """A difference of two revisions."""

    path: str = Field(description="Things of a list by their name.", examples=["agents.reader.max_output_tokens"])
    kind: Literal["added", "removed", "changed", "moved"] = Field(description="Kind of the change.")
    before: str = Field(description="Empty: there was nothing.", examples=["1024"])
    after: str = Field(description="Empty: there is nothing any more.", examples=["2048"])


class DiffOut(ResponseShape):
    """Differences of two revisions."""

    before: str = Field(description="The one that is compared from.", examples=["desk@1"])
    after: str = Field(description="The one that is compared to.", examples=["desk@2"])
    same: bool = Field(description="True if both have the same content.")
    changes: list[ChangeOut] = Field(description="By path, including the effective decision table.")
    text: str = Field(description="Both written out, line by line, as a unified diff; empty: they are the same.")


class LaxOut(ResponseShape):
    """A setting of a published fabric that is laxer than required."""

    path: str = Field(description="Where.", examples=["decision_table.provider_failure.high_stakes"])
    what: str = Field(description="How.", examples=["it ends with surface"])
    reason: str = Field(description="Its author's reason.", examples=["A pilot with five users."])


class PublishedOut(ResponseShape):
    """Effects of a publication, real or simulated."""

    name: str = Field(description="The fabric's name.", examples=["desk"])
    title: str = Field(description="Display name.", examples=["A desk"])
    revision: int = Field(description="Number of the published revision: what a new run pins.", examples=[3])
    digest: Digest
    changed: bool = Field(description="False: this very content was the published one already.")
    was: int | None = Field(description="Number of the revision published before; null: none was.", examples=[2])
    text_replaced: bool = Field(description="The content was there already, and is kept under this text from now on.")
    dry_run: bool = Field(description="True: nothing was changed.")
    new: bool | None = Field(
        description="For a dry run: true if a new revision would be created, false if one of this content exists; null: no dry run."
    )
    changes: list[ChangeOut] = Field(description="For a dry run: changes against the published revision.")
    warnings: list[str] = Field(description="Warnings: probable mistakes, with their places.", examples=[[]])
    deviations: list[LaxOut] = Field(description="Where it is laxer than required, with reasons.")


@router.post("/fabrics", response=PublishedOut, url_name="api-fabrics", operation_id="publishFabric")
def publish_fabric(request: HttpRequest, body: PublishIn) -> PublishedOut:
    """Publish a fabric. The whole text is checked: each problem has its path and line. Equal content changes
    nothing; older content publishes its revision again.
    """
    asked: dict[str, Any] = {
        "actor": find_actor(request),
        "source": body.source,
        "origin": body.origin,
        "providers": provider_names(),
        "expect": body.expect_revision,
    }
    if body.dry_run:
        run = fabric_dry_run(**asked)
        return _publication_shape(run.published, run)
    return _publication_shape(fabric_publish(**asked, message=body.message))


@router.post("/fabric-lint", response=LintOut, url_name="api-fabric-lint", operation_id="lintFabric")
def lint_fabric(request: HttpRequest, body: FabricSourceIn) -> LintOut:
    """Lint a fabric. Every error and doubt, each with its path, line and column; nothing is published."""
    found = fabric_lint(actor=find_actor(request), source=body.source, origin=body.origin, providers=provider_names())
    return LintOut(
        name=found.name or None,
        publishable=found.publishable,
        problems=[PlacedOut(**_place(one)) for one in found.problems],
        warnings=[PlacedOut(**_place(one)) for one in found.warnings],
        deviations=[DeviationOut(**_place(one.place), reason=one.reason) for one in found.deviations],
        notes=[*found.notes],
    )


@router.post("/fabrics/{name}/revert", response=PublishedOut, url_name="api-fabric-revert", operation_id="revertFabric")
def revert_fabric(request: HttpRequest, name: Named, body: RevertIn) -> PublishedOut:
    """Revert a fabric. An older revision is published again under its own number, checked by today's rules; no new
    one is made.
    """
    done = fabric_revert(
        actor=find_actor(request),
        name=name,
        number=body.revision,
        providers=provider_names(),
        expect=body.expect_revision,
    )
    return _publication_shape(done)


@router.get(
    "/fabrics/{name}/yaml",
    url_name="api-fabric-yaml",
    operation_id="getFabricYaml",
    openapi_extra={"responses": {200: {"content": {YAML: {"schema": {"type": "object"}}}}}},
)
def get_fabric_yaml(
    request: HttpRequest,
    name: Named,
    revision: Annotated[
        int | None,
        Query(ge=1, lt=NUMBER_MAX, description="Number of the revision. Otherwise the published one.", example=2),
    ] = None,
    form: Annotated[
        Literal["published", "written"],
        Query(
            description="published: the text that it was last published with, or as written where there is none. written: every field, with a comment at each budget and limit."
        ),
    ] = "published",
) -> FileResponse:
    """Get a fabric's YAML. The text that a revision was last published with, byte for byte, or written out."""
    page = revision_get(find_actor(request), name, revision)
    text = export_revision(page) if form == "published" else written_out(page.spec)
    return _file(text, f"{page.fabric.name}-r{page.number}.yaml", YAML)


@router.get("/fabrics/{name}/diff", response=DiffOut, url_name="api-fabric-diff", operation_id="compareRevisions")
def compare_revisions(
    request: HttpRequest,
    name: Named,
    before: Annotated[
        int | None,
        Query(
            alias="from",
            ge=1,
            lt=NUMBER_MAX,
            description="Number of a revision. Otherwise the published one.",
            example=1,
        ),
    ] = None,
    after: Annotated[
        int | None,
        Query(
            alias="to", ge=1, lt=NUMBER_MAX, description="Number of another. Otherwise the published one.", example=2
        ),
    ] = None,
) -> DiffOut:
    """Compare two revisions. The differences by path, and line by line."""
    actor = find_actor(request)
    found = compare_sides(build_side(actor, name, before), build_side(actor, name, after))
    return DiffOut(
        before=found.before.called,
        after=found.after.called,
        same=found.same,
        changes=[_change(one) for one in found.changes],
        text=found.text(),
    )


@router.get(
    "/fabric-schema",
    url_name="api-fabric-schema",
    operation_id="getFabricSchema",
    openapi_extra={"responses": {200: {"content": {MEDIA_TYPE: {"schema": {"type": "object"}}}}}},
)
def get_fabric_schema(request: HttpRequest) -> FileResponse:
    """Get the schema of fabrics. JSON Schema (draft 2020-12) of a fabric's YAML, for editors."""
    return _file(json.dumps(fabric_schema(), ensure_ascii=False, indent=2), "fabric.schema.json", MEDIA_TYPE)


def _file(text: str, name: str, media: str) -> FileResponse:
    return FileResponse(BytesIO(text.encode()), as_attachment=True, filename=name, content_type=media)


def _publication_shape(done: PublishedFabric, run: DryRun | None = None) -> PublishedOut:
    return PublishedOut(
        name=done.name,
        title=done.title,
        revision=done.number,
        digest=done.digest,
        changed=done.changed,
        was=done.was,
        text_replaced=done.rewritten,
        dry_run=run is not None,
        new=run.new if run else None,
        changes=[_change(one) for one in run.changes] if run else [],
        warnings=list(done.warnings),
        deviations=[LaxOut(path=one.path, what=one.what, reason=one.reason) for one in done.deviations],
    )


def _change(one: SpecChange) -> ChangeOut:
    return ChangeOut(path=one.path, kind=one.kind, before=one.before, after=one.after)


def _place(one: Placed) -> dict[str, Any]:
    return {"path": one.path, "line": one.line, "column": one.column, "sentence": one.sentence}
