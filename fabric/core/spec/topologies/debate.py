"""Declares a debate: its sides, rounds and critics, and the judge or vote that decides
(docs/specification/topologies.md).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from fabric.core.schema.limits import Unit, declare_limit
from fabric.core.schema.parts import Name
from fabric.core.schema.topology import TopologySpec

NEEDED = 2
"""Sides that a debate has at the least."""


class DebateTopology(TopologySpec):
    """The workers are the sides of a debate (docs/specification/topologies.md). In each round all propose at once, and
    have heard the round before. Then a judge decides, or the sides vote.

    The sides are the plan, so there is no planner. Without an aggregator the verdict is the answer, or the proposal
    that won the vote.
    """

    kind: Literal["debate"] = Field(
        default="debate", description="Kind of the topology: sides propose in rounds, and a judge or a vote decides."
    )
    rounds: Annotated[int, Field(ge=1, le=10)] = declare_limit(
        2,
        "Rounds",
        Unit.ROUNDS,
        "Each side makes this many proposals, one a round.",
        stops="the judge decides, or the sides vote",
        source="docs/specification/topologies.md",
    )
    critics: tuple[Name, ...] = Field(
        default=(), description="Agents that criticise all proposals after each round; the sides read them in the next."
    )
    judge: Name | None = Field(
        default=None,
        description="An agent that names the winner and the reason. None: the sides vote, and the majority wins.",
    )

    @model_validator(mode="after")
    def _between_sides(self) -> Self:
        if self.planner is not None or self.plan is not None:
            raise ValueError("topology: the sides are the plan; leave planner and plan out")
        if len(set(self.workers)) < NEEDED:
            raise ValueError("topology.workers: a debate has two sides at the least; name another worker")
        for field, names in (("workers", self.workers), ("critics", self.critics)):
            for n, name in enumerate(names):
                if name in names[:n]:
                    raise ValueError(f"topology.{field}.{n}: {name!r} is there twice; take it out")
        if self.judge in self.workers:
            raise ValueError(f"topology.judge: {self.judge!r} is one of the sides; name another agent")
        for n, name in enumerate(self.critics):
            if name in self.workers:
                raise ValueError(f"topology.critics.{n}: {name!r} is one of the sides; name another agent")
        return self

    def roles(self) -> dict[str, str]:
        """Agent name by the field that names it."""
        found = super().roles() | {f"critics.{n}": name for n, name in enumerate(self.critics)}
        return found if self.judge is None else found | {"judge": self.judge}

    def speakers(self) -> tuple[str, ...]:
        """Return the sides, then their critics, then a judge outside both."""
        return tuple(dict.fromkeys((*self.workers, *self.critics, *(() if self.judge is None else (self.judge,)))))

    def list_started_agents(self) -> tuple[str, ...]:
        """All who speak."""
        return self.speakers()

    def order(self) -> tuple[str, ...]:
        """The first round."""
        return self.workers

    def count_briefs(self) -> int:
        """A brief for each side, critic and judge, or a second one for each side's vote."""
        return len(self.workers) + len(self.critics) + (len(self.workers) if self.judge is None else 1)

    def in_json(self) -> Iterator[str]:
        """Fields that name who gives a verdict, or a vote."""
        return iter(("judge",) if self.judge is not None else (f"workers.{n}" for n in range(len(self.workers))))
