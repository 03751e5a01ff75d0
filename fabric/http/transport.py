"""Sends HTTP requests to addresses that a fabric or a model names, without opening a way into the private network.

https to public addresses; plain http and private addresses only for the ``host:port`` pairs that the operator lists
(FABRIC_ALLOWED_HOSTS). A name is resolved once, each of its addresses is vetted, and the connection goes to a vetted
address, so that a second answer of the name server changes nothing. No redirects, no proxies from the environment, a
cap on size, packed or not. (docs/security.md)
"""

from __future__ import annotations

import asyncio
import ipaddress
import re
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import cache
from typing import Any
from urllib.parse import urlsplit

import httpx2

from fabric.core.values.taxonomy import Cause
from fabric.http.compression import NotUnpacked, Unpacker
from fabric.http.headers import RETRY_AFTER_MAX_S as RETRY_AFTER_MAX_S  # noqa: PLC0414 - Others take it from here.
from fabric.http.headers import drop_packing_headers, encodings, list_upward_headers, media_type
from fabric.http.headers import retry_after_s as retry_after_s  # noqa: PLC0414
from fabric.runtime.ports.calls import ModelRequest, ToolRequest

CALL_HEADER = "X-Fabric-Call"
"""Header of a request with its call and attempt: ``call_name``."""
Resolve = Callable[[str, int], Awaitable[Sequence[str]]]
"""Returns the addresses of a host name, as text; raises OSError when it has none."""

_Network = ipaddress.IPv4Network | ipaddress.IPv6Network

DENIED: tuple[tuple[_Network, str], ...] = tuple(
    (ipaddress.ip_network(network), why)
    for network, why in (
        ("0.0.0.0/8", "this network"),
        ("10.0.0.0/8", "private"),
        ("100.64.0.0/10", "carrier-grade NAT"),
        ("127.0.0.0/8", "loopback"),
        ("169.254.0.0/16", "link-local, cloud metadata"),
        ("168.63.129.16/32", "cloud metadata of Azure"),
        ("172.16.0.0/12", "private"),
        ("192.0.0.0/24", "protocol assignments"),
        ("192.0.2.0/24", "documentation"),
        ("192.88.99.0/24", "6to4 relay"),
        ("192.168.0.0/16", "private"),
        ("198.18.0.0/15", "benchmarking"),
        ("198.51.100.0/24", "documentation"),
        ("203.0.113.0/24", "documentation"),
        ("224.0.0.0/4", "multicast"),
        ("240.0.0.0/4", "reserved"),
        ("::/128", "unspecified"),
        ("::1/128", "loopback"),
        ("::/96", "IPv4 as it was written in IPv6 before RFC 4291"),
        ("::ffff:0:0:0/96", "translated IPv4"),
        ("64:ff9b::/96", "translated IPv4"),
        ("64:ff9b:1::/48", "translated IPv4"),
        ("100::/64", "discard"),
        ("2001::/23", "protocol assignments, Teredo"),
        ("2001:db8::/32", "documentation"),
        ("2002::/16", "6to4"),
        ("3fff::/20", "documentation"),
        ("5f00::/16", "segment routing"),
        ("fc00::/7", "private"),
        ("fe80::/10", "link-local"),
        ("fec0::/10", "site-local"),
        ("ff00::/8", "multicast"),
    )
)
"""Forbidden addresses, with the reason. (IANA special-purpose address registries)"""

_name = re.compile(rb"[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]+)*\.?")
_numeric = re.compile(r"(?:^|\.)(?:\d+|0[xX][0-9a-fA-F]*)\.?$")
_ports = {"http": 80, "https": 443}


class ExchangeRefused(httpx2.TransportError):
    """A forbidden address, or an unreadable answer. The message is one sentence for a person."""


class TooLarge(ExchangeRefused):
    """An answer with too many bytes."""


def explain_denial(address: str) -> str:
    """Return the reason why an IP address is forbidden; empty when it is not. IPv4 inside IPv6 is judged as IPv4."""
    try:
        ip = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return "no IP address"
    if isinstance(ip, ipaddress.IPv6Address) and ip.ipv4_mapped is not None:
        ip = ip.ipv4_mapped
    for network, why in DENIED:
        if ip.version == network.version and ip in network:
            return why
    return ""


