"""A row of the table of events."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple

JSON = Any
Fact = Mapping[str, JSON]
Tone = Literal["neutral", "ok", "warn", "danger", "info", "human"]


class Display(NamedTuple):
    """How one kind is shown."""

    label: str
    """What happened, in two or three words."""
    tone: Tone
    icon: str
    """Name of the icon."""
    importance: Literal[0, 1, 2, 3]
    """3: a person should see it; 2: a landmark; 1: a step on the way; 0: detail."""
    summary: Callable[[Fact], str]
