"""Bodies of answers over streamable HTTP: one message, a batch, or events; read to their bound. Only the request's
own answer passes.
"""

from __future__ import annotations

import asyncio
import math
import re
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field

import httpx2
from httpx2 import EventSource, ServerSentEvent, SSEError

from fabric.core.values.saga import Outcome
from fabric.core.values.taxonomy import Cause
from fabric.core.values.units import JSON
from fabric.http.transport import REFUSAL_S, Exchange, ExchangeRefused
from fabric.tools.answers.outcome import CallBroken, ToolError
from fabric.tools.http.exchange import find_outcome
from fabric.tools.mcp.failures import LARGER, MESSAGE_BYTES_MAX, TOO_LARGE, SessionGone
from fabric.tools.mcp.messages import (
    answer_to,
    excerpt,
    is_answer,
    is_message,
    nameless,
    objects_in,
    same_id,
    write_message,
)

REFUSAL_BYTES = 64_000
"""Largest part of an HTTP refusal's body that is read, in bytes."""
SESSION_CODES = frozenset({-32_600, -32_000, -32_001})
"""The JSON-RPC codes for a session that a server does not know: invalid request, and those that servers define."""
_of_session = re.compile(r"\bsession(?:s|[ _-]?ids?)?\b", re.IGNORECASE)


@dataclass(slots=True)
class CallExchange(Exchange):
    """One call's exchange, with the details of its end that the SDK hides."""

    own: Mapping[str, str] = field(default_factory=dict)
    """Headers of this call."""
    until: float = 0.0
    """Time, by the loop's clock, at which the call is abandoned.

    For servers of before 2026 the SDK does not end the call: it only sends them a cancel, which they may ignore.
    """
    failure: CallBroken | ToolError | None = None
    request_id: JSON = None
    method: str = ""
    """Method of the pending request: a call may have sent others before it, such as a listing."""

    answers: Mapping[str, Mapping[str, JSON]] = field(default_factory=dict)
    """A person's answers, by the digest of the question."""
    questions: list[JSON] = field(default_factory=list)
    """Ids of the server's own requests that came with this call's answer."""
    wanted: tuple[str, Mapping[str, JSON]] | None = None
    """Message and form of the first question without an answer."""
    changes: bool = True
    """False: the call only reads."""
    unclear: bool = False
    """True: its server asked a person without naming a call while several were out."""
    came: int = 0
    """Received bytes of the answer to the pending request."""
    next_get: float = 0.0
    """Time, by the loop's clock, before which no other GET goes out for it."""

    def begin(self, request_id: JSON, method: str) -> None:
        """Record that another request of this call goes out."""
        self.request_id, self.method = request_id, method
        self.sent, self.status, self.failure, self.came = False, None, None, 0

    @property
    def so_far(self) -> str:
        """Return a description of the received part of a late answer."""
        if self.status is not None:
            return f"{self.came} bytes of an answer had come"
        return "no answer had begun"


class _Cut(Exception):
    """A body that was not read to its end."""

    def __init__(self, failure: CallBroken | ToolError) -> None:
        super().__init__(str(failure))
        self.failure = failure


class _Bounded(httpx2.AsyncByteStream):
    """A body that ends at its bound and at its time. Raises _Cut. ``most``: limit of all of it, or, if None, of one
    event.
    """

    def __init__(
        self, response: httpx2.Response, asked: CallExchange, where: str, ends: float, most: int | None
    ) -> None:
        self._response, self._asked, self._where, self._ends, self._most = response, asked, where, ends, most

    async def __aiter__(self) -> AsyncIterator[bytes]:
        read, chunks = 0, aiter(self._response.aiter_raw())
        until = None if math.isinf(self._ends) else self._ends
        while True:
            try:
                async with asyncio.timeout_at(until):
                    chunk = await anext(chunks, None)
            except TimeoutError:
                sentence = f"{self._where} did not end its answer in time: {self._asked.so_far}"
                raise _Cut(CallBroken(Cause.TIMEOUT, sentence)) from None
            except ExchangeRefused as error:
                outcome = find_outcome(self._response.status_code)
                raise _Cut(ToolError(f"{self._where}: {error}", outcome=outcome)) from None
            except (httpx2.HTTPError, OSError):
                sentence = f"{self._where} broke off after {read} bytes of its answer"
                raise _Cut(CallBroken(Cause.DROPPED_STREAM, sentence)) from None
            if chunk is None:
                return
            read += len(chunk)
            self._asked.came = read
            if self._most is not None and read > self._most:
                outcome = find_outcome(self._response.status_code)
                raise _Cut(ToolError(LARGER, outcome=outcome, code=TOO_LARGE))
            yield chunk

    async def aclose(self) -> None:
        await self._response.aclose()


