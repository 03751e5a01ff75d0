"""Serves the socket of a run's page. It sends what the hub found, and checks its user again within 5 s.

Close codes (``console.live.admission``):

- 1000: the run ended and the page has all of it. 1011: the run could not be read.
- 1012: the socket is old, or the server restarts. 1013: the page reads too slowly, or its right could not be checked.
- 4401: signed out. 4403: this user may not see the run. 4408: too many sockets, or a socket that talks.

A page reconnects after those below 4000, except 1000. The addresses of the sockets are here too;
``console.site.access.policies.SOCKETS`` names the rights to connect.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import struct
from contextlib import suppress
from typing import Any
from urllib.parse import parse_qs

from channels.exceptions import StopConsumer
from channels.generic.websocket import AsyncWebsocketConsumer
from channels.utils import await_many_dispatch
from django.conf import settings
from django.http import parse_cookie
from django.urls import URLPattern, path

from console.live.admission import (
    BROKEN,
    COME_BACK,
    ENDED,
    NOT_ALLOWED,
    SIGNED_OUT,
    TOO_MUCH,
    TRY_AGAIN,
    Admission,
    Credentials,
    places,
)
from console.live.hub import live_door, live_hub
from console.live.reader import RunKey
from console.site.access.policies import SOCKETS, Policy

__all__ = [
    "BROKEN",
    "COME_BACK",
    "ENDED",
    "NOT_ALLOWED",
    "SIGNED_OUT",
    "TOO_MUCH",
    "TRY_AGAIN",
    "RunConsumer",
    "websocket_urlpatterns",
]


log = logging.getLogger(__name__)

RECHECK_S = 4.0
"""Seconds between checks of rights: a lost right closes the socket within 5 s."""
LIFE_S = 4 * 3600.0
"""Longest life of a socket in seconds: longer than a viewing, shorter than any timeout in between."""
SEND_S = 10.0
"""Seconds in which a page has to accept a frame, else its socket closes. It reads the missing rows when it returns."""
CLOSE_S = 1.0
INBOUND_BYTES_MAX = 1024
INBOUND_MAX = 20
"""Number of messages a page may send before it is cut off: it has none to send."""


class RunConsumer(AsyncWebsocketConsumer):
    """Follows one run for one page: ``?after=SEQ&panels=VERSIONS``.

    Every ending (a check, a slow page, the run itself) is a message to itself, so that endings happen one at a time.
    It uses no channel layer: a page must not go blind when Redis does.
    """

    admission = Admission()
    counted = ""
    heard = 0
    sending_since = 0.0
    """Loop time of the frame that the page has not accepted yet; 0 if it has accepted all."""
    over = False
    tasks: tuple[asyncio.Task[None], ...] = ()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Serve one socket."""
        self.scope, self.base_send = scope, send
        self.orders: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        with suppress(StopConsumer):
            await await_many_dispatch([receive, self.orders.get], self.dispatch)

    async def connect(self) -> None:
        """Accept, then close with a code if refused: a page refused earlier gets no code, and tries for ever."""
        await self.accept()
        assert SOCKETS["live-run"] is Policy.SIGNED_IN
        run_id = str(self.scope["url_route"]["kwargs"]["run_id"])
        found = await self._ask(run_id)
        if found.key is None:
            self.let_go(found.code)
            return
        if places.is_full(found.user):
            self.let_go(TOO_MUCH)
            return
        self.admission, self.counted = found, found.user
        places.take(self.counted)
        live_door().enter(found.mark, self.let_go)
        after, versions = _position(self.scope.get("query_string", b""))
        self.tasks = (
            asyncio.create_task(self._follow(found.key, after, versions)),
            asyncio.create_task(self._recheck(run_id)),
        )

    async def disconnect(self, code: int) -> None:
        """Release everything."""
        for task in self.tasks:
            task.cancel()
        self.tasks = ()
        if self.counted:
            places.leave(self.counted)
            live_door().leave(self.admission.mark, self.let_go)
        self.counted = ""

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None) -> None:
        """Ignore a little input of a page, and cut it off after more."""
        self.heard += 1
        length = len(bytes_data) if bytes_data is not None else len((text_data or "").encode())
        if length > INBOUND_BYTES_MAX or self.heard > INBOUND_MAX:
            self.let_go(TOO_MUCH)

    # -- how it ends ---------------------------------------------------------------------------------------------------

    def let_go(self, code: int) -> None:
        """Request closing with this code. On the loop; the first request counts."""
        self.orders.put_nowait({"type": "go", "code": code})

    async def go(self, message: dict[str, Any]) -> None:
        """Close; the server confirms with a disconnect. A page that accepts nothing gets no code: its socket is
        dropped.
        """
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
                    # No timeout of its own, which would cost a timer for each frame of each page: `_recheck` checks it.
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
            # The right cannot be checked now, and nothing can be read either: try again.
            if found.code == TRY_AGAIN:
                continue
            if found.key != self.admission.key:
                # A user whose right to contents changed is admitted again, and reads as much as is allowed now.
                self.let_go(found.code or COME_BACK)
                return
        self.let_go(COME_BACK)

    async def _ask(self, run_id: str) -> Admission:
        return await live_door().ask(read_credentials(self.scope), run_id)


def read_credentials(scope: Any) -> Credentials:
    """Return the credentials of a connection. A token counts before a cookie, as in the API."""
    headers = {name: value.decode("latin-1") for name, value in scope["headers"]}
    if authorization := headers.get(b"authorization", ""):
        return Credentials(authorization=authorization)
    return Credentials(parse_cookie(headers.get(b"cookie", "")).get(settings.SESSION_COOKIE_NAME, ""))


def _cut(send: Any) -> None:
    """Abort a connection whose client accepts nothing: a normal close would wait for ever to send its buffer.

    For uvicorn. Another server's connection ends when that server gives it up.
    """
    transport = getattr(getattr(send, "__self__", None), "transport", None)
    if transport is None:
        return
    # The kernel's buffer of it is dropped too.
    with suppress(OSError), socket.socket(fileno=os.dup(transport.get_extra_info("socket").fileno())) as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    transport.abort()


def _position(query: bytes) -> tuple[int, tuple[str, ...]]:
    """Return cursor and panel versions of the address. An invalid number is 0, which only sends more."""
    given = parse_qs(query[:1024].decode("ascii", "replace"))
    after = given.get("after", ["0"])[-1]
    versions = given.get("panels", [""])[-1][:256]
    return int(after) if after.isdecimal() and len(after) < 12 else 0, tuple(versions.split(".")) if versions else ()


websocket_urlpatterns: list[URLPattern] = [
    path("live/runs/<uuid:run_id>", RunConsumer.as_asgi(), name="live-run"),
]
