"""Asks a model once, over HTTP: the shape that all providers share.

``pydantic_ai.direct`` speaks the protocols; what it must not decide stands here: one shared client per endpoint on one event loop, no
retry, no redirect, no proxy from the environment, a hard end at the deadline, a cap on the answer's size, where a key may go, what a
failure means and what an answer is charged at.
"""

from __future__ import annotations

import asyncio
import time
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, TypeVar

import httpx2
from pydantic_ai import UsageExtractionFailedWarning
from pydantic_ai.direct import model_request, model_request_stream
from pydantic_ai.messages import ModelResponse
from pydantic_ai.models import Model, ModelRequestParameters
from pydantic_ai.output import OutputObjectDefinition
from pydantic_ai.settings import ModelSettings

from fabric.adapters.providers.errors import Asked, Names, came_in_part, classify, failed
from fabric.adapters.providers.keys import KeyRing, KeysUnreadable, StoredKey, origin_text
from fabric.adapters.providers.messages import definitions, history, replied
from fabric.adapters.providers.streaming import STREAMED, drained, wanted
from fabric.adapters.providers.wire import KEY, Wire, WireTransport, host_of, origin, shown
from fabric.adapters.tools.outbound import CALL_HEADER, EXCHANGE, Exchange, Gate, call_name
from fabric.core.frozen import replace
from fabric.core.inputs import CallFailed, ModelReplied
from fabric.core.spec import ModelSpec
from fabric.core.taxonomy import Cause
from fabric.runtime.call_ports import ModelRequest

# An endpoint's nonsense in its usage is answered by charging the worst case, not by a line on the console.
warnings.filterwarnings("ignore", category=UsageExtractionFailedWarning)

C = TypeVar("C")
UNOPENED = "the key stored for it does not open here, since FABRIC_SECRET_KEY is another one than when it was stored: store the key again"


@dataclass(frozen=True, slots=True)
class Endpoint:
    """The operator's endpoint: FABRIC_MODEL_URL, FABRIC_MODEL, FABRIC_MODEL_KEY. Its URL is trusted, whatever it is."""

    url: str = ""
    model: str = ""
    key: str = ""


class HttpModel(ABC, Generic[C]):
    """A ``ModelPort`` over HTTP. Used on one event loop; ``aclose`` it there.

    ``gate`` vets the URLs that fabrics name; the operator's own URL is not vetted. ``keys``: those that workspaces stored, each for one origin;
    they go before the operator's. ``now`` is microseconds since the epoch.
    """

    WIRE: ClassVar[Wire]
    NAMES: ClassVar[Names]
    OPTIONS: ClassVar[frozenset[str]]
    """``ModelSpec.options`` that the adapter knows."""
    SCHEMA_WITH_TOOLS: ClassVar[bool] = False
    """Whether an answer may be held to a schema although tools are offered; the option of that name says so for one model."""
    NUMBERED_CALLS: ClassVar[bool] = False
    """Whether the protocol may leave out the ids of tool calls, so that a missing one is no fault of the model's."""

    def __init__(
        self,
        endpoint: Endpoint,
        *,
        gate: Gate | None = None,
        keys: KeyRing | None = None,
        now: Callable[[], int] = lambda: time.time_ns() // 1_000,
    ) -> None:
        self._endpoint = endpoint
        self._gate = gate or Gate()
        self._keys = keys
        self._now = now
        self._clients: dict[str, tuple[C, httpx2.AsyncClient]] = {}
        self._loop: asyncio.AbstractEventLoop | None = None

    async def ask(self, request: ModelRequest) -> ModelReplied | CallFailed:
        """Asks once. Every failure is a ``CallFailed``; only cancellation is raised."""
        url = (request.model.base_url or self._endpoint.url).strip().rstrip("/")
        started = self._now()
        asked = self._asked(request, url, await self._stored(request, url))
        if isinstance(asked, CallFailed):
            return asked
        exchange = Exchange()
        token, key, streamed = EXCHANGE.set(exchange), KEY.set(asked.key), STREAMED.set(wanted(request))
        try:
            async with asyncio.timeout((request.deadline_at - self._now()) / 1e6) as limit:
                response = await self._request(request, url, asked)
                return replied(request, response, mended=exchange.mended, numbered=self.NUMBERED_CALLS)
        except TimeoutError as error:
            if not limit.expired():
                return classify(error, exchange, asked, self._now() / 1e6)
            return _late(asked, exchange, (self._now() - started) / 1e6)
        except Exception as error:  # noqa: BLE001 - The port's contract: every failure is data, or a run would hang on it.
            return classify(error, exchange, asked, self._now() / 1e6)
        finally:
            EXCHANGE.reset(token)
            KEY.reset(key)
            STREAMED.reset(streamed)

    async def aclose(self) -> None:
        """Closes the clients. Call it on the loop they were used on."""
        clients, self._clients = list(self._clients.values()), {}
        for _, http in clients:
            await http.aclose()

    async def _answer(
        self, request: ModelRequest, model: Model, settings: ModelSettings, parameters: ModelRequestParameters
    ) -> ModelResponse:
        """The answer of a model of pydantic-ai's, at once or as it streams in."""
        messages = history(request.messages)
        if not wanted(request):
            return await model_request(model, messages, model_settings=settings, model_request_parameters=parameters)
        async with model_request_stream(
            model, messages, model_settings=settings, model_request_parameters=parameters
        ) as stream:
            return await drained(request, stream, numbered=self.NUMBERED_CALLS)

    # -- what each protocol does in its own way --

    @abstractmethod
    async def _request(self, request: ModelRequest, url: str, asked: Asked) -> ModelResponse:
        """The answer, in pydantic-ai's terms."""

    @abstractmethod
    def _made(self, url: str, http: httpx2.AsyncClient) -> C:
        """A client library's client over ``http``, without a key, without retries and without a timeout of its own."""

    def _refused(self, model: str) -> str:
        """Why a model id cannot be asked for; empty: it can."""
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
            self.WIRE.noun,
            self.WIRE.url_hint,
            stored,
        )
        if problem := self._problem(spec, url, model):
            return failed(asked, Cause.BAD_CONFIGURATION, problem)
        if isinstance(held, KeysUnreadable):
            return failed(asked, Cause.NETWORK, f"{asked.where} was not asked: {held}")
        if stored and not key:
            return failed(asked, Cause.AUTH, f"{asked.where} was not asked: {UNOPENED}")
        if own and not key and url.startswith("https://"):
            return failed(
                asked, Cause.AUTH, f"{asked.where} wants a key; set {self.NAMES.key} to it, or store one for it"
            )
        if request.deadline_at <= self._now():
            return failed(asked, Cause.TIMEOUT, f"the deadline had passed before {asked.where} was asked")
        return asked

    def _problem(self, spec: ModelSpec, url: str, model: str) -> str:
        if not url:
            return f"model {spec.name!r} has no endpoint; set its base_url, or {self.NAMES.url}"
        if not model:
            instead = f", or {self.NAMES.model}" if self.NAMES.model else ""
            return f"model {spec.name!r} has no model id; set its `model`{instead}"
        if unknown := sorted(set(spec.options) - self.OPTIONS):
            return f"model {spec.name!r} has options that this provider does not know: {', '.join(unknown)}"
        if not spec.base_url and origin(url) is None:
            return f"{self.NAMES.url} {url[:200]!r} is no URL; write one like {self.NAMES.example}"
        if problem := self._refused(model):
            return f"model {spec.name!r} {problem}"
        return "" if self._own(url) else self._gate.problem(url)

    def _own(self, url: str) -> bool:
        """Whether a URL is at the operator's own scheme, host and port: what is trusted, and the only place the key goes."""
        return origin(url) is not None and origin(url) == origin(self._endpoint.url)

    def _wants_schema(self, request: ModelRequest) -> bool:
        if request.output_schema is None or not request.model.structured_output:
            return False
        # Most servers that constrain the answer to a schema can then no longer call a tool: with tools the prompt's words must do.
        return not offered(request) or bool(request.model.options.get("schema_with_tools", self.SCHEMA_WITH_TOOLS))

    # -- connections --

    def _client(self, url: str) -> C:
        loop = asyncio.get_running_loop()
        if self._loop is not loop:
            # Connections belong to the loop that made them; those of an ended loop are dead.
            if self._loop is not None and not self._loop.is_closed() and self._clients:
                raise RuntimeError("the model adapter is used on two event loops at once")
            self._loop, self._clients = loop, {}
        held = self._clients.get(url)
        if held is None:
            transport = WireTransport(self.WIRE, url, None if self._own(url) else self._gate)
            http = httpx2.AsyncClient(transport=transport, timeout=None, follow_redirects=False, trust_env=False)
            held = self._clients[url] = self._made(url, http), http
        return held[0]


