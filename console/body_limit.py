"""A bound on request bodies, before Django spools one to disk."""

from __future__ import annotations

from typing import Any

BODY_MAX = 32 * 1024 * 1024
"""Bytes. Eight attachments of 1 MB fit with room to say which one was too large."""
DRAIN_MAX = 64 * 1024 * 1024
"""Bytes of a refused body that are read and thrown away, so that a browser still sending sees the answer and not a reset."""

SENTENCE = f"The request is larger than {BODY_MAX // 1024 // 1024} MB: send fewer or smaller files.\n".encode()


class _TooLarge(Exception):
    """The body passed the bound while it came in."""


class BodyLimit:
    """An ASGI application around another: answers 413 with one sentence to a body over ``BODY_MAX``, whatever its length header says."""

    def __init__(self, app: Any, limit: int = BODY_MAX) -> None:
        self._app = app
        self._limit = limit

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Serve one connection."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        if _declared(scope) > self._limit:
            await _refuse(receive, send, seen=0)
            return
        seen = 0

        async def counted() -> Any:
            nonlocal seen
            message = await receive()
            seen += len(message.get("body", b""))
            if seen > self._limit:
                raise _TooLarge
            return message

        try:
            await self._app(scope, counted, send)
        except _TooLarge:
            # Django reads the whole body before it answers anything, so nothing has been sent.
            await _refuse(receive, send, seen=seen)


def _declared(scope: Any) -> int:
    for name, value in scope["headers"]:
        if name == b"content-length":
            return int(value) if value.isdigit() else 0
    return 0


async def _refuse(receive: Any, send: Any, *, seen: int) -> None:
    while seen < DRAIN_MAX:
        message = await receive()
        seen += len(message.get("body", b""))
        if message["type"] != "http.request" or not message.get("more_body"):
            break
    headers = [(b"content-type", b"text/plain; charset=utf-8"), (b"content-length", str(len(SENTENCE)).encode())]
    await send({"type": "http.response.start", "status": 413, "headers": headers})
    await send({"type": "http.response.body", "body": SENTENCE})
