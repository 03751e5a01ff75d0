"""Renews the lease of one worker incarnation on a thread of its own. The worker gives it up when the database reports
it as taken away.
"""

from __future__ import annotations

import logging
import secrets
import threading
import time
from collections.abc import Callable

from fabric.runtime.ports.journal import Clock, JournalStore, StoreUnavailable
from fabric.stores.errors import IncarnationRetired
from fabric.worker.process.clock import SYSTEM_CLOCK, Elapsed, MeasuredClock, elapsed_s

log = logging.getLogger(__name__)
MARGIN = 0.1
"""Share at the end of a lease that is not used. Clocks run at different speeds, and a request takes time to leave."""


class Lease:
    """Renews a lease of ``lease_s`` every ``beat_s`` seconds.

    1. Only the database decides that a lease is lost, never this process's clock.
    2. While the database is away no worker can claim anything, and afterwards the incarnation goes on under its name.
       So an outage costs no answer
       that is still in memory. Runs that another worker claimed meanwhile are fenced, one by one.
    3. ``on_lost`` is called when the incarnation was retired or is unknown; from then on ``name`` is a new
       incarnation's.
    4. A name that another process uses is left to it: with one lease for two, either's end would free the other's
       runs.
    5. ``clock`` gets the store's time with each beat.

    By ``elapsed`` the lease knows how long its runs are safe from other workers: one lease from the *start* of the
    last confirmed beat (``covers``). A *term* is a stretch in which each beat was confirmed before the lease of the
    one before was over: a run that was surely owned at some time of a term is owned until its end.
    """

    def __init__(
        self,
        store: JournalStore,
        incarnation: str,
        lease_s: float,
        beat_s: float,
        on_lost: Callable[[], None],
        clock: Clock = SYSTEM_CLOCK,
        *,
        elapsed: Elapsed = elapsed_s,
    ) -> None:
        self._store, self._base, self.name = store, incarnation, incarnation
        self._lives = 1
        self._token = secrets.randbits(62)
        self.refused = 0
        """Number of batches that were refused as another worker's. The owner counts it; the beats of this
        incarnation report it.
        """
        self._told = self._told_before = 0
        self._lease_s, self._beat_s, self._on_lost, self._clock = lease_s, beat_s, on_lost, clock
        self._elapsed = elapsed
        self._held = 0, float("-inf")
        """The term, and the beginning of its last confirmed beat. One value: the loop reads it while a beat sets it."""
        self._moved_at: float | None = None
        self._stop = threading.Event()
        self._wanted = threading.Event()
        self._thread = threading.Thread(target=self._beat, name="fabric-lease", daemon=True)

    def start(self) -> None:
        """Register the incarnation and start beating. The first beat is at once, so that the clock is the store's from
        the beginning.
        """
        self.name = self._register_name(self.name)
        self._beaten(0)
        self._thread.start()

    def beat_soon(self) -> None:
        """Renew the lease without waiting: there is reason to think that the incarnation is gone."""
        self._wanted.set()

    @property
    def term(self) -> int:
        """Return the number of the term with the last confirmed beat."""
        return self._held[0]

    def covers(self, term: int) -> bool:
        """Return True if no other worker can have claimed a run that this incarnation owned during that term."""
        current, began = self._held
        return term == current and self._elapsed() < began + (1 - MARGIN) * self._lease_s

    def progress(self) -> float | None:
        """Return the time at which the last beat began (seconds, monotonic)."""
        return self._moved_at

    def stop(self) -> None:
        """Stop beating and end the lease at once, so that others need not wait for it to lapse."""
        self._stop.set()
        self._wanted.set()
        self._thread.join(timeout=5)
        try:
            if self.refused != self._told:
                self._store.beat(self.name, lease_s=self._lease_s, refused=self.refused - self._told_before)
            self._store.retire(self.name)
        except StoreUnavailable as error:
            log.warning("the lease could not be given back and will lapse by itself: %s", error)

    def _beat(self) -> None:
        while True:
            self._wanted.wait(self._beat_s)
            self._wanted.clear()
            self._moved_at = time.monotonic()
            if self._stop.is_set():
                return
            try:
                refused, began = self.refused, self._elapsed()
                if self._beaten(refused - self._told_before):
                    self._told = refused
                    self._confirm_beat(began)
                else:
                    self._register_again()
            except Exception as error:  # noqa: BLE001 - whatever it is, this thread goes on: without it no run would be kept.
                log.warning("heartbeat missed: %s", error)

    def _beaten(self, refused: int) -> bool:
        asked = self._elapsed()
        us = self._store.beat(self.name, lease_s=self._lease_s, refused=refused)
        if us and isinstance(self._clock, MeasuredClock):
            self._clock.record_measurement(us, asked, self._elapsed())
        return us > 0

    def _register_again(self) -> None:
        """Register a new incarnation: a retired name is never taken again, so that old writes stay refused."""
        self._lives += 1
        name = self._register_name(f"{self._base}-{self._lives}")
        log.warning("the lease of %s was taken away; going on as %s", self.name, name)
        self.name = name
        self._told_before = self._told
        self._on_lost()

    def _register_name(self, name: str) -> str:
        """Register ``name``, or the first of its successors that is free, and return it."""
        while True:
            began = self._elapsed()
            try:
                self._store.register(name, lease_s=self._lease_s, token=self._token)
            except IncarnationRetired as error:
                self._lives += 1
                log.warning("%s", error)
                name = f"{self._base}-{self._lives}"
            else:
                self._held = self._held[0] + 1, began
                return name

    def _confirm_beat(self, began: float) -> None:
        """Record a confirmed beat. One that came after the end of the lease before it begins a new term: others may
        have claimed runs.
        """
        term, before = self._held
        late = self._elapsed() >= before + self._lease_s
        self._held = term + late, began
        if late:
            self._wanted.set()  # This one may be over already.
