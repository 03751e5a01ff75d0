"""Models of Anthropic's Messages API."""

from __future__ import annotations

from fabric.providers.exchange.http_model import HttpModel
from fabric.providers.exchange.streams import OPTION
from fabric.providers.protocols.messages_api import PASSED_ON, MessagesApi
from fabric.providers.refusals.errors import SettingNames


class Anthropic(HttpModel):
    """The ``ModelPort`` for Anthropic's Messages API. Options: ``parallel_tool_calls``, ``stream``, and those that
    go out unchanged.

    Tokens written to and read from a prompt cache are part of the input. A refusal of the model's ends as
    content_filter.
    """

    PROTOCOL = MessagesApi()
    NAMES = SettingNames("FABRIC_ANTHROPIC_URL", "FABRIC_ANTHROPIC_KEY", "", "https://api.anthropic.com")
    OPTIONS = frozenset({*PASSED_ON, "extra_body", "parallel_tool_calls", "schema_with_tools", OPTION})

    def _key_header(self, key: str) -> dict[str, str]:
        return {"x-api-key": key} if key else {}
