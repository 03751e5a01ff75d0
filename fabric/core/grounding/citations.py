"""Citations: each names an attached document and, where it names a place, one that the document has."""

from __future__ import annotations

from collections.abc import Sequence

from fabric.core.grounding.sources import Sources
from fabric.core.places import cited


def problem(citation: str, names: Sequence[str], sources: Sources | None) -> str:
    """Returns what is wrong with a citation, in a sentence; empty: nothing. Without ``sources`` no place is looked for: the texts were not read."""
    if cited(citation, names) is None:
        return f"citations: no document is named {citation!r}"
    own = None if sources is None else sources.cited(citation)
    if own is not None and own.missing():
        return f"citations: {own.name!r} has no {own.place}"
    return ""
