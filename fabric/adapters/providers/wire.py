"""The one way in which a request to a model's endpoint leaves and its answer comes in.

Each ask makes one request, to the endpoint's own origin, with no credential but the key that is meant for it. The answer comes back as UTF-8, without that key.
"""

from __future__ import annotations

import codecs
import json
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextvars import ContextVar
from typing import Any

import httpx2

from fabric.adapters.known_secrets import CHARS_MIN, MASK
from fabric.adapters.providers.errors import Malformed, error_of
from fabric.adapters.providers.refusals.causes import succeeded
from fabric.adapters.tools.answers.decoding import text_of
from fabric.adapters.tools.answers.headers import charset as charset_of
from fabric.adapters.tools.answers.unpacking import GZIP_MARK, NotUnpacked, Unpacker
from fabric.adapters.tools.outbound import CALL_HEADER, Exchange, Gate, Refused, TooLarge, VettedTransport, authority
from fabric.core.text import DEPTH_MAX, clean_text, nesting
from fabric.runtime.call_ports import ModelRequest

ANSWER_BYTES_MAX = 10_000_000
STREAM_TYPE = "text/event-stream"
SAID_CHARS = 300
"""Characters of an endpoint's own words in a sentence."""
DONE = "[DONE]"
NOTHING = frozenset({"", "null", "ping", "keep-alive"})
"""Data that says no more than that the connection is alive."""
ENVELOPES = ("response", "data", "result", "body")
"""Fields in which gateways put the whole answer of the endpoint behind them."""
JSON = Any
Read = Callable[[httpx2.Response, Exchange], Awaitable[bytes]]

KEY: ContextVar[str] = ContextVar("KEY", default="")
"""The key that the ask of this task goes out with; empty: none. No client keeps one, so that a key that was replaced or deleted is gone."""


class BrokenOff(httpx2.TransportError):
    """A stream that ended before it said that it was over."""


class Unanswered(Exception):
    """A refusal. ``fabric.adapters.providers.errors`` reads why."""


class Reply:
    """The reply to one request: a body at once, or the events of a stream as they come."""

    def __init__(self, response: httpx2.Response, exchange: Exchange, read: Read) -> None:
        self._response, self._exchange, self._read = response, exchange, read

    @property
    def streams(self) -> bool:
        """Returns True where it is a stream of events."""
        kind = self._response.headers.get("content-type", "").partition(";")[0].strip().lower()
        return succeeded(self._exchange.status) and kind == STREAM_TYPE

    async def body(self) -> bytes:
        """The whole body. Raises Refused for one that is too large, and httpx2's transport errors.

        A document that came whole is the answer, although the connection broke before HTTP said that it was over.
        """
        try:
            raw = await self._read(self._response, self._exchange)
        except Refused:
            raise
        except (httpx2.HTTPError, OSError):
            raw = bytes(self._exchange.body)
            if parse_event(self.fitted(raw).decode()) is None:
                raise
            self._exchange.complete = True
        fitted = self.fitted(raw)
        self._exchange.mended = fitted != raw
        self._exchange.body[:] = fitted
        return fitted

    def fitted(self, raw: bytes) -> bytes:
        """A body in UTF-8, without the key that was sent."""
        return _fit(_decoded(raw, charset_of(self._response.headers)))

    async def events(self, body: bytes | None = None) -> AsyncGenerator[dict[str, JSON] | str]:
        """The events of a stream, or of a body that came as one: their JSON objects, or the text of those that are none.

        Ids and comments say nothing that the data does not; a name does where the data has no type. An event may have one line of data or several, and
        servers forget the blank line after it. (WHATWG HTML, "Server-sent events")
        """
        lines: list[str] = []
        name = ""
        async for line in self._lines() if body is None else _lines_of(body):
            if line.startswith(b"data:"):
                lines.append(self._data(line))
                value = parse_event(lines[0] if len(lines) == 1 else "\n".join(lines))
                if value is not None or lines == [DONE]:
                    yield DONE if value is None else _named(value, name)
                    lines, name = [], ""
                elif len(lines) == 1 and lines[0].lower() in NOTHING:
                    lines = []
            elif line.startswith(b"event:"):
                name = line[6:].decode("utf-8", "replace").strip()
            elif not line and lines:
                yield "\n".join(lines)
                lines, name = [], ""
        if lines:
            yield "\n".join(lines)

    async def _lines(self) -> AsyncIterator[bytes]:
        rest = bytearray()
        begun = False
        async for chunk in self._response.aiter_raw():
            _grow(self._exchange, chunk)
            rest += chunk
            if b"\n" not in chunk and b"\r" not in chunk:
                continue
            # A carriage return may be the first half of a line's end.
            kept = 1 if rest.endswith(b"\r") else 0
            *lines, last = bytes(rest[: len(rest) - kept]).replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
            rest = bytearray(last + b"\r" * kept)
            for line in lines:
                yield line if begun else line.removeprefix(codecs.BOM_UTF8)
                begun = True
        if rest.strip():
            yield bytes(rest)

    def _data(self, line: bytes) -> str:
        fitted = _fit(line)
        self._exchange.mended = self._exchange.mended or fitted != line
        return fitted[5:].decode().strip()

    async def aclose(self) -> None:
        """Closes the connection where the answer is not over."""
        await self._response.aclose()


