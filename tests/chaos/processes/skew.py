"""A wall clock that is off: in a process that wears it, the machine's time is as many seconds before or behind as a file says at that moment.

The strike writes the file; the process sees it at its next look. Only ``time.time`` and ``time.time_ns`` are shown wrong, which is where the
product reads the time of day: what has passed (monotonic, boot time) goes on as it does, as on a machine whose clock was set. What took one of the two by
name before, as some libraries do, and ``datetime`` see the machine's own.
"""

from __future__ import annotations

import mmap
import struct
import time
from pathlib import Path

_OFF = struct.Struct("=d")
"""Seconds before the machine's time."""


def set_wall(file: Path, off_s: float) -> None:
    """Sets the clock of each process that wears this file, now or later; 0: right."""
    with file.open("r+b" if file.exists() else "w+b") as opened:
        opened.write(_OFF.pack(off_s))


def wear(file: Path) -> None:
    """From now on this process is shown the time as the file says. The file must be there."""
    with file.open("rb") as opened:
        shared = mmap.mmap(opened.fileno(), _OFF.size, access=mmap.ACCESS_READ)

    def off_s() -> float:
        off: float = _OFF.unpack_from(shared)[0]
        return off

    wall, wall_ns = time.time, time.time_ns
    shown = {"time": lambda: wall() + off_s(), "time_ns": lambda: wall_ns() + round(off_s() * 1_000_000_000)}
    for name, now in shown.items():
        setattr(time, name, now)
