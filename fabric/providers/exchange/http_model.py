"""Sends one request to a model over HTTP: the common base of all providers.

It uses one transport per endpoint on one event loop, no retry, no redirect, no proxy from the environment, a hard end
at the deadline, a cap on the answer's size. This module, never a client library, decides where a key may go, which
cause a failure has and what an answer is charged.
"""

from __future__ import annotations

import asyncio
import dataclasses
import time
from abc import ABC
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from fabric.core.events.inputs import CallFailed, ModelReplied
from fabric.core.spec.tree import ModelSpec
from fabric.core.values.frozen import replace
from fabric.core.values.taxonomy import Cause
from fabric.http.transport import EXCHANGE, Exchange, Gate
from fabric.providers.exchange.keys import (
    KeyRing,
    KeysUnreadable,
    NotSignedIn,
    SignedIn,
    SignIn,
    StoredKey,
    origin_text,
)
from fabric.providers.exchange.prices import PRICED_AS
from fabric.providers.exchange.settlement import meter, settle
from fabric.providers.exchange.streams import OPTION, read_body, read_stream, wants_stream
from fabric.providers.exchange.wire import (
    KEY,
    BrokenOff,
    EndpointRefusal,
    EndpointReply,
    ModelTransport,
    encode_body,
    is_events,
    map_headers,
    open_envelope,
    origin,
    parse_body,
    read_host,
    url_for_message,
)
from fabric.providers.protocols import options as model_options
from fabric.providers.protocols.contract import ModelAnswer, Protocol
from fabric.providers.protocols.fitting import fit
from fabric.providers.refusals.causes import is_success
from fabric.providers.refusals.errors import (
    RequestFacts,
    SettingNames,
    broken_off,
    build_failure,
    build_unsent,
    came_in_part,
    classify,
)
from fabric.runtime.ports.calls import ModelRequest
from fabric.secrets.known_secrets import KNOWN

__all__ = ["OPTION", "Endpoint", "HttpModel"]

UNOPENED = "the key stored for it does not open here, since the key ring lacks what it was sealed under: it needs to be set again"


@dataclass(frozen=True, slots=True)
class Endpoint:
    """The operator's endpoint: FABRIC_MODEL_URL, FABRIC_MODEL, FABRIC_MODEL_KEY. Its URL is always trusted."""

    url: str = ""
    model: str = ""
    key: str = ""
    extra: frozenset[str] = frozenset()
    """Further fields of a request's body that the operator lets fabrics set (FABRIC_EXTRA_BODY)."""


