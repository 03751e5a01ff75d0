"""A run's children as the API tells them."""

from __future__ import annotations

from pydantic import Field

from console.api.schemas import Told
from fabric.core.actor import Actor
from fabric.core.flow import RunState
from fabric.selectors.families import children_of

EXAMPLE_ID = "019a8b5e-4a53-7c1e-9a64-3f7d2b1c0e55"
_TOLD = ("id", "title", "state", "cost_usd_micros", "cap_usd_micros")


class ChildOut(Told):
    """A run that a run spawned."""

    id: str = Field(description="Its id; a run like any other.", examples=[EXAMPLE_ID])
    title: str = Field(
        description="What it does of its parent's work.", examples=["Briefs 1 to 63 of 1000: Answer it."]
    )
    state: RunState = Field(description="Where it stands.")
    cost_usd_micros: int = Field(description="Spent so far, its own children included.", examples=[12500])
    cap_usd_micros: int | None = Field(description="What its parent reserved for it.", examples=[45000])


def children_told(actor: Actor, run_id: str) -> tuple[int, list[ChildOut]]:
    """How many runs a run spawned, and the first of them."""
    below = children_of(actor, run_id)
    return below.count, [ChildOut(**{name: getattr(one, name) for name in _TOLD}) for one in below.shown]
