"""The only way by which a request to a model's endpoint leaves and its answer comes in.

It makes one request, to the endpoint's own origin, with no credential but the key for it. The answer comes back as
UTF-8, without that key.
"""

from __future__ import annotations

import codecs
import json
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextvars import ContextVar

import httpx2

from fabric.core.texts.text import DEPTH_MAX, clean_text, count_nesting
from fabric.core.values.units import JSON
from fabric.http.bodies import read_text
from fabric.http.compression import GZIP_MARK, NotUnpacked, Unpacker
from fabric.http.headers import charset as charset_of
from fabric.http.transport import CALL_HEADER, Exchange, ExchangeRefused, Gate, TooLarge, VettedTransport, authority
from fabric.providers.refusals.causes import is_success
from fabric.providers.refusals.errors import MalformedAnswer, build_error
from fabric.runtime.ports.calls import ModelRequest
from fabric.secrets.known_secrets import CHARS_MIN, MASK

ANSWER_BYTES_MAX = 10_000_000
STREAM_TYPE = "text/event-stream"
SAID_CHARS = 300
"""Characters of an endpoint's own words in a sentence."""
DONE = "[DONE]"
NOTHING = frozenset({"", "null", "ping", "keep-alive"})
"""Data that only keeps the connection alive."""
ENVELOPES = ("response", "data", "result", "body")
"""Fields in which gateways wrap the endpoint's whole answer."""
Read = Callable[[httpx2.Response, Exchange], Awaitable[bytes]]

KEY: ContextVar[str] = ContextVar("KEY", default="")
"""Key for this task's request; empty: none. No client keeps one, so that a replaced or deleted key is gone."""


class BrokenOff(httpx2.TransportError):
    """A stream that ended before its end mark."""


class EndpointRefusal(Exception):
    """A refusal. ``fabric.providers.refusals.errors`` reads its cause."""


class EndpointReply:
    """The reply to one request: a body at once, or the events of a stream as they come."""

    def __init__(self, response: httpx2.Response, exchange: Exchange, read: Read) -> None:
        self._response, self._exchange, self._read = response, exchange, read

    @property
    def streams(self) -> bool:
        """Return True where it is a stream of events."""
        kind = self._response.headers.get("content-type", "").partition(";")[0].strip().lower()
        return is_success(self._exchange.status) and kind == STREAM_TYPE

    async def body(self) -> bytes:
        """Return the whole body. Raises ExchangeRefused for one that is too large, and httpx2's transport errors.

        A complete document is the answer, although the connection broke before HTTP reported its end.
        """
        try:
            raw = await self._read(self._response, self._exchange)
        except ExchangeRefused:
            raise
        except (httpx2.HTTPError, OSError):
            raw = bytes(self._exchange.body)
            if parse_event(self.fit_body(raw).decode()) is None:
                raise
            self._exchange.complete = True
        fitted = self.fit_body(raw)
        self._exchange.mended = fitted != raw
        self._exchange.body[:] = fitted
        return fitted

    def fit_body(self, raw: bytes) -> bytes:
        """Return a body in UTF-8, without the key that was sent."""
        return _fit(_decode_body(raw, charset_of(self._response.headers)))

    async def events(self, body: bytes | None = None) -> AsyncGenerator[dict[str, JSON] | str]:
        """Yield the events of a stream, or of a body that came at once. Each is a JSON object, or else text.

        Ids and comments add nothing to the data; a name does where the data has no type. An event may have one line
        of data or several, and servers forget the blank line after it. (WHATWG HTML, "Server-sent events")
        """
        lines: list[str] = []
        name = ""
        async for line in self._lines() if body is None else _list_lines(body):
            if line.startswith(b"data:"):
                lines.append(self._data(line))
                value = parse_event(lines[0] if len(lines) == 1 else "\n".join(lines))
                if value is not None or lines == [DONE]:
                    yield DONE if value is None else _add_event_name(value, name)
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
        """Close the connection where the answer is not over."""
        await self._response.aclose()


class ModelTransport(VettedTransport):
    """Sends one request to a URL's own origin and passes on its answer as it comes."""

    def __init__(self, url: str, gate: Gate | None) -> None:
        super().__init__(gate, max_bytes=ANSWER_BYTES_MAX)
        self._origin = origin(url)

    async def send(self, url: str, headers: dict[str, str], content: bytes, exchange: Exchange) -> EndpointReply:
        """Post JSON. Raises ExchangeRefused, OSError (the name has no address) and httpx2's transport errors."""
        request = httpx2.Request("POST", url, headers={"Content-Type": "application/json", **headers}, content=content)
        if origin(str(request.url)) != self._origin:
            raise ExchangeRefused(f"{authority(request.url)} is not where this model's endpoint is; it is not asked")
        return EndpointReply(await self.open_exchange(request, exchange), exchange, self.read)


def encode_body(body: JSON) -> bytes:
    """Return a request's body as it goes out."""
    return json.dumps(body, ensure_ascii=False).encode("utf-8", "replace")


def map_headers(request: ModelRequest) -> dict[str, str]:
    """Return the headers of a request, besides those of its protocol."""
    return {
        **request.trace_headers,
        "Accept": "application/json, text/event-stream",
        "User-Agent": "fabric-flow",
        "Idempotency-Key": request.idempotency_key,
        CALL_HEADER: f"{request.run_id}/{request.command_id}/{request.attempt}",
        "X-Fabric-Agent": request.agent,
        "X-Fabric-Output": request.output,
    }