async def resolve_name(host: str, port: int) -> Sequence[str]:
    """Return the addresses of a name from the system's resolver, in its order."""
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return tuple(dict.fromkeys(str(address[0]) for *_, address in found))


def call_name(request: ModelRequest | ToolRequest) -> str:
    """Return ``run/command id/attempt``, by which the other side's records can be compared with the journal."""
    return f"{request.run_id}/{request.command_id}/{request.attempt}"


@dataclass(frozen=True, slots=True)
class Gate:
    """Rules for addresses. ``trusted`` are ``host:port`` pairs that may be private or plain http."""

    trusted: frozenset[str] = frozenset()
    resolve: Resolve = resolve_name

    @classmethod
    def trust_hosts(cls, hosts: Iterable[str], resolve: Resolve = resolve_name) -> Gate:
        """Return a gate that trusts those ``host:port`` pairs (FABRIC_ALLOWED_HOSTS)."""
        return cls(frozenset(host.strip().lower() for host in hosts if host.strip()), resolve)

    def problem(self, url: str) -> str:
        """Return the error of a URL before any look-up, in one sentence; empty if there is none."""
        try:
            parsed = httpx2.URL(url)
        except (httpx2.InvalidURL, ValueError):
            return f"{url[:200]!r} is no URL; write one like https://example.org/path"
        return self._problem(parsed)

    def _problem(self, url: httpx2.URL) -> str:
        shown = f"{url.scheme}://{authority(url)}"
        if url.scheme not in _ports or not url.host:
            return f"{str(url)[:200]!r} is no http or https URL; write one like https://example.org/path"
        if not _is_ip(url.host) and not _name.fullmatch(url.raw_host):
            return f"{url.host[:200]!r} is no host name; write a URL like https://example.org/path"
        if url.userinfo:
            return f"{shown} carries a user name or password in the URL; leave it out"
        if authority(url) in self.trusted:
            return ""
        if url.scheme != "https":
            return (
                f"{shown} is plain http; use https, or have the operator add {authority(url)} to FABRIC_ALLOWED_HOSTS"
            )
        if why := _host_problem(url.host):
            return f"{shown} is not public ({why}); have the operator add {authority(url)} to FABRIC_ALLOWED_HOSTS"
        return ""

    async def address(self, url: httpx2.URL) -> str | None:
        """Return the vetted address to connect to, or None for a trusted host, by its own name. Raises ExchangeRefused,
        or OSError from the resolver.
        """
        if problem := self._problem(url):
            raise ExchangeRefused(problem)
        if authority(url) in self.trusted:
            return None
        addresses = [url.host] if _is_ip(url.host) else await self.resolve(url.host, read_port(url))
        for address in addresses:
            if why := explain_denial(address):
                raise ExchangeRefused(f"{url.host} leads to {address}, which is not public ({why}); it is not asked")
        if not addresses:
            raise OSError(f"{url.host} has no address")
        return addresses[0]


def read_port(url: httpx2.URL) -> int:
    """Return the port of a URL."""
    return url.port or _ports.get(url.scheme, 0)


def authority(url: httpx2.URL) -> str:
    """Return ``host:port`` in lower case, as FABRIC_ALLOWED_HOSTS writes it; IPv6 in brackets."""
    host = url.host.lower()
    return f"[{host}]:{read_port(url)}" if ":" in host else f"{host}:{read_port(url)}"


