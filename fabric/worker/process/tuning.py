"""Interpreter settings of a process that hosts runs, measured with ``manage.py dev bench flow5``
(docs/reference/settings.md).
"""

from __future__ import annotations

import gc
import sys
from functools import cache

SWITCH_S = 0.0005
"""Seconds for which a thread keeps the interpreter while another waits for it. The default of 5 ms is longer than a
whole commit.
"""
COLLECT_AFTER = (20_000, 20, 50)


@cache
def tune_process() -> None:
    """Shorten the thread switch, and keep the collector from walking all imported modules repeatedly; once a
    process.

    Runs are values without cycles: counting frees them, and the collector finds next to nothing. Frozen objects are
    never collected: a second call would keep everything for ever that the process has opened since the first.
    """
    sys.setswitchinterval(SWITCH_S)
    gc.collect()
    gc.freeze()
    gc.set_threshold(*COLLECT_AFTER)
