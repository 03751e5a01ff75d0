"""Keeps a few processes alive until it is stopped, and ends them with itself in any case.

1. A child that beats (console.launch.processes.heartbeat) and falls silent hangs: it is killed, and started again as
   if it had died.
2. Each child runs under a keeper (console.launch.processes.keeper) in a session of its own. So a terminal's Ctrl-C
   reaches only the supervisor, which sends each child exactly one SIGTERM.
"""

import os
import select
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import FrameType

from console.launch.processes.commands import KeptCommand
from console.launch.processes.data_directory import ROOT
from console.launch.processes.heartbeat import LOOK_S, PIPE, SILENCE_S, Silence

STOP_GRACE_S = 35.0  # A worker lets its calls finish for 30 s and then needs a moment to write down where it stopped.
KILL_GRACE_S = 5.0
HEALTHY_AFTER_S = 5.0
BACKOFF_FIRST_S = 0.25
BACKOFF_LAST_S = 5.0
HOPELESS_AFTER = 5
REPEAT_S = (
    0.5  # A second signal sooner than this is the same stop: `timeout`, and a closing terminal, send two at once.
)

# Signals from outside. Any other one (SIGSEGV, SIGABRT ...) is a failure of the process itself.
_FROM_OUTSIDE = frozenset({signal.SIGHUP, signal.SIGINT, signal.SIGKILL, signal.SIGTERM})

Say = Callable[[str], None]


@dataclass(frozen=True)
class ChildSpec:
    """One process to keep alive."""

    name: str
    command: Sequence[str]
    kept_fds: tuple[int, ...] = ()
    """Descriptors that the command inherits, such as a listening socket."""
    beats: bool = False
    """True if it beats, and is replaced when it falls silent."""


@dataclass
class Backoff:
    """Delay before the next start: doubling, bounded, reset once a child has lived for a while."""

    first_s: float = BACKOFF_FIRST_S
    fruitless: int = 0
    """Number of successive ends by the child's own failure before HEALTHY_AFTER_S."""
    _doublings: int = 0

    def after(self, lived_s: float, exit_code: int) -> float:
        """Return the seconds to wait after a child that lived `lived_s` ended with `exit_code`."""
        if lived_s >= HEALTHY_AFTER_S:
            self._doublings = self.fruitless = 0
        # It was not asked to stop, so an end with code 0 is a failure too.
        if _read_signal(exit_code) not in _FROM_OUTSIDE:
            self.fruitless += 1
        delay = min(self.first_s * 2**self._doublings, BACKOFF_LAST_S)
        self._doublings = min(self._doublings + 1, 16)
        return delay


@dataclass
class _Child:
    spec: ChildSpec
    backoff: Backoff
    silence_s: float = SILENCE_S
    kept: KeptCommand | None = None
    silence: Silence | None = None
    started_at: float = 0.0
    start_at: float = 0.0

    def start(self, shared_fds: Sequence[int]) -> None:
        fds, environ = self.spec.kept_fds, None
        if self.spec.beats:
            self.silence = Silence(self.silence_s)
            fds, environ = (*fds, self.silence.write), {**os.environ, PIPE: str(self.silence.write)}
        try:
            self.kept = KeptCommand(self.spec.command, kept_fds=fds, shared_fds=shared_fds, cwd=ROOT, environ=environ)
        finally:
            if self.silence is not None:
                os.close(self.silence.write)
        self.started_at = time.monotonic()

    def hangs(self) -> float:
        """Return the seconds of silence of a hanging child, else 0."""
        if self.kept is None or self.silence is None:
            return 0.0
        self.silence.look(time.monotonic())
        silent_s = self.silence.silent_s if self.silence.over else 0.0
        if silent_s:
            self.silence.forgive()  # It takes a moment to be gone.
        return silent_s

    def buried(self) -> int | None:
        """Return the exit code of a process that has ended since the last call, else None."""
        if self.kept is None or (code := self.kept.ended()) is None:
            return None
        self.kept.close()
        self.kept = None
        if self.silence is not None:
            self.silence.close()
            self.silence = None
        return code


