"""Ends slow connections in uvicorn's HTTP protocol: slow heads, bodies and readers, and too many connections.

uvicorn waits for a request without limit. Bodies are judged by their progress and not by their length, so a large
upload over a slow line is admitted (as Apache's mod_reqtimeout does). Sockets are not handled here: they have pings.
"""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

HEAD_S = 20.0
"""Seconds from a connection, or a request's first byte, to the end of its head."""
BODY_S = 20.0
"""Seconds in which a body has to advance, repeatedly, by ``BODY_BYTES`` or to its end."""
BODY_BYTES = 20_000
"""A kilobyte a second."""
TAKEN_S = 60.0
"""Seconds in which the client has to read some of a waiting answer."""
CONNECTIONS_MAX = 2_000
"""Number of connections of one process, with sockets. A request over a further one is answered 503."""
SPARE = 100
"""Number of further connections that are accepted, to answer 503; more are closed unread."""
THROWN_MAX = 64 * 1024 * 1024
"""Bytes of a body that are read and dropped after its answer."""

LET_GO = "fabric.let_go"
"""Key of a request's scope with what ends its answer, for an answer that goes on by itself."""

_LATE = b"The request came in too slowly: it was not read to its end. Send it again over a faster line.\n"
_ANSWER = b"HTTP/1.1 408 Request Timeout\r\ncontent-type: text/plain; charset=utf-8\r\ncontent-length: %d\r\nconnection: close\r\n\r\n%s"


class ImpatientProtocol(HttpToolsProtocol):
    """Ends connections that block the server. Time in which the server itself does not read is not counted."""

    head_s, body_s, body_bytes, taken_s = HEAD_S, BODY_S, BODY_BYTES, TAKEN_S

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self._coming: asyncio.TimerHandle | None = None
        self._taking: asyncio.TimerHandle | None = None
        self._got = self._thrown = 0
        self._in_head = self._handed_over = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Accept a connection, or close it if there are too many."""
        super().connection_made(transport)
        if len(self.connections) > (self.limit_concurrency or CONNECTIONS_MAX) + SPARE:
            transport.abort()
            return
        self._expect_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """Cancel its deadlines."""
        self._expect_nothing()
        self.resume_writing()
        super().connection_lost(exc)

    def handle_websocket_upgrade(self) -> None:
        """Hand the connection over, because it becomes a socket."""
        self._handed_over = True
        self._expect_nothing()
        super().handle_websocket_upgrade()

    def shutdown(self) -> None:
        """End the connection after its answer; an answer that goes on by itself ends now."""
        super().shutdown()
        let_go: Any = None if self.cycle is None else self.cycle.scope.get(LET_GO)
        if let_go is not None:
            let_go()

    # -- what comes in -------------------------------------------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        """Receive bytes. Line ends between two requests begin no request; they end the wait for one."""
        super().data_received(data)
        waits = self._coming is not None or self.timeout_keep_alive_task is not None
        if self._is_idle and not waits and not self._handed_over and not self.transport.is_closing():
            self._expect_head()

    @property
    def _is_idle(self) -> bool:
        return self.cycle is None or self.cycle.response_complete

    def on_message_begin(self) -> None:
        """Start the deadline of a request's head."""
        super().on_message_begin()
        self._in_head, self._thrown = True, 0
        self._expect_head()

    def on_headers_complete(self) -> None:
        """End the deadline of the head, and start the body's."""
        super().on_headers_complete()
        self._in_head, self._got = False, 0
        self._expect(self.body_s, self._look_at_body)

    def on_body(self, body: bytes) -> None:
        """Note the progress of the body."""
        self._got += len(body)
        if self.cycle is not None and self.cycle.response_complete:
            self._thrown += len(body)
            if self._thrown > THROWN_MAX:
                self.transport.abort()
                return
        super().on_body(body)

    def on_message_complete(self) -> None:
        """End the deadline of the body."""
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
        """Start the client's time to read, because the write buffer is full."""
        super().pause_writing()
        if self._taking is None:
            self._taking = self.loop.call_later(self.taken_s, self._end_untaken)

    def resume_writing(self) -> None:
        """Stop the client's time to read, because the buffer has room again."""
        if self._taking is not None:
            self._taking.cancel()
            self._taking = None
        if self.flow is not None:
            super().resume_writing()

    def _end_untaken(self) -> None:
        self.transport.abort()
