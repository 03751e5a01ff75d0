"""Serves decisions: reasons, other tiers' decisions, and whether each can be derived from the journal."""

from __future__ import annotations

from typing import Annotated, Any, Literal
from uuid import UUID

from django.http import HttpRequest
from ninja import Path, Router
from pydantic import Field

from console.api.shapes.common import EXAMPLE_ID, Instant, ResponseShape, instant
from console.site.access.callers import find_actor
from fabric.composition import engine as wiring
from fabric.core.values.taxonomy import FailureClass, FailureType, Tier
from fabric.selectors.runs.events.explanations import as_json, run_explain

router = Router(tags=["runs"])


class TripOut(ResponseShape):
    """A trip, with its numbers."""

    mechanism: str = Field(description="Which mechanism, or who failed.", examples=["loop_detector"])
    cause: str = Field(description="The finest name there is for it.", examples=["loop_detected"])
    message: str = Field(description="In a sentence.")
    limit: float | None = Field(description="The limit; null: nothing is counted.", examples=[3])
    observed: float | None = Field(description="The observed value.", examples=[3])
    unit: str = Field(description="Of both.", examples=["calls"])
    scope: str = Field(description="Window of the count.", examples=["step"])
    window: str = Field(description="How far back it was looked; empty: as far as there is.", examples=["5 calls"])
    details: dict[str, str | int | float | list[str | dict[str, str]]] = Field(
        description="Further observations by name: the cycle, the rate, the rest."
    )


class RungOut(ResponseShape):
    """One rung of the cell."""

    reaction: str = Field(description="Reaction of this step.", examples=["inject"])
    times: int | None = Field(description="How often; null: it is the last.", examples=[1])
    state: Literal["taken", "spent", "skipped", "ahead"] = Field(description="State of the step at this decision.")
    why: str = Field(description="Reason for skipping it; else empty.")
    derived: bool = Field(description="False: the reason is as recorded, since its numbers are not in the journal.")


class OtherTierOut(ResponseShape):
    """Decision of another tier, after as many failures."""

    tier: Tier = Field(description="Which.")
    reaction: str = Field(description="Reaction of that tier.", examples=["replan"])
    rung: int = Field(description="On which rung of its cell, from 1.", examples=[2])


class FollowedOut(ResponseShape):
    """An event that followed."""

    seq: int = Field(description="Its seq.", examples=[29])
    at: Instant = Field(description="When.")
    kind: str = Field(description="Kind of the event.", examples=["message_injected"])
    says: str = Field(description="In a few words.")


class DifferenceOut(ResponseShape):
    """A field in which the journal and the derivation differ."""

    field: str = Field(description="Which.", examples=["rung"])
    recorded: str = Field(description="Value in the journal.", examples=["2"])
    derived: str = Field(description="Value that follows from the journal.", examples=["1"])


class DecisionExplainedOut(ResponseShape):
    """One decision."""

    seq: int = Field(description="Seq of its event.", examples=[28])
    at: Instant = Field(description="When.")
    step_id: str = Field(description="The step it is about; empty: the stage as a whole.", examples=["fan_out.0.e0.r0"])
    command_id: str = Field(description="The call that failed; empty: it was none.")
    failure_type: FailureType | None = Field(description="Row of the decision table; null: a direct reaction.")
    classes: list[FailureClass] = Field(
        description="MAST classes that the mechanism covers; empty: a failure of a provider or a tool, which MAST does not classify (see cause)."
    )
    tier: Tier = Field(description="Column of the table.")
    table: str = Field(description="Digest of the table in force.")
    reaction: str = Field(description="The reaction.", examples=["inject"])
    rung: int = Field(description="Rung of the cell, from 1.", examples=[1])
    use: int = Field(description="The how manieth use of the rung it was.", examples=[1])
    bound: int | None = Field(description="Number of allowed uses; null: the last step.", examples=[1])
    scope: str = Field(description="Scope in which its uses are counted.", examples=["step:fan_out.0"])
    accompanies: list[str] = Field(description="Side effects: block, alert, follow_up.")
    evidence: str = Field(description="The numbers of what decided, in a sentence.")
    trips: list[TripOut] = Field(
        description="Protections that fired: first the deciding one, then milder or later ones in guard order."
    )
    rungs: list[RungOut] = Field(
        description="The cell; empty for a direct reaction, and where its table is not at hand."
    )
    other_tiers: list[OtherTierOut] = Field(description="Reactions of the other two tiers.")
    followed: list[FollowedOut] = Field(description="First consequences of the decision.")
    judged_again: list[str] = Field(
        description="Numbers that the reaction depended on, checked again: tokens, time, and for another model the candidates and their cost.",
        examples=[["candidates", "cost of spare"]],
    )
    derivation: Literal["equal", "different", "other_table"] = Field(
        description="Derived again from the journal alone; other_table: it was taken under a table that this version does not have."
    )
    differences: list[DifferenceOut] = Field(description="Where the two differ; empty when they are equal.")


class UsageProblemOut(ResponseShape):
    """An answer with a doubtful charge: its token count is not credible, or its service tier has no known price."""

    seq: int = Field(description="The event.", examples=[12])
    at: Instant = Field(description="When it came.")
    says: str = Field(
        description="Which count, and what is charged instead.",
        examples=["the endpoint reports no output tokens: 400 are charged for 400 bytes"],
    )


class RunExplainedOut(ResponseShape):
    """All decisions of a run."""

    run_id: str = Field(description="The run's id.")
    erased: bool = Field(description="True if retention erased its input and text; decisions stay.")
    derives: bool = Field(description="True if every decision follows from the journal.")
    decisions: list[DecisionExplainedOut] = Field(description="In order; empty: nothing failed and nothing tripped.")
    usage_problems: list[UsageProblemOut] = Field(
        description="Answers whose charge is in doubt, the first 20: the count of tokens is not believed, or the price of the service tier is not known."
    )


@router.get(
    "/runs/{uuid:run_id}/explain", response=RunExplainedOut, url_name="api-run-explain", operation_id="explainRun"
)
def explain_run(
    request: HttpRequest, run_id: Annotated[UUID, Path(description="The run's id.", example=EXAMPLE_ID)]
) -> RunExplainedOut:
    """Explain a run. Each decision with its evidence, its cell, other tiers' decisions, its consequence, and its
    derivation.
    """
    found = run_explain(find_actor(request), str(run_id), wiring.compile_under_policy)
    decisions = [_decision_shape(dict(as_json(one))) for one in found.decisions]
    doubted = [UsageProblemOut(seq=one.seq, at=instant(one.at), says=one.says) for one in found.usage_problems]
    return RunExplainedOut(
        run_id=found.run.id,
        erased=found.run.erased,
        derives=found.derives,
        decisions=decisions,
        usage_problems=doubted,
    )


def _decision_shape(one: dict[str, Any]) -> DecisionExplainedOut:
    followed = [{**event, "at": instant(event["at"])} for event in one["followed"]]
    return DecisionExplainedOut(**{**one, "at": instant(one["at"]), "followed": followed})
