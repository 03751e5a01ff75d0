"""Models of Google's Gemini API (``generateContent``)."""

from __future__ import annotations

import re

from fabric.core.spec.tree import ModelSpec
from fabric.providers.exchange.http_model import HttpModel
from fabric.providers.exchange.streams import OPTION
from fabric.providers.protocols.gemini import PASSED_ON, GenerateContent
from fabric.providers.refusals.errors import SettingNames

_model_id = re.compile(r"(?:models/|tunedModels/)?[A-Za-z0-9][A-Za-z0-9._-]*")


class Google(HttpModel):
    """The ``ModelPort`` for Google's Gemini API. Options: ``stream``, and those that go out unchanged.

    Tokens of the model's thoughts are part of the output, cached ones part of the input. A blocked prompt and a
    withheld answer end as content_filter.
    """

    PROTOCOL = GenerateContent()
    NAMES = SettingNames("FABRIC_GOOGLE_URL", "FABRIC_GOOGLE_KEY", "", "https://generativelanguage.googleapis.com")
    OPTIONS = frozenset({*PASSED_ON, "extra_body", "schema_with_tools", OPTION})

    def _explain_refusal(self, spec: ModelSpec, model: str, url: str) -> str:
        # It becomes part of the path, and the operator's key goes along.
        if _model_id.fullmatch(model):
            return ""
        return f"has the model id {model[:100]!r}, which is none of Google's; write one like gemini-2.5-flash"

    def _key_header(self, key: str) -> dict[str, str]:
        return {"x-goog-api-key": key} if key else {}
