"""Defines verdicts and the results of cells. Pages and reports show them, and load no simulated world for that."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal

from fabric.core.values.taxonomy import FailureType, Tier

Verdict = Literal["pass", "deviated", "error", "unknown"]


class Deviation(StrEnum):
    """Kind of a deviation that has a reason of its own. Without one, the two chains show it."""

    DECISION = "decision"
    HANDOVERS = "handovers"
    END = "end"
    DECIDED = "decided"
    ROW = "row"
    EXPECTATION = "expectation"
    STEADY = "steady"


HEADLINES: Mapping[Deviation, str] = {
    Deviation.DECISION: "a decision differs from the table",
    Deviation.HANDOVERS: "the handovers did not end as the fabric's limits promise",
    Deviation.END: "the run did not end as the undisturbed run did",
    Deviation.DECIDED: "a decision was made, and this scenario promises none",
    Deviation.ROW: "the run met another row of the table than the scenario names",
    Deviation.EXPECTATION: "the disturbed run did not do what the scenario expects",
    Deviation.STEADY: "a steady-state check failed afterwards, once the failure is over",
}
"""Headline of each kind; total, by test. The reason of a deviation begins with it, wherever it is shown."""


def deviate(kind: Deviation, detail: str) -> tuple[Verdict, str]:
    """Return the verdict about a deviation, and its reason: the headline, then the detail."""
    return "deviated", f"{HEADLINES[kind]}: {detail}"


def split_reason(why: str) -> tuple[Deviation | None, str]:
    """Return the kind of a deviation and the detail of its reason; None if it begins with no headline."""
    for kind, headline in HEADLINES.items():
        if why.startswith(f"{headline}: "):
            return kind, why.removeprefix(f"{headline}: ")
    return None, why


@dataclass(frozen=True, slots=True)
class Cell:
    """Result of one cell."""

    failure: FailureType
    tier: Tier
    verdict: Verdict
    expected: str
    observed: str
    seed: int
    why: str = ""
    """Reason of an error or unknown verdict; empty if the two chains show it."""
    equipped: str = ""
    """Parts added so that the fabric meets the failure; empty for none."""
    seconds: float = field(default=0.0, compare=False)
    """Duration in seconds."""
