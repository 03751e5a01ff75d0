"""Declares peers that pass a request on: the first one, and the handovers that each may make
(docs/specification/topologies.md).
"""

from __future__ import annotations

from functools import cached_property
from typing import Literal, Self

from pydantic import Field, model_validator

from fabric.core.graph.conditions import Terminate
from fabric.core.graph.spec import TransitionGraph
from fabric.core.schema.parts import Name
from fabric.core.schema.topology import TopologySpec

ANSWERED = "answered"
"""Why a chain of peers ends: one of them answered in place of passing the request on."""


class HandoffTopology(TopologySpec):
    """Peers have the request one after the other (docs/specification/topologies.md). Each answers it, or passes it on
    with a brief by the tool ``transfer``.

    ``limits.hops`` bounds how often. Without an aggregator the answer is that of the last peer.
    """

    kind: Literal["handoff"] = Field(default="handoff", description="Kind of the topology: peers pass the request on.")
    first: Name | None = Field(
        default=None, description="The worker that gets the request first. None: the first of the list."
    )
    passes: dict[Name, tuple[Name, ...]] | None = Field(
        default=None,
        description="The workers that each worker may hand over to; a worker that is missing may hand over to none. None: each may hand over to every other.",
    )

    @model_validator(mode="after")
    def _among_the_workers(self) -> Self:
        named = {"first": self.first} if self.first is not None else {}
        for who, to in (self.passes or {}).items():
            named |= {f"passes.{who}": who} | {f"passes.{who}.{n}": one for n, one in enumerate(to)}
        for field, name in named.items():
            if name not in self.workers:
                raise ValueError(f"topology.{field}: {name!r} is not one of the workers ({', '.join(self.workers)})")
        return self

    def list_started_agents(self) -> tuple[str, ...]:
        """All who take part, who ever has a turn: each is let in at the beginning."""
        return tuple(dict.fromkeys(self.workers))

    def hands(self) -> tuple[str, ...]:
        """Return the worker that has the request first. Its peers decide about all others."""
        return (self.first or self.workers[0],)

    @cached_property
    def graph(self) -> TransitionGraph:
        """Return the chain as a graph without rules. Handovers decide, and a worker without a handover ends it."""
        first = self.hands()[0]
        end = Terminate(reason=ANSWERED)
        return TransitionGraph.model_construct(
            participants=self.workers, initial_speaker=first, default_target=end, expectations=()
        )

    def may_pass(self, who: str) -> tuple[str, ...]:
        """Whom a worker may pass the request on to."""
        to = self.workers if self.passes is None else self.passes.get(who, ())
        return tuple(name for name in dict.fromkeys(to) if name != who)
