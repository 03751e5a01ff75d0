"""A journal in memory, as a source for the hub, that counts how often it is asked."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterable, Mapping

from console.live.frames import LiveBatch, LiveHead, LiveRow, Panel
from console.live.hub import Heard
from console.live.reader import RunKey

KEY = RunKey("w", "run-1")


class Journal:
    """One run: rows by seq, a head, and what was asked of it."""

    def __init__(self, rows: int = 0) -> None:
        self.seq = 0
        self.ended = False
        self.head = "h0"
        self.urgent = True
        """Whether a page must not be late with another head."""
        self.again = False
        """Whether its panels show what changes without it."""
        self.drawn = 0
        self.lag = 0
        """By how many rows the head is behind."""
        self.look_s = 0.0
        """How long it takes to answer."""
        self.row = '<tr data-seq="{}"></tr>'
        self.broken = False
        self.reads: list[tuple[int, int]] = []
        self.rendered = 0
        self.looks = 0
        self._lock = threading.RLock()
        self._asked = threading.Condition(self._lock)
        self.grow(rows)

    def grow(self, rows: int = 1, *, head: str = "") -> None:
        with self._lock:
            self.seq += rows
            self.head = head or self.head

    def end(self) -> None:
        with self._lock:
            self.seq += 1
            self.ended = True
            self.head = "ended"

    async def asked(self, condition: Callable[[], bool]) -> None:
        """Waits until what was asked of it fulfils a condition."""

        def wait() -> bool:
            with self._asked:
                return self._asked.wait_for(condition, 20)

        assert await asyncio.to_thread(wait)

    def read(self, key: RunKey, after: int, limit: int, shown: LiveHead | None = None) -> LiveBatch:
        time.sleep(self.look_s)
        with self._lock:
            self.reads.append((after, limit))
            self._asked.notify_all()
            if self.broken:
                raise OSError("the database is away")
            last = min(self.seq, after + limit)
            rows = tuple(LiveRow(seq, self.row.format(seq)) for seq in range(after + 1, last + 1))
            self.rendered += len(rows)
            mark = self.head if self.urgent else ""
            if shown is not None and shown.mark == mark and not self.ended:
                return LiveBatch(
                    rows, LiveHead(self.seq - self.lag, self.ended, shown.panels, shown.drawn, mark, shown.again)
                )
            self.drawn += 1
            panels = (Panel("head", self.head, f"<p>{self.head}</p>"),)
            return LiveBatch(rows, LiveHead(self.seq - self.lag, self.ended, panels, self.seq, mark, self.again))

    def may_have_changed(self) -> bool:
        return True

    def reach(self, keys: Iterable[RunKey]) -> Mapping[RunKey, int]:
        with self._asked:
            self.looks += 1
            self._asked.notify_all()
        if self.broken:
            raise OSError("the database is away")
        return dict.fromkeys(keys, self.seq)


class Ear:
    """A listener that hears what a test says."""

    def __init__(self, heard: Heard) -> None:
        self.heard = heard
        self.on = False

    def start(self) -> None:
        self.on = True

    def stop(self) -> None:
        self.on = False


class Ears:
    """Makes the hub's ear and keeps it."""

    def __init__(self) -> None:
        self.ear: Ear | None = None

    def __call__(self, heard: Heard) -> Ear:
        self.ear = Ear(heard)
        return self.ear

    @property
    def say(self) -> Callable[[Mapping[str, int]], None]:
        assert self.ear is not None
        return self.ear.heard
