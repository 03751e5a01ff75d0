"""Asks a model at any OpenAI-compatible endpoint, once.

``pydantic_ai.direct`` speaks the protocol; this adapter owns what it must not decide: one shared client per endpoint on one event loop,
no retry, no redirect, no proxy from the environment, a hard end at the deadline, a cap on the answer's size, and where a key may go.
"""

from __future__ import annotations

import asyncio
import json
import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, cast

import httpx2
from openai import AsyncOpenAI
from pydantic_ai import UsageExtractionFailedWarning
from pydantic_ai.direct import model_request
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIChatModelSettings
from pydantic_ai.output import OutputObjectDefinition
from pydantic_ai.profiles import ModelProfile, merge_profile
from pydantic_ai.profiles.openai import OpenAIModelProfile
from pydantic_ai.providers.openai import OpenAIProvider

from fabric.adapters.providers.errors import Asked, Malformed, classify, error_of, failed
from fabric.adapters.providers.messages import definitions, history, replied
from fabric.adapters.tools.outbound import CALL_HEADER, EXCHANGE, Exchange, Gate, VettedTransport, authority, call_name
from fabric.core.inputs import CallFailed, ModelReplied
from fabric.core.spec import ModelSpec
from fabric.core.taxonomy import Cause
from fabric.core.text import DEPTH_MAX, nesting
from fabric.runtime.call_ports import ModelRequest

# An endpoint's nonsense in its usage is answered by charging the worst case, not by a line on the console.
warnings.filterwarnings("ignore", category=UsageExtractionFailedWarning)

ANSWER_BYTES_MAX = 10_000_000
ANSWERED_KEY_CHARS_MIN = 12
"""Keys at least this long are also taken out of answers; a shorter one may be a word that an answer means."""
OPTIONS = frozenset(
    {
        "temperature",
        "top_p",
        "seed",
        "stop_sequences",
        "parallel_tool_calls",
        "extra_body",
        "max_tokens_field",
        "response_format",
        "schema_with_tools",
    }
)
"""``ModelSpec.options`` that this adapter knows. ``max_tokens_field``: max_tokens or max_completion_tokens. ``response_format``:
json_schema (default) or json_object, which carries the schema beside it as llama-cpp-python wants it. ``schema_with_tools``: the endpoint
can be asked for a schema and offered tools at once, as OpenAI's can."""
_PASSED_ON = ("temperature", "top_p", "seed", "stop_sequences", "extra_body")
_OWN_HEADERS = ("authorization", "api-key", "openai-organization", "openai-project", "cookie")


@dataclass(frozen=True, slots=True)
class Endpoint:
    """The operator's endpoint: FABRIC_MODEL_URL, FABRIC_MODEL, FABRIC_MODEL_KEY. Its URL is trusted, whatever it is."""

    url: str = ""
    model: str = ""
    key: str = ""


