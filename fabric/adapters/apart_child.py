"""What a child process does whose memory and time the kernel bounds: it answers one frame after the other.

Frames as those of ``fabric.adapters.tools.child``; an empty one is answered as soon as it is ready. It ends with its parent; in a loop at the latest when its time is over.
"""

from __future__ import annotations

import os
import resource
import signal
import sys
from collections.abc import Callable
from typing import Any

from fabric.adapters.tools.child import receive, send

JSON = Any
MEMORY_BYTES = 512 * 1024 * 1024
"""Of address space; an idle child of trials has 90 MB."""
CPU_S = 30
"""Seconds of processor time for one frame: whoever asked has gone, else it were ended before."""


def serve(answer: Callable[[JSON], JSON]) -> None:
    """Answers until the parent goes. What has no room in memory ends the process."""
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
