"""Wake-ups through the broker, for hosts on other machines: one message a wake-up, and none to a broker that did not take the last."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping

from fabric.runtime.ports import Nudge

log = logging.getLogger(__name__)
SKIP_S = 5.0
"""How long a broker is left alone after it failed. A caller is a request: it may wait for a connection once, not each time."""
SAME_S = 1.0
"""How long after a local nudge a message about the same run is taken for the one that was sent with it."""


class Lately:
    """The runs of which a local nudge was heard a moment ago: the one message that was sent with it says nothing new. Any thread.

    Whoever is nudged locally asks the database at once; asked again for the message, it would read the same inputs a second time while the run is
    being written. Nothing is taken for known where no nudge comes through, and none of it for longer than ``SAME_S``.
    """

    def __init__(self, monotonic_s: Callable[[], float] = time.monotonic) -> None:
        self._monotonic_s = monotonic_s
        self._lock = threading.Lock()
        self._at: dict[str, float] = {}
        """The oldest first."""

    def heard(self, run_ids: Iterable[str]) -> None:
        """Local nudges about these runs came through."""
        now = self._monotonic_s()
        with self._lock:
            for run_id in run_ids:
                self._at.pop(run_id, None)
                self._at[run_id] = now
            while self._at and now - self._at[first := next(iter(self._at))] > SAME_S:
                del self._at[first]  # Its message went to another worker.

    def knew(self, run_id: str) -> bool:
        """Whether a message about the run says what was heard; the next one does not."""
        with self._lock:
            at = self._at.pop(run_id, None)
        return at is not None and self._monotonic_s() - at <= SAME_S


class BrokerNudge:
    """Wakes hosts by the local nudge and by one message of the broker; losing both costs latency, nothing else.

    While the broker is away one caller in ``SKIP_S`` seconds waits for it, and the others do not even try.
    """

    def __init__(
        self, local: Nudge, send: Callable[[str], None], monotonic_s: Callable[[], float] = time.monotonic
    ) -> None:
        self._local, self._send, self._monotonic_s = local, send, monotonic_s
        self._lock = threading.Lock()
        self._left_until: float | None = None
        """Until when nobody tries; None: the last message was taken."""

    def wake(self, run_id: str) -> None:
        """Offers the run to a worker. Never raises."""
        self._local.wake(run_id)
        if not self._may_try():
            return
        try:
            self._send(run_id)
        except Exception as error:  # noqa: BLE001 - a message is only a wake-up; the sweep finds the run.
            self._failed(error)
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

    def _failed(self, error: Exception) -> None:
        with self._lock:
            known, self._left_until = self._left_until, self._monotonic_s() + SKIP_S
        if known is None:
            log.warning("the broker does not take wake-ups, runs are found by looking every few seconds: %s", error)

    def told(self, run_seqs: Mapping[str, int]) -> None:
        """Says how far journals reach."""
        self._local.told(run_seqs)
