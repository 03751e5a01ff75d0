"""What the shapes of all nouns share. A request's shape takes nothing that it does not name, and converts nothing."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, overload

from pydantic import AwareDatetime, BaseModel, BeforeValidator, ConfigDict, Field

Instant = Annotated[str, Field(json_schema_extra={"format": "date-time"}, examples=["2026-03-01T09:30:00.123456Z"])]
"""RFC 3339, UTC, to the microsecond."""


class Given(BaseModel):
    """What a caller sends."""

    model_config = ConfigDict(extra="forbid", strict=True)


def _written(value: object) -> object:
    if value is None or (isinstance(value, str) and "T" in value):
        return value
    raise ValueError("give an instant as text with its zone, such as 2026-11-01T00:00:00Z")


Moment = Annotated[AwareDatetime, BeforeValidator(_written), Field(strict=False)]
"""An instant that a caller sends: text alone (RFC 3339). A number would be read as seconds since 1970, which no schema says."""


class Told(BaseModel):
    """What a caller gets."""

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
