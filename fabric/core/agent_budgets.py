"""Caps of single agents and stages: ``policy.budget.agents`` and ``policy.budget.stages`` (semantics.md 4 "budgets"). Data alone."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, model_validator

from fabric.core.flow import Stage
from fabric.core.spec_parts import Name, SpecGroup


class AgentBudget(SpecGroup):
    """Caps of one agent; what it leaves out is what every agent has (``agent_usd_micros``, ``agent_tokens``)."""

    usd_micros: Annotated[int, Field(ge=0, le=10**15)] | None = Field(
        default=None, description="Most this agent may spend in a run, micro-dollars."
    )
    tokens: Annotated[int, Field(ge=1)] | None = Field(
        default=None,
        description="Most tokens of this agent in a run, input and output together.",
    )

    @model_validator(mode="after")
    def _caps_something(self) -> AgentBudget:
        if self.usd_micros is None and self.tokens is None:
            raise ValueError("caps nothing: give usd_micros or tokens, or leave the agent out")
        return self


class StageBudget(SpecGroup):
    """Caps of one stage; what it leaves out is what every stage has (``stage_usd_micros``, ``stage_tokens``)."""

    usd_micros: Annotated[int, Field(ge=0, le=10**15)] | None = Field(
        default=None, description="Most this stage may spend in a run, micro-dollars."
    )
    tokens: Annotated[int, Field(ge=1)] | None = Field(
        default=None,
        description="Most tokens of this stage in a run, input and output together.",
    )

    @model_validator(mode="after")
    def _caps_something(self) -> StageBudget:
        if self.usd_micros is None and self.tokens is None:
            raise ValueError("caps nothing: give usd_micros or tokens, or leave the stage out")
        return self


StageBudgets = dict[Stage, StageBudget]
"""By the stage's name."""
AgentBudgets = dict[Name, AgentBudget]
"""By the agent's name."""
