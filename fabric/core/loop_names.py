"""The names of the loop detectors: what people read and write for the letters that stored revisions and journals have."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any, NamedTuple


class LoopName(NamedTuple):
    """A detector's name, and what an agent does whom it stops."""

    name: str
    finds: str

    @property
    def written(self) -> str:
        """The name as a fabric's text has it: ``identical_calls``."""
        return self.name.replace(" ", "_").replace("-", "_")

    @property
    def sentence(self) -> str:
        """The name and what it finds: ``identical calls: the same call with the same result``."""
        return f"{self.name}: {self.finds}"


LOOP_NAMES: Mapping[str, LoopName] = {
    "A": LoopName("identical calls", "the same call with the same result"),
    "B": LoopName("repeated cycle", "calls that repeat in turn"),
    "C": LoopName("near-identical calls", "nearly the same call with the same result"),
    "D": LoopName("same call in a row", "the same call whatever its results"),
    "E": LoopName("same answer", "the same answer again"),
    "F": LoopName("nothing new in a row", "calls that were all made before"),
    "G": LoopName("near-identical calls in the long run", "nearly the same call over many turns"),
    "H": LoopName("nothing but errors", "turns in which every call fails"),
    "I": LoopName("same words before calls", "the same announcement again"),
}
"""By the letter of semantics.md 4; total by test."""
PRESET_NAMES: Mapping[str, LoopName] = {
    "flow": LOOP_NAMES["A"],
    "fabro": LOOP_NAMES["B"],
    "ag2": LOOP_NAMES["D"],
}
"""By the document whose one rule a fabric may take."""
_LETTERS: Mapping[str, str] = {one.written: letter for letter, one in LOOP_NAMES.items()}


def letter_of(given: Any) -> Any:
    """Returns the letter of a written name; what is a letter stays. Raises ValueError for what names no detector."""
    letter = _LETTERS.get(given, given) if isinstance(given, str) else given
    if letter not in LOOP_NAMES:
        raise ValueError(f"there is no detector {given!r}; there are: {', '.join(_LETTERS)}")
    return letter


def detector_name(letter: object) -> str:
    """Returns the name of a detector or of a document's rule, by what a journal calls it; empty where it is none."""
    found = LOOP_NAMES.get(str(letter)) or PRESET_NAMES.get(str(letter))
    return found.name if found else ""


def as_written(given: Any) -> Any:
    """Returns a list of letters as an author writes it; what holds no letter stays."""
    if not isinstance(given, list | tuple):
        return given
    return [LOOP_NAMES[one].written if isinstance(one, str) and one in LOOP_NAMES else one for one in given]


def names_of(letters: Collection[str]) -> str:
    """Returns the names of several detectors, in the letters' order: ``identical calls, same answer``; ``all`` of them in a word."""
    if set(letters) == set(LOOP_NAMES):
        return "all"
    return ", ".join(LOOP_NAMES[one].name for one in sorted(letters))


def written_of(letters: Iterable[str]) -> list[str]:
    """Returns the names as a fabric's text has them."""
    return [LOOP_NAMES[one].written for one in sorted(letters)]
