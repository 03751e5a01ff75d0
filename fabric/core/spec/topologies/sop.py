"""Declares a procedure: its items in order, their agents, and the artifacts that each reads
(docs/specification/topologies.md).
"""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, StringConstraints, model_validator

from fabric.core.schema.parts import Line, Name, SpecGroup
from fabric.core.schema.topology import TopologySpec


class Duty(SpecGroup):
    """One item of a procedure: who does it, and what it leaves to those after it."""

    agent: Name = Field(description="The worker that does this item.")
    title: Line = Field(description="Title of the item in the picture and in the answer.")
    instructions: Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=20_000)] = Field(
        description="Instructions of the item."
    )
    reads: tuple[Annotated[int, Field(ge=1)], ...] | None = Field(
        default=None,
        description="Numbers of the earlier items, from 1, whose artifacts the worker gets. None: all of them.",
    )


class SopTopology(TopologySpec):
    """A standard operating procedure (docs/specification/topologies.md). Agents do its items one after the other, each
    with the artifacts of those before it.

    The procedure is the plan, so there is no planner. An artifact is typed where its agent has an ``output_schema``.
    Without an aggregator the last one is the answer.
    """

    kind: Literal["sop"] = Field(
        default="sop", description="Kind of the topology: agents do the items of a procedure in order."
    )
    procedure: Annotated[tuple[Duty, ...], Field(min_length=1, max_length=100)] = Field(
        description="The items in their order."
    )

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if self.planner is not None or self.plan is not None:
            raise ValueError("topology: the procedure is the plan; leave planner and plan out")
        for n, duty in enumerate(self.procedure):
            if duty.agent not in self.workers:
                raise ValueError(f"topology.procedure.{n}.agent: {duty.agent!r} is not one of the workers")
            for place, number in enumerate(duty.reads or ()):
                if number > n:
                    raise ValueError(
                        f"topology.procedure.{n}.reads.{place}: item {number} is not done before item {n + 1}; name earlier ones"
                    )
        return self

    def order(self) -> tuple[str, ...]:
        """Return the agents of the items."""
        return tuple(duty.agent for duty in self.procedure)

    def count_briefs(self) -> int:
        """A brief for each item."""
        return len(self.procedure)

    def list_started_agents(self) -> tuple[str, ...]:
        """Return each agent with an item, once."""
        return tuple(dict.fromkeys(duty.agent for duty in self.procedure))
