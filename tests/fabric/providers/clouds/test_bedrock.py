"""Amazon Bedrock: its addresses, what Converse takes and gives, and AWS's own sign-in."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from fabric.core.events.inputs import CallFailed, ModelReplied, ToolCall
from fabric.core.values.taxonomy import Cause
from fabric.http.transport import Gate
from fabric.providers.clouds.bedrock import AwsSignIn
from fabric.providers.exchange.wire import STREAM_TYPE
from fabric.runtime.ports.calls import ChatMessage, ToolOffer
from simulator.endpoint import ScriptedEndpoint, Step
from tests.fabric.providers.asking import KEY, TOOL, request
from tests.fabric.providers.wires import BEDROCK, step

ARN = "arn:aws:bedrock:us-east-1:123456789012:application-inference-profile/abc"
THOUGHT = {"reasoningContent": {"reasoningText": {"text": "Hm.", "signature": "c2ln"}}}
HIDDEN = {"reasoningContent": {"redactedContent": "b2s="}}
CALL = {"toolUse": {"toolUseId": "tooluse_1", "name": "look", "input": {"at": "here"}}}


def said(*content: Any, **more: Any) -> Step:
    usage = {"inputTokens": 10, "outputTokens": 5, "totalTokens": 15}
    body = {"output": {"message": {"role": "assistant", "content": list(content)}}, "stopReason": "end_turn"}
    return step({**body, "usage": usage, **more})


def test_an_arn_is_escaped_in_the_path():
    _, (sent,) = BEDROCK.ask(said({"text": "ok"}), spec={"model": ARN})
    assert sent.path == (
        "/model/arn%3Aaws%3Abedrock%3Aus-east-1%3A123456789012%3Aapplication-inference-profile%2Fabc/converse"
    )
    assert sent.headers["authorization"] == f"Bearer {KEY}"


@pytest.mark.parametrize("model", ["a b", "../x", "a?b", "a#b", "ä"])
def test_what_is_no_model_id_is_said_before_any_request(model: str):
    result, received = BEDROCK.ask(said({"text": "no"}), spec={"model": model})
    assert (result.cause, result.never_sent, received) == (Cause.BAD_CONFIGURATION, True, [])
    assert "none of Bedrock's" in result.message


def test_a_stream_is_an_option_that_it_does_not_know():
    result, received = BEDROCK.ask(said({"text": "no"}), spec={"options": {"stream": True}})
    assert (result.cause, result.never_sent, received) == (Cause.BAD_CONFIGURATION, True, [])
    assert result.message.endswith("stream")


def test_a_unrequested_stream_is_a_malformed_answer():
    result, _ = BEDROCK.ask(Step(content_type=STREAM_TYPE, pieces=(b'data: {"output": 1}\n\n',)))
    assert isinstance(result, CallFailed)
    assert (result.cause, result.billed) == (Cause.MALFORMED_ANSWER, True)


def test_reasoning_comes_back_where_it_was_with_its_signature():
    first, _ = BEDROCK.ask(said(THOUGHT, {"text": "I look."}, HIDDEN, CALL, stopReason="tool_use"), tools=(TOOL,))
    assert (first.text, first.calls[0].args, first.finish) == ("I look.", {"at": "here"}, "stop")
    history = (
        ChatMessage("user", "Look."),
        ChatMessage("assistant", first.text, first.calls, own=first.own, model="main"),
        ChatMessage("tool", "seen", call_id=first.calls[0].call_id, tool="look"),
    )
    _, (sent,) = BEDROCK.ask(said({"text": "ok"}), messages=history, tools=(TOOL,))
    _, assistant, results = sent.body["messages"]
    assert assistant == {"role": "assistant", "content": [THOUGHT, {"text": "I look."}, HIDDEN, CALL]}
    assert results["content"] == [{"toolResult": {"toolUseId": "tooluse_1", "content": [{"text": "seen"}]}}]
    # A model that takes over is given none of it.
    _, (sent,) = BEDROCK.ask(said({"text": "ok"}), spec={"name": "other"}, messages=history, tools=(TOOL,))
    assert "reasoningContent" not in json.dumps(sent.body)


def test_calls_in_the_history_go_out_with_their_tools_though_none_is_on_offer():
    history = (
        ChatMessage("user", "Look."),
        ChatMessage("assistant", "", (ToolCall(call_id="1", tool="look", args={}),)),
        ChatMessage("tool", "seen", call_id="1", tool="look"),
    )
    _, (sent,) = BEDROCK.ask(said({"text": "ok"}), messages=history)
    assert BEDROCK.tools(sent.body) == ["look"]


def test_tokens_of_the_cache_are_part_of_the_input():
    usage = {"inputTokens": 10, "outputTokens": 5, "cacheReadInputTokens": 90, "cacheWriteInputTokens": 7}
    result, _ = BEDROCK.ask(said({"text": "ok"}, usage={**usage, "totalTokens": 112}))
    assert (result.input_tokens, result.output_tokens, result.parts.cached) == (107, 5, 90)


@pytest.mark.parametrize(
    ("name", "status", "cause"),
    [
        ("ThrottlingException", 429, Cause.RATE_LIMIT),
        ("ServiceQuotaExceededException", 400, Cause.QUOTA),
        ("AccessDeniedException", 403, Cause.AUTH),
        ("ModelNotReadyException", 429, Cause.SERVER_ERROR),
        ("ModelTimeoutException", 408, Cause.TIMEOUT),
        ("ValidationException", 400, Cause.BAD_REQUEST),
    ],
)
def test_an_exception_of_bedrocks_has_its_cause(name: str, status: int, cause: Cause):
    assert BEDROCK.ask(BEDROCK.refusal(status, "m", name))[0].cause is cause


# -- AWS's own sign-in --


@pytest.fixture
def credentials(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    pytest.importorskip("botocore")
    for name in ("AWS_PROFILE", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
        monkeypatch.setenv(name, str(tmp_path / "none"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-west-1")


def signed(answer: Step, *, to: Any = None, key: str = "", **spec: Any) -> tuple[Any, list[Any], str]:
    """Return what comes of one call, the requests that the operator's endpoint had, and its authority."""

    async def go(own: ScriptedEndpoint) -> Any:
        port = BEDROCK.port(own, key, sign_in=AwsSignIn(), gate=Gate.trust_hosts([to.authority] if to else []))
        model = BEDROCK.spec(**spec, **({"base_url": BEDROCK.url(to)} if to else {}))
        try:
            return await port.ask(request(model=model))
        finally:
            await port.aclose()

    with ScriptedEndpoint([answer]) as own:
        return asyncio.run(go(own)), own.received, own.authority


