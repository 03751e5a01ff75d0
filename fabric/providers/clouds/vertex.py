"""Models of Google's that Vertex AI serves (``generateContent``)."""

from __future__ import annotations

import re
from typing import Any

from fabric.core.events.inputs import CallFailed
from fabric.core.spec.tree import ModelSpec
from fabric.core.values.taxonomy import Cause
from fabric.core.values.units import JSON
from fabric.providers.exchange.http_model import HttpModel
from fabric.providers.exchange.keys import NotSignedIn, SignedIn, SignIn
from fabric.providers.exchange.streams import OPTION
from fabric.providers.exchange.wire import read_host
from fabric.providers.protocols.fitting import FittedConversation
from fabric.providers.protocols.gemini import PASSED_ON, GenerateContent, verb
from fabric.providers.refusals.errors import RequestFacts, SettingNames, build_unsent
from fabric.runtime.ports.calls import ModelRequest

SCOPE = "https://www.googleapis.com/auth/cloud-platform"
HOST = "aiplatform.googleapis.com"
_model_id = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]*")
_word = re.compile(r"[a-z0-9][a-z0-9.:-]*")
_in_url = re.compile(r"/v1(?:beta1)?/projects/[^/]+/locations/[^/]+$")
_regional = re.compile(rf"([a-z0-9-]+)-{re.escape(HOST)}|aiplatform\.([a-z0-9-]+)\.rep\.googleapis\.com")


class VertexContent(GenerateContent):
    """``generateContent`` as Vertex AI takes it: it refuses the ids of calls, and pairs calls with results by their
    order.
    """

    url_hint = f"; the URL is usually https://LOCATION-{HOST}"

    def path(self, model: str, *, stream: bool) -> str:
        """Return the path behind the project and its location."""
        return f"/publishers/google/models/{model}:{verb(stream=stream)}"

    def body(
        self, request: ModelRequest, fitted: FittedConversation, *, model: str, schema: bool, stream: bool
    ) -> dict[str, JSON]:
        """Return the request's body."""
        body = super().body(request, fitted, model=model, schema=schema, stream=stream)
        for content in body["contents"]:
            content["parts"] = [_drop_id(part) for part in content["parts"]]
        return body


class Vertex(HttpModel):
    """The ``ModelPort`` for Vertex AI. Options: ``project``, ``location``, ``stream``, and those that go out
    unchanged.

    Without ``location`` the host names it. A key alone (express mode) needs no project.
    """

    PROTOCOL = VertexContent()
    NAMES = SettingNames("FABRIC_VERTEX_URL", "FABRIC_VERTEX_KEY", "", f"https://us-central1-{HOST}")
    OPTIONS = frozenset({*PASSED_ON, "extra_body", "schema_with_tools", "project", "location", OPTION})

    def _key_header(self, key: str) -> dict[str, str]:
        return {"x-goog-api-key": key} if key else {}

    def _path(self, spec: ModelSpec, model: str, url: str, *, stream: bool) -> str:
        path = self._protocol(spec).path(model, stream=stream)
        if _in_url.search(url):
            return path
        project = spec.options.get("project")
        return f"/v1/projects/{project}/locations/{_location(spec, url)}{path}" if project else f"/v1{path}"

    def _explain_refusal(self, spec: ModelSpec, model: str, url: str) -> str:
        if not _model_id.fullmatch(model):
            return f"has the model id {model[:100]!r}, which is none of Vertex AI's; write one like gemini-2.5-flash"
        given = {name: spec.options[name] for name in ("project", "location") if name in spec.options}
        for name, one in given.items():
            if not (isinstance(one, str) and _word.fullmatch(one)):
                return f"has the option {name} {str(one)[:100]!r}, which is no id of a {name}; write it as Google Cloud does"
        if given and _in_url.search(url):
            return f"has the option {next(iter(given))}, and its URL names a project and a location; leave one of the two out"
        if "location" in given and "project" not in given:
            return "has the option location without the option project; give both"
        if "project" in given and not _location(spec, url):
            return "has the option project without the option location, and its URL names none; give both"
        return ""

    async def _sign_request(self, request: ModelRequest, asked: RequestFacts, url: str) -> SignedIn | CallFailed | None:
        signed = await super()._sign_request(request, asked, url)
        if isinstance(signed, SignedIn) and not (_in_url.search(url) or request.model.options.get("project")):
            message = f"model {asked.name!r} names no project of Google Cloud; set the option `project`, or an API key as {self.NAMES.key}"
            return build_unsent(asked, Cause.BAD_CONFIGURATION, message)
        return signed


class GoogleSignIn(SignIn):
    """Google's application default credentials (``google.auth.default``). Needs the extra ``vertex``."""

    source = "Google's application default credentials"

    def __init__(self) -> None:
        super().__init__()
        self._credentials: Any = None

    def _sign_in(self, url: str) -> SignedIn:
        try:
            import google.auth
            import google.auth.transport.requests
        except ImportError:
            raise NotSignedIn("to sign in with Google's own credentials, install the extra `vertex`") from None
        if self._credentials is None:
            self._credentials, _ = google.auth.default(scopes=[SCOPE])
        if not self._credentials.valid:
            self._credentials.refresh(google.auth.transport.requests.Request())
        headers: dict[str, str] = {}
        self._credentials.apply(headers)
        return SignedIn(self.source, lambda _url, _content: headers, self._credentials.token)


def _location(spec: ModelSpec, url: str) -> str:
    """Return the requested location; empty: none is named."""
    if named := spec.options.get("location"):
        return str(named)
    host = read_host(url)
    found = _regional.fullmatch(host)
    return (found[1] or found[2]) if found else "global" if host == HOST else ""


def _drop_id(part: dict[str, JSON]) -> dict[str, JSON]:
    kinds = {"functionCall", "functionResponse"}
    return {
        name: {field: value for field, value in one.items() if field != "id"} if name in kinds else one
        for name, one in part.items()
    }
