"""``python -m tests.chaos.processes.nursery``: processes of an installation in a moment, and word of their end.

It has imported everything that they need and has done nothing yet; each is forked from it, because a thousand kills would otherwise be an hour of
imports. A line of JSON on standard input, which is a socket, starts one: ``{"name", "work"}`` with what ``WORKS`` says, and where it speaks with
a process its own socket beside the line. ``{"name", "pid"}`` and ``{"name", "ended", "status"}`` come back. When standard input closes it kills what is
left and ends.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import selectors
import signal
import socket
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tests.chaos.processes import skew

MODULES = (
    "celery.app.amqp",
    "celery.app.control",
    "celery.apps.worker",
    "celery.bin.celery",
    "celery.bin.worker",
    "celery.concurrency.thread",
    "celery.worker.components",
    "celery.worker.consumer.control",
    "celery.worker.consumer.delayed_delivery",
    "celery.worker.consumer.tasks",
    "celery.worker.loops",
    "celery.worker.strategy",
    "console.celery",
    "console.site.file_broker",
    "fabric.providers.openai_compatible",
    "fabric.services.runs.control",
    "fabric.services.reviews.decisions",
    "fabric.services.fabrics.revisions",
    "fabric.services.runs.start",
    "fabric.tasks",
    "fabric.composition.engine",
    "fabric.composition.worker",
    "tests.chaos.faults.failpoints",
    "tests.chaos.processes.starter",
    "simulator.agents.provider",
)
"""What they import on their way up."""
FDS_MAX = 16


class Nursery:
    """The processes that were born here and live."""

    def __init__(self, log: str) -> None:
        self._log = log
        self._children: dict[int, str] = {}
        self._asks = socket.socket(fileno=sys.stdin.fileno())
        self._fds: list[int] = []
        self._watched = selectors.DefaultSelector()
        self._watched.register(self._asks, selectors.EVENT_READ, 0)

    def serve(self) -> None:
        """Until standard input closes."""
        buffer = b""
        while True:
            for key, _ in self._watched.select():
                if key.data:
                    self._ended(key.fd, key.data)
                    continue
                chunk, fds, _, _ = socket.recv_fds(self._asks, 65_536, FDS_MAX)
                if not chunk:
                    for pid in self._children:
                        os.kill(pid, signal.SIGKILL)
                    return
                self._fds += fds
                *lines, buffer = (buffer + chunk).split(b"\n")
                for line in lines:
                    self._start(json.loads(line))

    def _start(self, asked: Mapping[str, Any]) -> None:
        speaks = self._fds.pop(0) if asked.get("speaks") else None
        pid = _born(asked, self._log, speaks, self._fds)
        if speaks is not None:
            os.close(speaks)
        self._children[pid] = asked["name"]
        self._watched.register(os.pidfd_open(pid), selectors.EVENT_READ, pid)
        _say({"name": asked["name"], "pid": pid})

    def _ended(self, pidfd: int, pid: int) -> None:
        self._watched.unregister(pidfd)
        os.close(pidfd)
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        _say({"name": self._children.pop(pid), "ended": pid, "status": status})


def main(log: str) -> int:
    """Serves until standard input closes. ``log``: where those that are born say what they have to say."""
    _import_everything()
    Nursery(log).serve()
    return 0


def _import_everything() -> None:
    import django

    django.setup()
    for module in MODULES:
        import_module(module)
    gc.collect()
    gc.freeze()  # Otherwise each child's first collection touches, and so copies, all of it.


def _born(asked: Mapping[str, Any], log: str, speaks: int | None, others: Sequence[int]) -> int:
    pid = os.fork()
    if pid:
        return pid
    try:
        os.setsid()
        for one in others:  # Whose end would not be heard as long as this one lives.
            os.close(one)
        said = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        heard = os.open(os.devnull, os.O_RDONLY) if speaks is None else speaks
        for target, source in enumerate((heard, said if speaks is None else speaks, said)):
            os.dup2(source, target)
        with contextlib.suppress(SystemExit):
            WORKS[asked["work"]](asked)
    finally:
        os._exit(1 if sys.exc_info()[0] else 0)


def _worker(asked: Mapping[str, Any]) -> None:
    if asked["database"]:
        _reach_by(asked["database"])
    skew.wear(Path(asked["wall"]))
    from celery.bin.celery import main as celery_main

    sys.argv = ["celery", *asked["arguments"]]
    celery_main()


def _reach_by(address: str) -> None:
    """Another way to the same database: the settings were read when it had not been said yet."""
    from django.db import connections

    os.environ["DATABASE_URL"] = address
    parts = urlsplit(address)
    connections.settings["default"].update(HOST=parts.hostname, PORT=str(parts.port))


def _starter(asked: Mapping[str, Any]) -> None:
    from tests.chaos.processes import starter

    starter.main()


def _manage(asked: Mapping[str, Any]) -> None:
    from django.core.management import call_command

    call_command(*asked["arguments"])


WORKS: Mapping[str, Callable[[Mapping[str, Any]], None]] = {
    "worker": _worker,  # ``arguments`` of Celery's, ``wall``: what sets its clock, ``database``: the address it goes by, if that is its own.
    "starter": _starter,  # It speaks.
    "manage": _manage,  # ``arguments`` of a management command.
}
"""What one can be born for."""


def _say(said: Mapping[str, Any]) -> None:
    os.write(sys.stdout.fileno(), json.dumps(said).encode() + b"\n")


if __name__ == "__main__":
    raise SystemExit(main(str(Path(sys.argv[1]).absolute())))
