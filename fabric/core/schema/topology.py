"""A topology says how agents of a fabric work together; tiers say which runs may ask for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from fabric.core.schema.parts import Name, SpecGroup
from fabric.core.schema.payloads import FixedPlan
from fabric.core.values.taxonomy import Tier

DEFAULT_KIND = "supervisor"
"""Kind of a topology that names none."""


class TopologySpec(SpecGroup):
    """All kinds have five stages with their roles, and the workers of the fan-out. A kind says how those work together.

    The engine does roles that are left out, without a model (docs/specification/topologies.md).
    """

    kind: str = Field(description="Kind of the topology.")
    planner: Name | None = Field(default=None, description="Agent that plans. None: the fixed plan below.")
    plan: FixedPlan | None = Field(default=None, description="A fixed plan, where no planner is named.")
    workers: Annotated[tuple[Name, ...], Field(min_length=1)] = Field(description="Agents that work in the fan-out.")
    aggregator: Name | None = Field(
        default=None, description="Agent that merges the summaries. None: they are joined in order."
    )
    critic: Name | None = Field(default=None, description="Agent that scores the aggregate. None: no confidence check.")
    plan_critic: Name | None = Field(
        default=None,
        description="Agent that judges each plan before it goes out. None: its gate's checks alone do.",
    )
    finalizer: Name | None = Field(
        default=None, description="Agent that writes the answer. None: the aggregate is the answer."
    )
    handover: Name | None = Field(
        default=None,
        description="Stronger agent that takes over where others are stuck. None: no such agent.",
    )

    @model_validator(mode="after")
    def _planned_once(self) -> Self:
        if self.planner is not None and self.plan is not None:
            raise ValueError("topology: name a planner or give a fixed plan, one of the two")
        if self.plan_critic is not None and self.planner is None:
            raise ValueError("topology.plan_critic: a fixed plan needs no judgement; leave the critic out")
        return self

    def roles(self) -> dict[str, str]:
        """Agent name by the field that names it."""
        named = {
            "planner": self.planner,
            "aggregator": self.aggregator,
            "critic": self.critic,
            "plan_critic": self.plan_critic,
            "finalizer": self.finalizer,
            "handover": self.handover,
        }
        found = {field: name for field, name in named.items() if name is not None}
        return found | {f"workers.{n}": name for n, name in enumerate(self.workers)}

    def every(self) -> tuple[TopologySpec, ...]:
        """The topology itself, then those of its teams."""
        return (self,)

    def speakers(self) -> tuple[str, ...]:
        """Return the agents that briefs may be for."""
        return self.workers

    def count_briefs(self) -> int:
        """Return how many briefs its own plan has; 0 where it makes none."""
        return 0

    def order(self) -> tuple[str, ...]:
        """Return the agents of the branches that every run begins with. Empty: each run chooses them."""
        return () if self.plan is None else tuple(brief.agent for brief in self.plan.briefs)

    def in_json(self) -> Iterator[str]:
        """Yield the fields that name agents whose answers have to be JSON, beside the roles that all kinds have."""
        return iter(())

    def list_all_workers(self) -> tuple[str, ...]:
        """Return its workers and all agents below them."""
        return self.workers

    def hands(self) -> tuple[str, ...]:
        """Workers that lead no team and work in none."""
        return self.workers

    def visits_of(self, worker: str) -> int | None:
        """Return how often a worker may have a turn by its topology; None where the topology does not say."""
        return None

    def list_started_agents(self) -> tuple[str, ...]:
        """The agents that each of its fan-outs starts; none: that is its planner's to say."""
        return ()

    def list_misplaced(self) -> Iterator[str]:
        """Yield a sentence, with its path, for each name that the topology does not have."""
        for n, brief in enumerate(self.plan.briefs if self.plan else ()):
            if brief.agent not in self.workers:
                yield f"plan.briefs.{n}.agent: {brief.agent!r} is not one of the workers"


class PlannedTopology(TopologySpec):
    """A topology whose work is handed out by a plan."""

    @model_validator(mode="after")
    def _is_planned(self) -> Self:
        if self.planner is None and self.plan is None:
            raise ValueError("topology: name a planner or give a fixed plan, one of the two")
        return self

    def list_started_agents(self) -> tuple[str, ...]:
        """Return the agent of each brief of a fixed plan."""
        return () if self.plan is None else tuple(brief.agent for brief in self.plan.briefs)


class SupervisorTopology(PlannedTopology):
    """plan -> fan-out -> fan-in policy -> validate gate -> finalize. Roles left out are done by the engine without a
    model.
    """

    kind: Literal["supervisor"] = Field(
        default="supervisor", description="Kind of the topology: a planner hands briefs to workers at once."
    )


class Tiers(SpecGroup):
    """The tiers a run may pick."""

    default: Tier = Field(default=Tier.INTERACTIVE, description="Tier of a run whose caller names none.")
    allowed: Annotated[tuple[Tier, ...], Field(min_length=1)] = Field(
        default=(Tier.INTERACTIVE, Tier.BATCH, Tier.HIGH_STAKES), description="Tiers that a run may have."
    )

    @model_validator(mode="after")
    def _default_is_allowed(self) -> Tiers:
        if self.default not in self.allowed:
            raise ValueError(f"tiers: the default {self.default} is not among the allowed ones")
        return self
