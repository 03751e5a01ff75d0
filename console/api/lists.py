"""Parameters that every list of the API takes, and the file of a list."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from ninja import Query
from pydantic import Field

from console.api.schemas import Given, Moment
from fabric.selectors.list_file import FORMS

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
"""The schema of a response that is a list as a file."""


class FileIn(Given):
    """Which part of a list to export, and how."""

    form: Literal["csv", "ndjson"] = Field(default="ndjson", description="CSV for spreadsheets, or lines of JSON.")
    since: Moment | None = Field(
        default=None, description="Then or later; null: from the first on.", examples=["2026-11-01T00:00:00Z"]
    )
    until: Moment | None = Field(default=None, description="Before; null: until now.", examples=[None])

    def bounds(self) -> dict[str, Any]:
        """The period as a filter has it."""
        return bounds(self.since, self.until)


def bounds(since: datetime | None, until: datetime | None) -> dict[str, Any]:
    """A period as a filter has it, in microseconds since the epoch."""
    return {"since": _us(since) or 0, "until": _us(until)}


def _us(at: datetime | None) -> int | None:
    return None if at is None else max(0, round(at.timestamp() * 1_000_000))
