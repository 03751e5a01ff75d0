"""Asks a model once, over HTTP: the shape that all providers share.

One transport per endpoint on one event loop, no retry, no redirect, no proxy from the environment, a hard end at the deadline, a cap on the answer's
size. This module, never a client library, decides where a key may go, what a failure means and what an answer is charged.
"""

from __future__ import annotations

import asyncio
import dataclasses
import time
from abc import ABC
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from fabric.adapters.known_secrets import KNOWN
from fabric.adapters.providers import model_options
from fabric.adapters.providers.errors import Asked, Names, broken_off, came_in_part, classify, failed
from fabric.adapters.providers.fitting import fit
from fabric.adapters.providers.keys import KeyRing, KeysUnreadable, StoredKey, origin_text
from fabric.adapters.providers.prices import PRICED_AS
from fabric.adapters.providers.protocols.contract import Answer, Protocol
from fabric.adapters.providers.refusals.causes import succeeded
from fabric.adapters.providers.settling import meter, settle
from fabric.adapters.providers.signing import NotSignedIn, SignedIn, SignIn
from fabric.adapters.providers.streaming import OPTION, read_body, read_stream, wants_stream
from fabric.adapters.providers.wire import (
    KEY,
    BrokenOff,
    ModelTransport,
    Reply,
    Unanswered,
    encoded,
    headers_of,
    host_of,
    in_envelope,
    is_events,
    origin,
    parsed,
    shown,
)
from fabric.adapters.tools.outbound import EXCHANGE, Exchange, Gate
from fabric.core.frozen import replace
from fabric.core.inputs import CallFailed, ModelReplied
from fabric.core.spec import ModelSpec
from fabric.core.taxonomy import Cause
from fabric.runtime.call_ports import ModelRequest

__all__ = ["OPTION", "Endpoint", "HttpModel"]

UNOPENED = "the key stored for it does not open here, since the key ring lacks what it was sealed under: it needs to be set again"


@dataclass(frozen=True, slots=True)
class Endpoint:
    """The operator's endpoint: FABRIC_MODEL_URL, FABRIC_MODEL, FABRIC_MODEL_KEY. Its URL is trusted, whatever it is."""

    url: str = ""
    model: str = ""
    key: str = ""
    extra: frozenset[str] = frozenset()
    """Fields of a request's body that fabrics may set beside those that everybody may (FABRIC_EXTRA_BODY)."""


