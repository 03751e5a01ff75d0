"""The lease of one worker incarnation: renewed on a thread of its own, given up when the database says that it was taken away."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from fabric.runtime.ports import JournalStore, StoreUnavailable

log = logging.getLogger(__name__)


class Lease:
    """Beats every ``beat_s`` seconds for a lease of ``lease_s``.

    Only the database says that a lease is lost, never this process's clock: while the database is away nobody can claim anything, and when it is back
    the same name goes on, so that an outage costs no answer that is still in memory. Runs that somebody else claimed meanwhile are fenced, one by one.
    ``on_lost`` is called when the incarnation was retired or is unknown; from then on ``name`` is a new incarnation's.
    """

    def __init__(
        self, store: JournalStore, incarnation: str, lease_s: float, beat_s: float, on_lost: Callable[[], None]
    ) -> None:
        self._store, self._base, self.name = store, incarnation, incarnation
        self._lives = 1
        self._lease_s, self._beat_s, self._on_lost = lease_s, beat_s, on_lost
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._beat, name="fabric-lease", daemon=True)

    def start(self) -> None:
        """Registers the incarnation and starts beating."""
        self._store.register(self.name, lease_s=self._lease_s)
        self._thread.start()

    def stop(self) -> None:
        """Stops beating and ends the lease at once, so that others need not wait for it to lapse."""
        self._stop.set()
        self._thread.join(timeout=5)
        try:
            self._store.retire(self.name)
        except StoreUnavailable as error:
            log.warning("the lease could not be given back and will lapse by itself: %s", error)

    def _beat(self) -> None:
        while not self._stop.wait(self._beat_s):
            try:
                if not self._store.beat(self.name, lease_s=self._lease_s):
                    self._register_again()
            except Exception as error:  # noqa: BLE001 - whatever it is, this thread goes on: without it no run would be kept.
                log.warning("heartbeat missed: %s", error)

    def _register_again(self) -> None:
        """Begins a new life: a retired name is never taken again, so that an old life's writes stay refused."""
        self._lives += 1
        name = f"{self._base}-{self._lives}"
        self._store.register(name, lease_s=self._lease_s)
        log.warning("the lease of %s was taken away; going on as %s", self.name, name)
        self.name = name
        self._on_lost()
