"""How long a child that ought to beat (console.launch.beating) has not been heard.

What is counted is time in which `up` itself looked: a machine that slept, or an `up` that was stopped, blames nobody for what it missed.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, field

SILENCE_S = 60.0
LOADING = 5
"""How many times as long the first beat of all may take: a slow machine loads for a while."""
LOOK_S = 2.0


@dataclass
class Silence:
    """The pipe of one child, and how long nothing came through it."""

    limit_s: float = SILENCE_S
    read: int = field(init=False)
    write: int = field(init=False)
    """For the child; to be closed here once it has it."""
    silent_s: float = 0.0
    heard: bool = False
    _looked_at: float = field(default_factory=time.monotonic)

    def __post_init__(self) -> None:
        self.read, self.write = os.pipe()
        os.set_blocking(self.read, False)

    def look(self, now: float) -> None:
        """Listens. ``now``: seconds, monotonic."""
        self.silent_s += min(now - self._looked_at, 2 * LOOK_S)
        self._looked_at = now
        try:
            if os.read(self.read, 4096):
                self.silent_s, self.heard = 0.0, True
        except BlockingIOError:
            pass

    @property
    def over(self) -> bool:
        """Whether the child has been silent for too long."""
        return self.silent_s >= self.limit_s * (1 if self.heard else LOADING)

    def forgive(self) -> None:
        """Begins anew."""
        self.silent_s = 0.0

    def close(self) -> None:
        """Lets go of the pipe."""
        os.close(self.read)
