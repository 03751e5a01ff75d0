"""Models at any OpenAI-compatible endpoint."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import httpx2
from openai import AsyncOpenAI
from pydantic_ai.messages import ModelResponse
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIChatModelSettings
from pydantic_ai.profiles import ModelProfile, merge_profile
from pydantic_ai.profiles.openai import OpenAIModelProfile
from pydantic_ai.providers.openai import OpenAIProvider

from fabric.adapters.providers.asking import Endpoint, HttpModel, parameters_of, settings_of
from fabric.adapters.providers.errors import Asked, Names
from fabric.adapters.providers.streaming import OPTION, Dialect
from fabric.adapters.providers.wire import ANSWER_BYTES_MAX, Wire, host_of
from fabric.core.spec import ModelSpec
from fabric.runtime.call_ports import ModelRequest

__all__ = ["ANSWER_BYTES_MAX", "Endpoint", "OpenAICompatible"]

_PASSED_ON = ("temperature", "top_p", "seed", "stop_sequences", "extra_body")


def _has_choices(value: dict[str, Any]) -> bool:
    return isinstance(value.get("choices"), list) and bool(value["choices"])


def _choices(value: dict[str, Any]) -> list[dict[str, Any]]:
    found = value.get("choices")
    return [choice for choice in found if isinstance(choice, dict)] if isinstance(found, list) else []


def _ends(value: dict[str, Any]) -> bool:
    return any(choice.get("finish_reason") for choice in _choices(value))


def _says(value: dict[str, Any]) -> bool:
    deltas = [choice.get("delta") for choice in _choices(value)]
    return any(isinstance(delta, dict) and (delta.get("content") or delta.get("tool_calls")) for delta in deltas)


class OpenAICompatible(HttpModel[AsyncOpenAI]):
    """The ``ModelPort`` for OpenAI-compatible endpoints.

    Options: ``max_tokens_field``: max_tokens or max_completion_tokens. ``response_format``: json_schema (default) or json_object, which
    carries the schema beside it as llama-cpp-python wants it. ``schema_with_tools``: the endpoint can be asked for a schema and offered
    tools at once, as OpenAI's can. ``stream``: where tools are on offer the answer is asked for as a stream, so that calls begin as they come.
    """

    WIRE = Wire(
        noun="chat completion",
        wanted="choices",
        key_header=lambda key: ("Authorization", f"Bearer {key}"),
        is_answer=_has_choices,
        url_hint="; the URL usually ends in /v1",
        stream=Dialect(ends=_ends, says=_says, done_line=True),
    )
    NAMES = Names()
    OPTIONS = frozenset(
        {*_PASSED_ON, "parallel_tool_calls", "max_tokens_field", "response_format", "schema_with_tools", OPTION}
    )

    async def _request(self, request: ModelRequest, url: str, asked: Asked) -> ModelResponse:
        model = OpenAIChatModel(
            asked.model,
            provider=OpenAIProvider(openai_client=self._client(url)),
            profile=_profile(request.model, url),
        )
        as_object = request.model.options.get("response_format") == "json_object"
        settings = _settings(request, schema=asked.schema and as_object)
        parameters = parameters_of(request, schema=asked.schema and not as_object)
        return await self._answer(request, model, settings, parameters)

    def _made(self, url: str, http: httpx2.AsyncClient) -> AsyncOpenAI:
        return AsyncOpenAI(base_url=url, api_key="none", http_client=http, max_retries=0, timeout=None)


def _profile(spec: ModelSpec, url: str) -> ModelProfile:
    own = host_of(url).endswith((".openai.com", ".openai.azure.com"))
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


def _settings(request: ModelRequest, *, schema: bool) -> OpenAIChatModelSettings:
    """``schema``: the schema goes out in the form of llama-cpp-python."""
    settings = settings_of(request, _PASSED_ON)
    if schema:
        form = {"response_format": {"type": "json_object", "schema": dict(request.output_schema or {})}}
        settings["extra_body"] = {**form, **cast(Mapping[str, Any], request.model.options.get("extra_body") or {})}
    return cast(OpenAIChatModelSettings, settings)
