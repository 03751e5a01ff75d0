"""Where a conversation goes round: which of its turns belong to a circle, by their shape and by what the deadlock monitor stopped. Pure functions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fabric.core.taxonomy import Cause

CYCLE_MAX = 3


def circling(
    speakers: Sequence[str], handed: Sequence[bool], refused: Mapping[int, tuple[str, ...]] | None = None
) -> frozenset[int]:
    """The places of turns that belong to a circle.

    One is where agents handed something round two or three of them for the second time; ``handed``: whether a turn ended in a handover. ``refused``: the circle
    that the deadlock monitor would not let a turn close, by its place. Its last handover never took place, so by shape alone that circle has not closed.
    """
    found = {place for length in range(2, CYCLE_MAX + 1) for place in _closed(speakers, handed, length)}
    for place, way in (refused or {}).items():
        found |= _stopped(speakers, place, way)
    return frozenset(found)


def _closed(speakers: Sequence[str], handed: Sequence[bool], length: int) -> set[int]:
    found: set[int] = set()
    for first in range(len(speakers) - 2 * length):
        walk = speakers[first : first + 2 * length + 1]
        closes = walk[0] == walk[length] == walk[2 * length] and walk[:length] == walk[length:-1]
        if closes and len(set(walk[:length])) == length and all(handed[first : first + 2 * length]):
            found.update(range(first, first + 2 * length + 1))
    return found


def _stopped(speakers: Sequence[str], last: int, way: tuple[str, ...]) -> set[int]:
    """The turns that led to a refused handover. ``way``: who passed it on in the circle, and who would have had it then."""
    if way[0] != way[-1]:
        # The same brief to the same target again: it went round since the turn in which it went there before.
        before = [place for place in range(last) if speakers[place] == speakers[last]]
        return set(range(before[-1], last + 1)) if before else {last}
    wanted = list(way[:-1]) * 2
    found: set[int] = set()
    for place in range(last, -1, -1):
        if wanted and speakers[place] == wanted[-1]:
            wanted.pop()
            found.add(place)
    return found


def way_of(cause: str, cycle: tuple[str, ...]) -> tuple[str, ...]:
    """The circle that a trip stopped; empty: it was about something else."""
    return cycle if cause in (Cause.HANDOFF_CYCLE, Cause.BRIEF_REPEATED) and len(cycle) > 1 else ()
