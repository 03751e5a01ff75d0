"""Defines one fault of the catalogue: its name, port, sentence and player, and its typed parameters.

Parameters say which calls, tools, messages or effects are struck, and by how much. Units stand in the names. Types are
strict: a number in quotes is refused, and so is an unknown name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, model_validator

Role = Literal["planner", "worker", "armed", "aggregator", "critic", "finalizer"]
"""An agent by its place in the fabric. ``worker`` is the first worker, ``armed`` the first worker that has tools."""
StageName = Literal["plan", "fan_out", "fan_in", "validate", "finalize"]
Count = Annotated[int, Field(ge=1)]
Seconds = Annotated[FiniteFloat, Field(ge=0)]


class Parameters(BaseModel):
    """Parameters of one fault."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class Times(Parameters):
    """A fault takes every n-th of its chances, up to ``times`` of them. None: for as long as the run goes on."""

    times: Count | None = None
    every: Count = 1


class Calls(Times):
    """Model calls, counted in each run among those that match the agent or role, the stage and the branch."""

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
    """Calls that the endpoint answers with an error of its own, by its HTTP status."""

    status: Literal[500, 502, 503, 504, 529] = 503


class RetryAfter(Calls):
    """Calls that the endpoint asks to come again after some seconds."""

    retry_after_s: Seconds = 2.0


class Delayed(Calls):
    """Calls whose answer comes so many seconds late."""

    delay_s: Seconds = 5.0


class Trickling(Calls):
    """Calls whose answer comes so slowly that it is never whole."""

    bytes_per_s: Annotated[FiniteFloat, Field(gt=0)] = 5.0


class Dropped(Calls):
    """Calls whose connection breaks inside the answer."""

    after_s: Seconds = 1.0


class Outage(Parameters):
    """A provider answers no call between two instants, in seconds since the first start. None: every provider."""

    provider: Annotated[str, Field(min_length=1)] | None = None
    from_s: Seconds = 0.0
    to_s: Seconds
    status: Literal[500, 502, 503, 504, 529] = 503

    @model_validator(mode="after")
    def _forward(self) -> Outage:
        if self.to_s <= self.from_s:
            raise ValueError(f"to_s ({self.to_s:g}) is not after from_s ({self.from_s:g}); name a later end")
        return self


class Handing(Calls):
    """Turns in which two agents hand the request to each other. ``how`` says if the brief changes each time."""

    peers: ClassVar[Literal[2, 3]] = 2
    """Agents in the circle."""
    how: Literal["the_same", "something_new"] = "the_same"


class HandingOf3(Handing):
    """Turns in which three agents hand the request round."""

    peers: ClassVar[Literal[2, 3]] = 3


class Flood(Calls):
    """Many tool calls in one answer."""

    calls: Annotated[int, Field(ge=2, le=10_000)] = 200


class Briefs(Calls):
    """A plan that starts many agents."""

    briefs: Annotated[int, Field(ge=2, le=10_000)] = 100


class Price(Calls):
    """An answer that costs this share of the run's cap."""

    cap_share: Annotated[FiniteFloat, Field(gt=0, le=1_000)] = 1.0


class Tokens(Calls):
    """An answer of far more tokens than were asked for."""

    input_tokens: Annotated[int, Field(ge=0, le=100_000_000)] = 0
    output_tokens: Annotated[int, Field(ge=0, le=100_000_000)] = 1_000_000


class BadPlan(Calls):
    """A plan for an unknown worker (``for_nobody``), a plan in prose, or a plan without briefs."""

    how: Literal["for_nobody", "no_json", "no_briefs"] = "for_nobody"


class Citation(Calls):
    """A source that is not attached."""

    document: Annotated[str, Field(min_length=1)] = "missing.md"


class Score(Calls):
    """The score that a critic or judge gives, out of 1."""

    score: Annotated[FiniteFloat, Field(ge=0, le=1)] = 0.3


class Branches(Parameters):
    """The first branches of each fan-out fail, each for good."""

    branches: Count = 1


