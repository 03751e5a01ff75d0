"""Defines verdicts and the results of cells. Pages and reports show them, and load no simulated world for that."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from fabric.core.values.taxonomy import FailureType, Tier

Verdict = Literal["pass", "deviated", "error", "unknown"]


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