class OpenAICompatible:
    """The ``ModelPort`` for OpenAI-compatible endpoints. Used on one event loop; ``aclose`` it there.

    ``gate`` vets the URLs that fabrics name; the operator's own URL is not vetted. ``now`` is microseconds since the epoch.
    """

    def __init__(
        self, endpoint: Endpoint, *, gate: Gate | None = None, now: Callable[[], int] = lambda: time.time_ns() // 1_000
    ) -> None:
        self._endpoint = endpoint
        self._gate = gate or Gate()
        self._now = now
        self._clients: dict[tuple[str, str], AsyncOpenAI] = {}
        self._loop: asyncio.AbstractEventLoop | None = None

    async def ask(self, request: ModelRequest) -> ModelReplied | CallFailed:
        """Asks once. Every failure is a ``CallFailed``; only cancellation is raised."""
        url = (request.model.base_url or self._endpoint.url).strip().rstrip("/")
        asked = self._asked(request, url)
        if isinstance(asked, CallFailed):
            return asked
        exchange = Exchange()
        token = EXCHANGE.set(exchange)
        started = self._now()
        try:
            async with asyncio.timeout((request.deadline_at - started) / 1e6) as limit:
                response = await self._request(request, url, asked)
                return replied(request, response, mended=exchange.mended)
        except TimeoutError as error:
            if not limit.expired():
                return classify(error, exchange, asked, self._now() / 1e6)
            return _late(asked, exchange, (self._now() - started) / 1e6)
        except Exception as error:  # noqa: BLE001 - The port's contract: every failure is data, or a run would hang on it.
            return classify(error, exchange, asked, self._now() / 1e6)
        finally:
            EXCHANGE.reset(token)

    async def aclose(self) -> None:
        """Closes the clients. Call it on the loop they were used on."""
        clients, self._clients = list(self._clients.values()), {}
        for client in clients:
            await client.close()

    def _asked(self, request: ModelRequest, url: str) -> Asked | CallFailed:
        """What is asked of whom, or the failure that is certain before any request."""
        spec = request.model
        model, own = spec.model or self._endpoint.model, self._own(url)
        key = self._endpoint.key if own else ""
        asked = Asked(
            request.command_id,
            request.attempt,
            shown(url),
            spec.name,
            model,
            key,
            _host(self._endpoint.url) if self._endpoint.key else "",
            _wants_schema(request),
        )
        if problem := self._problem(spec, url, model):
            return failed(asked, Cause.BAD_CONFIGURATION, problem)
        if own and not key and url.startswith("https://"):
            return failed(asked, Cause.AUTH, f"{asked.where} wants a key; set FABRIC_MODEL_KEY to it")
        if request.deadline_at <= self._now():
            return failed(asked, Cause.TIMEOUT, f"the deadline had passed before {asked.where} was asked")
        return asked

    def _problem(self, spec: ModelSpec, url: str, model: str) -> str:
        if not url:
            return f"model {spec.name!r} has no endpoint; set its base_url, or FABRIC_MODEL_URL"
        if not model:
            return f"model {spec.name!r} has no model id; set its `model`, or FABRIC_MODEL"
        if unknown := sorted(set(spec.options) - OPTIONS):
            return f"model {spec.name!r} has options that this provider does not know: {', '.join(unknown)}"
        if not spec.base_url and _origin(url) is None:
            return f"FABRIC_MODEL_URL {url[:200]!r} is no URL; write one like https://example.org/v1"
        return "" if self._own(url) else self._gate.problem(url)

    def _own(self, url: str) -> bool:
        """Whether a URL is at the operator's own scheme, host and port: what is trusted, and the only place the key goes."""
        return _origin(url) is not None and _origin(url) == _origin(self._endpoint.url)

    async def _request(self, request: ModelRequest, url: str, asked: Asked) -> Any:
        model = OpenAIChatModel(
            asked.model,
            provider=OpenAIProvider(openai_client=self._client(url, asked.key)),
            profile=_profile(request.model, url),
        )
        return await model_request(
            model,
            history(request.messages),
            model_settings=_settings(request),
            model_request_parameters=_parameters(request, schema=asked.schema),
        )

    def _client(self, url: str, key: str) -> AsyncOpenAI:
        loop = asyncio.get_running_loop()
        if self._loop is not loop:
            # Connections belong to the loop that made them; those of an ended loop are dead.
            if self._loop is not None and not self._loop.is_closed() and self._clients:
                raise RuntimeError("the model adapter is used on two event loops at once")
            self._loop, self._clients = loop, {}
        client = self._clients.get((url, key))
        if client is None:
            transport = _Transport(None if self._own(url) else self._gate, key)
            http = httpx2.AsyncClient(transport=transport, timeout=None, follow_redirects=False, trust_env=False)
            client = AsyncOpenAI(base_url=url, api_key=key or "none", http_client=http, max_retries=0, timeout=None)
            self._clients[(url, key)] = client
        return client


class _Transport(VettedTransport):
    """Sends no credential but the one key, and hands up only UTF-8 JSON objects, without that key."""

    def __init__(self, gate: Gate | None, key: str) -> None:
        super().__init__(gate, max_bytes=ANSWER_BYTES_MAX, mend=self._mended)
        self._key = key

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        # The client library adds what it finds in OPENAI_* variables, and tells about this machine.
        for name in [name for name in request.headers if name in _OWN_HEADERS or name.startswith("x-stainless-")]:
            del request.headers[name]
        if self._key:
            request.headers["Authorization"] = f"Bearer {self._key}"
        return await super().handle_async_request(request)

    def _mended(self, body: bytes, exchange: Exchange) -> bytes:
        mended = body.decode("utf-8", "replace").encode()
        if len(self._key) >= ANSWERED_KEY_CHARS_MIN:
            mended = mended.replace(self._key.encode(), b"[key]")
        exchange.mended = mended != body
        exchange.body[:] = mended
        if exchange.status == 200:
            _check(mended, exchange)
        return mended


