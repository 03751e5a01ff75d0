"""Models that Azure OpenAI serves: chat completions, or the Responses API."""

from __future__ import annotations

import re
from urllib.parse import quote

from fabric.core.spec.tree import ModelSpec
from fabric.providers.openai_compatible import OpenAICompatible
from fabric.providers.protocols.chat import Chat
from fabric.providers.protocols.responses import Responses
from fabric.providers.refusals.errors import SettingNames
from fabric.runtime.ports.calls import ModelRequest

URL_HINT = "; the URL is usually https://RESOURCE.openai.azure.com"
V1 = "/openai/v1"
_version = re.compile(r"20[0-9]{2}-[0-9]{2}-[0-9]{2}(?:-preview)?")
_deployment = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


class AzureChat(Chat):
    """Chat completions of Azure OpenAI."""

    url_hint = URL_HINT


class AzureResponses(Responses):
    """The Responses API of Azure OpenAI."""

    url_hint = URL_HINT


class Azure(OpenAICompatible):
    """The ``ModelPort`` for Azure OpenAI. A model's id is the name of its deployment. Options: those of
    ``OpenAICompatible``, and ``api_version``.

    ``api_version``: a dated version such as 2024-10-21, whose address names the deployment. Without it the v1 API is
    used.
    """

    PROTOCOL = AzureChat()
    RESPONSES = AzureResponses()
    NAMES = SettingNames("FABRIC_AZURE_URL", "FABRIC_AZURE_KEY", "", "https://RESOURCE.openai.azure.com")
    OPTIONS = OpenAICompatible.OPTIONS | {"api_version"}

    def _key_header(self, key: str) -> dict[str, str]:
        return {"api-key": key} if key else {}

    def _path(self, spec: ModelSpec, model: str, url: str, *, stream: bool) -> str:
        path = self._protocol(spec).path(model, stream=stream)
        if version := spec.options.get("api_version"):
            return f"/openai/deployments/{quote(model, safe='')}{path}?api-version={version}"
        return path if url.endswith(V1) else f"{V1}{path}"

    def _explain_refusal(self, spec: ModelSpec, model: str, url: str) -> str:
        if not _deployment.fullmatch(model):
            return (
                f"has the id {model[:100]!r}, which is no name of a deployment; give the deployment's name as `model`"
            )
        version = spec.options.get("api_version")
        if version is None:
            return ""
        if not (isinstance(version, str) and _version.fullmatch(version)):
            return f"has the option api_version {str(version)[:40]!r}; write one like 2024-10-21, or leave it out for the v1 API"
        if spec.options.get("api") == "responses":
            return "has the options `api: responses` and `api_version`; the Responses API is asked without a version, so leave that out"
        if url.endswith(V1):
            return f"has the option api_version, and its URL ends in {V1}; leave one of the two out"
        return ""

    def _body(self, request: ModelRequest, body: dict[str, object], url: str) -> dict[str, object]:
        # The v1 API serves models that refuse max_tokens, and its others take the newer name too.
        options = request.model.options
        if "max_tokens" in body and "max_tokens_field" not in options and "api_version" not in options:
            body["max_completion_tokens"] = body.pop("max_tokens")
        return body
