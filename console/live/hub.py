"""The live hub of one ASGI process: which runs are watched, and what wakes their readers.

Two things wake a reader: nudges, which are quick and may be lost, and a poll once a second while anybody watches, which is slow and
may not. Neither is believed: each only makes the reader look.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Protocol

from console.live.watch import RunKey, Source, Subscription, Watch

if TYPE_CHECKING:
    from collections.abc import Iterator

    from console.live.frames import Batch, Versions

log = logging.getLogger(__name__)

POLL_S = 1.0
LINGER_S = 10.0
"""A reader outlives its last follower by this: pages that come back, all at once after a restart, find its ring."""
READERS = 4
"""Threads that look into the store."""


class Reach(Source, Protocol):
    """A source that can also be asked how far journals reach, for the poll."""

    def may_have_changed(self) -> bool:
        """A cheap hint whether anything was written since it was last asked."""
        ...

    def reach(self, keys: Iterable[RunKey]) -> Mapping[RunKey, int]:
        """Last seq of each of these runs."""
        ...


class Ear(Protocol):
    """Hears nudges on a thread of its own (``fabric.adapters.nudge.Listener``)."""

    def start(self) -> None:
        """Begins to listen. OSError when it cannot."""
        ...

    def stop(self) -> None:
        """Ends the thread."""
        ...


Heard = Callable[[Mapping[str, int]], None]
"""Called with last seqs by run id; with none at all when something may have been missed."""


class LiveHub:
    """Everything that is watched in this process. Used on one event loop; only ``heard`` is called from elsewhere."""

    def __init__(self, source: Reach, listen: Callable[[Heard], Ear], *, poll_s: float = POLL_S) -> None:
        self._source = source
        self._listen = listen
        self._poll_s = poll_s
        self._watches: dict[str, dict[RunKey, Watch]] = {}
        """By run id, then by key."""
        self._pool = ThreadPoolExecutor(READERS, thread_name_prefix="live")
        self._poll_pool = ThreadPoolExecutor(1, thread_name_prefix="live-poll")
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ear: Ear | None = None
        self._poller: asyncio.Task[None] | None = None

    @property
    def watched(self) -> int:
        """Runs that have a reader."""
        return sum(len(by_key) for by_key in self._watches.values())

    @contextmanager
    def follow(self, key: RunKey, after: int, versions: Versions) -> Iterator[Subscription]:
        """A place in a run, from the cursor ``after``, for a page that shows panels in these versions."""
        watch = self._watch(key, after)
        watch.followers += 1
        try:
            yield Subscription(watch, after, versions)
        finally:
            watch.followers -= 1
            if watch.followers == 0:
                asyncio.get_running_loop().call_later(LINGER_S, self._leave, watch)

    def heard(self, run_seqs: Mapping[str, int]) -> None:
        """A nudge, on any thread: wakes the readers it concerns. What nobody here watches costs a dictionary look-up."""
        concerned = [run for run in run_seqs if run in self._watches]
        if (concerned or not run_seqs) and self._loop is not None:
            with suppress(RuntimeError):  # The loop has closed: the process is going down.
                self._loop.call_soon_threadsafe(self._wake, {run: run_seqs[run] for run in concerned})

    async def close(self) -> None:
        """Ends the readers, the poll and the ear."""
        for watch in self._all():
            watch.stop()
        self._watches.clear()
        if self._poller is not None:
            self._poller.cancel()
        if self._ear is not None:
            await asyncio.get_running_loop().run_in_executor(None, self._ear.stop)
        self._pool.shutdown(wait=False, cancel_futures=True)
        self._poll_pool.shutdown(wait=False, cancel_futures=True)

    # -- readers -------------------------------------------------------------------------------------------------------

    def _all(self) -> list[Watch]:
        return [watch for by_key in self._watches.values() for watch in by_key.values()]

    def _watch(self, key: RunKey, after: int) -> Watch:
        self._begin()
        by_key = self._watches.setdefault(key.run_id, {})
        watch = by_key.get(key)
        if watch is None:
            watch = by_key[key] = Watch(key, self._source, self._call)
            watch.start(after)
        return watch

    def _leave(self, watch: Watch) -> None:
        if watch.followers == 0:
            watch.stop()
            by_key = self._watches.get(watch.key.run_id, {})
            if by_key.get(watch.key) is watch:
                del by_key[watch.key]
            if not by_key:
                self._watches.pop(watch.key.run_id, None)

    async def _call(self, look: Callable[[], Batch]) -> Batch:
        return await asyncio.get_running_loop().run_in_executor(self._pool, look)

    def _wake(self, run_seqs: Mapping[str, int]) -> None:
        if not run_seqs:
            for watch in self._all():
                watch.wake()
        for run, seq in run_seqs.items():
            for watch in self._watches.get(run, {}).values():
                watch.wake(seq)

    # -- what wakes them -----------------------------------------------------------------------------------------------

    def _begin(self) -> None:
        if self._loop is None:
            self._loop = asyncio.get_running_loop()
            self._ear = self._listen(self.heard)
            try:
                self._ear.start()
            except OSError as error:
                self._ear = None
                log.warning("nudges cannot be heard, so pages follow by the poll alone: %s", error)
        if self._poller is None or self._poller.done():
            self._poller = asyncio.create_task(self._poll(), name="live poll")

    async def _poll(self) -> None:
        """Looks once a second, while anybody watches, whether a nudge was lost."""
        loop = asyncio.get_running_loop()
        await asyncio.sleep(self._poll_s)
        while self._watches:
            watches = self._all()
            try:
                found = await loop.run_in_executor(self._poll_pool, self._look_over, [watch.key for watch in watches])
            except Exception:
                log.exception("the journals could not be looked at, trying again")
            else:
                for watch in watches:
                    watch.looked_at = loop.time()
                    watch.wake(found.get(watch.key, watch.tip))
            await asyncio.sleep(self._poll_s)

    def _look_over(self, keys: list[RunKey]) -> Mapping[RunKey, int]:
        return self._source.reach(keys) if self._source.may_have_changed() else {}