class HttpModel(ABC):
    """A ``ModelPort`` over HTTP. Used on one event loop; ``aclose`` it there.

    ``gate`` vets the URLs that fabrics name; the operator's own URL is not vetted. ``keys``: those that workspaces stored, each for one origin;
    they go before the operator's. ``sign_in``: how requests to the operator's own URL are signed where no key is set; None: they are not.
    ``now`` is microseconds since the epoch.
    """

    PROTOCOL: ClassVar[Protocol]
    NAMES: ClassVar[Names]
    OPTIONS: ClassVar[frozenset[str]]
    """``ModelSpec.options`` that the adapter knows, beside ``prices.PRICED_AS``."""

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
        """Asks once. Every failure is a ``CallFailed``; only cancellation is raised."""
        url = (request.model.base_url or self._endpoint.url).strip().rstrip("/")
        started = self._now()
        asked = self._asked(request, url, await self._stored(request, url))
        if isinstance(asked, CallFailed):
            return asked
        signed = await self._signed(request, asked, url)
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
                return _counted(request, answer, broken_off(exchange, asked))
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

    def written(self, request: ModelRequest) -> bytes:
        """The body of a request, as it is sent: of a request that was rebuilt from its run's journal, the bytes that were sent then."""
        spec, protocol = request.model, self._protocol(request.model)
        model, schema = spec.model or self._endpoint.model, self._wants_schema(request)
        fitted = fit(request.messages, spec.name, protocol.key)
        body = protocol.body(request, fitted, model=model, schema=schema, stream=wants_stream(request))
        return encoded(self._body(request, body, (spec.base_url or self._endpoint.url).strip().rstrip("/")))

    async def aclose(self) -> None:
        """Closes the connections. Call it on the loop they were used on."""
        transports, self._transports = list(self._transports.values()), {}
        for transport in transports:
            await transport.aclose()

    async def _answer(
        self,
        request: ModelRequest,
        url: str,
        asked: Asked,
        signed: SignedIn | None,
        exchange: Exchange,
        limit: asyncio.Timeout,
    ) -> Answer:
        """The answer, at once or as it streams in. Raises Unanswered for a refusal, and the transport's own errors."""
        protocol, stream = self._protocol(request.model), wants_stream(request)
        address, content = url + self._path(request.model, asked.model, url, stream=stream), self.written(request)
        proof = self._key_header(asked.key) if signed is None else signed.headers(address, content)
        headers = {**headers_of(request), **protocol.headers, **proof}
        reply = await self._transport(url).send(address, headers, content, exchange)
        try:
            return await self._read(request, protocol, reply, exchange, limit.when())
        finally:
            await reply.aclose()

    async def _read(
        self, request: ModelRequest, protocol: Protocol, reply: Reply, exchange: Exchange, deadline: float | None
    ) -> Answer:
        """The answer of a reply. The body says whether it is a stream or comes at once, also where its content type says otherwise."""
        if reply.streams:
            answer = await read_stream(request, protocol, reply.events(), exchange, deadline)
            if answer is not None:
                return answer
            if not exchange.body.strip():
                raise BrokenOff("the stream ended before its answer began")
            exchange.complete = True
            raw = reply.fitted(bytes(exchange.body))
        else:
            raw = await reply.body()
            if not succeeded(exchange.status):
                raise Unanswered
            if is_events(raw):
                answer = await read_stream(request, protocol, reply.events(raw), exchange, deadline)
                if answer is not None:
                    return answer
        return read_body(protocol, raw)

    def _unread(self, request: ModelRequest, found: CallFailed, exchange: Exchange) -> CallFailed:
        """A failure with the tokens that its answer says it took, where that can be read although the answer cannot be used."""
        if not found.billed or not succeeded(exchange.status) or not exchange.complete:
            return found
        try:
            protocol = self._protocol(request.model)
            value = in_envelope(parsed(bytes(exchange.body).decode("utf-8", "replace"), ""), protocol.wanted)
            answer = protocol.read({**value, protocol.wanted: value.get(protocol.wanted) or []})
            return _counted(request, answer, found)
        except Exception:  # noqa: BLE001 - An unreadable answer says nothing, and the failure stands.
            return found

    # -- each provider's own way --

    def _protocol(self, spec: ModelSpec) -> Protocol:
        """The protocol that a model is asked by."""
        return self.PROTOCOL

    def _path(self, spec: ModelSpec, model: str, url: str, *, stream: bool) -> str:
        """The path behind the base URL."""
        return self._protocol(spec).path(model, stream=stream)

    def _key_header(self, key: str) -> dict[str, str]:
        """The header that carries a key; none without one."""
        return {"Authorization": f"Bearer {key}"} if key else {}

    def _body(self, request: ModelRequest, body: dict[str, object], url: str) -> dict[str, object]:
        """The request's body, with what this provider wants otherwise than its protocol."""
        return body

    def _refused(self, spec: ModelSpec, model: str, url: str) -> str:
        """Returns why a model cannot be asked as its fabric has it; empty: it can."""
        return ""

    # -- what is certain before any request --

    async def _stored(self, request: ModelRequest, url: str) -> StoredKey | KeysUnreadable | None:
        """The key that the asking workspace stored for a URL's origin; KeysUnreadable where nobody can say, within the deadline."""
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

    def _asked(self, request: ModelRequest, url: str, held: StoredKey | KeysUnreadable | None) -> Asked | CallFailed:
        """What is asked of whom, or the failure that is certain before any request."""
        spec = request.model
        model, own = spec.model or self._endpoint.model, self._own(url)
        stored = isinstance(held, StoredKey)
        key = held.secret if isinstance(held, StoredKey) else self._endpoint.key if own else ""
        asked = Asked(
            request.command_id,
            request.attempt,
            shown(url),
            spec.name,
            model,
            key,
            host_of(self._endpoint.url) if self._endpoint.key else "",
            self._wants_schema(request),
            self.NAMES,
            self._protocol(spec).noun,
            self._protocol(spec).url_hint,
            stored,
        )
        if problem := self._problem(spec, url, model):
            return failed(asked, Cause.BAD_CONFIGURATION, problem)
        if isinstance(held, KeysUnreadable):
            return failed(asked, Cause.NETWORK, f"{asked.where} was not asked: {held}")
        if stored and not key:
            return failed(asked, Cause.AUTH, f"{asked.where} was not asked: {UNOPENED}")
        if own and not key and self._sign_in is None and url.startswith("https://"):
            return failed(
                asked, Cause.AUTH, f"{asked.where} wants a key; set {self.NAMES.key} to it, or store one for it"
            )
        if request.deadline_at <= self._now():
            return failed(asked, Cause.TIMEOUT, f"the deadline had passed before {asked.where} was asked")
        return asked

    async def _signed(self, request: ModelRequest, asked: Asked, url: str) -> SignedIn | CallFailed | None:
        """The operator's own sign-in, within the deadline; None: a key goes out, or nothing does."""
        if asked.key or self._sign_in is None or not self._own(url):
            return None
        try:
            async with asyncio.timeout(max(0.0, (request.deadline_at - self._now()) / 1e6)):
                return await self._sign_in.signed_in(url)
        except TimeoutError:
            message = f"{asked.where} was not asked: {self._sign_in.source} did not sign in before the deadline"
            return failed(asked, Cause.NETWORK, message)
        except NotSignedIn as error:
            message = f"{asked.where} was not asked: {error}; or set {self.NAMES.key} to an API key"
            return failed(asked, Cause.NETWORK if error.passes else Cause.AUTH, message)

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
        if problem := self._refused(spec, model, url):
            return f"model {spec.name!r} {problem}"
        return "" if self._own(url) else self._gate.problem(url)

    def _own(self, url: str) -> bool:
        """Whether a URL is at the operator's own scheme, host and port: what is trusted, and the only place the key goes."""
        return origin(url) is not None and origin(url) == origin(self._endpoint.url)

    def _wants_schema(self, request: ModelRequest) -> bool:
        if request.output_schema is None or not request.model.structured_output:
            return False
        # Most servers that constrain the answer to a schema can then no longer call a tool: with tools the prompt's words must do.
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


def _counted(request: ModelRequest, answer: Answer, found: CallFailed) -> CallFailed:
    """A failure with the tokens that its answer says it took; as it is where that says nothing."""
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


def _late(asked: Asked, exchange: Exchange, elapsed_s: float) -> CallFailed:
    if exchange.status is not None:
        got = f"{len(exchange.body)} bytes of an answer had come"
    else:
        got = "no answer had begun" if exchange.sent else "it could not even be connected to"
    message = f"{asked.where} did not finish within {elapsed_s:.1f} seconds: {got}"
    raw = exchange.said or bytes(exchange.body[:4_000]).decode("utf-8", "replace")
    late = failed(asked, Cause.TIMEOUT, message, raw=raw, status=exchange.status, billed=exchange.sent)
    return replace(late, partial=came_in_part(exchange))
