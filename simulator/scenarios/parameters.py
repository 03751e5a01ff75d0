"""Typed parameters of faults: which calls, tools, messages or effects are struck, and by how much. Units stand in the names.

Types are strict: a number in quotes is no number, and an unknown name is refused.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, model_validator

Role = Literal["planner", "worker", "armed", "aggregator", "critic", "finalizer"]
"""Whose calls, whatever the agent is called: ``worker`` is the first one, ``armed`` the first one that has tools."""
StageName = Literal["plan", "fan_out", "fan_in", "validate", "finalize"]
Count = Annotated[int, Field(ge=1)]
Seconds = Annotated[FiniteFloat, Field(ge=0)]


class Parameters(BaseModel):
    """Parameters of one fault."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class Times(Parameters):
    """Which of the chances to strike are taken: from one on, every so many, so often. Without ``times``: for as long as the run goes on."""

    times: Count | None = None
    every: Count = 1


class Calls(Times):
    """Model calls, counted in each run among those that match. Without an agent, a role, a stage or a branch of the fan-out: those that the fault is about."""

    agent: Annotated[str, Field(min_length=1)] | None = None
    role: Role | None = None
    stage: StageName | None = None
    branch: Count | None = None
    from_call: Count = 1

    @model_validator(mode="after")
    def _one_name(self) -> Calls:
        if self.agent is not None and self.role is not None:
            raise ValueError("an agent and a role are both named; name one of them")
        return self


class Status(Calls):
    """Calls that the endpoint answers with an error of its own."""

    status: Literal[500, 502, 503, 504, 529] = 503


class RetryAfter(Calls):
    """Calls that are told when to come again."""

    retry_after_s: Seconds = 2.0


class Delayed(Calls):
    """Calls whose answer is held up."""

    delay_s: Seconds = 5.0


class Silent(Calls):
    """Calls that get no answer before their deadline."""

    billed: bool = False


class Trickling(Calls):
    """Calls whose answer comes so slowly that it is never whole."""

    bytes_per_s: Annotated[FiniteFloat, Field(gt=0)] = 5.0


class Dropped(Calls):
    """Calls whose connection breaks inside the answer."""

    after_s: Seconds = 1.0


class Outage(Parameters):
    """An interval of time in which a provider answers nobody, seconds since the first start. Without a provider: all of them."""

    provider: Annotated[str, Field(min_length=1)] | None = None
    from_s: Seconds = 0.0
    to_s: Seconds
    status: Literal[500, 502, 503, 504, 529] = 503

    @model_validator(mode="after")
    def _forward(self) -> Outage:
        if self.to_s <= self.from_s:
            raise ValueError(f"to_s ({self.to_s:g}) is not after from_s ({self.from_s:g}); name a later end")
        return self


class Loop(Calls):
    """Calls in which one tool call, or a few in turn, come back for ever. ``period``: how many different ones."""

    period: Literal[1, 2, 3] = 1


class Handing(Calls):
    """Turns that hand the request on in a circle. ``peers``: how many are in it; ``how``: what the brief says each time."""

    peers: Literal[2, 3] = 2
    how: Literal["the_same", "something_new"] = "the_same"


class Flood(Calls):
    """Many tool calls in one answer."""

    calls: Annotated[int, Field(ge=2, le=10_000)] = 200


class Briefs(Calls):
    """A plan that starts many agents."""

    briefs: Annotated[int, Field(ge=2, le=10_000)] = 100


class Price(Calls):
    """An answer that costs more than it should. ``cap_share``: how much of the run's cap."""

    cap_share: Annotated[FiniteFloat, Field(gt=0, le=1_000)] = 1.0


class Tokens(Calls):
    """An answer of far more tokens than were asked for."""

    input_tokens: Annotated[int, Field(ge=0, le=100_000_000)] = 0
    output_tokens: Annotated[int, Field(ge=0, le=100_000_000)] = 1_000_000


class BadPlan(Calls):
    """What is wrong with the plan."""

    how: Literal["for_nobody", "no_json", "no_briefs"] = "for_nobody"


class Citation(Calls):
    """A source that is not attached."""

    document: Annotated[str, Field(min_length=1)] = "missing.md"


class Score(Calls):
    """What a critic or judge gives. Out of 1."""

    score: Annotated[FiniteFloat, Field(ge=0, le=1)] = 0.3


class Unsafe(Calls):
    """Whether the endpoint refuses the request, or cuts its own answer."""

    how: Literal["refused", "cut"] = "refused"


class Branches(Parameters):
    """How many branches of each fan-out fail, the first ones; each for good."""

    branches: Count = 1


class ToolCalls(Times):
    """Tool calls, counted in each run among those of the tool; without a tool, among all."""

    tool: Annotated[str, Field(min_length=1)] | None = None
    from_call: Count = 1


class SlowTool(ToolCalls):
    """Tool calls whose result is held up."""

    delay_s: Seconds = 5.0


class Occurrences(Times):
    """Chances to strike, counted from the beginning of the world."""

    from_occurrence: Count = 1


class Once(Occurrences):
    """The same, once where nothing is said."""

    times: Count | None = 1


class At(Parameters):
    """An instant, seconds since the first start."""

    at_s: Seconds = 1.0


class Crash(Parameters):
    """At an instant, or at the n-th effect that a worker carries out (a write, a call, a claim); then the next ``times - 1`` as well."""

    at_s: Seconds | None = None
    at_effect: Count | None = None
    times: Count = 1

    @model_validator(mode="after")
    def _one_moment(self) -> Crash:
        if (self.at_s is None) == (self.at_effect is None):
            raise ValueError("give at_s or at_effect, one of them")
        if self.at_s is not None and self.times > 1:
            raise ValueError("times goes with at_effect; for a second instant write a second disturbance")
        return self


class Zombie(At):
    """A worker that stands still. A lease lasts 10 s."""

    still_s: Annotated[FiniteFloat, Field(gt=10, le=100_000)] = 15.0


class Skew(Parameters):
    """How far a worker's clock lies off the database's. More than a second is another fault than the engine is made for."""

    worker: Count = 1
    skew_s: Annotated[FiniteFloat, Field(ge=-1, le=1)] = 1.0


class Asked(Times):
    """Questions that people are asked, counted in each run."""

    from_question: Count = 1


class Late(Asked):
    """An answer that comes after its question has expired."""

    after_due_s: Annotated[FiniteFloat, Field(gt=0)] = 60.0


class Clicks(Asked):
    """The same answer twice."""

    apart_s: Seconds = 0.0


class Answered(Asked):
    """An answer, so long after the question."""

    after_s: Seconds = 1.0
