"""Drafts: what somebody writes before it is published, for pipelines that store one and people who look at it afterwards."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from django.http import HttpRequest
from ninja import Path, Router, Status
from pydantic import Field

from console.api.callers import actor_of
from console.api.fabric_files import EXAMPLE, FabricSourceIn, PlacedOut
from console.api.schemas import Instant, Told
from console.views.fabric_edit import installation_for
from fabric.core.actor import Actor
from fabric.selectors.drafts import DraftView, draft_get, drafts_list
from fabric.services.checking import checked
from fabric.services.draft_beginning import draft_import
from fabric.services.drafts import NAME_CHARS_MAX

router = Router(tags=["fabrics"])
Author = Annotated[str, Field(description="Whose it is: nobody else changes it.", examples=["owner"])]
Changed = Annotated[Instant, Field(description="When it was changed last.")]
FabricName = Annotated[str, Field(description="The fabric's name; it need not be published.", examples=["desk"])]


class DraftIn(FabricSourceIn):
    """A text that is to be a draft."""

    name: str = Field(
        "",
        max_length=NAME_CHARS_MAX,
        description="The fabric's; empty: the one that the text says, else that of the file.",
        examples=["desk"],
    )
    replace: bool = Field(
        False,
        description="Where the caller has a draft of that name: give it this text, which can be undone; false: 409.",
        examples=[False],
    )


class DraftLineOut(Told):
    """A draft in the list."""

    name: FabricName
    author: Author
    changed_at: Changed


class DraftsOut(Told):
    """The drafts of the workspace."""

    drafts: list[DraftLineOut] = Field(description="The caller's own first, then by name.")


class FindingOut(PlacedOut):
    """What is said of a draft."""

    level: Literal["error", "warning", "note"] = Field(description="error: it keeps the draft from being published.")


class DraftOut(DraftLineOut):
    """One's own draft."""

    step: int = Field(description="Number of the change that it stands at.", examples=[3])
    base: int | None = Field(
        description="Number of the revision that it changes; null: none was published.", examples=[2]
    )
    publishable: bool = Field(description="Whether nothing keeps it from being published.")
    findings: list[FindingOut] = Field(description="Everything that is said of its text.")
    source: str = Field(description="Its text.", examples=[EXAMPLE])


class ImportedOut(Told):
    """A draft that was stored."""

    draft: DraftOut = Field(description="As it stands now.")
    replaced: bool = Field(description="True: it took the place of the text that the draft had, which can be undone.")


@router.get("/drafts", response=DraftsOut, url_name="api-drafts", operation_id="listDrafts")
def list_drafts(request: HttpRequest) -> DraftsOut:
    """List drafts. Everybody's, without their texts."""
    found = drafts_list(actor_of(request))
    return DraftsOut(
        drafts=[DraftLineOut(name=one.name, author=one.author, changed_at=_iso(one.changed_at)) for one in found]
    )


@router.post("/drafts", response={201: ImportedOut}, url_name="api-drafts", operation_id="importDraft")
def import_draft(request: HttpRequest, body: DraftIn) -> Any:
    """Store a draft. Whatever the text says: what is wrong with it is told, not refused. Of a published fabric it is a change of what is published."""
    actor = actor_of(request)
    found = draft_import(actor=actor, text=body.source, name=body.name, origin=body.origin, replace=body.replace)
    return Status(201, ImportedOut(draft=_told(actor, found.draft), replaced=found.replaced))


@router.get("/drafts/{name}", response=DraftOut, url_name="api-draft", operation_id="getDraft")
def get_draft(
    request: HttpRequest, name: Annotated[str, Path(description="The fabric's name.", example="desk")]
) -> DraftOut:
    """Get a draft. The caller's own of that fabric, with its text and everything that is said of it."""
    actor = actor_of(request)
    return _told(actor, draft_get(actor, name))


def _told(actor: Actor, view: DraftView) -> DraftOut:
    found = checked(view.text, installation_for(actor, view.name), name=view.name)
    return DraftOut(
        name=view.name,
        author=view.author,
        changed_at=_iso(view.changed_at),
        step=view.step,
        base=view.base,
        publishable=not found.errors,
        findings=[
            FindingOut(level=one.level, path=one.path, line=one.line, column=one.column, sentence=one.sentence)
            for one in found.findings
        ],
        source=view.text,
    )


def _iso(at: datetime) -> str:
    return f"{at.astimezone(UTC):%Y-%m-%dT%H:%M:%S.%f}Z"
