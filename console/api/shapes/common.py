"""Shared shapes of the API: base classes, a run's children, parameters of every list, and exports.

A request's shape accepts only its own fields, and converts nothing.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any, Literal, overload

from ninja import Query
from pydantic import AwareDatetime, BaseModel, BeforeValidator, ConfigDict, Field

from fabric.core.people.actor import Actor
from fabric.core.values.flow import RunState
from fabric.selectors.list_file import FORMS
from fabric.selectors.runs.families import build_children

Instant = Annotated[str, Field(json_schema_extra={"format": "date-time"}, examples=["2026-03-01T09:30:00.123456Z"])]
"""RFC 3339, UTC, to the microsecond."""


class RequestShape(BaseModel):
    """Base of the shapes that a caller sends."""

    model_config = ConfigDict(extra="forbid", strict=True)


def _require_text(value: object) -> object:
    if value is None or (isinstance(value, str) and "T" in value):
        return value
    raise ValueError("give an instant as text with its zone, such as 2026-11-01T00:00:00Z")


Moment = Annotated[AwareDatetime, BeforeValidator(_require_text), Field(strict=False)]
"""An instant that a caller sends: only text (RFC 3339).

A number would be read as seconds since 1970, which no schema says.
"""


class ResponseShape(BaseModel):
    """Base of the shapes that a caller gets."""

    model_config = ConfigDict(frozen=True)


@overload
def instant(micros: int) -> str: ...


@overload
def instant(micros: None) -> None: ...


def instant(micros: int | None) -> str | None:
    """Microseconds since the epoch as RFC 3339; None stays None."""
    if micros is None:
        return None
    whole, rest = divmod(micros, 1_000_000)
    return f"{datetime.fromtimestamp(whole, UTC):%Y-%m-%dT%H:%M:%S}.{rest:06d}Z"


EXAMPLE_ID = "019a8b5e-4a53-7c1e-9a64-3f7d2b1c0e55"
_TOLD = ("id", "title", "state", "cost_usd_micros", "cap_usd_micros")


class ChildOut(ResponseShape):
    """A child run."""

    id: str = Field(description="Its id; a run like any other.", examples=[EXAMPLE_ID])
    title: str = Field(description="Part of the parent's work.", examples=["Briefs 1 to 63 of 1000: Answer it."])
    state: RunState = Field(description="State of the child run.")
    cost_usd_micros: int = Field(description="Spent so far, its own children included.", examples=[12500])
    cap_usd_micros: int | None = Field(description="Amount that its parent reserved for it.", examples=[45000])


def children_shapes(actor: Actor, run_id: str) -> tuple[int, list[ChildOut]]:
    """Return the number of a run's children, and the first of them."""
    below = build_children(actor, run_id)
    return below.count, [ChildOut(**{name: getattr(one, name) for name in _TOLD}) for one in below.shown]


NAME_CHARS_MAX = 200
PAGE_MAX = 200
Since = Annotated[Moment | None, Query(description="Then or later.", example="2026-11-01T00:00:00Z")]
Until = Annotated[Moment | None, Query(description="Before.", example="2026-12-01T00:00:00Z")]
Limit = Annotated[int, Query(ge=1, le=PAGE_MAX, description="At most so many.")]
Cursor = Annotated[
    str | None,
    Query(
        max_length=200, description="The next_cursor of the page before.", example="1772361000123456.4f1c9a2be07d3358"
    ),
]
FILE = {
    "responses": {
        200: {"content": {kind: {"schema": {"type": "string", "format": "binary"}} for kind in FORMS.values()}}
    }
}
"""Schema of a response that is an exported list."""


class FileIn(RequestShape):
    """Filter and format of an export."""

    form: Literal["csv", "ndjson"] = Field(default="ndjson", description="CSV for spreadsheets, or lines of JSON.")
    since: Moment | None = Field(
        default=None, description="Then or later; null: from the first on.", examples=["2026-11-01T00:00:00Z"]
    )
    until: Moment | None = Field(default=None, description="Before; null: until now.", examples=[None])

    def bounds(self) -> dict[str, Any]:
        """Return the period for a filter."""
        return bounds(self.since, self.until)


def bounds(since: datetime | None, until: datetime | None) -> dict[str, Any]:
    """Return a period for a filter, in microseconds since the epoch."""
    return {"since": microseconds(since) or 0, "until": microseconds(until)}


def microseconds(at: datetime | None) -> int | None:
    """Return an instant that a caller sent in microseconds since the epoch; None stays None."""
    return None if at is None else max(0, round(at.timestamp() * 1_000_000))