class HttpModel(ABC):
    """A ``ModelPort`` over HTTP. Used on one event loop; ``aclose`` it there.

    1. ``gate`` vets the URLs that fabrics name; the operator's own URL is not vetted.
    2. ``keys``: those that workspaces stored, each for one origin; they go before the operator's.
    3. ``sign_in``: signs requests to the operator's own URL where no key is set; None: nothing signs them.
    4. ``now`` is microseconds since the epoch.
    """

    PROTOCOL: ClassVar[Protocol]
    NAMES: ClassVar[SettingNames]
    OPTIONS: ClassVar[frozenset[str]]
    """``ModelSpec.options`` that the adapter knows, besides ``prices.PRICED_AS``."""

    def __init__(
        self,
        endpoint: Endpoint,
        *,
        gate: Gate | None = None,
        keys: KeyRing | None = None,
        sign_in: SignIn | None = None,
        now: Callable[[], int] = lambda: time.time_ns() // 1_000,
    ) -> None:
        self._endpoint = endpoint
        KNOWN.add("model endpoints", [endpoint.key])
        self._gate = gate or Gate()
        self._keys = keys
        self._sign_in = sign_in
        self._now = now
        self._transports: dict[str, ModelTransport] = {}
        self._loop: asyncio.AbstractEventLoop | None = None

    async def ask(self, request: ModelRequest) -> ModelReplied | CallFailed:
        """Make one request. Every failure is a ``CallFailed``; only cancellation is raised."""
        url = (request.model.base_url or self._endpoint.url).strip().rstrip("/")
        started = self._now()
        asked = self._describe_request(request, url, await self._read_stored_key(request, url))
        if isinstance(asked, CallFailed):
            return asked
        signed = await self._sign_request(request, asked, url)
        if isinstance(signed, CallFailed):
            return signed
        if signed is not None:
            asked = dataclasses.replace(asked, key=signed.secret, signed=signed.source)
        exchange = Exchange()
        token, key = EXCHANGE.set(exchange), KEY.set(asked.key)
        try:
            async with asyncio.timeout((request.deadline_at - self._now()) / 1e6) as limit:
                answer = await self._answer(request, url, asked, signed, exchange, limit)
            if answer.finish == "broken":
                return _add_usage(request, answer, broken_off(exchange, asked))
            return settle(request, answer, protocol=self._protocol(request.model).key, mended=exchange.mended)
        except TimeoutError as error:
            # A refusal is one by its status, also where its body does not end.
            if not limit.expired() or (exchange.status or 0) >= 300:
                return classify(error, exchange, asked, self._now() / 1e6)
            return _late(asked, exchange, (self._now() - started) / 1e6)
        except Exception as error:  # noqa: BLE001 - The port's contract: every failure is data, or a run would hang on it.
            return self._unread(request, classify(error, exchange, asked, self._now() / 1e6), exchange)
        finally:
            EXCHANGE.reset(token)
            KEY.reset(key)

    def write_body(self, request: ModelRequest) -> bytes:
        """Return the body of a request as it is sent. A request rebuilt from its run's journal has the bytes of its
        first sending.
        """
        spec, protocol = request.model, self._protocol(request.model)
        model, schema = spec.model or self._endpoint.model, self._wants_schema(request)
        fitted = fit(request.messages, spec.name, protocol.key)
        body = protocol.body(request, fitted, model=model, schema=schema, stream=wants_stream(request))
        return encode_body(self._body(request, body, (spec.base_url or self._endpoint.url).strip().rstrip("/")))

    async def aclose(self) -> None:
        """Close the connections, on the loop of their use."""
        transports, self._transports = list(self._transports.values()), {}
        for transport in transports:
            await transport.aclose()

    async def _answer(
        self,
        request: ModelRequest,
        url: str,
        asked: RequestFacts,
        signed: SignedIn | None,
        exchange: Exchange,
        limit: asyncio.Timeout,
    ) -> ModelAnswer:
        """Return the answer, at once or as it streams in. Raises EndpointRefusal for a refusal, and the transport's own
        errors.
        """
        protocol, stream = self._protocol(request.model), wants_stream(request)
        address, content = url + self._path(request.model, asked.model, url, stream=stream), self.write_body(request)
        proof = self._key_header(asked.key) if signed is None else signed.headers(address, content)
        headers = {**map_headers(request), **protocol.headers, **proof}
        reply = await self._transport(url).send(address, headers, content, exchange)
        try:
            return await self._read(request, protocol, reply, exchange, limit.when())
        finally:
            await reply.aclose()

    async def _read(
        self,
        request: ModelRequest,
        protocol: Protocol,
        reply: EndpointReply,
        exchange: Exchange,
        deadline: float | None,
    ) -> ModelAnswer:
        """Return the answer of a reply. Its body shows if it is a stream or comes at once, whatever its content type
        is.
        """
        if reply.streams:
            answer = await read_stream(request, protocol, reply.events(), exchange, deadline)
            if answer is not None:
                return answer
            if not exchange.body.strip():
                raise BrokenOff("the stream ended before its answer began")
            exchange.complete = True
            raw = reply.fit_body(bytes(exchange.body))
        else:
            raw = await reply.body()
            if not is_success(exchange.status):
                raise EndpointRefusal
            if is_events(raw):
                answer = await read_stream(request, protocol, reply.events(raw), exchange, deadline)
                if answer is not None:
                    return answer
        return read_body(protocol, raw)

    def _unread(self, request: ModelRequest, found: CallFailed, exchange: Exchange) -> CallFailed:
        """Return a failure with the token counts of its answer, where those are readable although the answer is
        useless.
        """
        if not found.billed or not is_success(exchange.status) or not exchange.complete:
            return found
        try:
            protocol = self._protocol(request.model)
            value = open_envelope(parse_body(bytes(exchange.body).decode("utf-8", "replace"), ""), protocol.wanted)
            answer = protocol.read({**value, protocol.wanted: value.get(protocol.wanted) or []})
            return _add_usage(request, answer, found)
        except Exception:  # noqa: BLE001 - An unreadable answer says nothing, and the failure stands.
            return found

    # -- each provider's own way --

    def _protocol(self, spec: ModelSpec) -> Protocol:
        """Return the protocol of a model."""
        return self.PROTOCOL

    def _path(self, spec: ModelSpec, model: str, url: str, *, stream: bool) -> str:
        """Return the path behind the base URL."""
        return self._protocol(spec).path(model, stream=stream)

    def _key_header(self, key: str) -> dict[str, str]:
        """Return the header that carries a key; none without one."""
        return {"Authorization": f"Bearer {key}"} if key else {}

    def _body(self, request: ModelRequest, body: dict[str, object], url: str) -> dict[str, object]:
        """Return the request's body, with this provider's differences from its protocol."""
        return body

    def _explain_refusal(self, spec: ModelSpec, model: str, url: str) -> str:
        """Return the reason why a fabric's model cannot be called; empty: it can."""
        return ""

    # -- what is certain before any request --

    async def _read_stored_key(self, request: ModelRequest, url: str) -> StoredKey | KeysUnreadable | None:
        """Return the workspace's stored key for a URL's origin; KeysUnreadable where the store does not answer
        within the deadline.
        """
        where = origin(url)
        if self._keys is None or not request.workspace or where is None:
            return None
        try:
            async with asyncio.timeout(max(0.0, (request.deadline_at - self._now()) / 1e6)):
                return await self._keys.find((request.workspace, request.model.provider, origin_text(where)))
        except KeysUnreadable as error:
            return error
        except TimeoutError:
            return KeysUnreadable("the stored keys of model endpoints were still being read when the deadline came")

    def _describe_request(
        self, request: ModelRequest, url: str, held: StoredKey | KeysUnreadable | None
    ) -> RequestFacts | CallFailed:
        """Return the request's description, or a failure that is certain before any request."""
        spec = request.model
        model, own = spec.model or self._endpoint.model, self._own(url)
        stored = isinstance(held, StoredKey)
        key = held.secret if isinstance(held, StoredKey) else self._endpoint.key if own else ""
        asked = RequestFacts(
            request.command_id,
            request.attempt,
            url_for_message(url),
            spec.name,
            model,
            key,
            read_host(self._endpoint.url) if self._endpoint.key else "",
            self._wants_schema(request),
            self.NAMES,
            self._protocol(spec).noun,
            self._protocol(spec).url_hint,
            stored,
        )
        if problem := self._problem(spec, url, model):
            return build_unsent(asked, Cause.BAD_CONFIGURATION, problem)
        if isinstance(held, KeysUnreadable):
            return build_unsent(asked, Cause.NETWORK, f"{asked.where} was not asked: {held}")
        if stored and not key:
            return build_unsent(asked, Cause.AUTH, f"{asked.where} was not asked: {UNOPENED}")
        if own and not key and self._sign_in is None and url.startswith("https://"):
            return build_unsent(
                asked, Cause.AUTH, f"{asked.where} wants a key; set {self.NAMES.key} to it, or store one for it"
            )
        if request.deadline_at <= self._now():
            return build_unsent(asked, Cause.TIMEOUT, f"the deadline had passed before {asked.where} was asked")
        return asked

    async def _sign_request(self, request: ModelRequest, asked: RequestFacts, url: str) -> SignedIn | CallFailed | None:
        """Return the operator's own sign-in, within the deadline; None: a key goes out, or nothing does."""
        if asked.key or self._sign_in is None or not self._own(url):
            return None
        try:
            async with asyncio.timeout(max(0.0, (request.deadline_at - self._now()) / 1e6)):
                return await self._sign_in.signed_in(url)
        except TimeoutError:
            message = f"{asked.where} was not asked: {self._sign_in.source} did not sign in before the deadline"
            return build_unsent(asked, Cause.NETWORK, message)
        except NotSignedIn as error:
            message = f"{asked.where} was not asked: {error}; or set {self.NAMES.key} to an API key"
            return build_unsent(asked, Cause.NETWORK if error.passes else Cause.AUTH, message)

    def _problem(self, spec: ModelSpec, url: str, model: str) -> str:
        if not url:
            return f"model {spec.name!r} has no endpoint; set its base_url, or {self.NAMES.url}"
        if not model:
            instead = f", or {self.NAMES.model}" if self.NAMES.model else ""
            return f"model {spec.name!r} has no model id; set its `model`{instead}"
        if unknown := sorted(set(spec.options) - self.OPTIONS - {PRICED_AS}):
            return f"model {spec.name!r} has options that this provider does not know: {', '.join(unknown)}"
        if problem := model_options.problem(spec.options, self._endpoint.extra):
            return f"model {spec.name!r}: {problem}"
        if not spec.base_url and origin(url) is None:
            return f"{self.NAMES.url} {url[:200]!r} is no URL; write one like {self.NAMES.example}"
        if problem := self._explain_refusal(spec, model, url):
            return f"model {spec.name!r} {problem}"
        return "" if self._own(url) else self._gate.problem(url)

    def _own(self, url: str) -> bool:
        """Return True if a URL is at the operator's own scheme, host and port. Only that trusted place gets the
        operator's key.
        """
        return origin(url) is not None and origin(url) == origin(self._endpoint.url)

    def _wants_schema(self, request: ModelRequest) -> bool:
        if request.output_schema is None or not request.model.structured_output:
            return False
        # Most servers that constrain the answer to a schema can then no longer call a tool: with tools the prompt's
        # words must do.
        return not (request.tools and request.model.tool_calls) or bool(
            request.model.options.get("schema_with_tools", self._protocol(request.model).schema_with_tools)
        )

    # -- connections --

    def _transport(self, url: str) -> ModelTransport:
        loop = asyncio.get_running_loop()
        if self._loop is not loop:
            # Connections belong to the loop that made them; those of an ended loop are dead.
            if self._loop is not None and not self._loop.is_closed() and self._transports:
                raise RuntimeError("the model adapter is used on two event loops at once")
            self._loop, self._transports = loop, {}
        found = self._transports.get(url)
        if found is None:
            found = self._transports[url] = ModelTransport(url, None if self._own(url) else self._gate)
        return found


def _add_usage(request: ModelRequest, answer: ModelAnswer, found: CallFailed) -> CallFailed:
    """Return a failure with the token counts of its answer; unchanged where that has none."""
    if answer.usage.output is None and answer.usage.input is None:
        return found
    charged = meter(request, answer)
    return replace(
        found,
        input_tokens=charged.input_tokens,
        output_tokens=charged.output_tokens,
        parts=charged.parts,
        usage_problem=charged.problem,
    )


def _late(asked: RequestFacts, exchange: Exchange, elapsed_s: float) -> CallFailed:
    if exchange.status is not None:
        got = f"{len(exchange.body)} bytes of an answer had come"
    else:
        got = "no answer had begun" if exchange.sent else "it could not even be connected to"
    message = f"{asked.where} did not finish within {elapsed_s:.1f} seconds: {got}"
    raw = exchange.said or bytes(exchange.body[:4_000]).decode("utf-8", "replace")
    late = build_failure(asked, Cause.TIMEOUT, message, raw=raw, status=exchange.status, billed=exchange.sent)
    return replace(late, partial=came_in_part(exchange))
