"""Models of Anthropic's Messages API."""

from __future__ import annotations

from typing import Any, cast

import httpx2
from anthropic import AsyncAnthropic
from pydantic_ai.messages import ModelResponse
from pydantic_ai.models.anthropic import AnthropicModel, AnthropicModelSettings
from pydantic_ai.profiles import merge_profile
from pydantic_ai.profiles.anthropic import AnthropicModelProfile
from pydantic_ai.providers.anthropic import AnthropicProvider

from fabric.adapters.providers.asking import HttpModel, parameters_of, settings_of
from fabric.adapters.providers.errors import Asked, Names
from fabric.adapters.providers.streaming import OPTION, Dialect
from fabric.adapters.providers.wire import Wire
from fabric.runtime.call_ports import ModelRequest

_PASSED_ON = ("temperature", "top_p", "stop_sequences", "extra_body")
_EVENTS = {
    "message_start": "message",
    "content_block_start": "content_block",
    "content_block_delta": "delta",
    "content_block_stop": "",
    "message_delta": "delta",
    "message_stop": "",
}
"""The events that an answer is made of, and the field that holds what each says. A ping is none, and the protocol may get others at any time.
(Anthropic, "Streaming Messages")
"""


def _is_message(value: dict[str, Any]) -> bool:
    return value.get("type") == "message" and isinstance(value.get("content"), list)


def _with_usage(value: dict[str, Any]) -> bool:
    """An answer without usage is one whose tokens are not reported; its client library would trip over it."""
    if isinstance(value.get("usage"), dict):
        return False
    value["usage"] = {"input_tokens": 0, "output_tokens": 0}
    return True


def _is_event(value: dict[str, Any]) -> bool:
    kind = str(value.get("type"))
    field = _EVENTS.get(kind, "")
    held = value.get(field) if field else {}
    return isinstance(held, dict) and (not field or "block" not in kind or isinstance(held.get("type"), str))


def _ends(value: dict[str, Any]) -> bool:
    return value.get("type") == "message_stop"


def _says(value: dict[str, Any]) -> bool:
    """A block that begins empty says nothing yet, but for a call, whose name is said with it."""
    if value.get("type") == "content_block_start":
        block = value.get("content_block")
        return isinstance(block, dict) and (block.get("type") != "text" or bool(block.get("text")))
    return value.get("type") == "content_block_delta"


def _counted(value: dict[str, Any]) -> bool:
    """What a stream has used stands at its end. The count of its beginning is of a token or two, and an end without one is not reported."""
    if value.get("type") == "message_start" and isinstance(value.get("message"), dict):
        usage = value["message"].get("usage")
        told = usage if isinstance(usage, dict) else {}
        value["message"]["usage"] = {"input_tokens": 0, **told, "output_tokens": 0}
        return True
    if value.get("type") == "message_delta" and not isinstance(value.get("usage"), dict):
        value["usage"] = {"output_tokens": 0}
        return True
    return False


def _named(value: dict[str, Any]) -> str | None:
    kind = value.get("type")
    return kind if isinstance(kind, str) and kind in _EVENTS else None


class Anthropic(HttpModel[AsyncAnthropic]):
    """The ``ModelPort`` for Anthropic's Messages API. Options: ``parallel_tool_calls``, ``stream`` (as ``OpenAICompatible`` has it), and what goes out as it is.

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
        stream=Dialect(ends=_ends, says=_says, is_one=_is_event, settle=_counted, name=_named),
    )
    NAMES = Names("FABRIC_ANTHROPIC_URL", "FABRIC_ANTHROPIC_KEY", "", "https://api.anthropic.com")
    OPTIONS = frozenset({*_PASSED_ON, "parallel_tool_calls", "schema_with_tools", OPTION})
    SCHEMA_WITH_TOOLS = True

    async def _request(self, request: ModelRequest, url: str, asked: Asked) -> ModelResponse:
        known = AnthropicProvider.model_profile(asked.model)
        model = AnthropicModel(
            asked.model,
            provider=AnthropicProvider(anthropic_client=self._client(url)),
            # Whether a model can be held to a schema is the author's word: a new model's name is on no list.
            profile=merge_profile(known, AnthropicModelProfile(supports_json_schema_output=True)),
        )
        settings = cast(AnthropicModelSettings, settings_of(request, _PASSED_ON))
        return await self._answer(request, model, settings, parameters_of(request, schema=asked.schema))

    def _made(self, url: str, http: httpx2.AsyncClient) -> AsyncAnthropic:
        # A key that is named keeps the library from looking for one in the environment and in files.
        return AsyncAnthropic(base_url=url, api_key="none", http_client=http, max_retries=0, timeout=None)