class ToolCalls(Times):
    """Tool calls, counted in each run among those of the tool. None: among all."""

    tool: Annotated[str, Field(min_length=1)] | None = None
    from_call: Count = 1


class SlowTool(ToolCalls):
    """Tool calls whose result comes so many seconds late."""

    delay_s: Seconds = 5.0


class Occurrences(Times):
    """Chances to strike, counted from the beginning of the world."""

    from_occurrence: Count = 1


class Once(Occurrences):
    """A chance to strike that is taken once by default."""

    times: Count | None = 1


class At(Parameters):
    """An instant, seconds since the first start."""

    at_s: Seconds = 1.0


class Crash(Parameters):
    """A worker dies at its n-th effect (a write, a call, a claim), and at the next ``times - 1``."""

    at_effect: Count
    times: Count = 1


class Zombie(At):
    """A worker that stands still. A lease lasts 10 s."""

    still_s: Annotated[FiniteFloat, Field(gt=10, le=100_000)] = 15.0


class Skew(Parameters):
    """A worker's clock lies so many seconds off the database's. The engine is made for a second at most."""

    worker: Count = 1
    skew_s: Annotated[FiniteFloat, Field(ge=-1, le=1)] = 1.0


class Asked(Times):
    """Reviews, counted in each run."""

    from_review: Count = 1


class Late(Asked):
    """An answer that comes so many seconds after its review has expired."""

    after_due_s: Annotated[FiniteFloat, Field(gt=0)] = 60.0


class Clicks(Asked):
    """An answer that comes twice, so many seconds apart."""

    apart_s: Seconds = 0.0


class Answered(Asked):
    """An answer that comes so many seconds after the review was opened."""

    after_s: Seconds = 1.0


Port = Literal["model", "answer", "tool", "service", "store", "broker", "worker", "clock", "person"]
"""The place where a fault strikes. ``model`` is a call without a good answer, ``answer`` a wrong answer."""
PORTS: tuple[Port, ...] = get_args(Port)
Drawn = Literal["first", "often", "later", "seldom"]
"""A seed draws its faults in this order.

``later`` and ``seldom`` have a generator of their own: they shift no other draw.
"""
Strike = Literal["model", "tool", "chance", "moment", "review"]
"""A scenario strikes in one of these ways. The code of each is in ``simulator/scenarios/strikes``.

- ``model``: ``answers.py`` answers a model call. A live drill can do that too.
- ``tool``: ``world.py`` answers a tool call.
- ``chance``: the world asks for the fault by its name, each time it could strike (``World.strikes``).
- ``moment``: ``world.py`` does it to the world at an instant, or before it runs.
- ``review``: ``world.py`` answers a review in place of the world's people.
"""
Play = Literal[
    "misbehaviour", "connections", "refusals", "form", "calls", "content", "dialects", "streams", "strictness"
]
"""The module of ``simulator/endpoint`` that has the behaviour: ``behaviour/misbehaviour.py``, or one of ``quirks``."""

NOT_LIVE: Mapping[Port, str] = {
    "tool": "a live drill stands in front of the model only, and tools are real",
    "service": "the services outside are real in a live drill",
    "store": "a live drill does not touch the installation's database",
    "broker": "a live drill does not touch the installation's broker",
    "worker": "a live drill ends no worker of the installation; the command chaos does so on one of its own",
    "clock": "a live drill does not set the clocks of machines",
    "person": "a live drill makes up no person's answer",
}
"""Why a live drill cannot play the faults of a port. A test holds it total."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One way to go wrong. A column that is None says that its room does not play it."""

    name: str
    port: Port
    says: str
    """One sentence without its full stop."""
    top: float | None = None
    """The highest rate that a seed may give it: a share of its chances to strike."""
    parameters: type[Parameters] | None = None
    """The parameters that a scenario can give. None exactly where ``strike`` is None."""
    strike: Strike | None = None
    play: Play | None = None
    drawn: Drawn = "first"

    @property
    def live(self) -> bool:
        """Return True if it can strike in front of the model of real workers."""
        return self.strike == "model"
