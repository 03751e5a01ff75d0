"""What a trial is: which part of a fabric it is of, what its sample consists of, and what it says."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

JSON = Any
Draft = Mapping[str, JSON]
"""A fabric as its YAML reads, whatever is wrong with it."""
Verdict = Literal["passes", "fails", "error"]
"""``error``: the check could not be made or could not be evaluated. A run takes that for a failure; nothing that is unknown passes."""
Mark = Literal["passes", "fails", "error", "note"]


@dataclass(frozen=True, slots=True)
class TriedLine:
    """One thing that was looked at, and what was found."""

    mark: Mark
    said: str
    """A sentence."""
    what: str = ""
    """What was looked at: a path of the sample, a policy, a citation, a number."""
    against: str = ""
    """What it was held against, where it was held against something."""


@dataclass(frozen=True, slots=True)
class Tried:
    """What a check said of a sample."""

    verdict: Verdict
    lines: tuple[TriedLine, ...]


@dataclass(frozen=True, slots=True)
class SampleField:
    """One box of a sample."""

    name: str
    kind: Literal["text", "json", "number", "choice"]
    label: str
    example: str
    """What stands in it first: a value that makes sense for this fabric."""
    choices: tuple[str, ...] = ()
    """Of a choice: what may be chosen."""
    hint: str = ""


Sample = Mapping[str, str]
"""What stands in the boxes, by name; a box that is missing holds its example."""


Given = Mapping[str, JSON]
"""A sample as it was read: texts as they are, JSON as values."""


@dataclass(frozen=True, slots=True)
class Trial:
    """How one kind of check is tried."""

    title: str
    """What it asks, as a question."""
    paths: tuple[str, ...]
    """Where in a fabric it stands; ``N`` for a place in a list, ``STAGE`` for a stage's name."""
    fields: Callable[[Draft, str], tuple[SampleField, ...]]
    tried: Callable[[Draft, str, Given], Tried]
    apart: bool = False
    """Whether its time is the author's to set (loops of an expression, references of a schema): it is tried in a process that can be ended."""


def told(problems: tuple[TriedLine, ...] | list[TriedLine], *notes: TriedLine, passed: TriedLine) -> Tried:
    """What speaks against a sample, or that nothing does; notes last."""
    if not problems:
        return Tried("passes", (passed, *notes))
    verdict: Verdict = "error" if any(one.mark == "error" for one in problems) else "fails"
    return Tried(verdict, (*problems, *notes))


def at_path(sentence: str, mark: Mark = "fails") -> TriedLine:
    """A problem that names its path first, as a line: ``briefs.0.agent: ...``."""
    path, found, rest = sentence.partition(": ")
    placed = bool(found) and " " not in path
    return TriedLine(mark, rest if placed else sentence, path if placed else "")