class Supervisor:
    """Runs the children until SIGINT, SIGTERM or SIGHUP. For the main thread: it takes the process's signals.

    `shared_fds`: the keepers keep them open, but not the commands, so that a lock among them lasts as long as the
    keepers.
    """

    def __init__(
        self,
        specs: Sequence[ChildSpec],
        *,
        shared_fds: Sequence[int] = (),
        say: Say,
        backoff_s: float = BACKOFF_FIRST_S,
        repeat_s: float = REPEAT_S,
        silence_s: float = SILENCE_S,
    ) -> None:
        self._children = [_Child(spec, Backoff(backoff_s), silence_s) for spec in specs]
        self._shared_fds = shared_fds
        self._say = say
        self._repeat_s = repeat_s
        self._stops = 0
        self._stopped_at = 0.0
        self._wake_read, self._wake_write = os.pipe()
        for descriptor in (self._wake_read, self._wake_write):
            os.set_blocking(descriptor, False)
        # Every signal, SIGCHLD included, writes a byte: the loop waits for that byte and nothing else.
        signal.set_wakeup_fd(self._wake_write, warn_on_full_buffer=False)
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._on_stop)
        if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:  # Else `nohup` says that a closing terminal is no reason.
            signal.signal(signal.SIGHUP, self._on_stop)
        signal.signal(signal.SIGCHLD, lambda _number, _frame: None)

    def run(self) -> int:
        """Keep the children alive until stopped; return 0, or 1 if a child could not be started."""
        hopeless = None
        while not self._stops and hopeless is None:
            for child in self._children:
                self._bury(child)
                self._end_hanging(child)
                if child.backoff.fruitless >= HOPELESS_AFTER:
                    hopeless = child
                elif child.kept is None and time.monotonic() >= child.start_at:
                    child.start(self._shared_fds)
            if hopeless is None:
                self._wait(self._next_look())
        if hopeless is None:
            self._say("Stopping: calls under way may end, for up to 30 s. Ctrl-C again stops at once.")
        else:
            self._say(
                f"The {hopeless.spec.name} failed {HOPELESS_AFTER} times at its start: its messages above say why."
            )
        self._stop()
        return 0 if hopeless is None else 1

    def _next_look(self) -> float | None:
        looks = [child.start_at for child in self._children if child.kept is None]
        if any(child.spec.beats for child in self._children):
            looks.append(time.monotonic() + LOOK_S)
        return min(looks, default=None)

    def _end_hanging(self, child: _Child) -> None:
        if (silent_s := child.hangs()) and child.kept is not None:
            self._say(f"The {child.spec.name} has given no sign of life for {silent_s:.0f} s: it is killed.")
            child.kept.kill()

    def _bury(self, child: _Child) -> None:
        code = child.buried()
        if code is None:
            return
        now = time.monotonic()
        delay = child.backoff.after(now - child.started_at, code)
        child.start_at = now + delay
        after = "" if child.backoff.fruitless >= HOPELESS_AFTER else f"; starting it again in {delay:g} s"
        self._say(f"The {child.spec.name} {_describe_end(code)}{after}.")

    def _stop(self) -> None:
        for _, kept in self._living():
            kept.stop()
        self._await_ends(STOP_GRACE_S)
        for name, kept in self._living():
            self._say(f"The {name} has not stopped yet; killing it.")
            kept.kill()
        self._await_ends(KILL_GRACE_S, patient=True)
        for _, kept in self._living():
            kept.process.kill()
            kept.process.wait()

    def _await_ends(self, seconds: float, *, patient: bool = False) -> None:
        until = time.monotonic() + seconds
        stops = max(self._stops, 1)
        while self._living() and time.monotonic() < until and (patient or self._stops <= stops):
            self._wait(until)

    def _living(self) -> list[tuple[str, KeptCommand]]:
        return [(child.spec.name, child.kept) for child in self._children if child.buried() is None and child.kept]

    def _wait(self, until: float | None) -> None:
        timeout = None if until is None else max(0.0, until - time.monotonic())
        select.select([self._wake_read], [], [], timeout)
        try:
            while os.read(self._wake_read, 4096):
                pass
        except BlockingIOError:
            pass

    def _on_stop(self, _number: int, _frame: FrameType | None) -> None:
        now = time.monotonic()
        if not self._stops or now - self._stopped_at >= self._repeat_s:
            self._stops += 1
            self._stopped_at = now


def _read_signal(code: int) -> int:
    return -code if code < 0 else max(0, code - 128)


def _describe_end(code: int) -> str:
    number = _read_signal(code)
    if number == signal.SIGKILL:
        return "was killed (signal 9: by a person, or by the system because memory ran out)"
    return f"was ended by signal {number}" if number else f"ended with exit code {code}"
