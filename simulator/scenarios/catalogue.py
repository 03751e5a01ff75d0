"""Every fault that a scenario can name, as one table: where it strikes, what it is, which parameters it takes, and where it can be injected."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, get_args

from pydantic import ValidationError

from simulator.scenarios import parameters as given
from simulator.scenarios.problems import JSON, Path, Problem, nearest, problems_of

Port = Literal["model", "answer", "tool", "service", "store", "broker", "process", "clock", "person"]
PORTS: tuple[Port, ...] = get_args(Port)
SEAM_PORTS = frozenset({"model", "answer"})
"""Ports that a provider of real workers stands at."""

NOT_AT_THE_SEAM: Mapping[Port, str] = {
    "tool": "a live drill stands in front of the model only, and tools are real",
    "service": "the services outside are real in a live drill",
    "store": "a live drill does not touch the installation's database",
    "broker": "a live drill does not touch the installation's broker",
    "process": "a live drill ends no worker of the installation; the command chaos does so on one of its own",
    "clock": "a live drill does not set the clocks of machines",
    "person": "nobody's answers are made up in a live drill",
}
"""Why faults of a port cannot be injected live. Total, with ``SEAM_PORTS``, by test."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault, which can be injected in virtual time. ``not_live``: why it cannot be live; empty: it can."""

    name: str
    port: Port
    says: str
    parameters: type[given.Parameters]
    not_live: str = ""

    @property
    def live(self) -> bool:
        """Whether it can be injected in front of the model of real workers."""
        return not self.not_live


_SEAM: tuple[tuple[str, Port, str, type[given.Parameters]], ...] = (
    # A model call that brings no answer, or brings it late.
    ("rate_limit", "model", "429 without Retry-After", given.Calls),
    ("rate_limit_retry_after", "model", "429 with a Retry-After", given.RetryAfter),
    ("unavailable", "model", "503, or another error of the endpoint's own", given.Status),
    ("outage", "model", "a provider that answers nobody for a while, and then is back", given.Outage),
    ("slow", "model", "an answer that takes longer than it should", given.Delayed),
    ("hang", "model", "no answer at all before the call's deadline", given.Silent),
    ("trickle", "model", "an answer that comes byte by byte and is not whole by the call's deadline", given.Trickling),
    ("dropped_stream", "model", "a connection that breaks inside the answer", given.Dropped),
    ("html", "model", "a web page where an answer is wanted", given.Calls),
    # An answer that is not what was asked for.
    ("malformed", "answer", "JSON that is cut off", given.Calls),
    ("off_schema", "answer", "JSON of another shape", given.Calls),
    ("empty", "answer", "an empty answer", given.Calls),
    ("nul", "answer", "an answer with a NUL and a lone surrogate in it", given.Calls),
    ("tool_loop", "answer", "a step that proposes one tool call, or two or three in turn, for ever", given.Loop),
    ("paraphrased_loop", "answer", "a step that asks a tool the same in other words, for ever", given.Calls),
    ("fruitless_search", "answer", "a step that asks a tool something else each time, and finds nothing", given.Calls),
    ("unknown_tool", "answer", "a call of a tool that was not offered", given.Calls),
    ("bad_arguments", "answer", "a tool call whose arguments are cut-off JSON", given.Calls),
    ("tool_flood", "answer", "far more tool calls in one answer than are executed", given.Flood),
    (
        "handoff_cycle",
        "answer",
        "agents that hand the same request to each other in a circle, A to B to A",
        given.Handing,
    ),
    ("twin_briefs", "answer", "a plan that gives one worker the same brief twice", given.Calls),
    (
        "supervisor_stuck",
        "answer",
        "agents that say they need more information, and a planner that asks the same of them again",
        given.Times,
    ),
    ("spawning", "answer", "a plan that starts far more agents than are allowed", given.Briefs),
    ("malformed_plan", "answer", "a plan that cannot be carried out", given.BadPlan),
    ("cost_spike_price", "answer", "an answer that is billed at far more than was reserved", given.Price),
    ("cost_spike_tokens", "answer", "an answer of far more tokens than were asked for", given.Tokens),
    ("ungrounded", "answer", "an answer that cites a document that is not attached", given.Citation),
    ("low_confidence", "answer", "a critic's score below what is wanted", given.Score),
    ("unsafe", "answer", "an answer that the endpoint's content filter withholds", given.Unsafe),
    ("partial_fan_in", "answer", "so many branches of a fan-out that bring no result", given.Branches),
)

