"""Digests everything that a cell's verdict depends on: a change makes the verdict stale."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from hashlib import sha256
from pathlib import Path

import fabric
import simulator
from fabric.core.spec.fabric import FabricSpec
from fabric.core.spec.policies.decision_table import table_with
from fabric.core.values.fingerprint import fingerprint
from fabric.core.values.taxonomy import FailureType, Tier

Cell = tuple[FailureType, Tier]
CELLS: tuple[Cell, ...] = tuple((failure, tier) for failure in FailureType for tier in Tier)
"""All 24, row by row."""

LEADS_TO: Mapping[FailureType, tuple[FailureType, ...]] = {
    FailureType.TOOL_LOOP: (FailureType.SCHEMA_GROUNDING,),
    FailureType.DEADLOCK: (),
    FailureType.COST_OVERRUN: (),
    FailureType.PROVIDER: (),
    FailureType.SCHEMA_GROUNDING: (),
    FailureType.PLAN_MALFORMED: (),
    FailureType.NO_PROGRESS: (FailureType.SCHEMA_GROUNDING,),
    FailureType.UNSAFE_OUTPUT: (),
}
"""Rows whose cells of this tier a failure continues in: a branch without a result leaves a gap.

Total over the failure types, by test.
"""

NOT_COVERED = frozenset({"decision_table", "title", "description", "example"})
"""Parts of a fabric on which no verdict depends: its other cells, and descriptions."""


def covers(spec: FabricSpec, engine: str) -> dict[Cell, str]:
    """Return the digest of each of the 24 cells: 128 bits in hex.

    It covers the ladder, the ladders in which it continues, the rest of the fabric and the engine's version.
    """
    table = table_with(spec.decision_table)
    rest = fingerprint(spec.model_dump(mode="json", by_alias=True, exclude=set(NOT_COVERED)))
    found: dict[Cell, str] = {}
    for failure, tier in table:
        rows = (failure, *LEADS_TO[failure])
        ladders = [table[row, tier].model_dump(mode="json", include={"rungs"}) for row in rows]
        found[failure, tier] = fingerprint([failure, tier, ladders, rest, engine])
    return found


# -- the engine's version ----------------------------------------------------------------------------------------------

_FABRIC, _SIMULATOR = Path(fabric.__path__[0]), Path(simulator.__path__[0])
ENGINE = (
    *(_FABRIC / name for name in ("core", "policies/guardrails", "runtime")),
    *(_SIMULATOR / name for name in ("agents", "faults", "rules", "scenarios", "swarm", "texts", "tools", "world")),
)
"""Folders of the engine, and of the code that drills and judges it."""
REPORTS = _SIMULATOR / "scenarios" / "reports"
"""The one folder among them on which no verdict depends."""


@lru_cache(maxsize=1)
def engine_version() -> str:
    """Return 128 bits in hex over the sources of the engine and the drills at this process's start."""
    told = sha256()
    for folder in ENGINE:
        for path in sorted(folder.rglob("*.py")):
            if REPORTS not in path.parents:
                told.update(f"{folder.name}/{path.relative_to(folder)}\0".encode() + path.read_bytes() + b"\0")
    return told.hexdigest()[:32]
