"""Ends a worker that makes no progress, so that its supervisor starts another one.

A stuck thread keeps its runs for ever: the lease beats on a thread of its own. So each of a worker's threads reports
its last progress, and one without any for ``LIMIT_S`` while it had work ends the process. A tool that never returns
keeps its thread: when a quarter of the pool is lost so, the worker drains and ends.
(docs/specification/durability.md)
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fabric.worker.host import RunHost

log = logging.getLogger(__name__)
LIMIT_S = 60.0
STUCK, WORN_OUT = 70, 75
"""Exit codes: a thread was stuck, and nothing was given back; too many tool threads were lost, and everything was."""

Progress = Callable[[], float | None]
"""Returns the time of a thread's last progress (seconds, monotonic); None: it has no work."""


def map_threads(host: RunHost) -> dict[str, Progress]:
    """Return the progress functions of a host's threads, by name."""
    own = {"the loop": host.loop.progress, "the claimer": host.claimer.progress, "the lease": host.lease.progress}
    return own | {"the writer": host.ports.writer.progress}


class Watchdog:
    """Looks every ``look_s`` seconds. ``worn_out``: returns True if the worker should go; then ``drain`` is called,
    and it ends.

    ``leave`` ends the process at once with a code (``os._exit``): a stuck thread would hold up any other end.
    """

    def __init__(
        self,
        progress: Mapping[str, Progress],
        worn_out: Callable[[], bool],
        drain: Callable[[], None],
        leave: Callable[[int], None],
        *,
        limit_s: float = LIMIT_S,
        look_s: float = 5.0,
    ) -> None:
        self._progress, self._worn_out, self._drain, self._leave = progress, worn_out, drain, leave
        self._limit_s, self._look_s = limit_s, look_s
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="fabric-watchdog", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """End it, for an orderly stop of the worker."""
        self._stop.set()

    def _watch(self) -> None:
        while not self._stop.wait(self._look_s):
            stuck = self.find_stuck(time.monotonic())
            if stuck:
                log.critical("%s has not moved for %.0f s: this worker ends, another one goes on", stuck, self._limit_s)
                self._leave(STUCK)
                return
            if self._worn_out():
                log.error("a quarter of the tool threads run calls that never returned: this worker drains and ends")
                self._drain()
                self._leave(WORN_OUT)
                return

    def find_stuck(self, now_s: float) -> str:
        """Return the name of a thread without progress for too long; empty: there is none."""
        for name, progress in self._progress.items():
            since = progress()
            if since is not None and now_s - since > self._limit_s:
                return name
        return ""
