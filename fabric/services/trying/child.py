"""The child process that makes trials: ``python -m fabric.services.trying.child``. Its memory and its time are bounded by the kernel.

Frames as those of ``fabric.adapters.tools.child``. In: ``{"draft", "path", "sample"}``, or ``{}``, which is answered as soon as it is ready. Out:
``{"verdict", "lines"}``, or ``{"refused": {"message", "code", "field"}}``. It ends with its parent; in a loop at the latest when its time is over.
"""

from __future__ import annotations

import os
import resource
import signal
import sys
from dataclasses import asdict
from typing import Any

from fabric.adapters.tools.child import receive, send
from fabric.services.errors import Refused
from fabric.services.trying.shapes import Tried, TriedLine
from fabric.services.trying.trials import made

JSON = Any
MEMORY_BYTES = 512 * 1024 * 1024
"""Of address space; an idle child has 90 MB."""
NO_ROOM = "It needed more memory than a trial has and was stopped: make what it asks simpler."
CPU_S = 30
"""Seconds of processor time for one trial: whoever asked has gone, else it were ended before."""


def main() -> None:
    """Makes one trial after the other until the parent goes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    while (frame := receive(sys.stdin.buffer)) is not None:
        used = resource.getrusage(resource.RUSAGE_SELF)
        hard = resource.getrlimit(resource.RLIMIT_CPU)[1]
        resource.setrlimit(resource.RLIMIT_CPU, (int(used.ru_utime + used.ru_stime) + CPU_S, hard))
        send(out, _answer(frame) if frame else {})


def _answer(frame: JSON) -> JSON:
    try:
        return asdict(made(frame["draft"], frame["path"], frame["sample"]))
    except Refused as refused:
        return {"refused": {"message": refused.message, "code": refused.code, "field": refused.field}}
    except MemoryError:
        return asdict(Tried("error", (TriedLine("error", NO_ROOM),)))


if __name__ == "__main__":
    main()
