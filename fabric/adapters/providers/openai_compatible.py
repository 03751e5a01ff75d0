"""Models at OpenAI and at any endpoint that follows it: chat completions, or the Responses API."""

from __future__ import annotations

from fabric.adapters.providers.asking import Endpoint, HttpModel
from fabric.adapters.providers.errors import Names
from fabric.adapters.providers.protocols.chat import PASSED_ON, Chat
from fabric.adapters.providers.protocols.contract import Protocol
from fabric.adapters.providers.protocols.responses import Responses
from fabric.adapters.providers.streaming import OPTION
from fabric.adapters.providers.wire import ANSWER_BYTES_MAX, host_of
from fabric.core.spec import ModelSpec
from fabric.runtime.call_ports import ModelRequest

__all__ = ["ANSWER_BYTES_MAX", "Endpoint", "OpenAICompatible"]


class OpenAICompatible(HttpModel):
    """The ``ModelPort`` for chat completions.

    Options: ``max_tokens_field``: max_tokens or max_completion_tokens. ``response_format``: json_schema (default) or json_object, which
    carries the schema beside it as llama-cpp-python wants it. ``schema_with_tools``: the endpoint can be asked for a schema and offered
    tools at once, as OpenAI's can. ``stream``: where tools are on offer the answer is asked for as a stream, so that calls begin as they come.
    ``system_role``: system (default), developer, or user for templates without a system role. ``strict_turns``: no user message right after a
    tool's, as Mistral's templates want it. ``reasoning_back``: whether reasoning goes back with_calls (default), always or never.

    ``api``: chat (default) or responses, the Responses API. Of that: ``store``: true keeps the history at the provider and sends only what is
    new; without it each request has all of it, with the model's encrypted reasoning, unless ``reasoning_back`` is never.
    """

    PROTOCOL = Chat()
    RESPONSES = Responses()
    NAMES = Names()
    OPTIONS = frozenset(
        {
            *PASSED_ON,
            "api",
            "extra_body",
            "parallel_tool_calls",
            "max_tokens_field",
            "response_format",
            "schema_with_tools",
            "system_role",
            "store",
            "strict_turns",
            "reasoning_back",
            OPTION,
        }
    )

    def _protocol(self, spec: ModelSpec) -> Protocol:
        return self.RESPONSES if spec.options.get("api") == "responses" else self.PROTOCOL

    def _body(self, request: ModelRequest, body: dict[str, object], url: str) -> dict[str, object]:
        # OpenAI's newer models refuse max_tokens, and its older ones take the other name too.
        if (
            host_of(url).endswith(".openai.com")
            and "max_tokens" in body
            and "max_tokens_field" not in request.model.options
        ):
            body["max_completion_tokens"] = body.pop("max_tokens")
        return body
