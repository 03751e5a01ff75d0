"""Runs as the API tells them."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from console.api.families import ChildOut, children_told
from console.api.schemas import Instant, Told, instant
from fabric.core.actor import Actor
from fabric.core.flow import RunState
from fabric.core.taxonomy import Tier
from fabric.runtime.origin import EXCERPT_CHARS, Origin
from fabric.selectors.advice import advice_of
from fabric.selectors.families import CHILDREN_SHOWN
from fabric.selectors.run_inputs import DocumentView, documents_of
from fabric.selectors.runs import RunView, run_get, run_outcome
from fabric.selectors.waits_for import WaitsFor

PriorityName = Literal["critical", "high", "normal", "low"]


class OutcomeOut(Told):
    """What a run gave back."""

    text: str = Field(description="The answer.")
    citations: list[str] = Field(
        description="Names of the documents it rests on, with a page, sheet or row where one is cited."
    )
    gaps: list[str] = Field(description="What is missing, a sentence each.")
    partial: bool = Field(
        description="Whether it is what there was when the run was stopped or, of a run that completed, made without branches whose retries were exhausted."
    )


class TypedOutcomeOut(OutcomeOut):
    """What a run gave back whose answer was written by an agent with an output schema."""

    data: Any = Field(description="What it gave beside the text: JSON that fits the agent's output_schema.")


class RunOut(Told):
    """A run as its last event left it."""

    id: str = Field(description="Its id.", examples=["019a8b5e-4a53-7c1e-9a64-3f7d2b1c0e55"])
    fabric: str = Field(description="Name of its fabric.", examples=["research-desk"])
    revision: int = Field(description="Number of the revision it pinned.", examples=[3])
    revision_id: str = Field(description="Id of that revision.")
    title: str = Field(description="The request's first line.")
    state: RunState = Field(description="Where it stands. completed, stopped, failed, aborted and cancelled are final.")
    stage: str = Field(description="The stage it is in, or ended in; empty before the first.", examples=["fan_out"])
    tier: Tier = Field(description="The tier it was started in.")
    priority: PriorityName = Field(description="How urgently it is taken up.")
    session_key: str = Field(description="What it was started with.")
    reason: str = Field(description="Why it ended or what it waits for, where there is something to say.")
    waits_for: WaitsFor | None = Field(
        description="Whom it waits for, doing nothing else: a person is asked, or a provider is away and the run goes on by itself. Null: neither."
    )
    recovered: bool = Field(description="Whether something failed on the way and was recovered from.")
    truncated: bool = Field(description="Whether the outcome is only what there was when the run was stopped.")
    replans: int = Field(description="How often it was planned anew.")
    cost_usd_micros: int = Field(description="Spent so far, in millionths of a US dollar.", examples=[12500])
    tokens: int = Field(description="Tokens so far, in and out.")
    parent_run_id: str | None = Field(description="The run that spawned it; null: it was asked for from outside.")
    root_run_id: str | None = Field(description="The run that its whole family descends from; null without a parent.")
    last_seq: int = Field(description="Seq of its last event; 0 before the first.", examples=[28])
    trace_id: str = Field(description="Its trace id, 32 hex digits.")
    created_at: Instant = Field(description="When it was asked for.")
    created_by: str = Field(description="In whose name.", examples=["owner"])
    started_at: Instant | None = Field(description="When a worker first took it up; null before.")
    ended_at: Instant | None = Field(description="When it ended; null while it goes on.")
    deadline_at: Instant = Field(description="When it is stopped at the latest; waiting for a person moves it.")


class DocumentOut(Told):
    """An attached document: the file, and what was read of it."""

    name: str = Field(description="Its name, as it was cleaned.", examples=["report.pdf"])
    kind: str = Field(description="What the file is; empty: the run came from before this was kept.", examples=["PDF"])
    bytes: int = Field(description="Size of the file.", examples=[245120])
    sha256: str = Field(description="SHA-256 of the file, 64 hex digits.")
    characters: int = Field(description="Length of the text that was read.", examples=[34120])
    pages: int = Field(description="How many pages its text marks; 0: it has none.", examples=[12])
    sheets: list[str] = Field(description="Names of its sheets.", examples=[[]])
    rows: int = Field(description="How many rows of tables its text marks.", examples=[0])
    notes: list[str] = Field(
        description="What to know of the reading, a clause each.", examples=[["no text on page 4"]]
    )
    excerpt: str = Field(description="How the text begins; empty once it was erased.")


class RunDetailOut(RunOut):
    """A run with what it was given and what it gave back."""

    advice: str = Field(
        description="The next thing to do, where the run was stopped or asks a person; empty: nothing went wrong.",
        examples=["Look whether the endpoint is up, or name a fallback model."],
    )
    documents: list[str] = Field(description="Names of the attached documents, as they were cleaned.")
    attached: list[DocumentOut] = Field(description="The same documents, with what was read of each.")
    children_count: int = Field(description="How many runs it spawned.", examples=[0])
    children: list[ChildOut] = Field(
        description=f"The first {CHILDREN_SHOWN} of them; list runs by parent for the rest."
    )
    outcome: OutcomeOut | TypedOutcomeOut | None = Field(
        description="What it gave back; null while it goes on, or when there is none."
    )


class RunsOut(Told):
    """A page of runs."""

    runs: list[RunOut] = Field(description="The newest first.")
    next_cursor: str | None = Field(description="Send it as cursor for the next page; null at the end.")


def run_told(actor: Actor, run_id: str) -> RunDetailOut:
    """One run, with what it was given, what it gave back, and its children. Refused not_found."""
    view = run_get(actor, run_id)
    outcome = run_outcome(actor, run_id) if view.terminal else None
    typed = None
    if outcome is not None:
        typed = TypedOutcomeOut(**outcome) if "data" in outcome else OutcomeOut(**outcome)
    count, children = children_told(actor, run_id)
    return RunDetailOut(
        **columns_told(view),
        advice=advice_of(view),
        documents=list(view.documents),
        attached=[document_told(one) for one in documents_of(view.id, EXCERPT_CHARS * 4 if view.reads else 0)],
        children_count=count,
        children=children,
        outcome=typed,
    )


def document_told(view: DocumentView) -> DocumentOut:
    """One attached document."""
    origin = view.origin or Origin("", view.bytes, "")
    return DocumentOut(
        name=view.name,
        kind=origin.kind,
        bytes=origin.bytes,
        sha256=origin.sha256,
        characters=origin.characters,
        pages=origin.pages,
        sheets=list(origin.sheets),
        rows=origin.rows,
        notes=list(origin.notes),
        excerpt=view.excerpt,
    )


def columns_told(view: RunView) -> dict[str, Any]:
    """What ``RunOut`` says of a run."""
    same: tuple[str, ...] = (
        "id",
        "revision_id",
        "title",
        "state",
        "stage",
        "tier",
        "priority",
        "session_key",
        "reason",
        "recovered",
    )
    same += (
        "parent_run_id",
        "root_run_id",
        "truncated",
        "waits_for",
        "cost_usd_micros",
        "tokens",
        "last_seq",
        "trace_id",
        "created_by",
    )
    return {
        **{name: getattr(view, name) for name in same},
        "fabric": view.fabric_name,
        "revision": view.revision_number,
        "replans": view.epoch,
        "created_at": instant(view.created_at),
        "started_at": instant(view.started_at),
        "ended_at": instant(view.ended_at),
        "deadline_at": instant(view.deadline_at),
    }
