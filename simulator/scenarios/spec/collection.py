"""Reads the shipped scenarios: one file each, with the scenario's name."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path

from simulator.scenarios.spec.scenario import Scenario
from simulator.scenarios.spec.toml import read_file
from simulator.texts.problems import nearest

FOLDER = Path(__file__).parents[1] / "library"


@cache
def library() -> Mapping[str, Scenario]:
    """Return every shipped scenario by name, in alphabetical order. Raises Unreadable."""
    return {path.stem: read_file(path) for path in sorted(FOLDER.glob("*.toml"))}


def find_shipped(name: str) -> Scenario:
    """Return the shipped scenario of that name. Raises LookupError, one sentence."""
    try:
        return library()[name]
    except KeyError:
        raise LookupError(f"there is no scenario {name!r}; {nearest(name, library())}") from None
