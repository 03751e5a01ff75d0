"""The hub and the door of this process, made when the first page follows a run."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from contextlib import suppress
from weakref import WeakKeyDictionary

from asgiref.sync import async_to_sync
from channels.layers import get_channel_layer
from django.db import DatabaseError

from console.live.door import GROUP, Door
from console.live.ended import remember
from console.live.hub import Ear, Heard, LiveHub
from console.live.source import DatabaseSource
from fabric import wiring
from fabric.adapters.nudge import Nudged

log = logging.getLogger(__name__)

_hubs: WeakKeyDictionary[asyncio.AbstractEventLoop, LiveHub] = WeakKeyDictionary()
_doors: WeakKeyDictionary[asyncio.AbstractEventLoop, Door] = WeakKeyDictionary()


def live_hub() -> LiveHub:
    """The hub of the running loop; a server process has one loop and so one hub."""
    loop = asyncio.get_running_loop()
    if loop not in _hubs:
        _hubs[loop] = LiveHub(DatabaseSource(), _listen)
    return _hubs[loop]


def live_door() -> Door:
    """The door of the running loop."""
    loop = asyncio.get_running_loop()
    if loop not in _doors:
        _doors[loop] = Door()
    return _doors[loop]


async def live_close() -> None:
    """Takes the running loop's hub and door down."""
    await live_hub().close()
    await live_door().close()


def signed_out(mark: str) -> None:
    """Closes the sockets of a sign-in: on this server at once, on the others by the channel layer, and at their next look without it."""
    try:
        remember(mark)
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
    def on_message(message: Nudged) -> None:
        seqs: Mapping[str, int] = message.run_seqs
        heard(seqs)

    return wiring.listener(on_message, "told")
