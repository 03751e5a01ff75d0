"""Vertex AI: its addresses, the forms that it refuses, and Google's own sign-in."""

from __future__ import annotations

import asyncio
import datetime as dt
import json
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from fabric.core.events.inputs import CallFailed, ModelReplied, ToolCall
from fabric.core.values.taxonomy import Cause
from fabric.http.transport import Gate
from fabric.providers.clouds.vertex import GoogleSignIn, Vertex
from fabric.providers.exchange.http_model import Endpoint
from fabric.providers.exchange.keys import SignIn
from fabric.runtime.ports.calls import ChatMessage
from simulator.endpoint import ScriptedEndpoint, Step
from tests.fabric.providers.asking import TOOL, request
from tests.fabric.providers.wires import VERTEX

HERE = "https://aiplatform.googleapis.com"
BEHIND = "/publishers/google/models/gemini-2.5-flash:generateContent"


@pytest.mark.parametrize(
    ("url", "options", "path"),
    [
        (HERE, {"project": "p"}, f"/v1/projects/p/locations/global{BEHIND}"),
        (HERE, {"project": "p", "location": "eu"}, f"/v1/projects/p/locations/eu{BEHIND}"),
        ("https://us-east5-aiplatform.googleapis.com", {"project": "p"}, f"/v1/projects/p/locations/us-east5{BEHIND}"),
        ("https://aiplatform.eu.rep.googleapis.com", {"project": "p"}, f"/v1/projects/p/locations/eu{BEHIND}"),
        (f"{HERE}/v1/projects/p/locations/global", {}, BEHIND),
        (HERE, {}, f"/v1{BEHIND}"),
    ],
)
def test_the_project_and_the_location_are_in_the_address(url: str, options: dict[str, str], path: str):
    spec = VERTEX.spec().model_copy(update={"options": options})
    port = Vertex(Endpoint(url))
    assert port._explain_refusal(spec, spec.model, url) == ""
    assert port._path(spec, spec.model, url, stream=False) == path


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"location": "eu"}, "without the option project"),
        ({"project": "p"}, "without the option location"),
        ({"project": "p/../q", "location": "eu"}, "no id of a project"),
        ({"project": 7, "location": "eu"}, "no id of a project"),
        ({"project": "p", "location": "eu?x"}, "no id of a location"),
    ],
)
def test_what_names_no_place_is_said_before_any_request(options: dict[str, Any], words: str):
    with ScriptedEndpoint([VERTEX.answer("no")]) as endpoint:
        spec = VERTEX.spec().model_copy(update={"options": options})
        result: Any = asyncio.run(VERTEX.port(endpoint).ask(request(model=spec)))
        assert (result.cause, result.never_sent, endpoint.received) == (Cause.BAD_CONFIGURATION, True, [])
        assert words in result.message


def test_calls_and_results_go_out_without_ids():
    own = {"protocol": "gemini", "parts": {"thoughtSignature": "c2ln"}}
    messages = (
        ChatMessage("user", "Look."),
        ChatMessage("assistant", "", (ToolCall(call_id="a", tool="look", args={"id": "kept"}, own=own),)),
        ChatMessage("tool", "seen", call_id="a", tool="look"),
    )
    _, (sent,) = VERTEX.ask(VERTEX.answer("ok"), messages=messages, tools=(TOOL,))
    _, call, result = (content["parts"] for content in sent.body["contents"])
    assert call == [{"functionCall": {"name": "look", "args": {"id": "kept"}}, "thoughtSignature": "c2ln"}]
    assert result == [{"functionResponse": {"name": "look", "response": {"output": "seen"}}}]


# -- Google's own sign-in --


def signed(
    sign_in: SignIn, *, answers: int = 1, to: Any = None, key: str = "", **spec: Any
) -> tuple[list[Any], list[Any]]:
    """Return what comes of calls that are made at once, and the requests that the operator's endpoint had."""

    async def go(own: ScriptedEndpoint) -> list[Any]:
        port = VERTEX.port(own, key, sign_in=sign_in, gate=Gate.trust_hosts([to.authority] if to else []))
        model = VERTEX.spec(**spec, **({"base_url": VERTEX.url(to)} if to else {}))
        try:
            return await asyncio.gather(*(port.ask(request(model=model)) for _ in range(answers)))
        finally:
            await port.aclose()

    with ScriptedEndpoint([VERTEX.answer("Hello.") for _ in range(answers)]) as own:
        return asyncio.run(go(own)), own.received


