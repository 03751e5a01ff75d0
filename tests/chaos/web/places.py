"""Places in a web server at which it dies, before and after each call by which a request changes something: FABRIC_FAULTS names ``wrap``.

A ticket is a file of the place's name in the folder that FABRIC_CHAOS names; the process that takes it away kills itself.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

from tests.chaos.faults.failpoints import FOLDER, ticket

CHANGES = ("create", "put_input", "withdraw_input", "hasten_input", "wake")
"""Everything that services call of the store and of the nudge, and that does not only read."""


class Around:
    """A port with its places around it."""

    def __init__(self, port: Any) -> None:
        self._port, self._folder = port, Path(os.environ[FOLDER])

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._port, name)
        if name not in CHANGES:
            return found

        def passing(*given: Any, **named: Any) -> Any:
            self._reach(f"{name}.before")
            done = found(*given, **named)
            self._reach(f"{name}.after")
            return done

        return passing

    def _reach(self, place: str) -> None:
        try:
            ticket(self._folder, place).unlink()
        except FileNotFoundError:
            return
        os.kill(os.getpid(), signal.SIGKILL)


def wrap(name: str, port: Any) -> Any:
    """Return what FABRIC_FAULTS names."""
    return Around(port)
