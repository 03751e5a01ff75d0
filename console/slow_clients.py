"""uvicorn's HTTP protocol with an end to its patience: for heads, for bodies, for answers that nobody takes, and for the number of connections.

uvicorn waits for a request as long as its sender likes. Bodies are judged by their progress and not by their length, so a large upload over a slow line
is let in (Apache's mod_reqtimeout does it so). A connection that became a socket is none of this module's business: sockets have pings of their own.
"""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

HEAD_S = 20.0
"""Seconds from a connection, or a request's first byte, to the end of its head."""
BODY_S = 20.0
"""Seconds in which a body has to get on, again and again, by ``BODY_BYTES`` or to its end."""
BODY_BYTES = 20_000
"""A kilobyte a second."""
TAKEN_S = 60.0
"""Seconds in which whoever asked has to take some of a waiting answer."""
CONNECTIONS_MAX = 2_000
"""Of one process, sockets with them. A request over one of more is answered 503."""
SPARE = 100
"""Connections above that which are taken, to answer them; more are closed unread."""
THROWN_MAX = 64 * 1024 * 1024
"""Bytes of a body that are read and thrown away after its answer."""

_LATE = b"The request came in too slowly: it was not read to its end. Send it again over a faster line.\n"
_ANSWER = b"HTTP/1.1 408 Request Timeout\r\ncontent-type: text/plain; charset=utf-8\r\ncontent-length: %d\r\nconnection: close\r\n\r\n%s"


class ImpatientProtocol(HttpToolsProtocol):
    """Ends connections that hold the server up. Time in which the server itself does not read is nobody's fault and is not counted."""

    head_s, body_s, body_bytes, taken_s = HEAD_S, BODY_S, BODY_BYTES, TAKEN_S

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self._coming: asyncio.TimerHandle | None = None
        self._taking: asyncio.TimerHandle | None = None
        self._got = self._thrown = 0
        self._in_head = self._handed_over = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Takes a connection, or closes it where there are too many."""
        super().connection_made(transport)
        if len(self.connections) > (self.limit_concurrency or CONNECTIONS_MAX) + SPARE:
            transport.abort()
            return
        self._expect_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forgets its deadlines."""
        self._expect_nothing()
        self.resume_writing()
        super().connection_lost(exc)

    def handle_websocket_upgrade(self) -> None:
        """Hands the connection over: it is a socket from here on."""
        self._handed_over = True
        self._expect_nothing()
        super().handle_websocket_upgrade()

    # -- what comes in -------------------------------------------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        """Some bytes. Line ends between two requests begin none, and end the wait for one."""
        super().data_received(data)
        waits = self._coming is not None or self.timeout_keep_alive_task is not None
        if self._is_idle and not waits and not self._handed_over and not self.transport.is_closing():
            self._expect_head()

    @property
    def _is_idle(self) -> bool:
        return self.cycle is None or self.cycle.response_complete

    def on_message_begin(self) -> None:
        """The first byte of a request."""
        super().on_message_begin()
        self._in_head, self._thrown = True, 0
        self._expect_head()

    def on_headers_complete(self) -> None:
        """The head is there; a body may follow."""
        super().on_headers_complete()
        self._in_head, self._got = False, 0
        self._expect(self.body_s, self._look_at_body)

    def on_body(self, body: bytes) -> None:
        """Some of the body."""
        self._got += len(body)
        if self.cycle is not None and self.cycle.response_complete:
            self._thrown += len(body)
            if self._thrown > THROWN_MAX:
                self.transport.abort()
                return
        super().on_body(body)

    def on_message_complete(self) -> None:
        """The whole request is there."""
        self._expect_nothing()
        super().on_message_complete()

    def _expect_head(self) -> None:
        self._expect(self.head_s, self._look_at_head)

    def _expect(self, seconds: float, then: Any) -> None:
        self._expect_nothing()
        self._coming = self.loop.call_later(seconds, then)

    def _expect_nothing(self) -> None:
        if self._coming is not None:
            self._coming.cancel()
            self._coming = None

    def _look_at_head(self) -> None:
        if self.flow.read_paused:
            self._expect_head()
        else:
            self._end_late()

    def _look_at_body(self) -> None:
        enough, self._got = self._got >= self.body_bytes, 0
        if enough or self.flow.read_paused:
            self._expect(self.body_s, self._look_at_body)
        else:
            self._end_late()

    def _end_late(self) -> None:
        if self.transport.is_closing():
            return
        reads = self.cycle is not None and self.cycle.more_body and not self.cycle.response_started
        if reads or (self._in_head and self._is_idle):
            self.transport.write(_ANSWER % (len(_LATE), _LATE))
        self.transport.close()

    # -- what goes out -------------------------------------------------------------------------------------------------

    def pause_writing(self) -> None:
        """So much of an answer waits that no more is made."""
        super().pause_writing()
        if self._taking is None:
            self._taking = self.loop.call_later(self.taken_s, self._end_untaken)

    def resume_writing(self) -> None:
        """Enough of it was taken."""
        if self._taking is not None:
            self._taking.cancel()
            self._taking = None
        if self.flow is not None:
            super().resume_writing()

    def _end_untaken(self) -> None:
        self.transport.abort()
