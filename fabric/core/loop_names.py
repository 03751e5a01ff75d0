"""The names of the loop detectors, as fabrics and journals have them and as people read them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple


class LoopName(NamedTuple):
    """A detector's name, and what an agent does whom it stops."""

    name: str
    finds: str

    @property
    def sentence(self) -> str:
        """The name and what it finds: ``identical calls: the same call with the same result``."""
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
"""By the name in fabrics and journals, in the order of semantics.md 4; total by test."""
PRESET_NAMES: Mapping[str, LoopName] = {
    "flow": LOOP_NAMES["identical_calls"],
    "fabro": LOOP_NAMES["repeated_cycle"],
    "ag2": LOOP_NAMES["same_call_in_a_row"],
}
"""By the document whose one rule a fabric may take."""


def detector_name(named: object) -> str:
    """Returns how people read the name of a detector, or of a document's rule, in a journal; empty where it is none."""
    found = LOOP_NAMES.get(str(named)) or PRESET_NAMES.get(str(named))
    return found.name if found else ""


def sort_detectors(named: Iterable[str]) -> list[str]:
    """Returns names of detectors in the order of the table."""
    order = list(LOOP_NAMES)
    return sorted(named, key=order.index)


def names_of(named: Collection[str]) -> str:
    """Returns how people read several detectors: ``identical calls, same answer``; ``all`` of them in a word."""
    if set(named) == set(LOOP_NAMES):
        return "all"
    return ", ".join(LOOP_NAMES[one].name for one in sort_detectors(named))
