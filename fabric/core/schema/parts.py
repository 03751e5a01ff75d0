"""The groups of a fabric's spec share a base class and some types of text and number."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

Name = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_-]{0,62}$")]
"""Lower-case letters, digits, dash and underscore, 63 at most: safe in a URL, a file name and a tool list."""
Line = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=200)]
Prose = Annotated[str, StringConstraints(strip_whitespace=True, max_length=20_000)]

Positive = Annotated[int, Field(ge=1)]
Seconds = Annotated[float, Field(gt=0, le=30 * 86_400)]
Micros = Annotated[int, Field(ge=0, le=10**15)]


class SpecGroup(BaseModel):
    """A group of fields: frozen, and it refuses fields that it does not know."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """Returns a copy, in which nothing is known yet that was worked out of the original's fields."""
        copied = super().model_copy(update=update, deep=deep)
        for name in copied.__dict__.keys() - type(self).model_fields.keys():
            del copied.__dict__[name]
        return copied


class Named(SpecGroup):
    """A group that others of the fabric refer to by its name."""

    name: Name = Field(description="Name by which the rest of the fabric refers to it.")
