"""The numbers of the loop detectors (semantics.md 4 "Loop detectors")."""

from __future__ import annotations

from typing import Annotated, Literal, get_args

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    field_serializer,
    model_validator,
)

from fabric.core.loop_names import sort_detectors
from fabric.core.spec_parts import Positive

AtLeastTwo = Annotated[int, Field(ge=2)]
Detector = Literal[
    "identical_calls",
    "repeated_cycle",
    "near_identical_calls",
    "same_call_in_a_row",
    "same_answer",
    "nothing_new_in_a_row",
    "near_identical_calls_in_the_long_run",
    "nothing_but_errors",
    "same_words_before_calls",
]
_ALL_DETECTORS = frozenset[Detector](get_args(Detector))


class LoopDetector(BaseModel):
    """The loop detectors, or the one rule of a document (semantics.md 4)."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    preset: Literal["flow", "fabro", "ag2"] | None = Field(
        default=None,
        description="One document's rule instead of the detectors: flow (S0, results ignored), fabro (S1), ag2 (warns once).",
    )
    detectors: frozenset[Detector] = Field(
        default=_ALL_DETECTORS, description="The detectors in force: all, where nothing else is said."
    )
    identical_threshold: Positive = Field(default=3, description="The same call, or nearly, would stand this often...")
    identical_window: Positive = Field(default=5, description="...in this many calls. S0: N = 5, threshold = 3.")
    period_repeats: Positive = Field(
        default=2, description="Cycles of 2 and 3 turns repeated this often at the end of..."
    )
    period_window: Positive = Field(default=10, description="...this many turns. S1: last 10 assistant turns.")
    consecutive_threshold: Positive = Field(
        default=5, description="The same call this often in a row, whatever its results."
    )
    answer_threshold: Positive = Field(default=3, description="The same answer to one brief this often.")
    stale_threshold: AtLeastTwo = Field(
        default=5,
        description="Calls in a row that were each made before in the long window, with the same result. As many as S0's window has.",
    )
    long_threshold: AtLeastTwo = Field(
        default=6,
        description="Nearly the same call would stand this often, with nothing new in between...",
    )
    long_window: Positive = Field(
        default=30,
        description="...in this many calls, S1's window three times.",
    )
    failing_threshold: Positive = Field(
        default=4,
        description="Turns in a row of which every call failed, whatever it says. One less than S3's breaker, which opens at 5 consecutive.",
    )
    said_threshold: AtLeastTwo = Field(default=3, description="The agent said the same before its calls this often...")
    said_window: Positive = Field(
        default=5,
        description="...in this many turns, while the calls failed or came to the same. The numbers of identical calls.",
    )
    ag2_threshold: Positive = Field(default=3, description="Preset ag2: the same call this often in a row.")

    @model_validator(mode="after")
    def _something_is_in_force(self) -> LoopDetector:
        if self.preset and self.detectors != _ALL_DETECTORS:
            raise ValueError("loop_detector: give preset or detectors, not both; a preset is one rule of its own")
        if not self.detectors:
            raise ValueError(
                "loop_detector: detectors is empty, which would switch loop detection off; name at least one"
            )
        return self

    @field_serializer("detectors")
    def _in_order(self, detectors: frozenset[str]) -> list[str]:
        # A set has no order of its own, and a revision is known by the bytes of its spec.
        return sort_detectors(detectors)
