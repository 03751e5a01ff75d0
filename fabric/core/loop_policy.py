"""The numbers of the loop detectors (semantics.md 4 "Loop detectors")."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Literal, get_args

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    WithJsonSchema,
    field_serializer,
    model_serializer,
    model_validator,
)

from fabric.core.loop_names import LOOP_NAMES, letter_of
from fabric.core.spec_parts import Positive

AtLeastTwo = Annotated[int, Field(ge=2)]
Detector = Literal["A", "B", "C", "D", "E", "F", "G", "H", "I"]
GivenDetector = Annotated[
    Detector,
    BeforeValidator(letter_of),
    WithJsonSchema({"enum": [one.written for one in LOOP_NAMES.values()], "type": "string"}),
]
"""A detector as an author names it, or by the letter that is stored."""
_ALL_DETECTORS = frozenset[Detector](get_args(Detector))
_EVER_DEFAULT = (_ALL_DETECTORS, _ALL_DETECTORS - {"F", "G", "H", "I"}, _ALL_DETECTORS - {"I"})
"""The detectors that a stored revision names beside a preset, without its author's wish."""


BEFORE_I = 5
"""Turns of failures that H let pass before detector I was there."""


def _is(number: int) -> Callable[[int], bool]:
    """Returns a test for the default of a number that came later. A spec's JSON leaves the default out, so that an earlier fabric keeps its digest."""
    return lambda given: given == number


class LoopDetector(BaseModel):
    """The loop detectors, or the one rule of a document (semantics.md 4). A revision of before the newest names the detectors that it has."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    preset: Literal["flow", "fabro", "ag2"] | None = Field(
        default=None,
        description="One document's rule instead of the detectors: flow (S0, results ignored), fabro (S1), ag2 (warns once).",
    )
    detectors: frozenset[GivenDetector] = Field(
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
        exclude_if=_is(5),
        description="Calls in a row that were each made before in the long window, with the same result. As many as S0's window has.",
    )
    long_threshold: AtLeastTwo = Field(
        default=6,
        exclude_if=_is(6),
        description="Nearly the same call would stand this often, with nothing new in between...",
    )
    long_window: Positive = Field(
        default=30,
        exclude_if=_is(30),
        description="...in this many calls, S1's window three times.",
    )
    failing_threshold: Positive = Field(
        default=4,
        description="Turns in a row of which every call failed, whatever it says. One less than S3's breaker, which opens at 5 consecutive.",
    )
    said_threshold: AtLeastTwo = Field(
        default=3, exclude_if=_is(3), description="The agent said the same before its calls this often..."
    )
    said_window: Positive = Field(
        default=5,
        exclude_if=_is(5),
        description="...in this many turns, while the calls failed or came to the same. The numbers of identical calls.",
    )
    ag2_threshold: Positive = Field(default=3, description="Preset ag2: the same call this often in a row.")

    @model_validator(mode="after")
    def _something_is_in_force(self) -> LoopDetector:
        if self.preset and "detectors" in self.model_fields_set and self.detectors not in _EVER_DEFAULT:
            raise ValueError("loop_detector: give preset or detectors, not both; a preset is one rule of its own")
        if not self.detectors:
            raise ValueError(
                "loop_detector: detectors is empty, which would switch loop detection off; name at least one"
            )
        return self

    @model_validator(mode="before")
    @classmethod
    def _as_it_was_published(cls, given: Any) -> Any:
        """A revision of before I names its detectors, and had five turns."""
        named = given.get("detectors") if isinstance(given, dict) else None
        before = isinstance(named, list | tuple | set | frozenset) and not {"I", LOOP_NAMES["I"].written} & set(
            map(str, named)
        )
        return {"failing_threshold": BEFORE_I} | given if before else given

    @model_serializer(mode="wrap")
    def _as_it_was_written(self, write: SerializerFunctionWrapHandler) -> dict[str, Any]:
        written: dict[str, Any] = write(self)
        if self.failing_threshold == (4 if "I" in self.detectors else BEFORE_I):
            written.pop("failing_threshold", None)
        return written

    @field_serializer("detectors")
    def _in_order(self, detectors: frozenset[str]) -> list[str]:
        # A set has no order of its own, and a revision is known by the bytes of its spec.
        return sorted(detectors)
