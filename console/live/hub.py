"""Keeps the watched runs of one ASGI process, and wakes their readers.

Nudges are quick and may be lost; a poll once a second, while a page watches, finds lost ones. Neither is believed: each
only makes the reader look. The hub and the door of the process are made when the first page follows a run.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Protocol, TypeVar
from weakref import WeakKeyDictionary

from asgiref.sync import async_to_sync
from channels.layers import get_channel_layer
from django.db import DatabaseError

from console.live.admission import GROUP, Door, end_sign_in
from console.live.reader import RunKey, Subscription, Watch
from console.live.sources import Reach, new_source
from fabric.composition import engine as wiring
from fabric.worker.nudges.listener import ReceivedNudge

if TYPE_CHECKING:
    from collections.abc import Iterator

    from console.live.frames import Versions

Found = TypeVar("Found")

log = logging.getLogger(__name__)

POLL_S = 1.0
LINGER_S = 10.0
"""Seconds that a reader outlives its last follower, so that pages returning after a restart find its ring."""
READERS = 4
"""Threads that look into the store."""


class Ear(Protocol):
    """Receives nudges on a thread of its own (``fabric.worker.nudges.listener.Listener``)."""

    def start(self) -> None:
        """Begins to listen. Raises OSError when it cannot."""
        ...

    def stop(self) -> None:
        """Ends the thread."""
        ...


Heard = Callable[[Mapping[str, int]], None]
"""Called with last sequence numbers by run id; with an empty map if nudges may have been missed."""


class LiveHub:
    """Watched runs of this process. Used on one event loop; only ``heard`` is called from other threads."""

    def __init__(self, source: Reach, listen: Callable[[Heard], Ear], *, poll_s: float = POLL_S) -> None:
        self._source = source
        self._listen = listen
        self._poll_s = poll_s
        self._watches: dict[str, dict[RunKey, Watch]] = {}
        """Watches by run id, then by key."""
        self._pool = ThreadPoolExecutor(READERS, thread_name_prefix="live")
        self._poll_pool = ThreadPoolExecutor(1, thread_name_prefix="live-poll")
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ear: Ear | None = None
        self._poller: asyncio.Task[None] | None = None

    @property
    def watched(self) -> int:
        """Return the number of readers."""
        return sum(len(by_key) for by_key in self._watches.values())

    @contextmanager
    def follow(self, key: RunKey, after: int, versions: Versions) -> Iterator[Subscription]:
        """Yield a place in a run, from the cursor ``after``, for a page that shows panels in these versions."""
        watch = self._watch(key, after)
        watch.followers += 1
        try:
            yield Subscription(watch, after, versions)
        finally:
            watch.followers -= 1
            if watch.followers == 0:
                asyncio.get_running_loop().call_later(LINGER_S, self._leave, watch)

    def hear_nudge(self, run_seqs: Mapping[str, int]) -> None:
        """Handle a nudge on any thread: wake the readers it concerns. An unwatched run costs a dictionary look-up."""
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
            watch = by_key[key] = Watch(key, self._source, self.look)
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

    async def look(self, act: Callable[[], Found]) -> Found:
        """Run a blocking look into the store on a thread."""
        return await asyncio.get_running_loop().run_in_executor(self._pool, act)

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
            self._ear = self._listen(self.hear_nudge)
            try:
                self._ear.start()
            except OSError as error:
                self._ear = None
                log.warning("nudges cannot be heard, so pages follow by the poll alone: %s", error)
        if self._poller is None or self._poller.done():
            self._poller = asyncio.create_task(self._poll(), name="live poll")

    async def _poll(self) -> None:
        """Check once a second for lost nudges while a run is watched."""
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


_hubs: WeakKeyDictionary[asyncio.AbstractEventLoop, LiveHub] = WeakKeyDictionary()
_doors: WeakKeyDictionary[asyncio.AbstractEventLoop, Door] = WeakKeyDictionary()


def live_hub() -> LiveHub:
    """Return the hub of the running loop; a server process has one loop and so one hub."""
    loop = asyncio.get_running_loop()
    if loop not in _hubs:
        _hubs[loop] = LiveHub(new_source(), _listen)
    return _hubs[loop]


def live_door() -> Door:
    """Return the door of the running loop."""
    loop = asyncio.get_running_loop()
    if loop not in _doors:
        _doors[loop] = Door()
    return _doors[loop]


async def live_close() -> None:
    """Close the hub and door of the running loop."""
    await live_hub().close()
    await live_door().close()


def close_sockets(mark: str) -> None:
    """Close the sockets of a sign-in.

    On this server it happens at once, on others by the channel layer, or without it at their next look.
    """
    try:
        end_sign_in(mark)
    except DatabaseError as error:
        log.warning("a sign-out could not be remembered, other servers may not hear of it: %s", error)
    for loop, door in list(_doors.items()):
        with suppress(RuntimeError):  # The loop has closed.
            loop.call_soon_threadsafe(door.signed_out, mark)
    layer = get_channel_layer()
    if layer is None:
        return
    try:
        async_to_sync(layer.group_send)(GROUP, {"type": "signed.out", "mark": mark})
    except Exception as error:  # noqa: BLE001 - a layer of any kind, away in any way.
        log.warning("other servers were not told of a sign-out: %s", error)


def _listen(heard: Heard) -> Ear:
    def on_message(message: ReceivedNudge) -> None:
        seqs: Mapping[str, int] = message.run_seqs
        heard(seqs)

    return wiring.listener(on_message, "told")
