"""Sends signs of life of a process to `up`, systemd and probes, and measures the silence of a child.

A thread beats, and needs the interpreter's lock for it. So a stopped process, or one in which code keeps that lock,
beats no more. Nor does one whose main thread has ended and which waits for other threads. Only time in which `up`
itself looked counts as silence: after a sleep of the machine, or a stop of `up`, no child is blamed.
"""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

BEAT_S = 5.0
PIPE = "BEAT_PIPE"
"""Environment variable with the descriptor of `up`'s pipe."""
FILE = "BEAT_FILE"
"""Environment variable with a file that each beat touches, for a container's probe."""
SYSTEMD = "NOTIFY_SOCKET"


def beat_on(lives: Callable[[], bool] = lambda: True, *, every_s: float = BEAT_S) -> threading.Thread | None:
    """Start the thread, which beats at an interval while ``lives`` returns True. Return None if there is no watcher."""
    beats = _beats(os.environ)
    if not beats:
        return None

    def beat() -> None:
        ending = threading.Event()
        while threading.main_thread().is_alive():
            if lives():
                for one in beats:
                    with suppress(OSError):  # A full pipe, or no reader: the watcher has heard enough, or has gone.
                        one()
            ending.wait(every_s)

    thread = threading.Thread(target=beat, name="beat", daemon=True)
    thread.start()
    return thread


def _beats(environ: Mapping[str, str]) -> list[Callable[[], object]]:
    found: list[Callable[[], object]] = []
    if number := environ.get(PIPE):
        pipe = int(number)
        os.set_blocking(pipe, False)
        os.set_inheritable(pipe, False)
        found.append(lambda: os.write(pipe, b"."))
    if path := environ.get(FILE):
        found.append(Path(path).touch)
    if name := environ.get(SYSTEMD):
        # An at sign stands for the first byte of a name that is no file's.
        address = "\0" + name[1:] if name.startswith("@") else name
        found.append(lambda: _notify(address))
    return found


def _notify(address: str) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notifying:
        notifying.sendto(b"READY=1\nWATCHDOG=1", address)


SILENCE_S = 60.0
LOADING = 5
"""Factor of the limit before the first beat, because a slow machine loads for a while."""
LOOK_S = 2.0


@dataclass
class Silence:
    """The pipe of one child, and the duration of its silence."""

    limit_s: float = SILENCE_S
    read: int = field(init=False)
    write: int = field(init=False)
    """Write end for the child; closed here once the child has it."""
    silent_s: float = 0.0
    heard: bool = False
    _looked_at: float = field(default_factory=time.monotonic)

    def __post_init__(self) -> None:
        self.read, self.write = os.pipe()
        os.set_blocking(self.read, False)

    def look(self, now: float) -> None:
        """Read the pipe, and count the silence. ``now``: seconds, monotonic."""
        self.silent_s += min(now - self._looked_at, 2 * LOOK_S)
        self._looked_at = now
        try:
            if os.read(self.read, 4096):
                self.silent_s, self.heard = 0.0, True
        except BlockingIOError:
            pass

    @property
    def over(self) -> bool:
        """Return True if the child has been silent for too long."""
        return self.silent_s >= self.limit_s * (1 if self.heard else LOADING)

    def forgive(self) -> None:
        """Reset the silence."""
        self.silent_s = 0.0

    def close(self) -> None:
        """Close the pipe."""
        os.close(self.read)
