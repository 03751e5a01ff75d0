"""A transition graph as a fabric writes it: its workers take part, and rules say who speaks after whom
(docs/specification/topologies.md).
"""

from __future__ import annotations

from functools import cached_property
from typing import Annotated, Literal, Self

from pydantic import Field, JsonValue, model_validator

from fabric.core.graph.conditions import Key
from fabric.core.graph.spec import GraphRules, TransitionGraph
from fabric.core.schema.limits import Unit, declare_limit
from fabric.core.schema.parts import Name
from fabric.core.schema.topology import TopologySpec


class GraphTopology(TopologySpec, GraphRules):
    """Workers take turns; after each the first rule that holds says whose the next is
    (docs/specification/topologies.md). Round robin goes through them in the order of ``workers``.

    Without a planner and a plan each worker's brief is: do your part. Without an aggregator the last turn's output is
    the answer.
    """

    kind: Literal["graph"] = Field(default="graph", description="Kind of the topology: rules choose who speaks next.")
    context: Annotated[dict[Key, JsonValue], Field(max_length=100)] = Field(
        default_factory=dict, description="Context variables at the start of the conversation."
    )

    max_visits: Annotated[dict[Name, Annotated[int, Field(ge=1, le=100_000)]], Field(max_length=64)] = declare_limit(
        {},
        "Turns of single workers",
        Unit.VISITS,
        "The named workers may have at most this many turns in a run. For them it replaces policy.limits.max_node_visits.",
        stops="the worker has no further turn",
        source="S1: per-node overrides",
    )

    @model_validator(mode="after")
    def _among_the_workers(self) -> Self:
        named = {f"max_visits.{name}": name for name in self.max_visits}
        named |= {"goal_target": self.goal_target} if self.goal_target is not None else {}
        for field, name in named.items():
            if name not in self.workers:
                raise ValueError(f"topology.{field}: {name!r} is not one of the workers ({', '.join(self.workers)})")
        if self.goal_target is not None and self.max_turns is None:
            raise ValueError(
                "topology.goal_target: a goal that is never met would be gone back to for ever; give max_turns"
            )
        return self

    def list_started_agents(self) -> tuple[str, ...]:
        """All who take part, who ever has a turn: each is let in at the beginning."""
        return tuple(dict.fromkeys(self.workers))

    def hands(self) -> tuple[str, ...]:
        """Return the first speaker. Rules decide about all others."""
        return (self.initial_speaker,)

    def visits_of(self, worker: str) -> int | None:
        """Return the largest number of turns of each worker that has its own limit."""
        return self.max_visits.get(worker)

    @cached_property
    def graph(self) -> TransitionGraph:
        """The graph's rules, with its participants."""
        rules = {name: getattr(self, name) for name in GraphRules.model_fields}
        return TransitionGraph.model_construct(participants=self.workers, **rules)