def _check(body: bytes, exchange: Exchange) -> None:
    """Raises Malformed for a 200 that is no chat completion, before the client library meets it."""
    text = body.decode().strip()
    if not text:
        raise Malformed("with an empty body")
    if text.startswith("<"):
        raise Malformed("with a web page instead of JSON; the URL usually ends in /v1")
    if nesting(text) > DEPTH_MAX:
        raise Malformed(f"with JSON nested deeper than {DEPTH_MAX} levels")
    try:
        value = json.loads(text)
    except ValueError:
        raise Malformed(f"not with JSON; it begins with {text[:60]!r}") from None
    choices = value.get("choices") if isinstance(value, dict) else None
    if not isinstance(choices, list) or not choices:
        raise Malformed("with an error instead of choices" if error_of(body) else "with JSON that has no choices in it")
    exchange.headers["content-type"] = "application/json"


def _late(asked: Asked, exchange: Exchange, elapsed_s: float) -> CallFailed:
    if exchange.status is not None:
        got = f"{len(exchange.body)} bytes of an answer had come"
    else:
        got = "no answer had begun" if exchange.sent else "it could not even be connected to"
    message = f"{asked.where} did not finish within {elapsed_s:.1f} seconds: {got}"
    raw = bytes(exchange.body[:4_000]).decode("utf-8", "replace")
    return failed(asked, Cause.TIMEOUT, message, raw=raw, status=exchange.status, billed=exchange.sent)


def _host(url: str) -> str:
    try:
        return httpx2.URL(url).host.lower()
    except (httpx2.InvalidURL, ValueError):
        return ""


def _origin(url: str) -> tuple[str, str] | None:
    """Scheme and ``host:port``; None for what is no http or https URL."""
    if not _host(url) or not url.startswith(("http://", "https://")):
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


def _wants_schema(request: ModelRequest) -> bool:
    if request.output_schema is None or not request.model.structured_output:
        return False
    # Most servers that constrain the answer to a schema can then no longer call a tool: with tools the prompt's words must do.
    return not _offered(request) or bool(request.model.options.get("schema_with_tools"))


def _offered(request: ModelRequest) -> bool:
    return bool(request.tools) and request.model.tool_calls


def _profile(spec: ModelSpec, url: str) -> ModelProfile:
    own = _host(url).endswith((".openai.com", ".openai.azure.com"))
    field = spec.options.get("max_tokens_field") or ("max_completion_tokens" if own else "max_tokens")
    wanted = OpenAIModelProfile(
        supports_json_schema_output=True,
        json_schema_transformer=None,
        openai_supports_strict_tool_definition=False,
        openai_chat_supports_max_completion_tokens=field == "max_completion_tokens",
        openai_chat_supports_multiple_system_messages=own,
    )
    known = OpenAIProvider.model_profile(spec.model) if own else None
    return merge_profile(known, wanted)


def _settings(request: ModelRequest) -> OpenAIChatModelSettings:
    options = request.model.options
    settings: dict[str, Any] = {name: options[name] for name in _PASSED_ON if name in options}
    settings["max_tokens"] = request.max_output_tokens
    if "parallel_tool_calls" in options and _offered(request):
        settings["parallel_tool_calls"] = options["parallel_tool_calls"]
    headers = {
        "Idempotency-Key": request.idempotency_key,
        CALL_HEADER: call_name(request),
        "X-Fabric-Agent": request.agent,
        "X-Fabric-Output": request.output,
    }
    if len(request.trace_id) == 32 and len(request.span_id) == 16:
        headers["traceparent"] = f"00-{request.trace_id}-{request.span_id}-01"
    settings["extra_headers"] = headers
    if _wants_schema(request) and options.get("response_format") == "json_object":
        form = {"response_format": {"type": "json_object", "schema": dict(request.output_schema or {})}}
        settings["extra_body"] = {**form, **cast(Mapping[str, Any], options.get("extra_body") or {})}
    return cast(OpenAIChatModelSettings, settings)


def _parameters(request: ModelRequest, *, schema: bool) -> ModelRequestParameters:
    tools = definitions(request.tools) if _offered(request) else []
    if not schema or request.model.options.get("response_format") == "json_object":
        return ModelRequestParameters(function_tools=tools)
    shape = OutputObjectDefinition(json_schema=dict(request.output_schema or {}), name=request.output)
    return ModelRequestParameters(function_tools=tools, output_mode="native", output_object=shape)