@pytest.fixture
def tokens(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> Any:
    """A server that gives tokens, and application default credentials of a service account that name it."""
    pytest.importorskip("google.auth")
    sealed = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    key = rsa.generate_private_key(65537, 2_048).private_bytes(*sealed).decode()
    given = {"access_token": "ya29.a-token-of-the-operators", "expires_in": 3_600, "token_type": "Bearer"}
    script: list[Step] = [Step(body=json.dumps(given).encode())]
    server: Any
    with ScriptedEndpoint(lambda _: script[-1]) as server:
        said = {"type": "service_account", "client_email": "me@p.example", "private_key": key, "project_id": "p"}
        said |= {"token_uri": f"http://{server.authority}/token"}
        (tmp_path / "adc.json").write_text(json.dumps(said))
        monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path / "adc.json"))
        monkeypatch.setenv("GOOGLE_CLOUD_QUOTA_PROJECT", "who-pays")
        monkeypatch.setenv("NO_GCE_CHECK", "true")
        server.answers = script
        yield server


def test_requests_are_signed_with_the_operators_own_credentials_once_for_all_calls(tokens: Any):
    sign_in = GoogleSignIn()
    results, received = signed(sign_in, answers=3)
    assert all(isinstance(one, ModelReplied) for one in results), results
    assert {one.headers["authorization"] for one in received} == {"Bearer ya29.a-token-of-the-operators"}
    assert {one.headers["x-goog-user-project"] for one in received} == {"who-pays"}
    assert len(tokens.received) == 1
    assert isinstance(signed(sign_in)[0][0], ModelReplied)
    assert len(tokens.received) == 1
    sign_in._credentials.expiry = dt.datetime.now(dt.UTC).replace(tzinfo=None)
    assert isinstance(signed(sign_in)[0][0], ModelReplied)
    assert len(tokens.received) == 2


def test_they_sign_nothing_that_goes_elsewhere_and_nothing_where_a_key_is_set(tokens: Any):
    with ScriptedEndpoint([VERTEX.answer("Hello.")]) as elsewhere:
        signed(GoogleSignIn(), to=elsewhere)
        assert ["authorization" in one.headers for one in elsewhere.received] == [False]
    _, received = signed(GoogleSignIn(), key="AQ.a-key-of-the-operators")
    assert [("authorization" in one.headers, VERTEX.key_of(one)) for one in received] == [
        (False, "AQ.a-key-of-the-operators")
    ]
    assert tokens.received == []


def test_a_refused_sign_in_is_one_sentence_and_asks_no_provider(tokens: Any):
    tokens.answers.append(Step(status=400, body=b'{"error": "invalid_grant", "error_description": "Revoked."}'))
    (result,), received = signed(GoogleSignIn())
    assert isinstance(result, CallFailed)
    assert (result.cause, result.billed, result.never_sent, received) == (Cause.AUTH, False, True, [])
    assert "could not sign in (RefreshError" in result.message
    assert "set FABRIC_VERTEX_KEY" in result.message
    assert "\n" not in result.message


def test_a_token_that_does_not_come_ends_with_the_deadline(tokens: Any):
    over = threading.Event()

    def late() -> Iterator[bytes]:
        over.wait(60)
        yield b"{}"

    pieces: Any = late()
    tokens.answers.append(Step(pieces=pieces))

    async def go(own: ScriptedEndpoint) -> Any:
        port = VERTEX.port(own, "", sign_in=GoogleSignIn())
        result = await port.ask(request(0.5, model=VERTEX.spec()))
        over.set()
        await port.aclose()
        return result

    with ScriptedEndpoint([VERTEX.answer("no")]) as own:
        result = asyncio.run(go(own))
        assert (result.cause, result.never_sent, own.received) == (Cause.NETWORK, True, [])
        assert "did not sign in before the deadline" in result.message


def test_a_sign_in_without_a_project_says_what_to_set(tokens: Any):
    sign_in = GoogleSignIn()

    async def go(own: ScriptedEndpoint) -> Any:
        port = VERTEX.port(own, "", sign_in=sign_in)
        return await port.ask(request(model=VERTEX.spec().model_copy(update={"options": {}})))

    with ScriptedEndpoint([VERTEX.answer("no")]) as own:
        result = asyncio.run(go(own))
        assert (result.cause, result.never_sent, own.received) == (Cause.BAD_CONFIGURATION, True, [])
        assert "set the option `project`" in result.message


def test_a_refusal_speaks_of_the_credentials_and_never_shows_the_token(tokens: Any):
    async def go(own: ScriptedEndpoint) -> Any:
        port = VERTEX.port(own, "", sign_in=GoogleSignIn())
        try:
            return await port.ask(request(model=VERTEX.spec()))
        finally:
            await port.aclose()

    with ScriptedEndpoint([VERTEX.refusal(403, "no ya29.a-token-of-the-operators")]) as own:
        result = asyncio.run(go(own))
        assert result.cause is Cause.AUTH
        assert "Google's application default credentials signed the request" in result.message
        assert "a-token" not in str(result)
