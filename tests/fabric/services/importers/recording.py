"""Writes anew what AG2 did with a few hundred conversations: ``python -m tests.fabric.services.importers.recording``, with FABRIC_AG2_PYTHON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, Phase, given, seed, settings

from tests.fabric.services.importers.ag2_cases import CASES, played
from tests.fabric.services.importers.ag2_process import AG2, VERSION

CASES_KEPT = 300
FILE = Path(__file__).resolve().parents[3] / "data" / "ag2" / "played.json"


def record() -> None:
    """Draws the conversations of one seed, has AG2 play them, and writes them down."""
    found: list[dict[str, Any]] = []

    with AG2() as ag2:

        @seed(2)
        @settings(
            max_examples=CASES_KEPT,
            database=None,
            deadline=None,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @given(case=CASES)
        def draw(case: dict[str, Any]) -> None:
            steps = played(case)[1]
            asked = {**case, "steps": steps}
            found.append({**asked, "told": ag2.ask(asked)})

        draw()
    lines = ",\n".join(json.dumps(one, sort_keys=True) for one in found)
    FILE.write_text(f'{{"version": "{VERSION}", "cases": [\n{lines}\n]}}\n')


if __name__ == "__main__":
    record()
