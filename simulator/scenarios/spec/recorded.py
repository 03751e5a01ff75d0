"""Defines what a scenario replays of a recorded run: answers of models and tools, and what people did.

A call is named by its command and attempt, as the journal names it. Values of any shape are texts with JSON in them,
because TOML has no null.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, FiniteFloat, model_validator

from fabric.core.events.decisions import ReactionDecided
from fabric.core.events.envelope import Event
from fabric.core.values.saga import Outcome
from fabric.core.values.taxonomy import Cause
from fabric.core.values.units import JSON

RECORDED = "recorded"
"""Name under which replayed parts are counted."""
Seconds = Annotated[FiniteFloat, Field(ge=0)]
Whole = Annotated[int, Field(ge=0)]
Line = Annotated[str, Field(min_length=1, max_length=500)]


def _check_json(text: str) -> str:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        raise ValueError("is no JSON; leave it as the capture wrote it") from None
    return text


JsonText = Annotated[str, AfterValidator(_check_json)]


class _Recorded(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    child: str = ""
    """Commands that lead to the child run, joined by ``>``; empty for the run itself."""


class RecordedCall(_Recorded):
    """End of one attempt of a call. ``silent``: it never came, and its deadline passed, or its run ended before."""

    call: Line
    attempt: Annotated[int, Field(ge=1)] = 1
    after_s: Seconds = 0.0
    silent: bool = False
    billed: bool = False
    cause: Annotated[Cause | None, Field(strict=False)] = None
    """Cause of a failure; none: it answered."""
    message: str = ""
    status: int | None = None
    retry_after_s: Seconds | None = None
    breaker_wait_s: Seconds | None = None
    partial: bool = False
    refused_by: JsonText = ""
    """Trip of the mechanism that did not let it go out, as JSON; empty: it went out."""
    input_tokens: Whole = 0
    output_tokens: Whole = 0
    cost_usd_micros: Whole | None = None


class RecordedModel(RecordedCall):
    """End of a model call. ``output`` is a typed answer; a refused answer has its ``text``."""

    kind: Literal["model"]
    text: str = ""
    output: JsonText = ""
    calls: JsonText = ""
    """Proposed calls, as a JSON list."""
    finish: Literal["stop", "length", "content_filter"] = "stop"


class RecordedTool(RecordedCall):
    """End of a tool call. ``happened``: it changed the world, whatever came back."""

    kind: Literal["tool"]
    result: JsonText = ""
    writes: JsonText = ""
    """Changes of context variables, as JSON; empty: none."""
    error: str = ""
    code: str = ""
    outcome: Annotated[Outcome | None, Field(strict=False)] = None
    happened: bool = True


class RecordedPerson(_Recorded):
    """Answer of a person to a review, which is known by its number in its run. ``silent``: there was none in time."""

    kind: Literal["person"]
    review: Annotated[int, Field(ge=1)]
    after_s: Seconds = 0.0
    silent: bool = False
    verb: Literal["approve", "edit", "reject", "respond", "decline"] = "reject"
    other: bool = False
    """True: another person than the first one who answered."""
    message: str = ""
    edited: JsonText = ""
    cap_usd_micros: Whole | None = None
    caps: JsonText = ""
    """Other raised caps, as a JSON list of scope, unit and cap."""
    model: str = ""
    tool: str = ""


class RecordedAct(_Recorded):
    """Act of a person on the run, so many seconds after its start."""

    kind: Literal["act"]
    act: Literal["cancel", "terminate", "pause", "resume", "say"]
    at_s: Seconds
    after_events: Whole = 0
    """Number of results and reviews (``MARKS``) that the run had before it."""
    text: str = ""
    """Reason, or what was said."""

    @model_validator(mode="after")
    def _of_the_run(self) -> RecordedAct:
        if self.child:
            raise ValueError("an act is about the run itself; leave child out")
        return self


MARKS = frozenset({"model_answered", "tool_answered", "attempt_failed", "review_opened", "review_decided"})
"""Kinds of events that place an act: the instants of a replay differ by the time of writes."""
Recorded = Annotated[RecordedModel | RecordedTool | RecordedPerson | RecordedAct, Field(discriminator="kind")]
KINDS: Mapping[str, tuple[str, str]] = {
    "model": ("model call", "model calls"),
    "tool": ("tool call", "tool calls"),
    "person": ("answer of a person", "answers of people"),
    "act": ("act of a person", "acts of people"),
}
"""Words for one, and for several. Total over the kinds, by test."""


def count_recorded(recorded: Iterable[Recorded]) -> str:
    """Return ``12 model calls (2 without an answer), 3 tool calls``; empty for none."""
    counts, failed = dict.fromkeys(KINDS, 0), dict.fromkeys(KINDS, 0)
    for one in recorded:
        counts[one.kind] += 1
        failed[one.kind] += isinstance(one, RecordedCall) and (one.cause is not None or one.silent)
    said = {kind: f" ({count:,} without an answer)" if count else "" for kind, count in failed.items()}
    return ", ".join(f"{count:,} {KINDS[kind][count != 1]}{said[kind]}" for kind, count in counts.items() if count)


def write_recorded(recorded: Iterable[Recorded]) -> list[JSON]:
    """Return recorded parts as a file has them."""
    return [one.model_dump(mode="json", exclude_defaults=True) for one in recorded]


def list_causes(events: Iterable[Event]) -> str:
    """Return the causes of a journal's decisions, in their order."""
    return " > ".join(str(one.fact.cause.cause) for one in events if isinstance(one.fact, ReactionDecided))
