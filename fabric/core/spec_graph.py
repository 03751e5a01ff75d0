"""A transition graph as a fabric writes it: its workers take part, and rules say who speaks after whom (semantics.md 5 "Graph")."""

from __future__ import annotations

from functools import cached_property
from typing import Annotated, Literal, Self

from pydantic import Field, JsonValue, model_validator

from fabric.core.graph.conditions import Key
from fabric.core.graph.spec import GraphRules, TransitionGraph
from fabric.core.spec_parts import Name
from fabric.core.spec_topology import TopologySpec


class GraphTopology(TopologySpec, GraphRules):
    """Workers take turns; after each the first rule that holds says whose the next is (semantics.md 5). Round robin goes through them in the order of ``workers``.

    Without a planner and a plan each is told to do its part. Without an aggregator the last turn's output is the answer.
    """

    kind: Literal["graph"] = "graph"
    context: Annotated[dict[Key, JsonValue], Field(max_length=100)] = Field(
        default_factory=dict, description="Context variables that the conversation begins with."
    )

    max_visits: Annotated[dict[Name, Annotated[int, Field(ge=1, le=100_000)]], Field(max_length=64)] = Field(
        default_factory=dict,
        description="How often single workers may have a turn in a run; it beats policy.limits.max_node_visits, which holds for the others. S1: per-node overrides.",
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

    def begun(self) -> tuple[str, ...]:
        """All who take part, who ever has a turn: each is let in at the beginning."""
        return tuple(dict.fromkeys(self.workers))

    def hands(self) -> tuple[str, ...]:
        """Whoever speaks first: whether anybody else ever does is the rules' to say."""
        return (self.initial_speaker,)

    def visits_of(self, worker: str) -> int | None:
        """How often a worker may have a turn, where the graph says that of it."""
        return self.max_visits.get(worker)

    @cached_property
    def graph(self) -> TransitionGraph:
        """The rules with those who take part."""
        rules = {name: getattr(self, name) for name in GraphRules.model_fields}
        return TransitionGraph.model_construct(participants=self.workers, **rules)
