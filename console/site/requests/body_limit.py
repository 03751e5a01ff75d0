"""Limits request bodies before Django spools them to disk, more tightly for unknown senders."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from typing import Any

from console.site.errors.problems import MEDIA_TYPE, REQUEST_ID, Problem, encode, request_id

BODY_MAX = 32 * 1024 * 1024
"""Bytes of any body. The files of one run, 30 MB together, fit, and leave room to name the one that is too large.

See ``fabric/adapters/documents/attachments.py``.
"""
API_BODY_MAX = 1024 * 1024
API_START_MAX = 25 * 1024 * 1024
"""Bytes to start a run by the API.

It fits eight texts of 1 MB whose JSON takes three times their bytes, or files of 18 MB in base64.
"""
REPORT_MAX = 16 * 1024
"""Bytes of a browser's report on the content policy, which anyone may send."""
UNKNOWN_SENDER_MAX = 1024 * 1024
"""Bytes from an unknown sender: enough for a form, and affordable for many at once."""
UNASKED_MAX = 64 * 1024
"""Bytes up to which the sender is not looked up here, but only once, by Django."""
DRAIN_MAX = 64 * 1024 * 1024
"""Bytes of a refused body that are read and dropped. Else a sending browser would see a reset, not the answer."""

Who = Callable[[Any], Awaitable[bool | Problem]]
"""Takes the scope of a request; returns True for a known sender, or a Problem if any body is refused."""

_api = re.compile(r"/api/")
BODIES: tuple[tuple[str, re.Pattern[str], int], ...] = (
    ("POST", re.compile(r"/api/v1/runs\Z"), API_START_MAX),
    ("", _api, API_BODY_MAX),
    ("", re.compile(r"/installation/csp-reports\Z"), REPORT_MAX),
)
"""Method (empty: any), path and limit. The first row that fits counts; without one ``BODY_MAX``."""


def body_max(method: str, path: str) -> int:
    """Return the limit of a request's body, in bytes."""
    fitting = (most for verb, pattern, most in BODIES if verb in ("", method) and pattern.match(path))
    return next(fitting, BODY_MAX)


def too_large(limit: int) -> str:
    """Return the sentence for a body over its limit."""
    size = f"{limit // 1024 // 1024} MB" if limit >= 1024 * 1024 else f"{limit // 1024} KB"
    return f"The request is larger than {size}: send fewer or smaller files."


def unknown_sender_sentence(limit: int) -> str:
    """Return the sentence for a body over the limit of unknown senders."""
    return f"Requests of more than {limit // 1024 // 1024} MB need a sign-in or a token: sign in, and send it again."


class _TooLarge(Exception):
    """The body exceeded its limit while it arrived."""


class BodyLimit:
    """An ASGI application around another one: refuses a body over its limit, even without a length header.

    ``who`` is called before more than ``UNASKED_MAX`` bytes of a body are read. Without it every sender is known.
    """

    def __init__(self, app: Any, limit: int | None = None, who: Who | None = None) -> None:
        self._app = app
        self._limit = limit
        self._who = who

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Serve one connection."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        limit = self._limit
        if limit is None:
            limit = body_max(scope["method"], scope["path"])
        over = Problem(413, too_large(limit))
        if _declared_length(scope) > limit:
            await _refuse(scope, receive, send, seen=0, problem=over)
            return
        known = True if self._who is None or _is_small(scope) else await self._who(scope)
        if isinstance(known, Problem):
            await _answer(scope, send, known)
            return
        if not known and limit > UNKNOWN_SENDER_MAX:
            limit, over = UNKNOWN_SENDER_MAX, Problem(401, unknown_sender_sentence(UNKNOWN_SENDER_MAX))
            if _declared_length(scope) > limit:
                await _answer(scope, send, over)
                return
        await self._serve(scope, receive, send, limit, over)

    async def _serve(self, scope: Any, receive: Any, send: Any, limit: int, over: Problem) -> None:
        seen = 0

        async def count_body() -> Any:
            nonlocal seen
            message = await receive()
            seen += len(message.get("body", b""))
            if seen > limit:
                raise _TooLarge
            return message

        try:
            await self._app(scope, count_body, send)
        except _TooLarge:
            # Django reads the whole body before it answers anything, so nothing has been sent.
            await _refuse(scope, receive, send, seen=seen, problem=over)


def _is_small(scope: Any) -> bool:
    """Return True if there is no body, or its declared length is small."""
    told = _header(scope, b"content-length") or not _header(scope, b"transfer-encoding")
    return bool(told) and _declared_length(scope) <= UNASKED_MAX


def _declared_length(scope: Any) -> int:
    given = _header(scope, b"content-length")
    return int(given) if given.isdigit() and len(given) < 20 else 0


def _header(scope: Any, wanted: bytes) -> bytes:
    found: bytes = next((value for name, value in scope["headers"] if name == wanted), b"")
    return found


async def _refuse(scope: Any, receive: Any, send: Any, *, seen: int, problem: Problem) -> None:
    while seen < DRAIN_MAX:
        message = await receive()
        seen += len(message.get("body", b""))
        if message["type"] != "http.request" or not message.get("more_body"):
            break
    await _answer(scope, send, problem)


async def _answer(scope: Any, send: Any, problem: Problem) -> None:
    body, headers = _limit_answer(scope, problem)
    headers.append((b"content-length", str(len(body)).encode()))
    await send({"type": "http.response.start", "status": problem.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def _limit_answer(scope: Any, problem: Problem) -> tuple[bytes, list[tuple[bytes, bytes]]]:
    """Return a problem document for a program, a line of text for a browser."""
    path = scope.get("path", "")
    if not _api.match(path):
        return f"{problem.detail}\n".encode(), [(b"content-type", b"text/plain; charset=utf-8")]
    known = request_id(_header(scope, REQUEST_ID.lower().encode()).decode("latin-1"))
    headers = [
        (b"content-type", MEDIA_TYPE.encode()),
        (b"cache-control", b"no-store"),
        (REQUEST_ID.lower().encode(), known.encode()),
        *((name.lower().encode(), value.encode()) for name, value in problem.headers.items()),
    ]
    return encode(problem, instance=path, request=known), headers
