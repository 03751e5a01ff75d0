"""What a steady state can be asked about: probes of one run, each by name, and how they are held against their tolerances."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from simulator.scenarios.tolerances import Tolerance

JSON = Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """What one run of a scenario came to. One field for each probe."""

    state: str
    chain: str
    cost_usd_micros: int
    duration_s: float
    model_calls: int
    tool_calls: int
    questions: int
    replans: int
    answer: str
    citations: list[str]
    violations: int
    struck: int


PROBES: Mapping[str, str] = {
    "state": "the state that the run is in at the end",
    "chain": "the decisions about failures in their order, and that state: retry > surface > failed",
    "cost_usd_micros": "what the run cost, micro-dollars",
    "duration_s": "how long it took, seconds",
    "model_calls": "calls of models that went out, retries as well",
    "tool_calls": "calls of tools that went out, retries as well",
    "questions": "questions that people were asked",
    "replans": "plans that were made after the first",
    "answer": "the text of the answer; empty: there is none",
    "citations": "the documents that it cites",
    "violations": "promises of the engine that were broken",
    "struck": "how often the disturbances struck",
}
"""Every probe, by name, and what it says. The names are the fields of ``Observed``, by test."""


@dataclass(frozen=True, slots=True)
class Checked:
    """One probe's output held against its tolerance. ``why_not``: empty where it is within."""

    probe: str
    output: JSON
    why_not: str

    @property
    def met(self) -> bool:
        """Whether it is within."""
        return not self.why_not


def said(observed: Observed, probe: str) -> JSON:
    """What a probe says. KeyError for one that there is not."""
    if probe not in PROBES:
        raise KeyError(probe)
    return getattr(observed, probe)


def checked(observed: Observed, probe: str, tolerance: Tolerance) -> Checked:
    """A probe's output held against its tolerance."""
    output = said(observed, probe)

    def ask(other: str, arguments: Mapping[str, JSON], value: JSON) -> bool:
        """Another probe says yes where it says the same."""
        return other in PROBES and said(observed, other) == value

    return Checked(probe, output, tolerance.why_not(output, ask))
