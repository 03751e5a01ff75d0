"""What a check says."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Level(StrEnum):
    """How bad it is."""

    WRONG = "wrong"
    """Something does not work, or is not safe."""
    UNKNOWN = "unknown"
    """It could not be looked at. Never taken for a success."""
    NOTE = "note"
    """It works; somebody should know."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing, and what to do about it: two sentences."""

    level: Level
    says: str
    do: str


def wrong(says: str, do: str) -> Finding:
    """Something does not work, or is not safe."""
    return Finding(Level.WRONG, says, do)


def unknown(says: str, do: str) -> Finding:
    """It could not be looked at."""
    return Finding(Level.UNKNOWN, says, do)


def note(says: str, do: str) -> Finding:
    """It works; somebody should know."""
    return Finding(Level.NOTE, says, do)
