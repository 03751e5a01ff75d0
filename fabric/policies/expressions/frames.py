"""Loop of a child process with bounded memory and time: it answers one frame after the other.

Frames are those of ``fabric.child_processes.frames``; an empty one is answered as soon as it is ready. It ends with
its parent; in a loop at the latest when its time is over.
"""

from __future__ import annotations

import os
import resource
import signal
import sys
from collections.abc import Callable

from fabric.child_processes.frames import receive, send
from fabric.core.values.units import JSON

MEMORY_BYTES = 512 * 1024 * 1024
"""Limit of address space, in bytes; an idle child of trials has 90 MB."""
CPU_S = 30
"""Seconds of processor time for one frame; it ends a child whose parent is gone."""


def serve(answer: Callable[[JSON], JSON]) -> None:
    """Answer frames until the parent ends. A lack of memory ends the process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    while (frame := receive(sys.stdin.buffer)) is not None:
        used = resource.getrusage(resource.RUSAGE_SELF)
        hard = resource.getrlimit(resource.RLIMIT_CPU)[1]
        resource.setrlimit(resource.RLIMIT_CPU, (int(used.ru_utime + used.ru_stime) + CPU_S, hard))
        try:
            said = answer(frame) if frame else {}
        except MemoryError:
            os.kill(os.getpid(), signal.SIGKILL)
        send(out, said)
