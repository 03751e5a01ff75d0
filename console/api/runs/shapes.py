"""Shapes of runs in the API, of changes of their context variables, and functions that fill them."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from console.api.shapes.common import ChildOut, Instant, RequestShape, ResponseShape, children_shapes, instant
from fabric.core.people.actor import Actor
from fabric.core.state.trouble import FIRED
from fabric.core.values.flow import RunState
from fabric.core.values.taxonomy import Tier
from fabric.runtime.ports.batch_parts import EXCERPT_CHARS, Origin
from fabric.selectors.runs.families import CHILDREN_SHOWN
from fabric.selectors.runs.inputs import DocumentView, list_documents
from fabric.selectors.runs.lookup import RunView, WaitsFor, run_get, run_outcome, write_advice
from fabric.services.runs.control import VARIABLE_CHARS_MAX

PriorityName = Literal["critical", "high", "normal", "low"]


class OutcomeOut(ResponseShape):
    """Outcome of a run."""

    text: str = Field(description="The answer.")
    citations: list[str] = Field(
        description="Names of the documents it rests on, with a page, sheet or row where one is cited."
    )
    gaps: list[str] = Field(description="Gaps, one sentence each.")
    partial: bool = Field(
        description="True if the run was stopped, or completed without branches whose retries were exhausted."
    )


class TypedOutcomeOut(OutcomeOut):
    """Outcome of a run, written by an agent with an output schema."""

    data: Any = Field(description="Data beside the text: JSON that fits the agent's output_schema.")


class RunOut(ResponseShape):
    """A run as its last event left it."""

    id: str = Field(description="Its id.", examples=["019a8b5e-4a53-7c1e-9a64-3f7d2b1c0e55"])
    fabric: str = Field(description="Name of its fabric.", examples=["research-desk"])
    revision: int = Field(description="Number of the revision it pinned.", examples=[3])
    revision_id: str = Field(description="Id of that revision.")
    title: str = Field(description="The request's first line.")
    state: RunState = Field(
        description="State of the run. completed, stopped, failed, aborted and cancelled are final."
    )
    stage: str = Field(description="The stage it is in, or ended in; empty before the first.", examples=["fan_out"])
    tier: Tier = Field(description="The tier it was started in.")
    priority: PriorityName = Field(description="How urgently it is taken up.")
    session_key: str = Field(description="Session key of the run; empty: none.")
    labels: dict[str, str] = Field(
        description="Its labels by key; a child run has its root's.", examples=[{"team": "ops"}]
    )
    reason: str = Field(description="Why it ended or what it waits for, where there is something to say.")
    waits_for: WaitsFor | None = Field(
        description="The only thing that the run waits for: a review, or a provider that is away. Null: neither."
    )
    recovered: bool = Field(description="True if a failure was recovered from.")
    cause: str = Field(
        description="Cause of the failure that ended or last troubled it; empty: none did.", examples=["budget_gate"]
    )
    failure: str = Field(
        description="The row of the decision table that it met last; empty: none.", examples=["cost_overrun"]
    )
    fired: list[str] = Field(
        description=f"The protections that fired, the first one first: {', '.join(FIRED)}.", examples=[["budget"]]
    )
    breakers: list[str] = Field(
        description="The circuit breakers that refused its calls, as `scope:name`.", examples=[["provider:openai"]]
    )
    truncated: bool = Field(description="True if the outcome is only the partial result at a stop.")
    replans: int = Field(description="Number of replans.")
    cost_usd_micros: int = Field(description="Spent so far, in millionths of a US dollar.", examples=[12500])
    tokens: int = Field(description="Tokens so far, in and out.")
    parent_run_id: str | None = Field(description="The run that spawned it; null: it was asked for from outside.")
    root_run_id: str | None = Field(description="The run that its whole family descends from; null without a parent.")
    last_seq: int = Field(description="Seq of its last event; 0 before the first.", examples=[28])
    trace_id: str = Field(description="Its trace id, 32 hex digits.")
    created_at: Instant = Field(description="When it was asked for.")
    created_by: str = Field(description="In whose name.", examples=["owner"])
    started_at: Instant | None = Field(description="When a worker first took it up; null before.")
    ended_at: Instant | None = Field(description="End of the run; null: it still runs.")
    deadline_at: Instant = Field(description="When it is stopped at the latest; waiting for a person moves it.")


class DocumentOut(ResponseShape):
    """An attached document: the file, and the text read from it."""

    name: str = Field(description="Its name, as it was cleaned.", examples=["report.pdf"])
    kind: str = Field(description="Media type of the file; empty: not recorded.", examples=["PDF"])
    bytes: int = Field(description="Size of the file.", examples=[245120])
    sha256: str = Field(description="SHA-256 of the file, 64 hex digits.")
    characters: int = Field(description="Length of the text that was read.", examples=[34120])
    pages: int = Field(description="How many pages its text marks; 0: it has none.", examples=[12])
    sheets: list[str] = Field(description="Names of its sheets.", examples=[[]])
    rows: int = Field(description="How many rows of tables its text marks.", examples=[0])
    notes: list[str] = Field(description="Notes about the reading of the file.", examples=[["no text on page 4"]])
    excerpt: str = Field(description="How the text begins; empty once it was erased.")


class RunDetailOut(RunOut):
    """A run with its input and outcome."""

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
        description="Result of the child run; null: it still runs, or has none."
    )


class RunsOut(ResponseShape):
    """A page of runs."""

    runs: list[RunOut] = Field(description="In the order of sort; without it the newest first.")
    next_cursor: str | None = Field(description="Send it as cursor for the next page; null at the end.")


def run_shape(actor: Actor, run_id: str) -> RunDetailOut:
    """Return one run, with its input, outcome and children. Raises Refused not_found."""
    view = run_get(actor, run_id)
    outcome = run_outcome(actor, run_id) if view.terminal else None
    typed = None
    if outcome is not None:
        typed = TypedOutcomeOut(**outcome) if "data" in outcome else OutcomeOut(**outcome)
    count, children = children_shapes(actor, run_id)
    return RunDetailOut(
        **run_columns(view),
        advice=write_advice(view),
        documents=list(view.documents),
        attached=[document_shape(one) for one in list_documents(view.id, EXCERPT_CHARS * 4 if view.reads else 0)],
        children_count=count,
        children=children,
        outcome=typed,
    )


def document_shape(view: DocumentView) -> DocumentOut:
    """Return one attached document."""
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


def run_columns(view: RunView) -> dict[str, Any]:
    """Return the columns of ``RunOut``."""
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
        "cause",
        "failure",
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
        "fired": list(view.fired),
        "breakers": list(view.breakers),
        "labels": dict(view.labels),
        "created_at": instant(view.created_at),
        "started_at": instant(view.started_at),
        "ended_at": instant(view.ended_at),
        "deadline_at": instant(view.deadline_at),
    }


class ContextIn(RequestShape):
    """A change of a run's context variables: names are deleted first, then set."""

    set: dict[str, Any] = Field(
        default_factory=dict,
        description=f"Values by name; a name has at most {VARIABLE_CHARS_MAX} characters. Rules of the graph see them after the turn in flight. "
        "Kept in the run's journal.",
        examples=[{"approved": True}],
    )
    delete: list[str] = Field(default_factory=list, description="Names that are deleted.", examples=[["draft"]])
