"""Wake-ups through the broker, for hosts on other machines: one message a wake-up, and none while the broker refuses
them.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping

from fabric.runtime.ports.journal import Nudge

log = logging.getLogger(__name__)
SKIP_S = 5.0
"""Seconds for which a failed broker is left alone. A caller is a request: it may wait for a connection once, not
each time.
"""
SAME_S = 1.0
"""Seconds after a local nudge in which a message about its run counts as the one sent with it."""


class RecentNudges:
    """The runs of recent local nudges, whose accompanying message is not news. Safe on any thread.

    A local nudge makes the host read the database at once. Reading again for the message would fetch the inputs a
    second time while the run is being written. Without local nudges nothing is skipped, and nothing for longer than
    ``SAME_S``.
    """

    def __init__(self, monotonic_s: Callable[[], float] = time.monotonic) -> None:
        self._monotonic_s = monotonic_s
        self._lock = threading.Lock()
        self._at: dict[str, float] = {}
        """Times of local nudges by run, the oldest first."""

    def record_nudges(self, run_ids: Iterable[str]) -> None:
        """Record local nudges about these runs."""
        now = self._monotonic_s()
        with self._lock:
            for run_id in run_ids:
                self._at.pop(run_id, None)
                self._at[run_id] = now
            while self._at and now - self._at[first := next(iter(self._at))] > SAME_S:
                del self._at[first]  # Its message went to another worker.

    def knew(self, run_id: str) -> bool:
        """Return True if a message about the run repeats a local nudge; the next message does not."""
        with self._lock:
            at = self._at.pop(run_id, None)
        return at is not None and self._monotonic_s() - at <= SAME_S


class BrokerNudge:
    """Wakes hosts by the local nudge and by one message of the broker; losing both costs only latency.

    While the broker is away one caller in ``SKIP_S`` seconds waits for it, and the others do not even try.
    """

    def __init__(
        self, local: Nudge, send: Callable[[str], None], monotonic_s: Callable[[], float] = time.monotonic
    ) -> None:
        self._local, self._send, self._monotonic_s = local, send, monotonic_s
        self._lock = threading.Lock()
        self._left_until: float | None = None
        """End of the pause without tries; None: the last message was accepted."""

    def wake(self, run_id: str) -> None:
        """Offer the run to a worker. Never raises."""
        self._local.wake(run_id)
        if not self._may_try():
            return
        try:
            self._send(run_id)
        except Exception as error:  # noqa: BLE001 - a message is only a wake-up; the sweep finds the run.
            self._log_failure(error)
        else:
            self._left_until = None

    def _may_try(self) -> bool:
        with self._lock:
            if self._left_until is None:
                return True
            now = self._monotonic_s()
            if now < self._left_until:
                return False
            # This caller tries; those who come meanwhile do not wait with it.
            self._left_until = now + SKIP_S
            return True

    def _log_failure(self, error: Exception) -> None:
        with self._lock:
            known, self._left_until = self._left_until, self._monotonic_s() + SKIP_S
        if known is None:
            log.warning("the broker does not take wake-ups, runs are found by looking every few seconds: %s", error)

    def announce(self, run_seqs: Mapping[str, int]) -> None:
        """Send how far journals reach."""
        self._local.announce(run_seqs)
