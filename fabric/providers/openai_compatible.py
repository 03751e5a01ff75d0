"""Models at OpenAI and at any compatible endpoint: chat completions, or the Responses API."""

from __future__ import annotations

from fabric.core.spec.tree import ModelSpec
from fabric.providers.exchange.http_model import Endpoint, HttpModel
from fabric.providers.exchange.streams import OPTION
from fabric.providers.exchange.wire import ANSWER_BYTES_MAX, read_host
from fabric.providers.protocols.chat import PASSED_ON, Chat
from fabric.providers.protocols.contract import Protocol
from fabric.providers.protocols.responses import Responses
from fabric.providers.refusals.errors import SettingNames
from fabric.runtime.ports.calls import ModelRequest

__all__ = ["ANSWER_BYTES_MAX", "Endpoint", "OpenAICompatible"]


class OpenAICompatible(HttpModel):
    """The ``ModelPort`` for chat completions, with the options below.

    - ``api``: chat (default) or responses, the Responses API. With that, ``store``: true keeps the history at the
      provider and sends only what is new; without it each request has all of it, with the model's encrypted
      reasoning, unless ``reasoning_back`` is never.
    - ``max_tokens_field``: max_tokens or max_completion_tokens.
    - ``response_format``: json_schema (default) or json_object, which carries the schema with it as llama-cpp-python
      wants it.
    - ``schema_with_tools``: the endpoint takes a schema and tools at once, as OpenAI's does.
    - ``stream``: with tools on offer the answer is requested as a stream, so that calls begin as they come.
    - ``system_role``: system (default), developer, or user for templates without a system role.
    - ``strict_turns``: no user message right after a tool's, as Mistral's templates want it.
    - ``reasoning_back``: reasoning goes back with_calls (default), always or never.
    """

    PROTOCOL = Chat()
    RESPONSES = Responses()
    NAMES = SettingNames()
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
            read_host(url).endswith(".openai.com")
            and "max_tokens" in body
            and "max_tokens_field" not in request.model.options
        ):
            body["max_completion_tokens"] = body.pop("max_tokens")
        return body
