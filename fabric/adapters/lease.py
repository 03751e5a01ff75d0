"""The lease of one worker incarnation: renewed on a thread of its own, given up when the database says that it was taken away."""

from __future__ import annotations

import logging
import secrets
import threading
import time
from collections.abc import Callable

from fabric.adapters.clock import SYSTEM_CLOCK, Measured
from fabric.adapters.elapsed import Elapsed, elapsed_s
from fabric.adapters.store_errors import IncarnationRetired
from fabric.runtime.ports import Clock, JournalStore, StoreUnavailable

log = logging.getLogger(__name__)
MARGIN = 0.1
"""Share of a lease at its end that is not used: clocks run at different speeds, and what is sent takes time to leave."""


class Lease:
    """Beats every ``beat_s`` seconds for a lease of ``lease_s``.

    Only the database says that a lease is lost, never this process's clock. While the database is away nobody can claim anything, and when it is back
    the same name goes on. So an outage costs no answer that is still in memory. Runs that somebody else claimed meanwhile are fenced, one by one.
    ``on_lost`` is called when the incarnation was retired or is unknown; from then on ``name`` is a new incarnation's. A name that another process
    goes by is left to it: with one lease for two, either's end would free the other's runs. ``clock``: told the store's with each beat.

    What it does know, by ``elapsed``, is how long nobody else can have taken its runs: a lease from the *start* of the last beat that was confirmed
    (``covers``). A stretch in which each beat was confirmed before the lease of the one before was over is a *term*: a run that was surely owned
    at some time of a term is owned until its end.
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
        """Batches that were refused as another's. Counted by its owner, told to the store with the beats of the life they fall in."""
        self._told = self._told_before = 0
        self._lease_s, self._beat_s, self._on_lost, self._clock = lease_s, beat_s, on_lost, clock
        self._elapsed = elapsed
        self._held = 0, float("-inf")
        """The term, and when the last beat of it that was confirmed began. One value: the loop reads it while a beat sets it."""
        self._moved_at: float | None = None
        self._stop = threading.Event()
        self._wanted = threading.Event()
        self._thread = threading.Thread(target=self._beat, name="fabric-lease", daemon=True)

    def start(self) -> None:
        """Registers the incarnation and starts beating; the first beat is at once, so that the clock is the store's from the beginning."""
        self.name = self._registered(self.name)
        self._beaten(0)
        self._thread.start()

    def beat_soon(self) -> None:
        """Beats without waiting for its time: somebody has reason to think that the incarnation is no more."""
        self._wanted.set()

    @property
    def term(self) -> int:
        """The stretch without a gap that the last confirmed beat belongs to."""
        return self._held[0]

    def covers(self, term: int) -> bool:
        """Whether nobody can have taken a run by now that was this incarnation's at some time of that term."""
        current, began = self._held
        return term == current and self._elapsed() < began + (1 - MARGIN) * self._lease_s

    def progress(self) -> float | None:
        """When it last began to beat (seconds, monotonic)."""
        return self._moved_at

    def stop(self) -> None:
        """Stops beating and ends the lease at once, so that others need not wait for it to lapse."""
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
                    self._confirmed(began)
                else:
                    self._register_again()
            except Exception as error:  # noqa: BLE001 - whatever it is, this thread goes on: without it no run would be kept.
                log.warning("heartbeat missed: %s", error)

    def _beaten(self, refused: int) -> bool:
        asked = self._elapsed()
        us = self._store.beat(self.name, lease_s=self._lease_s, refused=refused)
        if us and isinstance(self._clock, Measured):
            self._clock.measured(us, asked, self._elapsed())
        return us > 0

    def _register_again(self) -> None:
        """Begins a new life: a retired name is never taken again, so that an old life's writes stay refused."""
        self._lives += 1
        name = self._registered(f"{self._base}-{self._lives}")
        log.warning("the lease of %s was taken away; going on as %s", self.name, name)
        self.name = name
        self._told_before = self._told
        self._on_lost()

    def _registered(self, name: str) -> str:
        """Registers ``name``, or the first of its successors that nobody goes by."""
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

    def _confirmed(self, began: float) -> None:
        """Takes in a beat. One that came back after the lease before it was over may have found runs that others took: a new term."""
        term, before = self._held
        late = self._elapsed() >= before + self._lease_s
        self._held = term + late, began
        if late:
            self._wanted.set()  # This one may be over already.
