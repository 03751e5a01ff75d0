"""What of HTTP differs between the providers' protocols, and the one way in which their requests leave and their answers come in."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import httpx2

from fabric.adapters.providers.errors import Malformed, error_of
from fabric.adapters.providers.streaming import OPTION, STREAM_TYPE, STREAMED, Dialect, EventStream
from fabric.adapters.tools.outbound import (
    CALL_HEADER,
    EXCHANGE,
    Exchange,
    Gate,
    Refused,
    VettedTransport,
    authority,
)
from fabric.core.text import DEPTH_MAX, nesting

ANSWER_BYTES_MAX = 10_000_000
ANSWERED_KEY_CHARS_MIN = 12
"""Keys at least this long are also taken out of answers; a shorter one may be a word that an answer means."""
_HTTP_HEADERS = ("host", "accept", "accept-encoding", "connection", "content-type", "content-length", "user-agent")
OWN_HEADERS = ("Idempotency-Key", CALL_HEADER, "X-Fabric-Agent", "X-Fabric-Output", "traceparent")
"""What this program says of its call, beside what the protocol wants."""


@dataclass(frozen=True, slots=True)
class Wire:
    """A provider's protocol below its client library."""

    noun: str
    """What an answer is called: "chat completion"."""
    wanted: str
    """The field that each answer has."""
    key_header: Callable[[str], tuple[str, str]]
    """The header that carries a key."""
    is_answer: Callable[[dict[str, Any]], bool]
    """Whether the JSON of a 200 is an answer, as far as its client library needs it."""
    stream: Dialect
    """What the events of its streams say."""
    url_hint: str = ""
    """How the URL usually looks, for one that leads nowhere; begins with "; "."""
    headers: tuple[str, ...] = ()
    """What the protocol wants beside HTTP's own. Nothing else leaves: client libraries add headers from the environment."""
    settle: Callable[[dict[str, Any]], bool] = lambda value: False
    """Changes what its client library would trip over, or ask again for; True: it changed something."""


KEY: ContextVar[str] = ContextVar("KEY", default="")
"""The key that the ask of this task goes out with; empty: none. No client holds one, so that a key that was replaced or deleted is gone."""


class WireTransport(VettedTransport):
    """Sends one request an ask, to ``url``'s own origin, with no credential but ``KEY``; hands up only UTF-8 JSON objects, without that key."""

    def __init__(self, wire: Wire, url: str, gate: Gate | None) -> None:
        super().__init__(gate, max_bytes=ANSWER_BYTES_MAX, mend=self._mended)
        self._wire, self._origin = wire, origin(url)
        self._kept = frozenset(name.lower() for name in (*_HTTP_HEADERS, *OWN_HEADERS, *wire.headers))

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Raises what ``VettedTransport`` does, and Refused for what a client library would send on its own."""
        exchange = EXCHANGE.get() or Exchange()
        if exchange.status is not None or exchange.sent:
            raise Refused("the client library wanted to ask a second time; it may not")
        if origin(str(request.url)) != self._origin:
            raise Refused(f"the client library wanted to ask {authority(request.url)} instead; it may not")
        for name in [name for name in request.headers if name not in self._kept]:
            del request.headers[name]
        if key := KEY.get():
            name, text = self._wire.key_header(key)
            request.headers[name] = text
        return await super().handle_async_request(request)

    def _passed_on(self, response: httpx2.Response, exchange: Exchange) -> httpx2.AsyncByteStream | None:
        streams = response.headers.get("content-type", "").partition(";")[0].strip().lower() == STREAM_TYPE
        plain = response.headers.get("content-encoding", "identity").strip().lower() in ("", "identity")
        if not (STREAMED.get() and streams and plain and response.status_code == 200):
            return None
        return EventStream(response, exchange, _fit, self._wire.stream, ANSWER_BYTES_MAX)

    def _mended(self, body: bytes, exchange: Exchange) -> bytes:
        mended = _fit(body)
        exchange.mended = mended != body
        exchange.body[:] = mended
        if exchange.status == 200:
            return self._checked(mended, exchange)
        return mended

    def _checked(self, body: bytes, exchange: Exchange) -> bytes:
        """Raises Malformed for a 200 that is no answer, before the client library meets it."""
        wire, text = self._wire, body.decode().strip()
        if not text:
            raise Malformed("with an empty body")
        if text.startswith("<"):
            raise Malformed(f"with a web page instead of JSON{wire.url_hint}")
        if nesting(text) > DEPTH_MAX:
            raise Malformed(f"with JSON nested deeper than {DEPTH_MAX} levels")
        try:
            value = json.loads(text)
        except ValueError:
            raise Malformed(f"not with JSON; it begins with {text[:60]!r}") from None
        if not isinstance(value, dict) or not wire.is_answer(value):
            raise Malformed(
                f"with an error instead of {wire.wanted}"
                if error_of(body)
                else f"with JSON that has no {wire.wanted} in it"
            )
        if STREAMED.get():
            raise Malformed(f"at once, where a stream was asked for; set the model's option `{OPTION}` to false")
        exchange.headers["content-type"] = "application/json"
        return json.dumps(value).encode() if wire.settle(value) else body


def _fit(body: bytes) -> bytes:
    """What came, as UTF-8 and without the key that was sent."""
    mended, key = body.decode("utf-8", "replace").encode(), KEY.get()
    return mended.replace(key.encode(), b"[key]") if len(key) >= ANSWERED_KEY_CHARS_MIN else mended


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
    parsed = httpx2.URL(url)
    return parsed.scheme, authority(parsed)


def shown(url: str) -> str:
    """A URL as it may stand in a message: no user name, password or query."""
    try:
        parsed = httpx2.URL(url)
        return f"{parsed.scheme}://{parsed.netloc.decode('ascii', 'replace')}{parsed.path.rstrip('/')}"
    except (httpx2.InvalidURL, ValueError):
        return repr(url[:100])
