"""Lists names beside a name that is not found: the nearest first, and how many more there are."""

from __future__ import annotations

from collections.abc import Collection
from difflib import SequenceMatcher

SHOWN = 6


def list_nearest(wanted: str, names: Collection[str], more: str) -> str:
    """Return the nearest names first, such as ``a, b and 14 more: fabric list``. ``more``: where all of them are."""
    matcher = SequenceMatcher(b=wanted)
    ranks = {}
    for name in names:
        matcher.set_seq1(name)
        ranks[name] = (-matcher.ratio(), name)
    ranked = sorted(names, key=ranks.__getitem__)
    left = len(ranked) - SHOWN
    return ", ".join(ranked) if left <= 1 else f"{', '.join(ranked[:SHOWN])} and {left} more: {more}"
