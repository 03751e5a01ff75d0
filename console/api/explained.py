"""Decisions as the API tells them: why each was taken, what the other tiers would have done, and whether it follows from the journal."""

from __future__ import annotations

from typing import Annotated, Any, Literal
from uuid import UUID

from django.http import HttpRequest
from ninja import Path, Router
from pydantic import Field

from console.api.callers import actor_of
from console.api.families import EXAMPLE_ID
from console.api.schemas import Instant, Told, instant
from fabric import wiring
from fabric.core.taxonomy import FailureClass, FailureType, Tier
from fabric.selectors.explain import as_json, run_explain

router = Router(tags=["runs"])


class TripOut(Told):
    """What tripped, with its numbers."""

    mechanism: str = Field(description="Which mechanism, or who failed.", examples=["loop_detector"])
    cause: str = Field(description="The finest name there is for it.", examples=["loop_detected"])
    message: str = Field(description="In a sentence.")
    limit: float | None = Field(description="What is allowed; null where nothing is counted.", examples=[3])
    observed: float | None = Field(description="What was found.", examples=[3])
    unit: str = Field(description="Of both.", examples=["calls"])
    scope: str = Field(description="What is counted over.", examples=["step"])
    window: str = Field(description="How far back it was looked; empty: as far as there is.", examples=["5 calls"])
    details: dict[str, str | int | float | list[str | dict[str, str]]] = Field(
        description="What else was seen, by name: the cycle, the rate, what is left."
    )


class RungOut(Told):
    """One rung of the cell."""

    reaction: str = Field(description="What it does.", examples=["inject"])
    times: int | None = Field(description="How often; null: it is the last.", examples=[1])
    state: Literal["taken", "spent", "skipped", "ahead"] = Field(description="Where it stands at this decision.")
    why: str = Field(description="Why it was passed over; else empty.")
    derived: bool = Field(description="False: the reason is as recorded, since its numbers are not in the journal.")


class OtherTierOut(Told):
    """What another tier would have done about it, met as often."""

    tier: Tier = Field(description="Which.")
    reaction: str = Field(description="What it would have done.", examples=["replan"])
    rung: int = Field(description="On which rung of its cell, from 1.", examples=[2])


class FollowedOut(Told):
    """An event that followed."""

    seq: int = Field(description="Its seq.", examples=[29])
    at: Instant = Field(description="When.")
    kind: str = Field(description="What kind of event.", examples=["message_injected"])
    says: str = Field(description="In a few words.")


class DifferenceOut(Told):
    """A field in which the journal and what follows from it differ."""

    field: str = Field(description="Which.", examples=["rung"])
    recorded: str = Field(description="What stands in the journal.", examples=["2"])
    derived: str = Field(description="What follows from it.", examples=["1"])


class DecisionExplainedOut(Told):
    """One decision."""

    seq: int = Field(description="Seq of its event.", examples=[28])
    at: Instant = Field(description="When.")
    step_id: str = Field(description="The step it is about; empty: the stage as a whole.", examples=["fan_out.0.e0.r0"])
    command_id: str = Field(description="The call that failed; empty: it was none.")
    failure_type: FailureType | None = Field(description="Row of the decision table; null: a direct reaction.")
    classes: list[FailureClass] = Field(
        description="The MAST classes that the mechanism answers; empty: a provider or a tool failed by itself, which MAST does not sort; see cause."
    )
    tier: Tier = Field(description="Column of the table.")
    table: str = Field(description="Digest of the table in force.")
    reaction: str = Field(description="What was done.", examples=["inject"])
    rung: int = Field(description="Rung of the cell, from 1.", examples=[1])
    use: int = Field(description="The how manieth use of the rung it was.", examples=[1])
    bound: int | None = Field(description="Of how many; null: it is the last rung.", examples=[1])
    scope: str = Field(description="What its uses are counted against.", examples=["step:fan_out.0"])
    accompanies: list[str] = Field(description="What went with it: block, alert, ticket.")
    evidence: str = Field(description="The numbers of what decided, in a sentence.")
    trips: list[TripOut] = Field(
        description="What tripped: first what decided, then what was milder or came later in the guard order."
    )
    rungs: list[RungOut] = Field(
        description="The cell; empty for a direct reaction, and where its table is not at hand."
    )
    other_tiers: list[OtherTierOut] = Field(description="What the other two tiers would have done.")
    followed: list[FollowedOut] = Field(description="What came of it, the first ones.")
    judged_again: list[str] = Field(
        description="What its being carried out rested on and was judged again: tokens, time, and of another model who was looked at and what that costs.",
        examples=[["candidates", "cost of spare"]],
    )
    derivation: Literal["equal", "different", "other_table"] = Field(
        description="Derived again from the journal alone; other_table: it was taken under a table that this version does not have."
    )
    differences: list[DifferenceOut] = Field(description="Where the two differ; empty when they are equal.")


class UsageProblemOut(Told):
    """An answer whose charge is in doubt: its count of tokens is not believed, or the price of its service tier is not known."""

    seq: int = Field(description="The event.", examples=[12])
    at: Instant = Field(description="When it came.")
    says: str = Field(
        description="Which count, and what is charged instead.",
        examples=["the endpoint reports no output tokens: 400 are charged for 400 bytes"],
    )


class RunExplainedOut(Told):
    """All decisions of a run."""

    run_id: str = Field(description="The run's id.")
    erased: bool = Field(description="Whether retention erased what it was given and said; decisions stay.")
    derives: bool = Field(description="Whether every decision follows from the journal.")
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
    """Explain a run. Each decision with its evidence, its cell, what the other tiers would have done, what followed, and whether it derives."""
    found = run_explain(actor_of(request), str(run_id), wiring.compiled_under)
    decisions = [_told(dict(as_json(one))) for one in found.decisions]
    doubted = [UsageProblemOut(seq=one.seq, at=instant(one.at), says=one.says) for one in found.usage_problems]
    return RunExplainedOut(
        run_id=found.run.id,
        erased=found.run.erased,
        derives=found.derives,
        decisions=decisions,
        usage_problems=doubted,
    )


def _told(one: dict[str, Any]) -> DecisionExplainedOut:
    followed = [{**event, "at": instant(event["at"])} for event in one["followed"]]
    return DecisionExplainedOut(**{**one, "at": instant(one["at"]), "followed": followed})
