"""The tests of real processes share ways to wait for them, never for a time."""

import os
import select
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

PATIENCE_S = 120.0  # Only ever waited out by a test that fails: longer than a machine with much else to do takes.


def readable(descriptor: int) -> bool:
    """Wait until there is something to read. By poll: a test process may have more descriptors than select takes."""
    waiting = select.poll()
    waiting.register(descriptor, select.POLLIN)
    return bool(waiting.poll(PATIENCE_S * 1_000))


class Lines:
    """Reads lines from a descriptor. End of file says that no process has its other end open any more."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._buffer = b""

    def next(self) -> str:
        """Return the next line, which may be an empty one. EOFError when all processes have closed the other end."""
        while b"\n" not in self._buffer:
            ready = readable(self._descriptor)
            assert ready, f"nothing was said for {PATIENCE_S} s after {self._buffer!r}"
            chunk = os.read(self._descriptor, 4096)
            if not chunk:
                raise EOFError(f"the last that was said: {self._buffer!r}")
            self._buffer += chunk
        line, _, self._buffer = self._buffer.partition(b"\n")
        return line.decode()

    def until(self, words: str) -> str:
        """Return the first line that has these words. EOFError with what was said instead."""
        passed = []
        try:
            while words not in (line := self.next()):
                passed.append(line)
        except EOFError as error:
            raise EOFError(f"no process said {words!r}, but: {passed}; {error}") from None
        return line

    def rest(self) -> list[str]:
        """Return the lines that are left, once the other end is closed."""
        lines = []
        try:
            while True:
                lines.append(self.next())
        except EOFError:
            return lines


def wait_for_end(pid: int) -> None:
    """Wait until the process has ended; it need not be a child of this one."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        ready = readable(descriptor)
    finally:
        os.close(descriptor)
    assert ready, f"process {pid} is still there after {PATIENCE_S} s"


@contextmanager
def started(command: list[str], **options) -> Iterator[subprocess.Popen[bytes]]:
    """Run a process that is killed at the end of the block if it is still there."""
    process = subprocess.Popen(command, **options)
    try:
        yield process
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGKILL)
        process.wait(PATIENCE_S)
        for stream in (process.stdin, process.stdout, process.stderr):
            if stream:
                stream.close()