@pytest.mark.parametrize("model", [BEDROCK.model, ARN])
@pytest.mark.parametrize("token", ["", "a-session-token"])
def test_a_request_is_signed_as_aws_computes_it(credentials: None, monkeypatch: Any, model: str, token: str):
    from botocore.auth import SigV4Auth
    from botocore.awsrequest import AWSRequest
    from botocore.credentials import Credentials

    if token:
        monkeypatch.setenv("AWS_SESSION_TOKEN", token)
    result, (sent,), authority = signed(BEDROCK.answer("Hello."), model=model)
    assert isinstance(result, ModelReplied), result
    known = Credentials("AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY", token or None)
    told = sent.headers["authorization"]
    names = told.partition("SignedHeaders=")[2].partition(",")[0].split(";")
    # What came over the wire is signed anew: path, body and each header that the signature names.
    content = json.dumps(sent.body, ensure_ascii=False).encode()
    arrived = AWSRequest("POST", f"http://{authority}{sent.path}", {n: sent.headers[n] for n in names}, content)
    arrived.context["timestamp"] = sent.headers["x-amz-date"]
    auth = SigV4Auth(known, "bedrock", "eu-west-1")
    canonical = auth.canonical_request(arrived)
    signature = auth.signature(auth.string_to_sign(arrived, canonical), arrived)
    assert told.endswith(f"Signature={signature}")
    assert {"content-type", "host", "x-amz-date"} <= set(names)
    assert sent.headers.get("x-amz-security-token", "") == token


def test_it_signs_nothing_that_goes_elsewhere_and_nothing_where_a_key_is_set(credentials: None):
    with ScriptedEndpoint([BEDROCK.answer("Hello.")]) as elsewhere:
        signed(BEDROCK.answer("Hello."), to=elsewhere)
        assert ["authorization" in one.headers for one in elsewhere.received] == [False]
    _, received, _ = signed(BEDROCK.answer("Hello."), key=KEY)
    assert [one.headers["authorization"] for one in received] == [f"Bearer {KEY}"]


def test_a_refusal_speaks_of_the_credentials(credentials: None):
    result, _, _ = signed(BEDROCK.refusal(403, "The security token is invalid.", "UnrecognizedClientException"))
    assert result.cause is Cause.AUTH
    assert "the AWS credentials of this installation signed the request" in result.message


def test_without_credentials_or_a_region_it_says_what_to_set(credentials: None, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("AWS_DEFAULT_REGION")
    result, received, _ = signed(BEDROCK.answer("no"))
    assert (result.cause, result.never_sent, received) == (Cause.AUTH, True, [])
    assert "set AWS_DEFAULT_REGION" in result.message
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-west-1")
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    result, received, _ = signed(BEDROCK.answer("no"))
    assert (result.cause, result.never_sent, received) == (Cause.AUTH, True, [])
    assert "set FABRIC_BEDROCK_KEY" in result.message


@pytest.mark.parametrize(
    "tools", [(), (TOOL,), (ToolOffer(name="bare", description="", parameters={"type": "object"}),)]
)
def test_what_goes_out_is_what_botocore_takes(tools: Any):
    session = pytest.importorskip("botocore.session").Session()
    validate = pytest.importorskip("botocore.validate")
    history = (
        ChatMessage("system", "S"),
        ChatMessage("user", "Look."),
        ChatMessage("assistant", "I look.", (ToolCall(call_id="1", tool="look", args={"at": "here"}),)),
        ChatMessage("tool", "", call_id="1", tool="look"),
        ChatMessage("user", "Again."),
    )
    options = {"temperature": 0.5, "top_p": 0.9, "stop_sequences": ["END"]}
    _, (sent,) = BEDROCK.ask(
        said({"text": "ok"}), messages=history, tools=tools, spec={"options": options}, output_schema={"type": "object"}
    )
    shape = session.get_service_model("bedrock-runtime").operation_model("Converse").input_shape
    found = validate.ParamValidator().validate({"modelId": BEDROCK.model, **sent.body}, shape)
    assert not found.has_errors(), found.generate_report()
    known = set(shape.members)
    assert set(sent.body) <= known
