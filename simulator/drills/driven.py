"""What comes of driving one stored drill, whoever drives it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from simulator.drills.keeping import Kept
from simulator.drills.models import Status

JSON = Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Driven:
    """What came of a drill: columns of its row."""

    status: Status
    verdict: str
    """``pass``, ``deviated``, ``error`` or ``unknown``."""
    expected: str = ""
    observed: str = ""
    why: str = ""
    run_id: str = ""
    """The run that was disturbed, where it is kept."""
    body: Mapping[str, JSON] = field(default_factory=dict)
    """What else is told; JSON."""
    kept: Kept | None = None
    """Its runs, which are written with its end; None: there are none, or they are written already."""
