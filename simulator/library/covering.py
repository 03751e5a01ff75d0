"""What the verdict about a scenario depends on, as one digest: another digest makes the verdict stale."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Any

import simulator
from fabric.core.decision_table import table_with
from fabric.core.fingerprint import fingerprint
from fabric.core.spec import FabricSpec
from fabric.core.taxonomy import FailureType, Tier
from fabric.selectors.fabrics import revision_spec
from simulator.drills.covers import NOT_COVERED, engine_version
from simulator.drills.selectors import DrillView, cell_digests
from simulator.scenarios.chaostoolkit import experiment_of
from simulator.scenarios.problems import Unreadable
from simulator.scenarios.reading import read
from simulator.scenarios.scenario import Scalar, Scenario

JSON = Any
PLAYER = Path(simulator.__path__[0]) / "scenarios"
SAID = {"name": "a", "title": "a", "description": "a", "tags": (), "contributions": {}, "seed": 1}
"""Parts of a scenario that no verdict depends on, and what stands in their place."""


@lru_cache(maxsize=1)
def player_version() -> str:
    """128 bits in hex over the sources of the engine, of what drills it, and of what plays scenarios, as this process was started with them."""
    told = sha256(engine_version().encode())
    for path in sorted(PLAYER.glob("*.py")):
        told.update(f"{path.name}\0".encode() + path.read_bytes() + b"\0")
    return told.hexdigest()[:32]


def scenario_covers(spec: FabricSpec, scenario: Scenario, overrides: Mapping[str, Scalar], tier: Tier) -> str:
    """128 bits in hex over the scenario with its parameters, the fabric, every ladder of the tier, and the engine's and the player's version.

    Titles and seeds are left out: a verdict is about what is disturbed, and in what.
    """
    return _digest(_of_fabric(spec, tier), scenario, overrides)


def _digest(of_fabric: str, scenario: Scenario, overrides: Mapping[str, Scalar]) -> str:
    plain = experiment_of(scenario.model_copy(update=SAID))
    return fingerprint([of_fabric, plain, {**scenario.parameters, **overrides}, player_version()])


def _of_fabric(spec: FabricSpec, tier: Tier) -> str:
    table = table_with(spec.decision_table)
    ladders = [table[failure, tier].model_dump(mode="json", include={"rungs"}) for failure in FailureType]
    return fingerprint([tier, ladders, spec.model_dump(mode="json", by_alias=True, exclude=set(NOT_COVERED))])


@lru_cache(maxsize=256)
def _of_revision(revision_id: str, tier: Tier) -> str:
    return _of_fabric(revision_spec(revision_id), tier)


@lru_cache(maxsize=4_096)
def _covers(revision_id: str, source: str, parameters: tuple[tuple[str, Scalar], ...], tier: Tier) -> str:
    return _digest(_of_revision(revision_id, tier), read(source), dict(parameters))


def covers_now(revision_id: str, source: str, parameters: Mapping[str, Scalar], tier: Tier) -> str:
    """The digest of a scenario in TOML in a revision; empty: it cannot be read."""
    try:
        return _covers(revision_id, source, tuple(sorted(parameters.items())), tier)
    except Unreadable:
        return ""


def drill_fresh(seen: DrillView, revision_id: str, source: str = "") -> bool:
    """Whether a drill's verdict is about what the revision is. ``source``: the scenario as it is now; without it, as it was drilled."""
    if not seen.scenario:
        return seen.cell is not None and cell_digests(revision_id)[seen.cell] == seen.covers
    return covers_now(revision_id, source or seen.source, seen.parameters, seen.tier) == seen.covers