def _is_ip(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _host_problem(host: str) -> str:
    if _is_ip(host):
        return explain_denial(host)
    if _numeric.search(host):
        # 127.1, 0x7f000001 and 2130706433 are loopback to some resolvers.
        return "a number that is no usual IP address"
    name = host.rstrip(".").lower()
    return "loopback" if name == "localhost" or name.endswith(".localhost") else ""


def is_loopback(url: str) -> bool:
    """Return True if an address is this machine's own."""
    return _host_problem(urlsplit(url).hostname or "") == "loopback"


@dataclass(slots=True)
class Exchange:
    """Facts about one request and its answer, for the layers that use it."""

    sent: bool = False
    """True once the request began to go out: the other side may have acted on it."""
    status: int | None = None
    headers: httpx2.Headers = field(default_factory=httpx2.Headers)
    body: bytearray = field(default_factory=bytearray)
    """Received part of the answer."""
    complete: bool = False
    output: bool = False
    """True: a part of the answer itself has come."""
    said: str = ""
    """The model's words in a streamed answer that broke off."""
    mended: bool = False
    """True: the body was changed before it was parsed."""


EXCHANGE: ContextVar[Exchange | None] = ContextVar("exchange", default=None)
"""Set before a request to watch the request from outside the client."""


_HEAD, _BODY = "send_request_headers.started", "send_request_body.started"
"""Ends of the trace names right before the bytes are written, with no turn of the loop in between."""


class NotSent(httpx2.TransportError):
    """The request may not go out any more, and did not go out whole."""


@dataclass(slots=True)
class SendPermission:
    """Permission of a prepared request: ``covered`` decides at the last moment."""

    covered: Callable[[], bool]
    stopped: bool = False
    """True: it was kept from going out."""

    def is_allowed(self) -> bool:
        """Return True if the request may go out."""
        self.stopped = self.stopped or not self.covered()
        return not self.stopped


SENDING: ContextVar[SendPermission | None] = ContextVar("sending", default=None)
"""Set before a port is called; HTTP ports check it when their bytes are about to leave."""


@cache
def tls() -> ssl.SSLContext:
    """Return the system's trusted certificates, loaded once."""
    return httpx2.create_ssl_context()


def _has_body(request: httpx2.Request) -> bool:
    return request.headers.get("content-length", "0") != "0" or "transfer-encoding" in request.headers


REFUSAL_S = 2.0
"""Seconds of waiting for the body of a refusal: its status says enough."""


class VettedTransport(httpx2.AsyncBaseTransport):
    """Sends each request to a vetted address and reads the whole answer, up to ``max_bytes``.

    Without a gate the address is the operator's own and is not vetted. ``mend`` may rewrite the body of an answer
    before it is parsed.
    """

    def __init__(
        self, gate: Gate | None, *, max_bytes: int, mend: Callable[[bytes, Exchange], bytes] | None = None
    ) -> None:
        limits = httpx2.Limits(max_connections=None, max_keepalive_connections=100, keepalive_expiry=15.0)
        self._inner = httpx2.AsyncHTTPTransport(verify=tls(), trust_env=False, limits=limits)
        self._gate, self._max_bytes, self._mend = gate, max_bytes, mend

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send the request. Raises ExchangeRefused, OSError (the name has no address) and httpx2's transport errors."""
        exchange = EXCHANGE.get() or Exchange()
        response = await self.open_exchange(request, exchange)
        kept = list_upward_headers(response.headers)
        try:
            body = await self.read(response, exchange)
        finally:
            await response.aclose()
        if self._mend is not None:
            body = self._mend(body, exchange)
        return httpx2.Response(response.status_code, headers=kept, content=body, request=request)

    async def open_exchange(self, request: httpx2.Request, exchange: Exchange) -> httpx2.Response:
        """Return the head of the answer from the vetted address, before its body. Raises as
        ``handle_async_request``.
        """
        sending = SENDING.get()
        # Between its head and its body a request waits for a turn of the loop; no server acts on it without the body.
        looks = (_HEAD, _BODY) if _has_body(request) else (_HEAD,)

        async def trace(event: str, _: dict[str, Any]) -> None:
            if event.endswith(looks) and sending is not None and not sending.is_allowed():
                raise NotSent("it may not go out any more")
            exchange.sent = exchange.sent or event.endswith(_HEAD)

        request.extensions = {**request.extensions, "trace": trace}
        request.headers["Accept-Encoding"] = "identity"
        address = await self._gate.address(request.url) if self._gate else None
        if address is not None:
            # The Host header and the certificate's name stay those of the URL.
            request.extensions["sni_hostname"] = request.url.host
            request.url = request.url.copy_with(host=address)
        with _translate_errors():
            response = await self._inner.handle_async_request(request)
        exchange.status, exchange.headers = response.status_code, response.headers
        return self._unpack_response(response)

    def _unpack_response(self, response: httpx2.Response) -> httpx2.Response:
        """Return the answer with its body unpacked. An answer without a body, as after 204 and 304, has no packing."""
        packed = encodings(response.headers)
        headers = drop_packing_headers(response.headers) if packed else response.headers
        stream = _Body(response, packed, self._max_bytes)
        return httpx2.Response(response.status_code, headers=headers, stream=stream, extensions=response.extensions)

    async def read(self, response: httpx2.Response, exchange: Exchange) -> bytes:
        """Return the whole body of an answer, or the received part of a refusal's.

        Raises ExchangeRefused for one that is too large, and httpx2's transport errors, below status 300.
        """
        refused = response.status_code >= 300
        try:
            async with asyncio.timeout(REFUSAL_S if refused else None):
                async for chunk in response.aiter_raw():
                    exchange.body += chunk
                    if len(exchange.body) > self._max_bytes:
                        raise TooLarge(f"the answer is larger than {self._max_bytes:,} bytes; the rest is not read")
        except (httpx2.HTTPError, OSError):
            if not refused:
                raise
            del exchange.body[self._max_bytes :]  # The status is enough; the body is the received part.
        exchange.complete = True
        return bytes(exchange.body)

    async def aclose(self) -> None:
        """Close the kept connections."""
        await self._inner.aclose()


@contextmanager
def _translate_errors() -> Iterator[None]:
    """Turn every error in reading an answer into ExchangeRefused, or into one of httpx2's transport errors."""
    try:
        yield
    except NotUnpacked as error:
        raise (TooLarge if error.too_large else ExchangeRefused)(f"the answer {error}") from None
    except (httpx2.HTTPError, OSError):
        raise
    except Exception as error:
        raise httpx2.RemoteProtocolError(f"the answer is no HTTP: {error}") from error


class _Body(httpx2.AsyncByteStream):
    """The body of an answer, unpacked as it comes. Raises ExchangeRefused where it cannot be unpacked, and otherwise
    only httpx2's transport errors.
    """

    def __init__(self, response: httpx2.Response, packed: Sequence[str], most: int) -> None:
        self._response, self._packed, self._most = response, packed, most

    async def __aiter__(self) -> AsyncIterator[bytes]:
        with _translate_errors():
            unpacker = Unpacker(self._packed, self._most) if self._packed else None
            async for chunk in self._response.aiter_raw():
                for piece in unpacker.unpack(chunk) if unpacker else (chunk,):
                    yield piece
            if unpacker and media_type(self._response.headers) != "text/event-stream":
                unpacker.end()  # Events say themselves when they are over.

    async def aclose(self) -> None:
        await self._response.aclose()


def causes(error: BaseException) -> list[BaseException]:
    """Return an exception with its causes, down to the first."""
    chain = [error]
    while (below := chain[-1].__cause__ or chain[-1].__context__) is not None and below not in chain:
        chain.append(below)
    return chain


def transport_failure(error: BaseException, exchange: Exchange, where: str) -> tuple[Cause, str]:
    """Return the cause and the sentence for an exchange that broke below HTTP. ``where`` is the visible part of the
    URL.
    """
    chain = causes(error)
    for link in chain:
        if isinstance(link, ExchangeRefused):
            # Before an answer it is the address that may not be asked; after it, the answer that may not be read.
            return (Cause.BAD_CONFIGURATION if exchange.status is None else Cause.MALFORMED_ANSWER), str(link)
    if exchange.status is not None:
        return Cause.DROPPED_STREAM, f"{where} broke off after {len(exchange.body)} bytes of its answer"
    if exchange.sent:
        return Cause.DROPPED_STREAM, f"{where} closed the connection without an answer"
    for link in chain:
        if isinstance(link, ssl.SSLError):
            said = f"{where} has no certificate that this machine trusts: {link.reason or link}"
            return Cause.BAD_CONFIGURATION, said
        if isinstance(link, socket.gaierror):
            return Cause.NETWORK, f"nothing answers at {where}: its name has no address"
    return Cause.NETWORK, f"nothing answers at {where}"