class ModelTransport(VettedTransport):
    """Sends one request an ask to a URL's own origin and hands up its answer as it comes."""

    def __init__(self, url: str, gate: Gate | None) -> None:
        super().__init__(gate, max_bytes=ANSWER_BYTES_MAX)
        self._origin = origin(url)

    async def send(self, url: str, headers: dict[str, str], content: bytes, exchange: Exchange) -> Reply:
        """Posts JSON. Raises Refused, OSError (the name has no address) and httpx2's transport errors."""
        request = httpx2.Request("POST", url, headers={"Content-Type": "application/json", **headers}, content=content)
        if origin(str(request.url)) != self._origin:
            raise Refused(f"{authority(request.url)} is not where this model's endpoint is; it is not asked")
        return Reply(await self.opened(request, exchange), exchange, self.read)


def encoded(body: JSON) -> bytes:
    """A request's body as it goes out."""
    return json.dumps(body, ensure_ascii=False).encode("utf-8", "replace")


def headers_of(request: ModelRequest) -> dict[str, str]:
    """Returns the headers of a request, beside those that its protocol wants."""
    headers = {
        "Accept": "application/json, text/event-stream",
        "User-Agent": "fabric-flow",
        "Idempotency-Key": request.idempotency_key,
        CALL_HEADER: f"{request.run_id}/{request.command_id}/{request.attempt}",
        "X-Fabric-Agent": request.agent,
        "X-Fabric-Output": request.output,
    }
    if len(request.trace_id) == 32 and len(request.span_id) == 16:
        headers["traceparent"] = f"00-{request.trace_id}-{request.span_id}-01"
    return headers


def parsed(text: str, url_hint: str) -> dict[str, JSON]:
    """The JSON object of a body. Raises Malformed, one sentence, for any other.

    Words behind the object, such as a line of a log, mean nothing; another document behind it could be meant as well.
    """
    body = text.strip()
    if not body:
        raise Malformed("with an empty body")
    if body.startswith("<"):
        raise Malformed(f"with a web page instead of JSON{url_hint}")
    if nesting(body) > DEPTH_MAX:
        raise Malformed(f"with JSON nested deeper than {DEPTH_MAX} levels")
    try:
        value, end = _lenient.raw_decode(body)
    except (ValueError, RecursionError):
        raise Malformed(f"not with JSON; it begins with {body[:60]!r}") from None
    if body[end:].lstrip()[:1] in ("{", "["):
        raise Malformed("with two JSON documents in one body, and which of them is meant is not known")
    if isinstance(value, list) and len(value) == 1:
        value = value[0]
    if not isinstance(value, dict):
        raise Malformed(f"with JSON that is no object; it begins with {body[:60]!r}")
    return value


def parsed_list(text: str) -> list[dict[str, JSON]]:
    """The objects of a body that is a list of nothing but objects; empty for any other."""
    if not text.lstrip().startswith("[") or nesting(text) > DEPTH_MAX:
        return []
    try:
        value = _lenient.decode(text.strip())
    except (ValueError, RecursionError):
        return []
    return value if all(isinstance(one, dict) for one in value) else []


