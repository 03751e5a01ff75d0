"""What a fabric says of the people whom its runs ask: how long they have, who is asked next, where two have to agree."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from fabric.core.spec_parts import Line, SpecGroup
from fabric.core.taxonomy import Tier

ONWARD_TO = ("owner",)
"""To whom a question is passed on where its fabric says nothing of that."""


class Humans(SpecGroup):
    """When a question is due, in seconds; None takes the tier's default: interactive 5 min, batch 24 h, high-stakes 8 h."""

    due_s: Annotated[float, Field(gt=0, le=30 * 86_400)] | None = None
    reminder_at: Annotated[float, Field(gt=0, lt=1)] = 0.5
    onward_at: Annotated[float, Field(gt=0, lt=1)] = 0.75
    failure_rounds: Annotated[int, Field(ge=1)] = Field(
        default=2, description="How often a failed step may be approved for one more try."
    )
    four_eyes: tuple[Tier, ...] = Field(
        default=(),
        description="Tiers in which two different people approve exactly the same, neither of whom started the run.",
    )
    onward_to: tuple[Line, ...] = Field(
        default=ONWARD_TO,
        description="Roles and users who may answer as well once three quarters of the time have passed.",
    )