def parse_body(text: str, url_hint: str) -> dict[str, JSON]:
    """Return the JSON object of a body. Raises MalformedAnswer, one sentence, for any other.

    Words behind the object, such as a line of a log, mean nothing; another document behind it makes the body
    ambiguous.
    """
    body = text.strip()
    if not body:
        raise MalformedAnswer("with an empty body")
    if body.startswith("<"):
        raise MalformedAnswer(f"with a web page instead of JSON{url_hint}")
    if count_nesting(body) > DEPTH_MAX:
        raise MalformedAnswer(f"with JSON nested deeper than {DEPTH_MAX} levels")
    try:
        value, end = _lenient.raw_decode(body)
    except (ValueError, RecursionError):
        raise MalformedAnswer(f"not with JSON; it begins with {body[:60]!r}") from None
    if body[end:].lstrip()[:1] in ("{", "["):
        raise MalformedAnswer("with two JSON documents in one body, and which of them is meant is not known")
    if isinstance(value, list) and len(value) == 1:
        value = value[0]
    if not isinstance(value, dict):
        raise MalformedAnswer(f"with JSON that is no object; it begins with {body[:60]!r}")
    return value


def parsed_list(text: str) -> list[dict[str, JSON]]:
    """Return the objects of a body that is a list of objects only; empty for any other."""
    if not text.lstrip().startswith("[") or count_nesting(text) > DEPTH_MAX:
        return []
    try:
        value = _lenient.decode(text.strip())
    except (ValueError, RecursionError):
        return []
    return value if all(isinstance(one, dict) for one in value) else []


def open_envelope(value: dict[str, JSON], wanted: str) -> dict[str, JSON]:
    """Return the answer out of a gateway's envelope; the value itself where it has the wanted field, or no envelope."""
    if value.get(wanted) is not None:
        return value
    for name in ENVELOPES:
        inner = value.get(name)
        inner = parse_event(inner) if isinstance(inner, str) else inner
        if isinstance(inner, dict) and inner.get(wanted) is not None:
            return inner
    return value


def _add_event_name(value: dict[str, JSON], name: str) -> dict[str, JSON]:
    """Return an event's object with the facts that only its name has."""
    if name == "error":
        return value if value.get("error") else {"error": value}
    return value if not name or value.get("type") else {**value, "type": name}


def is_events(body: bytes) -> bool:
    """Return True where a body is the events of a stream, whatever its content type is."""
    return body[:20].lstrip().startswith((b"data:", b"event:", b"id:", b": "))


async def _list_lines(body: bytes) -> AsyncIterator[bytes]:
    for line in body.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n"):
        yield line


def parse_event(text: str) -> dict[str, JSON] | None:
    """Return the JSON object in a text; None for any other text, or one that is nested too deep."""
    if count_nesting(text) > DEPTH_MAX:
        return None
    try:
        value = _lenient.decode(text.strip())
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def no_answer(value: dict[str, JSON], body: bytes, wanted: str) -> MalformedAnswer:
    """Return the error for a 200 with an error, or without an answer."""
    if not (value.get("type") == "error" or any(value.get(name) for name in ("error", "errors", "detail"))):
        return MalformedAnswer(f"with JSON that has no {wanted} in it")
    said = " ".join(clean_text(build_error(body).get("message", ""))[0].split())[:SAID_CHARS]
    return MalformedAnswer(f"with an error instead of {wanted}" + (f". It says: {said}" if said else ""))


def _number(digits: str) -> int | float:
    # Python reads no integer of more than 4,300 digits; such a count or index means nothing.
    return int(digits) if len(digits) <= 400 else float("inf")


_lenient = json.JSONDecoder(
    parse_int=_number, strict=False
)  # Line breaks in a text, which JSON wants escaped, mean themselves.


def _grow(exchange: Exchange, chunk: bytes) -> None:
    exchange.body += chunk
    if len(exchange.body) > ANSWER_BYTES_MAX:
        raise TooLarge(f"the answer is larger than {ANSWER_BYTES_MAX:,} bytes; the rest is not read")


def _decode_body(body: bytes, charset: str) -> bytes:
    """Return the body in UTF-8, without a byte order mark, and unpacked. ``charset``: from its content type."""
    body = _gunzip_body(body) if body.startswith(GZIP_MARK) else body
    return read_text(body, "application/json", charset).encode("utf-8", "replace")


def _gunzip_body(body: bytes) -> bytes:
    """Return a body with undeclared gzip unpacked; unchanged where that fails."""
    unpacker = Unpacker(["gzip"], ANSWER_BYTES_MAX)
    try:
        unpacked = b"".join(unpacker.unpack(body))
        unpacker.end()
    except NotUnpacked:
        return body
    return unpacked


def _fit(body: bytes) -> bytes:
    """Return the body as UTF-8 and without the key that was sent."""
    fitted, key = body.decode("utf-8", "replace").encode(), KEY.get()
    return fitted.replace(key.encode(), MASK.encode()) if len(key) >= CHARS_MIN else fitted


def read_host(url: str) -> str:
    """Return the host of a URL in small letters; empty for any other text."""
    try:
        return httpx2.URL(url).host.lower()
    except (httpx2.InvalidURL, ValueError):
        return ""


def origin(url: str) -> tuple[str, str] | None:
    """Return scheme and ``host:port``; None for anything but an http or https URL."""
    if not read_host(url) or not url.startswith(("http://", "https://")):
        return None
    parsed_url = httpx2.URL(url)
    return parsed_url.scheme, authority(parsed_url)


def url_for_message(url: str) -> str:
    """Return a URL for a message: no user name, password or query."""
    try:
        parsed_url = httpx2.URL(url)
        return f"{parsed_url.scheme}://{parsed_url.netloc.decode('ascii', 'replace')}{parsed_url.path.rstrip('/')}"
    except (httpx2.InvalidURL, ValueError):
        return repr(url[:100])
