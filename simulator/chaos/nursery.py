"""``python -m simulator.chaos.nursery``: workers in a moment, and word of their end.

It has imported everything that a worker needs and has done nothing yet; each worker is forked from it, because a thousand kills would otherwise be
an hour of imports. A line on standard input starts one, its arguments as JSON; ``{"pid"}`` and ``{"ended", "status"}`` come back. When standard
input closes it kills what is left and ends.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import sys
from importlib import import_module
from pathlib import Path

from simulator.chaos import skew

MODULES = (
    "celery.bin.celery",
    "celery.bin.worker",
    "celery.concurrency.thread",
    "console.celery",
    "fabric.adapters.providers.openai_compatible",
    "fabric.tasks",
    "fabric.wiring",
    "fabric.worker",
    "simulator.chaos.failpoints",
)
"""What a worker imports on its way up."""


def main(log: str, wall: Path) -> int:
    """Serves until standard input closes. ``log``: where workers say what they have to say; ``wall``: what sets their clocks."""
    _import_everything()
    watched = selectors.DefaultSelector()
    watched.register(sys.stdin.fileno(), selectors.EVENT_READ, 0)
    children: set[int] = set()
    buffer = b""
    while True:
        for key, _ in watched.select():
            if key.data:
                watched.unregister(key.fileobj)
                os.close(key.fd)
                children.discard(key.data)
                _say({"ended": key.data, "status": os.waitstatus_to_exitcode(os.waitpid(key.data, 0)[1])})
                continue
            chunk = os.read(sys.stdin.fileno(), 65_536)
            if not chunk:
                for pid in children:
                    os.kill(pid, signal.SIGKILL)
                return 0
            *lines, buffer = (buffer + chunk).split(b"\n")
            for line in lines:
                pid = _born(json.loads(line), log, wall)
                children.add(pid)
                watched.register(os.pidfd_open(pid), selectors.EVENT_READ, pid)
                _say({"pid": pid})


def _import_everything() -> None:
    import django

    django.setup()
    for module in MODULES:
        import_module(module)


def _born(arguments: list[str], log: str, wall: Path) -> int:
    pid = os.fork()
    if pid:
        return pid
    try:
        os.setsid()
        nothing, said = os.open(os.devnull, os.O_RDONLY), os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        for target, source in enumerate((nothing, said, said)):
            os.dup2(source, target)
        skew.wear(wall)
        from celery.bin.celery import main as celery_main

        sys.argv = ["celery", *arguments]
        with contextlib.suppress(SystemExit):
            celery_main()
    finally:
        os._exit(1 if sys.exc_info()[0] else 0)


def _say(said: dict[str, int]) -> None:
    os.write(sys.stdout.fileno(), json.dumps(said).encode() + b"\n")


if __name__ == "__main__":
    raise SystemExit(main(str(Path(sys.argv[1]).absolute()), Path(sys.argv[2])))
