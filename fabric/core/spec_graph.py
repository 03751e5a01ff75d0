"""A transition graph as a fabric writes it: its workers take part, and rules say who speaks after whom (semantics.md 5 "Graph")."""

from __future__ import annotations

from functools import cached_property
from typing import Annotated, Literal

from pydantic import Field, JsonValue

from fabric.core.graph.conditions import Key
from fabric.core.graph.spec import GraphRules, TransitionGraph
from fabric.core.spec_topology import TopologySpec


class GraphTopology(TopologySpec, GraphRules):
    """Workers take turns; after each the first rule that holds says whose the next is (semantics.md 5). Round robin goes through them in the order of ``workers``.

    Without a planner and a plan each is told to do its part. Without an aggregator the last turn's output is the answer.
    """

    kind: Literal["graph"] = "graph"
    context: Annotated[dict[Key, JsonValue], Field(max_length=100)] = Field(
        default_factory=dict, description="Context variables that the conversation begins with."
    )

    def hands(self) -> tuple[str, ...]:
        """Whoever speaks first: whether anybody else ever does is the rules' to say."""
        return (self.initial_speaker,)

    @cached_property
    def graph(self) -> TransitionGraph:
        """The rules with those who take part."""
        rules = {name: getattr(self, name) for name in GraphRules.model_fields}
        return TransitionGraph.model_construct(participants=self.workers, **rules)