_WORLD: tuple[tuple[str, Port, str, type[given.Parameters]], ...] = (
    ("tool_error", "tool", "a tool that answers with an error", given.ToolCalls),
    ("tool_slow", "tool", "a tool whose result takes longer than it should", given.SlowTool),
    ("tool_hang", "tool", "a tool that does not return before the call's deadline", given.ToolCalls),
    ("tool_failed", "tool", "a tool whose adapter fails", given.ToolCalls),
    ("tool_instructs", "tool", "a tool whose result tells its agent what to do", given.ToolCalls),
    ("effect_lost_answer", "service", "a service that does what is asked, and whose answer is lost", given.Once),
    ("effect_refused", "service", "a service that refuses", given.Once),
    ("compensation_fails", "service", "a service that cannot undo it now", given.Once),
    ("commit_lost", "store", "the answer to a commit is lost, and so was the commit", given.Once),
    ("commit_landed", "store", "the answer to a commit is lost, and the commit landed", given.Once),
    ("store_away", "store", "the database is away when something is written", given.Once),
    ("message_lost", "broker", "a message to a worker that is lost", given.Occurrences),
    ("message_doubled", "broker", "a message to a worker that comes twice", given.Occurrences),
    ("input_doubled", "broker", "an input that is inserted twice under one id", given.Occurrences),
    ("crash", "process", "a worker that dies", given.Crash),
    ("zombie", "process", "a worker that stands still past its lease and then goes on", given.Zombie),
    ("clock_skew", "clock", "a worker whose clock lies off the database's", given.Skew),
    ("person_late", "person", "an answer that comes after its question has expired", given.Late),
    ("person_double_click", "person", "an answer that is sent twice, each under its own id", given.Clicks),
    ("person_edits", "person", "a person who changes what is asked about before it is done", given.Answered),
    ("person_rejects", "person", "a person who says no", given.Answered),
    ("person_silent", "person", "a person who does not answer", given.Asked),
)

FAULTS: Mapping[str, Fault] = {
    one.name: one
    for one in (
        *(Fault(*row) for row in _SEAM),
        *(Fault(*row, not_live=NOT_AT_THE_SEAM[row[1]]) for row in _WORLD),
    )
}
"""Every fault, by name."""


class Refused(ValueError):
    """A fault that cannot be injected as it is asked for. ``problems`` says why, each with its path."""

    def __init__(self, problems: list[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("; ".join(map(str, problems)))


def fault_named(name: str, at: Path = (), *, live: bool = False) -> Fault:
    """The fault of that name. Raises Refused for one that there is not; ``live``, for one that cannot be injected there."""
    fault = FAULTS.get(name)
    if fault is None:
        raise Refused([Problem((*at, "fault"), f"there is no fault {name!r}; {nearest(name, FAULTS)}")])
    if live and fault.not_live:
        raise Refused([Problem((*at, "fault"), f"{name} cannot be injected live: {fault.not_live}")])
    return fault


def parameters_of(fault: Fault, values: Mapping[str, JSON], at: Path = ()) -> given.Parameters:
    """A fault's parameters, typed. Raises Refused with a problem for each that is unknown, missing, of another type or out of range."""
    try:
        return fault.parameters.model_validate(dict(values))
    except ValidationError as error:
        raise Refused(problems_of(error, fault.parameters, at)) from None
