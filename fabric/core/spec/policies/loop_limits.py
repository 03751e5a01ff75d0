"""Declares the loop detectors of a fabric: their names, for fabrics, journals and people, and their numbers."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Annotated, Literal, NamedTuple, get_args

from pydantic import BaseModel, ConfigDict, Field, field_serializer, model_validator

from fabric.core.schema.limits import Unit, declare_limit, declare_setting
from fabric.core.schema.parts import Positive


class LoopName(NamedTuple):
    """A detector's name, and what an agent does whom it stops."""

    name: str
    finds: str

    @property
    def sentence(self) -> str:
        """Return the name and the pattern: ``identical calls: the same call with the same result``."""
        return f"{self.name}: {self.finds}"


LOOP_NAMES: Mapping[str, LoopName] = {
    "identical_calls": LoopName("identical calls", "the same call with the same result"),
    "repeated_cycle": LoopName("repeated cycle", "calls that repeat in turn"),
    "near_identical_calls": LoopName("near-identical calls", "nearly the same call with the same result"),
    "same_call_in_a_row": LoopName("same call in a row", "the same call whatever its results"),
    "same_answer": LoopName("same answer", "the same answer again"),
    "nothing_new_in_a_row": LoopName("nothing new in a row", "calls that were all made before"),
    "near_identical_calls_in_the_long_run": LoopName(
        "near-identical calls in the long run", "nearly the same call over many turns"
    ),
    "nothing_but_errors": LoopName("nothing but errors", "turns in which every call fails"),
    "same_words_before_calls": LoopName("same words before calls", "the same announcement again"),
}
"""By the name in fabrics and journals, in the order of docs/specification/protections.md; total by test."""
PRESET_NAMES: Mapping[str, LoopName] = {
    "flow": LOOP_NAMES["identical_calls"],
    "fabro": LOOP_NAMES["repeated_cycle"],
    "ag2": LOOP_NAMES["same_call_in_a_row"],
}
"""By the document whose one rule a fabric may take."""


def detector_name(named: object) -> str:
    """Return the name of a detector, or of a document's rule, as people read it. Empty: the journal's word is
    neither.
    """
    found = LOOP_NAMES.get(str(named)) or PRESET_NAMES.get(str(named))
    return found.name if found else ""


def sort_detectors(named: Iterable[str]) -> list[str]:
    """Returns names of detectors in the order of the table."""
    order = list(LOOP_NAMES)
    return sorted(named, key=order.index)


def find_names(named: Collection[str]) -> str:
    """Returns how people read several detectors: ``identical calls, same answer``; ``all`` of them in a word."""
    if set(named) == set(LOOP_NAMES):
        return "all"
    return ", ".join(LOOP_NAMES[one].name for one in sort_detectors(named))


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
_PAGE = "docs/specification/protections.md"
_REFUSED = "the call is not executed"
_OLDER_CALLS, _OLDER_TURNS = "older calls are ignored", "older turns are ignored"
_ALL_DETECTORS = frozenset[Detector](get_args(Detector))


class LoopDetector(BaseModel):
    """The loop detectors, or the one rule of a document (docs/specification/protections.md)."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    preset: Literal["flow", "fabro", "ag2"] | None = declare_setting(
        None,
        "Detector preset",
        "A preset replaces all detectors by one rule. flow: identical calls, whatever their results. fabro: groups of 1, 2 or 3 equal turns. ag2: the same call in a row, warned about once. None: the detectors below.",
        source=_PAGE,
    )
    detectors: frozenset[Detector] = declare_setting(
        _ALL_DETECTORS, "Detectors", "The detectors that are on; by default all of them.", source=_PAGE
    )
    identical_threshold: Positive = declare_limit(
        3,
        "Identical calls",
        Unit.CALLS,
        "The detector acts at this many equal or nearly equal calls in the window with the same result.",
        stops=_REFUSED,
        source="S0: N = 5, threshold = 3",
    )
    identical_window: Positive = declare_limit(
        5,
        "Identical calls, window",
        Unit.CALLS,
        "The detector compares this many of the agent's latest calls.",
        stops=_OLDER_CALLS,
        source="S0: N = 5, threshold = 3",
    )
    period_repeats: Positive = declare_limit(
        2,
        "Repeated cycle",
        Unit.REPEATS,
        "The detector acts if a cycle of 2 or 3 turns with the same results repeats this often at the end of the window.",
        stops=_REFUSED,
        source=_PAGE,
    )
    period_window: Positive = declare_limit(
        10,
        "Repeated cycle, window",
        Unit.TURNS,
        "The detector compares this many of the agent's latest turns.",
        stops=_OLDER_TURNS,
        source="S1: last 10 assistant turns",
    )
    consecutive_threshold: Positive = declare_limit(
        5,
        "Same call in a row",
        Unit.CALLS,
        "The detector acts at this many equal calls in a row, whatever their results.",
        stops="the call is not executed",
        source=_PAGE,
    )
    answer_threshold: Positive = declare_limit(
        3,
        "Same answer",
        Unit.REPEATS,
        "The detector acts after this many equal answers to a brief that a gate gave back.",
        stops="no further request is sent",
        source=_PAGE,
    )
    stale_threshold: AtLeastTwo = declare_limit(
        5,
        "Nothing new in a row",
        Unit.CALLS,
        "The detector acts at this many calls in a row that repeat earlier calls of the long window with the same results.",
        stops=_REFUSED,
        source="S0: as many as its window has",
    )
    long_threshold: AtLeastTwo = declare_limit(
        6,
        "Near-identical calls in the long run",
        Unit.CALLS,
        "The detector acts at this many nearly equal calls in the long window with nothing new in between.",
        stops=_REFUSED,
        source=_PAGE,
    )
    long_window: Positive = declare_limit(
        30,
        "Near-identical calls in the long run, window",
        Unit.CALLS,
        "The detectors of long runs compare this many of the agent's latest calls.",
        stops=_OLDER_CALLS,
        source="S1: three times its window",
    )
    failing_threshold: Positive = declare_limit(
        4,
        "Nothing but errors",
        Unit.TURNS,
        "The detector acts after this many turns in a row in which every call failed.",
        stops="the next call is not executed",
        source="S3: one less than its breaker, which opens at 5 consecutive",
    )
    said_threshold: AtLeastTwo = declare_limit(
        3,
        "Same words before calls",
        Unit.REPEATS,
        "The detector acts after this many turns in which the agent said the same before its calls, while they failed or brought the same results.",
        stops="the next call is not executed",
        source="S0: N = 5, threshold = 3",
    )
    said_window: Positive = declare_limit(
        5,
        "Same words before calls, window",
        Unit.TURNS,
        "The detector compares the words of this many of the agent's latest turns.",
        stops=_OLDER_TURNS,
        source="S0: N = 5, threshold = 3",
    )
    ag2_threshold: Positive = declare_limit(
        3,
        "Same call in a row, preset ag2",
        Unit.CALLS,
        "With preset ag2, the rule acts at this many equal calls in a row.",
        stops="the agent is warned once",
        source=_PAGE,
    )

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
