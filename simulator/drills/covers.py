"""What the verdict about a cell depends on, as one digest: another digest makes the verdict stale."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from hashlib import sha256
from pathlib import Path

import fabric
import simulator
from fabric.core.decision_table import table_with
from fabric.core.fingerprint import fingerprint
from fabric.core.spec import FabricSpec
from fabric.core.taxonomy import FailureType, Tier

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
"""Rows whose cells of the same tier go on with a failure where its own ends: a branch that ends without a result leaves a gap. Total over the
failure types, by test."""

NOT_COVERED = frozenset({"decision_table", "title", "description", "example"})
"""Parts of a fabric that no verdict depends on: its other cells, and what is only said about it."""


def covers(spec: FabricSpec, engine: str) -> dict[Cell, str]:
    """The digest of each of the 24 cells: 128 bits in hex over its ladder, those it leads to, the rest of the fabric and the engine's version."""
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
ENGINE = (_FABRIC / "core", _FABRIC / "guardrails", _FABRIC / "runtime", _SIMULATOR / "kernel", _SIMULATOR / "drills")
"""Folders of what decides, and of what drills and judges it."""
KEEPS = frozenset(
    {
        *(
            "apps",
            "batches",
            "chosen",
            "conductor",
            "covers",
            "drafts",
            "in_place",
            "in_place_scenarios",
            "strikes_told",
            "live",
            "live_asking",
            "live_here",
            "models",
            "putting_back",
            "report_page",
            "report_style",
            "reports",
        ),
        *(
            "lever",
            "recent",
            "schedules",
            "schedules_due",
            "schedules_when",
            "selectors",
            "standing",
            "services",
            "tasks",
        ),
    }
)
"""Modules of ``drills`` that keep drills and have no part in any verdict; its folders have none either."""


@lru_cache(maxsize=1)
def engine_version() -> str:
    """128 bits in hex over the sources of the engine and of what drills it, as this process was started with them."""
    told = sha256()
    for folder in ENGINE:
        paths = folder.glob("*.py") if folder.name == "drills" else folder.rglob("*.py")
        for path in sorted(paths):
            if folder.name != "drills" or path.stem not in KEEPS:
                told.update(f"{folder.name}/{path.relative_to(folder)}\0".encode() + path.read_bytes() + b"\0")
    return told.hexdigest()[:32]
