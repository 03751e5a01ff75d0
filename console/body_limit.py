"""A bound on request bodies, before Django spools one to disk."""

from __future__ import annotations

import re
from typing import Any

from console.api.problems import MEDIA_TYPE, REQUEST_ID, Problem, encode, request_id

BODY_MAX = 32 * 1024 * 1024
"""Bytes. The files of one run, 30 MB together, fit with room to say which one was too large (``fabric/adapters/documents.py``)."""
API_BODY_MAX = 1024 * 1024
API_START_MAX = 25 * 1024 * 1024
"""Eight texts of 1 MB whose JSON writes each character in three times its bytes, or files of 18 MB in base64, and the request."""
REPORT_MAX = 16 * 1024
"""A browser's report on the content policy, which anybody may send."""
DRAIN_MAX = 64 * 1024 * 1024
"""Bytes of a refused body that are read and thrown away, so that a browser still sending sees the answer and not a reset."""

_api = re.compile(r"/api/")
BODIES: tuple[tuple[str, re.Pattern[str], int], ...] = (
    ("POST", re.compile(r"/api/v1/runs\Z"), API_START_MAX),
    ("", _api, API_BODY_MAX),
    ("", re.compile(r"/csp-reports\Z"), REPORT_MAX),
)
"""Method (empty: any), path and bound; the first that fits counts, what fits none has ``BODY_MAX``."""


def body_max(method: str, path: str) -> int:
    """The most bytes that a request's body may have."""
    fitting = (most for verb, pattern, most in BODIES if verb in ("", method) and pattern.match(path))
    return next(fitting, BODY_MAX)


def too_large(limit: int) -> str:
    """The sentence for a body over its bound."""
    size = f"{limit // 1024 // 1024} MB" if limit >= 1024 * 1024 else f"{limit // 1024} KB"
    return f"The request is larger than {size}: send fewer or smaller files."


class _TooLarge(Exception):
    """The body passed the bound while it came in."""


class BodyLimit:
    """An ASGI application around another: answers 413 with one sentence to a body over its bound, whatever its length header says."""

    def __init__(self, app: Any, limit: int | None = None) -> None:
        self._app = app
        self._limit = limit

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Serve one connection."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        limit = self._limit
        if limit is None:
            limit = body_max(scope["method"], scope["path"])
        if _declared(scope) > limit:
            await _refuse(scope, receive, send, seen=0, limit=limit)
            return
        seen = 0

        async def counted() -> Any:
            nonlocal seen
            message = await receive()
            seen += len(message.get("body", b""))
            if seen > limit:
                raise _TooLarge
            return message

        try:
            await self._app(scope, counted, send)
        except _TooLarge:
            # Django reads the whole body before it answers anything, so nothing has been sent.
            await _refuse(scope, receive, send, seen=seen, limit=limit)


def _declared(scope: Any) -> int:
    given = _header(scope, b"content-length")
    return int(given) if given.isdigit() and len(given) < 20 else 0


def _header(scope: Any, wanted: bytes) -> bytes:
    found: bytes = next((value for name, value in scope["headers"] if name == wanted), b"")
    return found


async def _refuse(scope: Any, receive: Any, send: Any, *, seen: int, limit: int) -> None:
    while seen < DRAIN_MAX:
        message = await receive()
        seen += len(message.get("body", b""))
        if message["type"] != "http.request" or not message.get("more_body"):
            break
    body, headers = _answer(scope, limit)
    headers.append((b"content-length", str(len(body)).encode()))
    await send({"type": "http.response.start", "status": 413, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def _answer(scope: Any, limit: int) -> tuple[bytes, list[tuple[bytes, bytes]]]:
    """A problem document for a program, a line of text for a browser."""
    path = scope.get("path", "")
    if not _api.match(path):
        return f"{too_large(limit)}\n".encode(), [(b"content-type", b"text/plain; charset=utf-8")]
    known = request_id(_header(scope, REQUEST_ID.lower().encode()).decode("latin-1"))
    headers = [
        (b"content-type", MEDIA_TYPE.encode()),
        (b"cache-control", b"no-store"),
        (REQUEST_ID.lower().encode(), known.encode()),
    ]
    return encode(Problem(413, too_large(limit)), instance=path, request=known), headers