def offered(request: ModelRequest) -> bool:
    """Whether tools go out with a request."""
    return bool(request.tools) and request.model.tool_calls


def headers_of(request: ModelRequest) -> dict[str, str]:
    """What a request says of itself: ``wire.OWN_HEADERS``."""
    headers = {
        "Idempotency-Key": request.idempotency_key,
        CALL_HEADER: call_name(request),
        "X-Fabric-Agent": request.agent,
        "X-Fabric-Output": request.output,
    }
    if len(request.trace_id) == 32 and len(request.span_id) == 16:
        headers["traceparent"] = f"00-{request.trace_id}-{request.span_id}-01"
    return headers


def parameters_of(request: ModelRequest, *, schema: bool) -> ModelRequestParameters:
    """Tools on offer, and the schema that the answer is held to."""
    tools = definitions(request.tools) if offered(request) else []
    if not schema:
        return ModelRequestParameters(function_tools=tools)
    shape = OutputObjectDefinition(json_schema=dict(request.output_schema or {}), name=request.output)
    return ModelRequestParameters(function_tools=tools, output_mode="native", output_object=shape)


def settings_of(request: ModelRequest, passed_on: tuple[str, ...]) -> dict[str, Any]:
    """Those of the model's options that go out as they are, the cap on the answer, the headers."""
    options = request.model.options
    settings = {name: options[name] for name in passed_on if name in options}
    if "parallel_tool_calls" in options and offered(request):
        settings["parallel_tool_calls"] = options["parallel_tool_calls"]
    return settings | {"max_tokens": request.max_output_tokens, "extra_headers": headers_of(request)}


def _late(asked: Asked, exchange: Exchange, elapsed_s: float) -> CallFailed:
    if exchange.status is not None:
        got = f"{len(exchange.body)} bytes of an answer had come"
    else:
        got = "no answer had begun" if exchange.sent else "it could not even be connected to"
    message = f"{asked.where} did not finish within {elapsed_s:.1f} seconds: {got}"
    raw = exchange.said or bytes(exchange.body[:4_000]).decode("utf-8", "replace")
    late = failed(asked, Cause.TIMEOUT, message, raw=raw, status=exchange.status, billed=exchange.sent)
    return replace(late, partial=came_in_part(exchange))
