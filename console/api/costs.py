"""The cost of a run in the API: by stage, agent and model, with the kinds of its tokens."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated
from uuid import UUID

from django.http import HttpRequest
from ninja import Path, Router
from pydantic import Field

from console.api.callers import actor_of
from console.api.families import EXAMPLE_ID
from console.api.schemas import Told
from fabric.core.token_parts import KINDS
from fabric.selectors.run_story import run_story
from fabric.selectors.story_parts import Tally

router = Router(tags=["runs"])


class CostOut(Told):
    """The cost of a set of calls and child runs."""

    calls: int = Field(description="Calls of models and of tools.", examples=[12])
    children: int = Field(description="Child runs that were spawned.", examples=[0])
    cost_usd_micros: int = Field(description="Millionths of a US dollar.", examples=[12500])
    tools_usd_micros: dict[str, int] = Field(
        description="The part of it that calls of tools with a price came to, by tool.", examples=[{"lookup": 5000}]
    )
    tokens: int = Field(description="In and out.", examples=[4200])
    tokens_by_kind: dict[str, int] = Field(
        description=f"Its tokens by kind, those that it has: {', '.join(KINDS)}. The kind is not known of the rest of `tokens`: attempts that "
        "are charged their reservation, and child runs.",
        examples=[{"input": 900, "cached": 3000, "output": 200, "reasoning": 100}],
    )


class RunCostOut(Told):
    """A run's cost so far."""

    run_id: str = Field(description="The run's id.")
    total: CostOut = Field(description="Altogether.")
    by_stage: dict[str, CostOut] = Field(description="By stage; calls that belong to none are in the total alone.")
    by_agent: dict[str, CostOut] = Field(description="By agent.")
    by_model: dict[str, CostOut] = Field(description="By model, as the fabric names it.")


@router.get("/runs/{uuid:run_id}/cost", response=RunCostOut, url_name="api-run-cost", operation_id="getRunCost")
def run_cost(
    request: HttpRequest, run_id: Annotated[UUID, Path(description="The run's id.", example=EXAMPLE_ID)]
) -> RunCostOut:
    """Tell a run's cost. By stage, agent and model, with the kinds of tokens that have prices of their own."""
    story = run_story(actor_of(request), str(run_id))
    return RunCostOut(
        run_id=story.run_id,
        total=_told(story.total),
        by_stage=_all(story.by_stage),
        by_agent=_all(story.by_agent),
        by_model=_all(story.by_model),
    )


def _all(tallies: Mapping[str, Tally]) -> dict[str, CostOut]:
    return {name: _told(tally) for name, tally in tallies.items()}


def _told(tally: Tally) -> CostOut:
    return CostOut(
        calls=tally.calls,
        children=tally.children,
        cost_usd_micros=tally.cost_usd_micros,
        tools_usd_micros=dict(tally.tools),
        tokens=tally.tokens,
        tokens_by_kind=dict(tally.kinds),
    )
