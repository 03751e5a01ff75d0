"""The policy of cost velocity: how fast runs may spend."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from fabric.core.spec_parts import SpecGroup

Rate = Annotated[int, Field(ge=1, le=10**15)] | None


class CostVelocity(SpecGroup):
    """When money or tokens go out too fast (S0 "Cost Velocity Monitoring")."""

    usd_micros_per_minute: Rate = Field(default=None, description="Most one run may spend in a minute, micro-dollars.")
    agent_usd_micros_per_minute: Rate = Field(
        default=None, description="Most one agent of a run may spend in a minute, micro-dollars."
    )
    stage_usd_micros_per_minute: Rate = Field(
        default=None, description="Most one stage of a run may spend in a minute, micro-dollars."
    )
    tokens_per_minute: Rate = Field(
        default=None, description="Most tokens of one run in a minute, input and output together."
    )
    times_usual: Annotated[float, Field(ge=0.0, le=1_000.0)] = Field(
        default=10.0,
        description="Times the fabric's own usual rate, where no rate is configured; 0: what is usual is not compared.",
    )
    calls: Annotated[int, Field(ge=1)] = Field(
        default=5, description="Model calls that came back before a rate is compared with what is usual."
    )
    factor: Annotated[float, Field(ge=0.0, le=1_000.0)] = Field(
        default=3.0,
        description="Times the even pace of the fabric's hour, for all its runs together; 0: no rate is judged at all.",
    )
    within_s: Annotated[float, Field(gt=0, le=30 * 86_400)] = Field(
        default=600.0,
        description="All runs together are too fast only where the rest of the hour's money lasts no longer, seconds.",
    )
