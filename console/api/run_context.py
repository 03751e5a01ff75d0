"""The shape of a change of a run's context variables."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from console.api.schemas import Given
from fabric.services.control import VARIABLE_CHARS_MAX


class ContextIn(Given):
    """A change of a run's context variables: names are deleted first, then set."""

    set: dict[str, Any] = Field(
        default_factory=dict,
        description=f"Values by name; a name has at most {VARIABLE_CHARS_MAX} characters. Rules of the graph see them after the turn in flight. "
        "Kept in the run's journal.",
        examples=[{"approved": True}],
    )
    delete: list[str] = Field(default_factory=list, description="Names that are deleted.", examples=[["draft"]])
