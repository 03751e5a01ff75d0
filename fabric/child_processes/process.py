"""A child process that answers one frame after another, and can be ended at any time."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Mapping
from typing import IO

from fabric.child_processes.frames import receive, send
from fabric.core.values.units import JSON
from fabric.secrets.known_secrets import KNOWN

LINE_BYTES_MAX = 64 * 1024
"""Largest printed line of a child, in bytes; a longer one is passed on in parts."""


class ChildDied(Exception):
    """The child ended during the call, by the tool itself or from outside. The effect of the call is unknown."""


class ChildProcess:
    """A process that runs a module, with the pipes that carry its frames (``frames.py``). ``calls``: number of its
    calls so far.

    ``environment``: its environment besides the module path, which has the working directory only if ours has it.
    """

    def __init__(self, module: str, environment: Mapping[str, str]) -> None:
        found = os.pathsep.join(path for path in sys.path if path)
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-m", module],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**environment, "PYTHONPATH": found},
        )
        self.environment, self.calls = environment, 0
        threading.Thread(target=_pass_on, args=(self.process.stderr,), name="child-stderr", daemon=True).start()

    def ask(self, frame: JSON) -> JSON:
        """Return its answer to a frame. Raises ChildDied when it ends without one."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.calls += 1
        try:
            send(self.process.stdin, frame)
            said = receive(self.process.stdout)
        except OSError:
            said = None
        if said is None:
            raise ChildDied(f"its process ended while it was running (exit code {self.end()})")
        return said

    def end(self) -> int:
        """End it in any state, and return its exit code."""
        self.process.kill()  # The other thread passes its output on to its end, and closes that pipe.
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                try:
                    pipe.close()
                except OSError:
                    pass  # Unwritten bytes are lost.
        return self.process.wait()


def _pass_on(printed: IO[bytes]) -> None:
    """Copy a child's output to this process's standard error, with known secrets masked."""
    with printed:
        while line := printed.readline(LINE_BYTES_MAX):
            sys.stderr.write(KNOWN.mask_text(line.decode("utf-8", "replace")))
            sys.stderr.flush()
