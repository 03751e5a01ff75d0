"""The scripted agents of flow5 answer (performance.md "The work"). The module imports nothing but the standard library: other engines say the same."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

STEPS = 8
WORKERS = 4
FILLER = "The quick brown fox jumps over the lazy dog and writes it down. " * 15
"""About 1 KB, so that each result is."""
REQUEST = FILLER[:200]

SAID: Mapping[str, Any] = {
    "plan": {
        "goal": FILLER[:400],
        "briefs": [{"agent": "worker", "title": f"Part {n}", "instructions": FILLER[:120]} for n in range(WORKERS)],
        "exit_criteria": ["All parts are there."],
    },
    "summary": {"text": FILLER, "citations": []},
    "critique": {"score": 0.9, "reasons": [FILLER[:900]]},
}
"""By the wanted shape: a plan of four briefs, summaries of about 1 KB, a passing critique."""
ANSWERS: Mapping[str, str] = {shape: json.dumps(said) for shape, said in SAID.items()}
"""The same as agents send it."""
