"""Process groups: what a command started ends with it."""

from __future__ import annotations

import os
import signal


def kill_group(leader: int, number: int = signal.SIGKILL) -> bool:
    """Signals the group that a process leads, also when that one is gone; False when nobody is left in it."""
    try:
        os.killpg(leader, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True