def in_envelope(value: dict[str, JSON], wanted: str) -> dict[str, JSON]:
    """The answer out of a gateway's envelope; the value itself where it has what is wanted, or no envelope is around it."""
    if value.get(wanted) is not None:
        return value
    for name in ENVELOPES:
        inner = value.get(name)
        inner = parse_event(inner) if isinstance(inner, str) else inner
        if isinstance(inner, dict) and inner.get(wanted) is not None:
            return inner
    return value


def _named(value: dict[str, JSON], name: str) -> dict[str, JSON]:
    """An event's object with what its name alone says."""
    if name == "error":
        return value if value.get("error") else {"error": value}
    return value if not name or value.get("type") else {**value, "type": name}


def is_events(body: bytes) -> bool:
    """Returns True where a body is the events of a stream, whatever its content type says."""
    return body[:20].lstrip().startswith((b"data:", b"event:", b"id:", b": "))


async def _lines_of(body: bytes) -> AsyncIterator[bytes]:
    for line in body.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n"):
        yield line


def parse_event(text: str) -> dict[str, JSON] | None:
    """The JSON object that a text is; None: it is none, or goes too deep."""
    if nesting(text) > DEPTH_MAX:
        return None
    try:
        value = _lenient.decode(text.strip())
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def no_answer(value: dict[str, JSON], body: bytes, wanted: str) -> Malformed:
    """A 200 that has an error, or nothing, where an answer is wanted."""
    if not (value.get("type") == "error" or any(value.get(name) for name in ("error", "errors", "detail"))):
        return Malformed(f"with JSON that has no {wanted} in it")
    said = " ".join(clean_text(error_of(body).get("message", ""))[0].split())[:SAID_CHARS]
    return Malformed(f"with an error instead of {wanted}" + (f". It says: {said}" if said else ""))


def _number(digits: str) -> int | float:
    # Python reads no integer of more than 4,300 digits; such a count or index says nothing.
    return int(digits) if len(digits) <= 400 else float("inf")


_lenient = json.JSONDecoder(
    parse_int=_number, strict=False
)  # Line breaks in a text, which JSON wants escaped, mean themselves.


def _grow(exchange: Exchange, chunk: bytes) -> None:
    exchange.body += chunk
    if len(exchange.body) > ANSWER_BYTES_MAX:
        raise TooLarge(f"the answer is larger than {ANSWER_BYTES_MAX:,} bytes; the rest is not read")


def _decoded(body: bytes, charset: str) -> bytes:
    """The body in UTF-8, without a byte order mark, and unpacked. ``charset``: as its content type names it."""
    body = _gunzipped(body) if body.startswith(GZIP_MARK) else body
    return text_of(body, "application/json", charset).encode("utf-8", "replace")


def _gunzipped(body: bytes) -> bytes:
    """A body that is packed with gzip and does not say so; as it came where it cannot be unpacked."""
    unpacker = Unpacker(["gzip"], ANSWER_BYTES_MAX)
    try:
        unpacked = b"".join(unpacker.unpack(body))
        unpacker.end()
    except NotUnpacked:
        return body
    return unpacked


def _fit(body: bytes) -> bytes:
    """What came, as UTF-8 and without the key that was sent."""
    fitted, key = body.decode("utf-8", "replace").encode(), KEY.get()
    return fitted.replace(key.encode(), MASK.encode()) if len(key) >= CHARS_MIN else fitted


def host_of(url: str) -> str:
    """The host of a URL in small letters; empty for what is no URL."""
    try:
        return httpx2.URL(url).host.lower()
    except (httpx2.InvalidURL, ValueError):
        return ""


def origin(url: str) -> tuple[str, str] | None:
    """Scheme and ``host:port``; None for what is no http or https URL."""
    if not host_of(url) or not url.startswith(("http://", "https://")):
        return None
    parsed_url = httpx2.URL(url)
    return parsed_url.scheme, authority(parsed_url)


def shown(url: str) -> str:
    """A URL as it may stand in a message: no user name, password or query."""
    try:
        parsed_url = httpx2.URL(url)
        return f"{parsed_url.scheme}://{parsed_url.netloc.decode('ascii', 'replace')}{parsed_url.path.rstrip('/')}"
    except (httpx2.InvalidURL, ValueError):
        return repr(url[:100])
