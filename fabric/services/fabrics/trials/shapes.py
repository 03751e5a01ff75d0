"""The shape of a trial: the part of a fabric that it tries, its sample, and its result."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from fabric.core.values.units import JSON

Draft = Mapping[str, JSON]
"""A fabric as its YAML reads, with any errors elsewhere."""
Verdict = Literal["passes", "fails", "error"]
"""``error``: the check could not be made or evaluated. A run takes that for a failure; nothing unknown passes."""
Mark = Literal["passes", "fails", "error", "note"]


@dataclass(frozen=True, slots=True)
class TriedLine:
    """One observation of a trial."""

    mark: Mark
    said: str
    """A sentence."""
    what: str = ""
    """Subject of the line: a path of the sample, a policy, a citation, a number."""
    against: str = ""
    """Value that the subject was compared with; empty where there is none."""


@dataclass(frozen=True, slots=True)
class TrialResult:
    """Result of a check of a sample."""

    verdict: Verdict
    lines: tuple[TriedLine, ...]


@dataclass(frozen=True, slots=True)
class SampleField:
    """One box of a sample."""

    name: str
    kind: Literal["text", "json", "number", "choice"]
    label: str
    example: str
    """Initial content: a value that makes sense for this fabric."""
    choices: tuple[str, ...] = ()
    """Options of a choice."""
    hint: str = ""


Sample = Mapping[str, str]
"""Contents of the boxes, by name; a missing box has its example."""


Given = Mapping[str, JSON]
"""A sample's values: texts, and parsed JSON."""


@dataclass(frozen=True, slots=True)
class CheckTrial:
    """The trial of one kind of check."""

    title: str
    """The trial's question."""
    paths: tuple[str, ...]
    """Paths of the check in a fabric; ``N`` is a place in a list, ``STAGE`` the name of a stage."""
    fields: Callable[[Draft, str], tuple[SampleField, ...]]
    tried: Callable[[Draft, str, Given], TrialResult]
    apart: bool = False
    """True if the author controls its duration (loops of an expression, references of a schema). It runs in a process
    that can be ended.
    """


def make_result(problems: tuple[TriedLine, ...] | list[TriedLine], *notes: TriedLine, passed: TriedLine) -> TrialResult:
    """Return the result of a trial: its problems, or the line of its success; notes last."""
    if not problems:
        return TrialResult("passes", (passed, *notes))
    verdict: Verdict = "error" if any(one.mark == "error" for one in problems) else "fails"
    return TrialResult(verdict, (*problems, *notes))


def place_sentence(sentence: str, mark: Mark = "fails") -> TriedLine:
    """Return a line for a problem that names its path first: ``briefs.0.agent: ...``."""
    path, found, rest = sentence.partition(": ")
    placed = bool(found) and " " not in path
    return TriedLine(mark, rest if placed else sentence, path if placed else "")
