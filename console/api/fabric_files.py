"""Fabrics as files, for pipelines: judging, comparing, publishing and reverting them, their YAML, and the schema that editors check it by.

The operations stand in the router of fabrics, since one of them shares its address with the list.
"""

from __future__ import annotations

import json
from io import BytesIO
from typing import Annotated, Any, Literal

from django.http import FileResponse, HttpRequest
from ninja import Path, Query
from pydantic import Field

from console.api.callers import actor_of
from console.api.fabrics import Digest, router
from console.api.schemas import Given, Told
from fabric.model_ports import provider_names
from fabric.selectors.fabrics import revision_get
from fabric.selectors.revision_diff import Change
from fabric.services.errors import Placed
from fabric.services.fabric_compare import DryRun, compared, fabric_dry_run, side_of
from fabric.services.fabric_lint import fabric_lint
from fabric.services.fabric_schema import MEDIA_TYPE, fabric_schema
from fabric.services.fabric_text import exported, written_out
from fabric.services.fabrics import Published, fabric_publish, fabric_revert
from fabric.services.yaml_tree import BYTES_MAX

__all__ = ["router"]

YAML = "application/yaml"
ORIGIN_MAX = 200
NUMBER_MAX = 2**31
Named = Annotated[str, Path(description="The fabric's name.", example="research-desk")]
EXAMPLE = "name: desk\ntitle: A desk\n..."


class FabricSourceIn(Given):
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
        description="Number of the revision that has to be the published one until then: 409 where it is another. 0: none; null: whatever it is.",
        examples=[3],
    ),
]


class PublishIn(FabricSourceIn):
    """A fabric to be published."""

    dry_run: bool = Field(False, description="Say what would change, and change nothing.", examples=[False])
    expect_revision: Expected = None


class RevertIn(Given):
    """Which revision is to be the published one again."""

    revision: int = Field(ge=1, lt=NUMBER_MAX, description="Its number.", examples=[2])
    expect_revision: Expected = None


class PlacedOut(Told):
    """One thing that was found in a text."""

    path: str = Field(description="Path of the field; empty: of no single one.", examples=["agents.0.model"])
    line: int | None = Field(description="From 1; null: it is not known.", examples=[12])
    column: int | None = Field(description="From 1; null: it is not known.", examples=[12])
    sentence: str = Field(description="What it is.", examples=["no model is named 'big'; there are: script"])


class DeviationOut(PlacedOut):
    """Where a fabric is laxer than required."""

    reason: str = Field(description="Its author's reason.", examples=["A pilot with five users."])


class LintOut(Told):
    """What was found in a fabric's text."""

    name: str | None = Field(description="The fabric's; null: it cannot be read.", examples=["desk"])
    publishable: bool = Field(description="Whether it could be published as it is.")
    problems: list[PlacedOut] = Field(description="What keeps it from that.")
    warnings: list[PlacedOut] = Field(description="What its author probably did not mean.")
    deviations: list[DeviationOut] = Field(description="Where it is laxer than required, with reasons.")


class ChangeOut(Told):
    """One place that differs."""

    path: str = Field(description="Things of a list by their name.", examples=["agents.reader.max_output_tokens"])
    kind: Literal["added", "removed", "changed", "moved"] = Field(description="What became of it.")
    before: str = Field(description="Empty: there was nothing.", examples=["1024"])
    after: str = Field(description="Empty: there is nothing any more.", examples=["2048"])


class DiffOut(Told):
    """How two revisions differ."""

    before: str = Field(description="The one that is compared from.", examples=["desk@1"])
    after: str = Field(description="The one that is compared to.", examples=["desk@2"])
    same: bool = Field(description="Whether they are the same content.")
    changes: list[ChangeOut] = Field(description="By path, with the decision table in force.")
    text: str = Field(description="Both written out, line by line, as a unified diff; empty: they are the same.")


class LaxOut(Told):
    """Where a published fabric is laxer than required."""

    path: str = Field(description="Where.", examples=["decision_table.provider_failure.high_stakes"])
    what: str = Field(description="How.", examples=["it ends with surface"])
    reason: str = Field(description="Its author's reason.", examples=["A pilot with five users."])


class PublishedOut(Told):
    """What a publication did, or would do."""

    name: str = Field(description="The fabric's name.", examples=["desk"])
    title: str = Field(description="What people call it.", examples=["A desk"])
    revision: int = Field(description="Number of the published revision: what a new run pins.", examples=[3])
    digest: Digest
    changed: bool = Field(description="False: this very content was the published one already.")
    was: int | None = Field(description="Number of the revision published before; null: none was.", examples=[2])
    text_replaced: bool = Field(description="The content was there already, and is kept under this text from now on.")
    dry_run: bool = Field(description="True: nothing was changed.")
    new: bool | None = Field(
        description="Of a dry run: whether a revision would be made; false: one of this content is there; null: it was none."
    )
    changes: list[ChangeOut] = Field(description="Of a dry run: against what is published now.")
    warnings: list[str] = Field(description="What its author probably did not mean, with places.", examples=[[]])
    deviations: list[LaxOut] = Field(description="Where it is laxer than required, with reasons.")


@router.post("/fabrics", response=PublishedOut, url_name="api-fabrics", operation_id="publishFabric")
def publish_fabric(request: HttpRequest, body: PublishIn) -> PublishedOut:
    """Publish a fabric. Judged whole: each problem is told with its path and line. The same content again changes nothing; an older one is published again."""
    asked: dict[str, Any] = {
        "actor": actor_of(request),
        "source": body.source,
        "origin": body.origin,
        "providers": provider_names(),
        "expect": body.expect_revision,
    }
    if body.dry_run:
        run = fabric_dry_run(**asked)
        return _published(run.published, run)
    return _published(fabric_publish(**asked))


@router.post("/fabric-lint", response=LintOut, url_name="api-fabric-lint", operation_id="lintFabric")
def lint_fabric(request: HttpRequest, body: FabricSourceIn) -> LintOut:
    """Judge a fabric. Everything that is wrong or doubtful, each with its path, line and column; nothing is published."""
    found = fabric_lint(actor=actor_of(request), source=body.source, origin=body.origin, providers=provider_names())
    return LintOut(
        name=found.name or None,
        publishable=found.publishable,
        problems=[PlacedOut(**_place(one)) for one in found.problems],
        warnings=[PlacedOut(**_place(one)) for one in found.warnings],
        deviations=[DeviationOut(**_place(one.place), reason=one.reason) for one in found.deviations],
    )


@router.post("/fabrics/{name}/revert", response=PublishedOut, url_name="api-fabric-revert", operation_id="revertFabric")
def revert_fabric(request: HttpRequest, name: Named, body: RevertIn) -> PublishedOut:
    """Revert a fabric. An older revision is published again under its own number, judged by today's rules; no new one is made."""
    done = fabric_revert(
        actor=actor_of(request),
        name=name,
        number=body.revision,
        providers=provider_names(),
        expect=body.expect_revision,
    )
    return _published(done)


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
    page = revision_get(actor_of(request), name, revision)
    text = exported(page) if form == "published" else written_out(page.spec)
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
    """Compare two revisions. What differs, by path, and line by line."""
    actor = actor_of(request)
    found = compared(side_of(actor, name, before), side_of(actor, name, after))
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


def _published(done: Published, run: DryRun | None = None) -> PublishedOut:
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


def _change(one: Change) -> ChangeOut:
    return ChangeOut(path=one.path, kind=one.kind, before=one.before, after=one.after)


def _place(one: Placed) -> dict[str, Any]:
    return {"path": one.path, "line": one.line, "column": one.column, "sentence": one.sentence}