class _EndedBody(httpx2.AsyncByteStream):
    """A body of events with an end after its last one, where a server forgets its blank line. A bare message declared
    as events is an event.
    """

    def __init__(self, body: _Bounded) -> None:
        self._body = body

    async def __aiter__(self) -> AsyncIterator[bytes]:
        whole, plain, last = bytearray(), False, b""
        async for chunk in self._body:
            plain = plain or (not last and chunk.lstrip().startswith((b"{", b"[")))
            last = chunk[-1:]
            if not plain:
                yield chunk
                continue
            whole += chunk
            if len(whole) > MESSAGE_BYTES_MAX:
                raise _Cut(ToolError(LARGER, outcome=Outcome.UNKNOWN, code=TOO_LARGE))
        if plain:
            yield b"data: " + b" ".join(whole.splitlines()) + b"\n\n"
        elif last == b"\n":
            yield b"\n"

    async def aclose(self) -> None:
        await self._body.aclose()


async def read_answer(
    request: httpx2.Request, response: httpx2.Response, asked: CallExchange, where: str, ends: float
) -> httpx2.Response | None:
    """Return the answer as the SDK reads it. None: there is none, and ``asked`` has the reason."""
    status = response.status_code
    wanted = request.method == "GET" or asked.request_id is not None
    if not wanted or not 200 <= status < 300 or status == 202:
        await response.aclose()  # Its content is not needed.
        return httpx2.Response(status, headers=_keep_headers(response), request=request)
    kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind == "text/event-stream":
        most = None if math.isinf(asked.until) else MESSAGE_BYTES_MAX
        body = _Events(request, _EndedBody(_Bounded(response, asked, where, ends, most)), asked, where)
        return httpx2.Response(status, headers=_keep_headers(response), stream=body, request=request)
    try:
        raw = await _read(_Bounded(response, asked, where, ends, MESSAGE_BYTES_MAX))
    except _Cut as cut:
        asked.failure = cut.failure
        return None
    finally:
        await response.aclose()
    answer = _one_answer(raw, kind, asked, where)
    if answer is None:
        return None
    headers = _keep_headers(response) | {"content-type": "application/json"}
    return httpx2.Response(status, headers=headers, content=answer, request=request)


async def read_refusal(
    request: httpx2.Request,
    response: httpx2.Response,
    asked: CallExchange,
    where: str,
    ends: float,
    *,
    in_session: bool,
) -> httpx2.Response | None:
    """Return the protocol's own error in an HTTP refusal, as the SDK reads it. None: there is none, and ``asked``
    has the failure.
    """
    status, raw = response.status_code, b""
    ends = min(ends, asyncio.get_running_loop().time() + REFUSAL_S)
    try:
        raw = await _read(_Bounded(response, asked, where, ends, REFUSAL_BYTES))
    except _Cut:
        pass  # The status says enough.
    finally:
        await response.aclose()
    listed = objects_in(raw)
    message = next((one for one in listed or () if isinstance(one.get("error"), dict)), None)
    if in_session and session_is_gone(status, message, raw):
        words = excerpt(message["error"].get("message")) if message is not None else ""
        asked.failure = SessionGone(words, status)
        return None
    if isinstance(asked.failure, CallBroken):
        return None
    if message is not None:
        body = write_message(answer_to(message, asked.request_id or 0, asked.method))
        headers = _keep_headers(response) | {"content-type": "application/json"}
        return httpx2.Response(status, headers=headers, content=body, request=request)
    asked.failure = ToolError(f"{where} answered HTTP {status}{_words(raw)}", outcome=find_outcome(status))
    return None


def refused_by(asked: CallExchange, server: str) -> CallBroken | ToolError | None:
    """Return the failure of a refusal whose status came in time. None: no refusal came."""
    if asked.status is None or asked.status < 400:
        return None
    if isinstance(asked.failure, SessionGone):
        return asked.failure.name_server(server)
    said = f"MCP server {server!r} answered HTTP {asked.status}"
    return asked.failure or ToolError(said, outcome=find_outcome(asked.status))


def session_is_gone(status: int, message: Mapping[str, JSON] | None, raw: bytes) -> bool:
    """Return True where a server refuses a request because it does not know the session (MCP "Session Management":
    404).

    Some servers answer 400 or 401 with such words instead: those refuse a request unseen, with no error code of a
    tool's.
    """
    if status == 404:
        return True
    if status not in (400, 401):
        return False
    if message is None:
        return _of_session.search(raw.decode("utf-8", "replace")) is not None and not _is_page(raw)
    error = message["error"]
    return error.get("code") in SESSION_CODES and _of_session.search(str(error.get("message", ""))) is not None


def _is_page(raw: bytes) -> bool:
    head = raw[:1_000].lstrip().lower()
    return head.startswith((b"<!doctype html", b"<html")) or b"<html" in head


def _words(raw: bytes) -> str:
    """Return the words of a refusal besides its status."""
    if _is_page(raw):
        return " with a web page"
    said = excerpt(raw)
    return f"; it says: {said}" if said else ""


