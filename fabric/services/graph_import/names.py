"""Names of other systems as names of a fabric: lower-case, safe in a URL, a file name and a tool list."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

LONGEST = 63
_NAME = re.compile(rf"[a-z][a-z0-9_-]{{0,{LONGEST - 1}}}")


class Names:
    """The names that were given so far, of agents and of tools apart."""

    def __init__(self, given: Mapping[str, str] | None = None) -> None:
        self._given = dict(given or {})
        self._owners: dict[tuple[str, str], str] = {}
        self.renamed: dict[str, str] = {}
        """Names here by those there, where they differ."""

    def of(self, what: str, theirs: Any) -> str:
        """The name here. ValueError with one sentence where there is none, or somebody else has it."""
        if not isinstance(theirs, str) or not theirs:
            raise ValueError(f"names no {what}: {theirs!r}")
        ours = self._given.get(theirs) or _slug(theirs)
        if not _NAME.fullmatch(ours):
            raise ValueError(f"{theirs!r} cannot be made a name; give the {what} another one")
        owner = self._owners.setdefault((what, ours), theirs)
        if owner != theirs:
            raise ValueError(f"{theirs!r} and {owner!r} would both be named {ours!r}; give one of them another name")
        if ours != theirs:
            self.renamed[theirs] = ours
        return ours


def _slug(theirs: str) -> str:
    if _NAME.fullmatch(theirs):
        return theirs
    plain = re.sub(r"[^a-z0-9_]+", "-", theirs.lower()).strip("-")
    return (plain if plain[:1].isalpha() else f"n-{plain}")[:LONGEST]
