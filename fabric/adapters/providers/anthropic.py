"""Models of Anthropic's Messages API."""

from __future__ import annotations

from typing import Any, cast

import httpx2
from anthropic import AsyncAnthropic
from pydantic_ai.direct import model_request
from pydantic_ai.messages import ModelResponse
from pydantic_ai.models.anthropic import AnthropicModel, AnthropicModelSettings
from pydantic_ai.profiles import merge_profile
from pydantic_ai.profiles.anthropic import AnthropicModelProfile
from pydantic_ai.providers.anthropic import AnthropicProvider

from fabric.adapters.providers.asking import HttpModel, parameters_of, settings_of
from fabric.adapters.providers.errors import Asked, Names
from fabric.adapters.providers.messages import history
from fabric.adapters.providers.wire import Wire
from fabric.runtime.call_ports import ModelRequest

_PASSED_ON = ("temperature", "top_p", "stop_sequences", "extra_body")


def _is_message(value: dict[str, Any]) -> bool:
    return value.get("type") == "message" and isinstance(value.get("content"), list)


def _with_usage(value: dict[str, Any]) -> bool:
    """An answer without usage is one whose tokens are not reported; its client library would trip over it."""
    if isinstance(value.get("usage"), dict):
        return False
    value["usage"] = {"input_tokens": 0, "output_tokens": 0}
    return True


class Anthropic(HttpModel[AsyncAnthropic]):
    """The ``ModelPort`` for Anthropic's Messages API. Options: ``parallel_tool_calls``, and what goes out as it is.

    Tokens written to and read from a prompt cache count as input tokens, at the full price. A refusal of the model's (``stop_reason``
    refusal) ends as content_filter.
    """

    WIRE = Wire(
        noun="message of the Messages API",
        wanted="content",
        key_header=lambda key: ("x-api-key", key),
        is_answer=_is_message,
        url_hint="; the URL is usually https://api.anthropic.com",
        headers=("anthropic-version", "anthropic-beta"),
        settle=_with_usage,
    )
    NAMES = Names("FABRIC_ANTHROPIC_URL", "FABRIC_ANTHROPIC_KEY", "", "https://api.anthropic.com")
    OPTIONS = frozenset({*_PASSED_ON, "parallel_tool_calls", "schema_with_tools"})
    SCHEMA_WITH_TOOLS = True

    async def _request(self, request: ModelRequest, url: str, asked: Asked) -> ModelResponse:
        known = AnthropicProvider.model_profile(asked.model)
        model = AnthropicModel(
            asked.model,
            provider=AnthropicProvider(anthropic_client=self._client(url)),
            # Whether a model can be held to a schema is the author's word: a new model's name is on no list.
            profile=merge_profile(known, AnthropicModelProfile(supports_json_schema_output=True)),
        )
        return await model_request(
            model,
            history(request.messages),
            model_settings=cast(AnthropicModelSettings, settings_of(request, _PASSED_ON)),
            model_request_parameters=parameters_of(request, schema=asked.schema),
        )

    def _made(self, url: str, http: httpx2.AsyncClient) -> AsyncAnthropic:
        # A key that is named keeps the library from looking for one in the environment and in files.
        return AsyncAnthropic(base_url=url, api_key="none", http_client=http, max_retries=0, timeout=None)
