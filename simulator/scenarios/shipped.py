"""The scenarios that are shipped: one file each, named as the scenario is."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path

from simulator.scenarios.problems import nearest
from simulator.scenarios.reading import read_file
from simulator.scenarios.scenario import Scenario

FOLDER = Path(__file__).with_name("library")


@cache
def library() -> Mapping[str, Scenario]:
    """Every shipped scenario by name, in alphabetical order. Raises Unreadable where a file is not as it should be."""
    return {path.stem: read_file(path) for path in sorted(FOLDER.glob("*.toml"))}


def shipped(name: str) -> Scenario:
    """The shipped scenario of that name. LookupError, one sentence, where there is none."""
    try:
        return library()[name]
    except KeyError:
        raise LookupError(f"there is no scenario {name!r}; {nearest(name, library())}") from None
