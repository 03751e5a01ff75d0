"""Ends one command, and all its descendants, when `up` ends.

    python child.py PIPE [KEPT ...] -- COMMAND ...

1. `up` has the write end of PIPE. When it closes, because `up` ended in any way, the command gets one SIGTERM and
   ORPHAN_GRACE_S to obey; then it and all its descendants are killed.
2. One byte on the pipe means "kill now".
3. A SIGTERM to this process is passed on, once.
4. The command inherits the KEPT descriptors.
5. The exit code is the command's (128 + n for signal n).

The process makes itself a *subreaper* (prctl(2)), so a grandchild that detaches is still in its tree. The command
dies with it (PR_SET_PDEATHSIG), if the keeper is killed.
"""

import ctypes
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FrameType

ORPHAN_GRACE_S = 5.0
KILL = b"k"

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36


class Keeper:
    """Runs one command and answers for all of its descendants."""

    def __init__(self, command: Sequence[str], pipe: int, kept: Sequence[int]) -> None:
        self._pipe = pipe
        self._asked = False
        self._ended = threading.Event()
        self._command: subprocess.Popen[bytes] | None = None
        signal.signal(signal.SIGTERM, self._on_term)
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for `up` to turn into one SIGTERM.
        _prctl(_PR_SET_CHILD_SUBREAPER, 1)
        # preexec_fn is unsafe beside other threads; there are none yet.
        self._command = subprocess.Popen(command, pass_fds=kept, preexec_fn=_bind_to_keeper(os.getpid()))  # noqa: PLW1509
        if self._asked:  # The SIGTERM came before the command was started.
            self._command.terminate()

    def run(self) -> int:
        """Wait for the command to end, end its remaining descendants, and return its exit code."""
        threading.Thread(target=self._watch, name="pipe-watch", daemon=True).start()
        code = self._reap()
        self._ended.set()
        _kill_descendants()
        return code if code >= 0 else 128 - code

    def _on_term(self, _number: int, _frame: FrameType | None) -> None:
        if self._asked:
            return
        self._asked = True
        if self._command:
            self._command.terminate()

    def _reap(self) -> int:
        assert self._command is not None
        while True:
            pid, status = os.waitpid(-1, 0)  # Any child: orphans of the tree are this process's to bury.
            if pid == self._command.pid:
                self._command.returncode = os.waitstatus_to_exitcode(status)
                return self._command.returncode

    def _watch(self) -> None:
        if os.read(self._pipe, 1) != KILL:
            os.kill(os.getpid(), signal.SIGTERM)
            self._ended.wait(ORPHAN_GRACE_S)
        if not self._ended.is_set():
            for pid in descendants(os.getpid()):
                _kill(pid)


def descendants(ancestor: int) -> list[int]:
    """Return the process ids below `ancestor`, read from /proc; an empty list without /proc."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").glob("[0-9]*/stat"):
        try:
            # The command name, in parentheses, may hold anything: fields are counted from the last one.
            state, parent = entry.read_text(errors="replace").rpartition(")")[2].split()[:2]
        except OSError:
            continue  # It has ended since.
        if state != "Z":
            children.setdefault(int(parent), []).append(int(entry.parent.name))
    found = []
    frontier = [ancestor]
    while frontier:
        below = children.get(frontier.pop(), [])
        found += below
        frontier += below
    return found


def _kill_descendants() -> None:
    # Repeatedly: a killed process may have started another one, which this process inherits.
    while pids := descendants(os.getpid()):
        for pid in pids:
            _kill(pid)
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            return


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def _bind_to_keeper(keeper: int) -> Callable[[], None]:
    def before_exec() -> None:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # That the keeper ignores it is its own affair.
        _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != keeper:  # It died before the line above could take effect.
            os.kill(os.getpid(), signal.SIGKILL)

    return before_exec


def _prctl(option: int, value: int) -> None:
    if sys.platform == "linux":
        _LIBC.prctl(option, value, 0, 0, 0)


_LIBC = ctypes.CDLL(None)


def main(argv: Sequence[str]) -> int:
    """Run `PIPE [KEPT ...] -- COMMAND ...` and return the command's exit code."""
    at = argv.index("--")
    pipe, *kept = map(int, argv[:at])
    return Keeper(argv[at + 1 :], pipe, kept).run()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
