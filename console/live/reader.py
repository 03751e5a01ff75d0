"""Reads one watched run: renders each event once for all sockets that follow it.

When woken, the reader asks the store for events after its tip, makes one frame of them and keeps the rows in a ring.
A socket at the tip gets that frame; one that is behind gets its rows from the ring or, further back, from the store.
The wake-up itself carries no data: it only says that a look is worth while.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from itertools import islice
from typing import Protocol

from console.live.frames import BEHIND_MAX, FRAME_ROWS, LiveBatch, LiveFrame, LiveHead, LiveRow, Versions, frame

log = logging.getLogger(__name__)

FRAME_MIN_S = 0.040
FRAME_MAX_S = 0.200
"""Longest seconds between frames. The first comes at once; the more a look costs, the rarer they become."""
LOAD_FACTOR = 4.0
"""Pause after a look, as a multiple of its duration and its work on the loop."""
RING_ROWS = 500
"""Number of rendered rows kept: enough for most pages that return."""
FRAMES_KEPT = 64
PANELS_S = 0.25
"""Shortest seconds between drawings of the panels during steady running: they cost more than rows."""
AGAIN_S = 2.0
"""Seconds between drawings of panels that change without their run, while it is idle."""
HEARTBEAT_S = 15.0
RETRY_S = 1.0
"""Seconds until the next look after a failed one."""


@dataclass(frozen=True, slots=True)
class RunKey:
    """A run in its workspace: a reader never serves another workspace."""

    workspace_id: str
    run_id: str
    reads: bool = True
    """True: the follower may read its contents."""


class Source(Protocol):
    """Source of events. Its calls block, so they run on threads."""

    def read(self, key: RunKey, after: int, limit: int, shown: LiveHead | None = None) -> LiveBatch:
        """Return at most ``limit`` rows after ``after``, and the head. Raises Refused if there is no such run.

        ``shown``: the head may reuse the panels of this one, unless its mark has changed.
        """
        ...


Call = Callable[[Callable[[], LiveBatch]], Awaitable[LiveBatch]]
"""Runs a blocking look on a thread."""


class Watch:
    """A run that is followed."""

    def __init__(self, key: RunKey, source: Source, call: Call) -> None:
        self.key = key
        self.followers = 0
        self.tip = -1
        """Last rendered seq; -1 before the first look."""
        self.head: LiveHead | None = None
        self.looked_at = 0.0
        """Loop time of the store's last answer for this run."""
        self.beats = 0
        """Number of heartbeats sent during silence."""
        self.begun = self.answered = 0
        """Numbers of the last look that began, and of the last one that was answered."""
        self._source = source
        self._call = call
        self._ring: deque[LiveRow] = deque(maxlen=RING_ROWS)
        self._frames: deque[tuple[Versions, LiveFrame]] = deque(maxlen=FRAMES_KEPT)
        """Kept frames, each with the versions that a page had before."""
        self._wake = asyncio.Event()
        self._changed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._filling: asyncio.Task[None] | None = None
        self._said_at = 0.0
        self._drawn_at = float("-inf")
        self._still: tuple[tuple[int, int, LiveHead], LiveFrame] | None = None
        self._timers: dict[str, asyncio.TimerHandle] = {}

    # -- the reader ----------------------------------------------------------------------------------------------------

    def start(self, after: int) -> None:
        """Start reading, from about the first follower's cursor."""
        self._task = asyncio.create_task(self._read(after), name=f"live {self.key.run_id}")
        self._said_at = asyncio.get_running_loop().time()
        self._beat()

    def stop(self) -> None:
        """Ends the reader."""
        if self._task is not None:
            self._task.cancel()
        for timer in self._timers.values():
            timer.cancel()

    def wake(self, seq: int | None = None) -> None:
        """Note that there may be more to read; a sequence number that the reader has is ignored."""
        if seq is None or seq > self.tip:
            self._wake.set()

    @property
    def floor(self) -> int:
        """Return the sequence number after which the ring has everything."""
        return self._ring[0].seq - 1 if self._ring else self.tip

    async def look(self, after: int, limit: int, shown: LiveHead | None) -> LiveBatch:
        """Ask the store, on a thread. ``shown``: see ``Source.read``."""
        batch = await self._call(lambda: self._source.read(self.key, after, limit, shown))
        self.looked_at = asyncio.get_running_loop().time()
        return batch

    async def _read(self, after: int) -> None:
        loop = asyncio.get_running_loop()
        late = 0.0
        self._wake.set()
        while True:
            await self._wake.wait()
            self._wake.clear()
            started = loop.time()
            self.begun += 1
            try:
                batch = await self._news(after if self.tip < 0 else self.tip)
            except Exception:
                log.exception("the events of run %s could not be read, trying again", self.key.run_id)
                self._wake.set()
                await asyncio.sleep(RETRY_S)
                continue
            self.answered = self.begun
            self._publish(batch, after)
            if batch.head.seq > self.tip:
                self._wake.set()
            elif batch.head.drawn < batch.head.seq:
                self._set_timer(self._drawn_at + PANELS_S, self._wake.set)
            elif batch.head.again:
                self._set_timer(self._drawn_at + AGAIN_S, self._wake.set)
            took = loop.time() - started
            pause = min(max(FRAME_MIN_S, LOAD_FACTOR * (took + late)), FRAME_MAX_S)
            slept = loop.time()
            await asyncio.sleep(pause)
            late = loop.time() - slept - pause  # The loop was busy, mostly with handing out the frame.

    async def _news(self, after: int) -> LiveBatch:
        """Return the events after a cursor; if there are very many, the newest."""
        now = asyncio.get_running_loop().time()
        shown = self.head if now < self._drawn_at + PANELS_S else None
        batch = await self.look(after, FRAME_ROWS, shown)
        if shown is None or batch.head.panels is not shown.panels:
            self._drawn_at = now
        if batch.head.seq - after > BEHIND_MAX:
            batch = await self.look(batch.head.seq - FRAME_ROWS, FRAME_ROWS, batch.head)
        return batch

    def _publish(self, batch: LiveBatch, after: int) -> None:
        if self.tip < 0:
            self.tip = batch.rows[0].seq - 1 if batch.rows else min(after, batch.head.seq)
        before = self.head.versions if self.head is not None else batch.head.versions
        if batch.rows or before != batch.head.versions:
            known = {panel.version for panel in self.head.panels} if self.head is not None else set(before)
            changed = [panel for panel in batch.head.panels if panel.version not in known]
            made = self.frame(self.tip, batch.rows, changed, batch.head.versions, batch.head)
            self._frames.append((before, made))
            if batch.rows and batch.rows[0].seq > self.tip + 1:
                self._ring.clear()  # It has no holes.
            self._ring.extend(batch.rows)
            self.tip = made.seq
            self._said_at = asyncio.get_running_loop().time()
        self.head = batch.head
        self._tell()

    def _tell(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    def _beat(self) -> None:
        """Send a heartbeat, but only while the store answers. A run that cannot be read must not be shown as live."""
        now = asyncio.get_running_loop().time()
        if now >= self._said_at + HEARTBEAT_S:
            self._said_at = now
            if self.looked_at + HEARTBEAT_S >= now:
                self.beats += 1
                self._tell()
        self._set_timer(self._said_at + HEARTBEAT_S, self._beat)

    def _set_timer(self, when: float, what: Callable[[], None]) -> None:
        """Set a timer for an act, one at a time for each act."""
        name = what.__qualname__
        if name in self._timers:
            self._timers[name].cancel()
        self._timers[name] = asyncio.get_running_loop().call_at(when, what)

    # -- what followers use --------------------------------------------------------------------------------------------

    def frame(self, after: int, rows: object, panels: object, versions: Versions, head: LiveHead) -> LiveFrame:
        """Return a frame as of now."""
        return frame(
            run_id=self.key.run_id,
            after=after,
            rows=rows,  # type: ignore[arg-type]
            panels=panels,  # type: ignore[arg-type]
            versions=versions,
            at_ms=time.time_ns() // 1_000_000,
            head=head,
        )

    async def fill(self) -> None:
        """Fill a ring that began later, with one read for all who ask."""
        if self._filling is None or self._filling.done():
            self._filling = asyncio.create_task(self._fill())
        await asyncio.shield(self._filling)

    async def _fill(self) -> None:
        batch = await self.look(self.tip - FRAME_ROWS, FRAME_ROWS, self.head)
        for row in reversed(batch.rows):
            if row.seq == self.floor:  # The reader went on meanwhile.
                self._ring.appendleft(row)

    def find_shared_frame(self, cursor: int, versions: Versions) -> LiveFrame | None:
        """Return the kept frame that continues exactly the page's state; None without one. All such pages share its
        bytes.
        """
        for before, made in reversed(self._frames):
            if made.after == cursor and before == versions and (made.seq > cursor or made.versions != versions):
                return made
        return None

    def ring_rows(self, cursor: int) -> list[LiveRow]:
        """Rows after the cursor from the ring, which must reach back that far."""
        skip = cursor - self.floor
        return list(islice(self._ring, skip, skip + FRAME_ROWS))

    def still(self) -> LiveFrame:
        """Return a frame without news, for pages that have everything; made once for all of them."""
        assert self.head is not None
        made_of = (self.beats, self.tip, self.head)
        if self._still is None or self._still[0] != made_of:
            self._still = (made_of, self.frame(self.tip, (), (), self.head.versions, self.head))
        return self._still[1]

    def take_change_event(self) -> asyncio.Event:
        """Return the event of the next publication. Take it before looking and wait for it after, so that none is
        missed.
        """
        return self._changed


class Subscription:
    """One socket's place in a run: its cursor, and the panels its page shows."""

    def __init__(self, watch: Watch, after: int, versions: Versions) -> None:
        self.cursor = max(0, after)
        self._watch = watch
        self._versions = versions
        self._greeted = False
        self._beat = watch.beats
        self._joined = watch.begun
        self._sent_at = float("-inf")

    async def next(self) -> LiveFrame | None:
        """Return the next frame, and wait for it. None: the run has ended, and the page has all of it."""
        loop = asyncio.get_running_loop()
        while True:
            changed = self._watch.take_change_event()
            pause = self._sent_at + FRAME_MIN_S - loop.time()
            if pause > 0 and self.cursor < self._watch.tip:
                await asyncio.sleep(pause)  # A page that catches up; one that waits is woken no sooner.
                continue
            found = await self._due()
            if found is not None:
                self.cursor, self._versions, self._greeted = found.seq, found.versions, True
                self._beat = self._watch.beats
                self._sent_at = loop.time()
                return found
            if self._is_finished():
                return None
            await changed.wait()

    def _is_finished(self) -> bool:
        head = self._watch.head
        return head is not None and head.ended and self.cursor >= head.seq and self._greeted

    async def _due(self) -> LiveFrame | None:
        """Return the frame that may be sent now; None if there is none."""
        watch = self._watch
        head = watch.head
        if head is None:
            return None
        end = max(head.seq, watch.tip)
        if self.cursor > end:
            # A page that was made just now knows more than the reader; only one that looked since may contradict it.
            if watch.answered <= self._joined:
                watch.wake()
                return None
            self.cursor = end
        if watch.tip - self.cursor > BEHIND_MAX:
            # From the ring, one link in place of the rest: a returning page costs one frame in any case.
            if watch.tip - watch.floor < FRAME_ROWS:
                await watch.fill()
            rows = watch.ring_rows(max(watch.floor, watch.tip - FRAME_ROWS))
            return watch.frame(self.cursor, rows, (), self._versions, head)
        if self.cursor < watch.floor:
            limit = min(FRAME_ROWS, watch.floor - self.cursor)
            batch = await watch.look(self.cursor, limit, head)
            return watch.frame(self.cursor, batch.rows, (), self._versions, batch.head) if batch.rows else None
        if self.cursor >= watch.tip and self._versions == head.versions:
            if self._greeted and self._beat == watch.beats:
                return None
            ahead = self.cursor > watch.tip  # Of the reader, which has not read all there is.
            return watch.frame(self.cursor, (), (), self._versions, head) if ahead else watch.still()
        shared = watch.find_shared_frame(self.cursor, self._versions)
        if shared is not None:
            return shared
        rows = watch.ring_rows(self.cursor)
        reached = rows[-1].seq if rows else self.cursor
        if reached < watch.tip:
            return watch.frame(self.cursor, rows, (), self._versions, head)
        known = set(self._versions)
        panels = [panel for panel in head.panels if panel.version not in known]
        return watch.frame(self.cursor, rows, panels, head.versions, head)
