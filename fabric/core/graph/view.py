"""What a participant reads of a conversation: the last messages in full, the rest as one line (semantics.md 5; S4 "Default view").

The line is made of counts and names alone, so that it is the same whenever it is made, and as long as its participants' names at most.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

PER_PARTICIPANT = 2
"""Messages in full for each participant."""
NAMES_MAX = 16
"""Speakers that the summary names; the rest it counts."""


class Message(NamedTuple):
    """Something that was said. Its text stands where ``ref`` says."""

    speaker: str
    ref: str


class View(NamedTuple):
    """What is read, in its order."""

    summary: str
    """One line about what came before; empty: everything is there in full."""
    messages: tuple[Message, ...]


def default_view(messages: Sequence[Message], participants: int) -> View:
    """The last 2N messages of N participants, and a summary of the rest."""
    recent = PER_PARTICIPANT * participants
    cut = max(len(messages) - recent, 0)
    return View(_summary(messages[:cut]), tuple(messages[cut:]))


def _summary(earlier: Sequence[Message]) -> str:
    """Who said how much, the first speaker first: ``Earlier: 5 messages (alice 3, bob 2).``."""
    if not earlier:
        return ""
    counts = list(Counter(one.speaker for one in earlier).items())
    told = [f"{speaker} {count}" for speaker, count in counts[:NAMES_MAX]]
    rest = sum(count for _, count in counts[NAMES_MAX:])
    if rest:
        told.append(f"{len(counts) - NAMES_MAX} others {rest}")
    plural = "" if len(earlier) == 1 else "s"
    return f"Earlier: {len(earlier)} message{plural} ({', '.join(told)})."