async def _read(body: _Bounded) -> bytes:
    read = bytearray()
    async for chunk in body:
        read += chunk
    return bytes(read)


def _one_answer(raw: bytes, kind: str, asked: CallExchange, where: str) -> bytes | None:
    """Return the message of a body that answers the request; None: there is none, and ``asked`` has the reason."""
    listed = objects_in(raw)
    if listed is None:
        asked.failure = CallBroken(Cause.MALFORMED_ANSWER, f"{where} {_unread(raw, kind)}")
        return None
    strange = []
    for message in listed:
        if is_answer(message):
            if nameless(message) or same_id(message.get("id"), asked.request_id):
                return write_message(answer_to(message, asked.request_id, asked.method))
            strange.append(message.get("id"))
    asked.failure = _other(strange, listed, where)
    return None


def _unread(raw: bytes, kind: str) -> str:
    if not raw.strip():
        return "answered without a message"
    if _is_page(raw):
        return "answered with a web page, not with MCP; it may be a page to sign in, or the address of something else"
    announced = f" ({kind})" if kind and "json" not in kind else ""
    return f"answered what cannot be read as a message of MCP{announced}: {excerpt(raw, 100)!r}"


def _other(strange: list[JSON], listed: list[dict[str, JSON]], where: str) -> CallBroken:
    if strange:
        said = f"answered the request {excerpt(strange[0], 50)}, which is not the one that was sent"
    else:
        said = f"answered what is no answer: {excerpt(listed[0], 100)!r}"
    return CallBroken(Cause.MALFORMED_ANSWER, f"{where} {said}")


class _Events(httpx2.AsyncByteStream):
    """Events as the SDK may read them. They are whole, with the server's own messages and the answer to the request
    alone.
    """

    def __init__(self, request: httpx2.Request, body: _EndedBody, asked: CallExchange, where: str) -> None:
        headers = {"content-type": "text/event-stream"}
        self._source = EventSource(
            httpx2.Response(200, headers=headers, stream=body, request=request),
            max_event_size=2 * MESSAGE_BYTES_MAX,
        )
        self._body, self._asked, self._where = body, asked, where
        self._strange: list[JSON] = []

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            async for event in self._source:
                for data in self._passed_on(event):
                    yield _event(event, data)
        except _Cut as cut:
            self._asked.failure = cut.failure
        except SSEError:
            self._asked.failure = ToolError(LARGER, outcome=Outcome.UNKNOWN, code=TOO_LARGE)
        else:
            if self._strange and self._asked.failure is None:
                self._asked.failure = _other(self._strange, [], self._where)
        if isinstance(self._asked.failure, ToolError | CallBroken) and self._ends_it():
            error = {"code": -32_603, "message": str(self._asked.failure)}
            yield _event(
                ServerSentEvent(), write_message({"jsonrpc": "2.0", "id": self._asked.request_id, "error": error})
            )

    def _ends_it(self) -> bool:
        """Return True where an error ends the request. A broken connection does not, where the SDK may ask for the
        rest.
        """
        failure = self._asked.failure
        return not (isinstance(failure, CallBroken) and failure.cause is Cause.DROPPED_STREAM)

    def _passed_on(self, event: ServerSentEvent) -> list[bytes]:
        listed = objects_in(event.data.encode("utf-8", "surrogatepass")) if event.data else None
        # Some servers name the event differently; an answer shows its own kind.
        named = event.event == "message" or any(is_answer(one) for one in listed or ())
        if not named or not event.data:
            return [b""] if event.id else []
        if listed is None:
            said = excerpt(event.data, 100)
            self._asked.failure = CallBroken(
                Cause.MALFORMED_ANSWER, f"{self._where} sent an event that cannot be read: {said!r}"
            )
            return []
        return [data for one in listed if (data := self._message(one)) is not None]

    def _message(self, message: dict[str, JSON]) -> bytes | None:
        own = self._asked.request_id
        if "method" in message and message.get("id") is not None:
            self._asked.questions.append(message["id"])
        if not is_answer(message) or own is None:
            return write_message(message) if is_message(message) else None
        if nameless(message) or same_id(message.get("id"), own):
            self._asked.failure = None
            return write_message(answer_to(message, own, self._asked.method))
        self._strange.append(message.get("id"))
        return None

    async def aclose(self) -> None:
        await self._body.aclose()


def _event(event: ServerSentEvent, data: bytes) -> bytes:
    name = f"id: {event.id}\n".encode() if event.id else b""
    again = f"retry: {event.retry}\n".encode() if event.retry is not None else b""
    return name + again + b"data: " + data + b"\n\n"


def _keep_headers(response: httpx2.Response) -> dict[str, str]:
    passing = ("content-length", "transfer-encoding", "content-encoding")
    return {name: one for name, one in response.headers.items() if name.lower() not in passing}
