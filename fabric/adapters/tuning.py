"""How the interpreter is set for a process that hosts runs: measured with ``manage.py bench flow5`` (docs/operations.md)."""

from __future__ import annotations

import gc
import sys
from functools import cache

SWITCH_S = 0.0005
"""How long a thread keeps the interpreter while another waits for it. The default of 5 ms is longer than a whole commit takes."""
COLLECT_AFTER = (20_000, 20, 50)


@cache
def tune_process() -> None:
    """Shortens the thread switch, and keeps the collector from walking all imported modules again and again; once a process.

    Runs are values without cycles: they are freed by counting, and the collector finds next to nothing. What is frozen is
    never collected: a second time would hold for good what the process has opened since the first.
    """
    sys.setswitchinterval(SWITCH_S)
    gc.collect()
    gc.freeze()
    gc.set_threshold(*COLLECT_AFTER)
