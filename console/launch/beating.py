"""Says that this process lives, to whoever watches it from outside: to `up` through a pipe, to systemd through its socket (sd_notify(3)), to a container's probe
by a file.

A thread beats, and to beat it needs the interpreter's lock: a process that was stopped, or in which something keeps that lock, beats no more. Nor does
one whose main thread has ended and which waits for others that do not.
"""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

BEAT_S = 5.0
PIPE = "BEAT_PIPE"
"""The environment variable by which `up` names the descriptor of its pipe."""
FILE = "BEAT_FILE"
"""The environment variable by which a container names a file that is touched with each beat, for its probe."""
SYSTEMD = "NOTIFY_SOCKET"


def beat_on(lives: Callable[[], bool] = lambda: True, *, every_s: float = BEAT_S) -> threading.Thread | None:
    """Starts the thread: a beat every so many seconds as long as the process ``lives``. None: nobody watches."""
    beats = _beats(os.environ)
    if not beats:
        return None

    def beat() -> None:
        ending = threading.Event()
        while threading.main_thread().is_alive():
            if lives():
                for one in beats:
                    with suppress(
                        OSError
                    ):  # A full pipe, or nobody there: whoever watches has heard enough, or has gone.
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
