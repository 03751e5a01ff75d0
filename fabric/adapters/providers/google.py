"""Models of Google's Gemini API (``generateContent``)."""

from __future__ import annotations

import re
from typing import Any, cast

import httpx2
from google.genai import Client
from google.genai.types import HttpOptions
from pydantic_ai.messages import ModelResponse
from pydantic_ai.models.google import GoogleModel, GoogleModelSettings
from pydantic_ai.profiles import merge_profile
from pydantic_ai.profiles.google import GoogleModelProfile
from pydantic_ai.providers.google import GoogleProvider

from fabric.adapters.providers.asking import HttpModel, parameters_of, settings_of
from fabric.adapters.providers.errors import Asked, Names
from fabric.adapters.providers.streaming import OPTION, Dialect
from fabric.adapters.providers.wire import Wire
from fabric.runtime.call_ports import ModelRequest

_PASSED_ON = ("temperature", "top_p", "seed", "stop_sequences")
_model_id = re.compile(r"(?:models/|tunedModels/)?[A-Za-z0-9][A-Za-z0-9._-]*")


def _is_answer(value: dict[str, Any]) -> bool:
    """Candidates, or why there are none: the prompt was blocked."""
    candidates, feedback = value.get("candidates"), value.get("promptFeedback")
    if isinstance(candidates, list) and candidates:
        return all(isinstance(candidate, dict) for candidate in candidates)
    return isinstance(feedback, dict) and bool(feedback.get("blockReason"))


def _candidates(value: dict[str, Any]) -> list[dict[str, Any]]:
    found = value.get("candidates")
    return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []


def _ended(value: dict[str, Any]) -> bool:
    """An answer that could go on is cut here: to go on is another request, which is the engine's to decide and to pay for."""
    changed = False
    for candidate in _candidates(value):
        if candidate.get("finishReason") == "CONTINUATION":
            candidate["finishReason"], changed = "MAX_TOKENS", True
        # With a token its client library asks again by itself where a stream breaks off.
        changed = candidate.pop("continuationToken", None) is not None or changed
    return changed


def _ends(value: dict[str, Any]) -> bool:
    feedback = value.get("promptFeedback")
    blocked = isinstance(feedback, dict) and bool(feedback.get("blockReason"))
    return blocked or any(candidate.get("finishReason") for candidate in _candidates(value))


def _says(value: dict[str, Any]) -> bool:
    contents = [candidate.get("content") for candidate in _candidates(value)]
    found = [content.get("parts") for content in contents if isinstance(content, dict)]
    parts = [part for of in found if isinstance(of, list) for part in of if isinstance(part, dict)]
    return any(part.get("text") or set(part) - {"text", "thought"} for part in parts)


def _settled(value: dict[str, Any]) -> bool:
    """As an answer that comes at once. What a stream has used so far is dropped until its end says all of it, or the last of those counts would pass for it."""
    changed = _ended(value)
    so_far = bool(value.get("candidates")) and not _ends(value)
    return (so_far and value.pop("usageMetadata", None) is not None) or changed


class Google(HttpModel[Client]):
    """The ``ModelPort`` for Google's Gemini API. Options: ``stream`` (as ``OpenAICompatible`` has it), and what goes out as it is.

    Tokens that the model thinks with count as output tokens, cached ones as input tokens at the full price. A blocked prompt and a
    withheld answer end as content_filter.
    """

    WIRE = Wire(
        noun="answer of generateContent",
        wanted="candidates",
        key_header=lambda key: ("x-goog-api-key", key),
        is_answer=_is_answer,
        url_hint="; the URL is usually https://generativelanguage.googleapis.com",
        settle=_ended,
        stream=Dialect(ends=_ends, says=_says, settle=_settled),
    )
    NAMES = Names("FABRIC_GOOGLE_URL", "FABRIC_GOOGLE_KEY", "", "https://generativelanguage.googleapis.com")
    OPTIONS = frozenset({*_PASSED_ON, "schema_with_tools", OPTION})
    NUMBERED_CALLS = True

    def _refused(self, model: str) -> str:
        # It becomes part of the path, and the operator's key goes along.
        if _model_id.fullmatch(model):
            return ""
        return f"has the model id {model[:100]!r}, which is none of Google's; write one like gemini-2.5-flash"

    async def _request(self, request: ModelRequest, url: str, asked: Asked) -> ModelResponse:
        known = GoogleProvider.model_profile(asked.model)
        combined = bool(request.model.options.get("schema_with_tools"))
        wanted = GoogleModelProfile(supports_json_schema_output=True)
        if combined:
            wanted["google_supports_tool_combination"] = True
        model = GoogleModel(
            asked.model,
            provider=GoogleProvider(client=self._client(url)),
            profile=merge_profile(known, wanted),
        )
        settings = cast(GoogleModelSettings, settings_of(request, _PASSED_ON))
        return await self._answer(request, model, settings, parameters_of(request, schema=asked.schema))

    def _made(self, url: str, http: httpx2.AsyncClient) -> Client:
        # A key that is named keeps the library from looking for one in the environment; without retry options it does not retry.
        return Client(
            vertexai=False,
            api_key="none",
            http_options=HttpOptions(base_url=url, httpx_async_client=http),
        )
