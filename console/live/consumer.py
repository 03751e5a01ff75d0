"""The socket of a run's page. It says what the hub found and hears nothing; who is at the other end is asked again within 5 s.

Close codes (``console.live.door``):

- 1000: the run ended and the page has all of it. 1011: the run could not be read.
- 1012: the socket is old, or the server restarts. 1013: the page reads too slowly, or its right could not be looked up.
- 4401: signed out. 4403: this user may not see the run. 4408: too many sockets, or a socket that talks.

A page comes back by itself after those below 4000, but for 1000.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import struct
from collections import Counter
from contextlib import suppress
from typing import Any
from urllib.parse import parse_qs

from channels.exceptions import StopConsumer
from channels.generic.websocket import AsyncWebsocketConsumer
from channels.utils import await_many_dispatch
from django.conf import settings

from console.live.door import (
    BROKEN,
    COME_BACK,
    ENDED,
    NOT_ALLOWED,
    SIGNED_OUT,
    TOO_MUCH,
    TRY_AGAIN,
    Admission,
)
from console.live.process import live_door, live_hub
from console.live.watch import RunKey
from console.route_policies import SOCKETS, Policy

log = logging.getLogger(__name__)

__all__ = ["BROKEN", "COME_BACK", "ENDED", "NOT_ALLOWED", "SIGNED_OUT", "TOO_MUCH", "TRY_AGAIN", "RunConsumer"]

RECHECK_S = 4.0
"""With the look itself, a right that is lost closes the socket within 5 s."""
LIFE_S = 4 * 3600.0
"""Longer than a page is looked at, shorter than anything that forgets a socket."""
SEND_S = 10.0
"""A page that has not taken a frame for so long is let go: what it would have got it reads anew when it comes back."""
CLOSE_S = 1.0
SOCKETS_PER_USER = 20
INBOUND_BYTES_MAX = 1024
INBOUND_MAX = 20
"""Messages a page may send before it is cut off: it has nothing to say."""

_open: Counter[str] = Counter()
"""Open sockets by user, in this process."""


class RunConsumer(AsyncWebsocketConsumer):
    """Follows one run for one page: ``?after=SEQ&panels=VERSIONS``.

    Whatever ends it, a check, a slow page or the run itself, is an order to itself, carried out one at a time. It uses no channel layer:
    a page must not go blind when Redis does.
    """

    admission = Admission()
    counted = ""
    heard = 0
    sending_since = 0.0
    """Loop time at which the page was given a frame that it has not taken yet; 0 when it has taken all."""
    over = False
    tasks: tuple[asyncio.Task[None], ...] = ()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Serve one socket."""
        self.scope, self.base_send = scope, send
        self.orders: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        with suppress(StopConsumer):
            await await_many_dispatch([receive, self.orders.get], self.dispatch)

    async def connect(self) -> None:
        """Accept, then close with a reason where there is one: a page that is turned away before is told nothing and tries for ever."""
        await self.accept()
        assert SOCKETS["live-run"] is Policy.SIGNED_IN
        run_id = str(self.scope["url_route"]["kwargs"]["run_id"])
        found = await self._ask(run_id)
        if found.key is None:
            self.let_go(found.code)
            return
        if _open[found.user] >= SOCKETS_PER_USER:
            self.let_go(TOO_MUCH)
            return
        self.admission, self.counted = found, found.user
        _open[self.counted] += 1
        live_door().enter(found.mark, self.let_go)
        after, versions = _position(self.scope.get("query_string", b""))
        self.tasks = (
            asyncio.create_task(self._follow(found.key, after, versions)),
            asyncio.create_task(self._recheck(run_id)),
        )

    async def disconnect(self, code: int) -> None:
        """Give everything back."""
        for task in self.tasks:
            task.cancel()
        self.tasks = ()
        if self.counted:
            _open[self.counted] -= 1
            if not _open[self.counted]:
                del _open[self.counted]
            live_door().leave(self.admission.mark, self.let_go)
        self.counted = ""

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None) -> None:
        """A page has nothing to say: a little is ignored, more is cut off."""
        self.heard += 1
        length = len(bytes_data) if bytes_data is not None else len((text_data or "").encode())
        if length > INBOUND_BYTES_MAX or self.heard > INBOUND_MAX:
            self.let_go(TOO_MUCH)

    # -- how it ends ---------------------------------------------------------------------------------------------------

    def let_go(self, code: int) -> None:
        """Order to close with this code. On the loop; the first order counts."""
        self.orders.put_nowait({"type": "go", "code": code})

    async def go(self, message: dict[str, Any]) -> None:
        """Closes; the server confirms with a disconnect. A page that takes nothing cannot be told why: its socket is dropped."""
        if self.over:
            return
        self.over = True
        for task in self.tasks:
            task.cancel()
        try:
            async with asyncio.timeout(CLOSE_S):
                await self.close(message["code"])
        except (TimeoutError, OSError):
            _cut(self.base_send)
            await self.disconnect(message["code"])
            raise StopConsumer from None

    # -- the work ------------------------------------------------------------------------------------------------------

    async def _follow(self, key: RunKey, after: int, versions: tuple[str, ...]) -> None:
        loop = asyncio.get_running_loop()
        try:
            with live_hub().follow(key, after, versions) as place:
                while (found := await place.next()) is not None:
                    # No timeout of its own, which would cost each frame of each page a timer: `_recheck` looks after it.
                    self.sending_since = loop.time()
                    await self.base_send({"type": "websocket.send", "text": found.text})
                    self.sending_since = 0.0
            self.let_go(ENDED)
        except OSError:
            pass  # It went away while something was being sent; the server says so in its own words.
        except Exception:
            log.exception("a page lost run %s and will come back", key.run_id)
            self.let_go(BROKEN)

    async def _recheck(self, run_id: str) -> None:
        loop = asyncio.get_running_loop()
        until = loop.time() + LIFE_S
        while loop.time() < until:
            await asyncio.sleep(RECHECK_S)
            if self.sending_since and loop.time() - self.sending_since >= SEND_S:
                log.warning("a page of run %s took nothing for %.1f s and was let go", run_id, SEND_S)
                self.let_go(TRY_AGAIN)
                return
            found = await self._ask(run_id)
            # Nobody could say: nothing can be read either, so nothing is shown to whoever may have lost the right.
            if found.code == TRY_AGAIN:
                continue
            if found.key != self.admission.key:
                # Whose right to its contents came or went is let in again, and reads as much as is theirs now.
                self.let_go(found.code or COME_BACK)
                return
        self.let_go(COME_BACK)

    async def _ask(self, run_id: str) -> Admission:
        return await live_door().ask(self.scope["cookies"].get(settings.SESSION_COOKIE_NAME, ""), run_id)


def _cut(send: Any) -> None:
    """Ends a connection whose far end takes nothing: closed, it would wait for ever to be rid of what it holds. Uvicorn's; another
    server's ends when that server gives it up.
    """
    transport = getattr(getattr(send, "__self__", None), "transport", None)
    if transport is None:
        return
    # What the kernel holds for it goes too.
    with suppress(OSError), socket.socket(fileno=os.dup(transport.get_extra_info("socket").fileno())) as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    transport.abort()


def _position(query: bytes) -> tuple[int, tuple[str, ...]]:
    """Cursor and panel versions from the address; what is no number is 0, which only means more to send."""
    given = parse_qs(query[:1024].decode("ascii", "replace"))
    after = given.get("after", ["0"])[-1]
    versions = given.get("panels", [""])[-1][:256]
    return int(after) if after.isdecimal() and len(after) < 12 else 0, tuple(versions.split(".")) if versions else ()
