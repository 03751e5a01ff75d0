"""Process groups: all processes of a command end with it."""

from __future__ import annotations

import os
import signal


def kill_group(leader: int, number: int = signal.SIGKILL) -> bool:
    """Signal the process group of a leader, even a dead one; return False when the group is empty."""
    try:
        os.killpg(leader, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True
