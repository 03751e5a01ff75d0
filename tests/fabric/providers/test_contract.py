"""Every provider keeps one contract, over real HTTP in its own protocol: one request an ask, whatever comes back."""

import asyncio
import json

import pytest

from fabric.core.events.inputs import CallFailed, ModelReplied, ToolCall
from fabric.core.schema.payloads import json_schema
from fabric.core.values.taxonomy import Cause
from fabric.http.transport import SENDING, Gate, SendPermission
from fabric.providers.exchange.http_model import Endpoint
from fabric.runtime.ports.calls import ChatMessage
from simulator.endpoint import ScriptedEndpoint, Step, bad_json, drop, empty, hang, hang_up, html
from tests.fabric.providers.asking import KEY, TOOL, request
from tests.fabric.providers.wires import ALL, ANTHROPIC, OPENAI, RESPONSES


@pytest.fixture(params=ALL, ids=lambda spoken: spoken.name)
def spoken(request):
    return request.param


def test_an_answer_is_mapped_and_charged(spoken):
    result, received = spoken.ask(spoken.answer("Hello.", usage=(12, 3)))
    assert result == ModelReplied(
        command_id="c1", attempt=2, text="Hello.", input_tokens=12, output_tokens=3, model="scripted"
    )
    (sent,) = received
    assert (sent.method, sent.path.partition("?")[0], spoken.key_of(sent)) == ("POST", spoken.path, KEY)
    assert sent.headers["x-fabric-call"] == "r1/c1/2"
    assert sent.idempotency_key == "key-1"
    assert sent.headers["traceparent"] == f"00-{'a' * 32}-{'b' * 16}-01"
    assert spoken.cap(sent.body) == 100
    assert spoken.system(sent.body) == "You are a reader."
    assert spoken.schema(sent.body) is None


def test_tools_go_out_and_calls_come_back(spoken):
    step = spoken.answer(None, [("look", {"at": "ü"}, "a"), ("look", {}, "b")])
    result, received = spoken.ask(step, tools=(TOOL,))
    assert result.calls == (
        ToolCall(call_id="a", tool="look", args={"at": "ü"}),
        ToolCall(call_id="b", tool="look", args={}),
    )
    assert result.text == ""
    assert spoken.tools(received[0].body) == ["look"]


@pytest.mark.parametrize("spoken", [OPENAI, RESPONSES, ANTHROPIC], ids=lambda one: one.name)
def test_cut_tool_arguments_are_kept_as_they_came(spoken):
    result, _ = spoken.ask(spoken.answer(None, [("look", '{"at": ', "a")]), tools=(TOOL,))
    assert [(one.args, one.raw_args) for one in result.calls] == [(None, '{"at": ')]


def test_tools_are_not_sent_to_a_model_without_tool_calls(spoken):
    _, received = spoken.ask(spoken.answer("ok"), spec={"tool_calls": False}, tools=(TOOL,))
    assert spoken.tools(received[0].body) == []


def test_a_whole_conversation_goes_out(spoken):
    messages = (
        ChatMessage("system", "S"),
        ChatMessage("user", "the question"),
        ChatMessage("assistant", "thinking", (ToolCall(call_id="1", tool="look", args={"at": "here"}),)),
        ChatMessage("tool", "what was seen", call_id="1", tool="look"),
        ChatMessage("assistant", "", (ToolCall(call_id="2", tool="look", args=None, raw_args='{"cut'),)),
        ChatMessage("tool", "what was wrong", call_id="2", tool="look"),
        ChatMessage("system", "do otherwise"),
        ChatMessage("user", "again"),
    )
    result, received = spoken.ask(spoken.answer("ok"), messages=messages, tools=(TOOL,))
    assert isinstance(result, ModelReplied), result
    sent = json.dumps(received[0].body)
    conversation = ["the question", "thinking", "here", "what was seen", "invalid_json", "what was wrong", "again"]
    places = [sent.index(words) for words in conversation]
    assert places == sorted(places)
    assert "do otherwise" in sent


def test_a_schema_is_asked_for(spoken):
    result, received = spoken.ask(spoken.answer("{}"), output_schema=json_schema("summary"), output="summary")
    assert isinstance(result, ModelReplied), result
    assert set(spoken.schema(received[0].body)["properties"]) == {"text", "citations"}


def test_no_schema_where_the_model_is_said_to_take_none(spoken):
    _, received = spoken.ask(spoken.answer("{}"), spec={"structured_output": False}, output_schema={"type": "object"})
    assert spoken.schema(received[0].body) is None


@pytest.mark.parametrize("finish", ["length", "content_filter"])
def test_the_end_of_an_answer_is_mapped(spoken, finish):
    assert spoken.ask(spoken.answer("half", finish=finish))[0].finish == finish


@pytest.mark.parametrize("usage", [None, (0, 0), (-5, -5), (10**30, 10**30)])
def test_tokens_that_are_not_reported_are_charged_at_worst_case(spoken, usage):
    result, _ = spoken.ask(spoken.answer("four", usage=usage))
    assert (result.input_tokens, result.output_tokens) == (len("You are a reader.Hello?"), 4)


def test_an_empty_answer_is_an_answer_with_nothing_in_it(spoken):
    result, received = spoken.ask(spoken.answer(""))
    assert (result.text, result.calls, result.finish, len(received)) == ("", (), "stop", 1)


def test_nul_and_surrogates_are_mended_and_told(spoken):
    raw = spoken.answer("MARK").body.replace(b"MARK", rb"a\u0000b\ud800c\ud83d\ude00")
    result, _ = spoken.ask(Step(body=raw))
    assert (result.text, result.sanitized) == ("a\ufffdb\ufffdc😀", True)


# -- failures --


def test_too_many_requests_says_when_to_come_back_and_is_asked_once(spoken):
    result, received = spoken.ask(spoken.refusal(429, "slow down", headers={"Retry-After": "7"}))
    assert (result.cause, result.status, result.retry_after_s, result.billed) == (Cause.RATE_LIMIT, 429, 7.0, False)
    assert len(received) == 1


@pytest.mark.parametrize("status", [500, 502, 503, 504, 529])
def test_a_failing_server_is_asked_once(spoken, status):
    result, received = spoken.ask(spoken.refusal(status, "sorry"))
    assert (result.cause, result.status, len(received)) == (Cause.SERVER_ERROR, status, 1)
    assert "It says: sorry" in result.message


@pytest.mark.parametrize("status", [401, 403])
def test_a_refused_key_names_the_setting(spoken, status):
    result, received = spoken.ask(spoken.refusal(status, "no"))
    assert (result.cause, len(received)) == (Cause.AUTH, 1)
    assert f"check {spoken.settings[1]}" in result.message


@pytest.mark.parametrize(
    ("step", "cause"),
    [
        (html(), Cause.MALFORMED_ANSWER),
        (empty(), Cause.MALFORMED_ANSWER),
        (bad_json(), Cause.MALFORMED_ANSWER),
        (Step(body=b"[]"), Cause.MALFORMED_ANSWER),
        (Step(body=b"{}"), Cause.MALFORMED_ANSWER),
        (Step(body=b"[" * 100_000), Cause.MALFORMED_ANSWER),
        (Step(body=b'{"error": {"message": "oops"}}'), Cause.MALFORMED_ANSWER),
        (Step(body=b'{"error": {"code": 429, "message": "slow down"}}'), Cause.RATE_LIMIT),
        (Step(body=b"\x1f\x8b", headers={"Content-Encoding": "gzip"}), Cause.MALFORMED_ANSWER),
        (html(503), Cause.SERVER_ERROR),
        (html(404), Cause.BAD_CONFIGURATION),
        (Step(status=400, body=b"no"), Cause.BAD_REQUEST),
        (Step(status=307, headers={"Location": "http://127.0.0.1:9/"}), Cause.BAD_CONFIGURATION),
        (drop(), Cause.DROPPED_STREAM),
        (hang_up(), Cause.DROPPED_STREAM),
    ],
    ids=lambda given: given.value if isinstance(given, Cause) else f"{given.mode}-{given.status}-{given.body[:12]!r}",
)
def test_whatever_comes_back_is_a_failure_by_name_after_one_request(spoken, step, cause):
    result, received = spoken.ask(step)
    assert (result.cause, len(received)) == (cause, 1), result
    assert result.message.startswith("http://127.0.0.1:") or cause is Cause.MALFORMED_ANSWER
    assert "\n" not in result.message


def test_a_page_says_where_the_url_may_be_wrong(spoken):
    assert f"a web page instead of JSON{spoken.protocol.url_hint}" in spoken.ask(html())[0].message


def test_nothing_is_sent_after_the_deadline(spoken):
    result, received = spoken.ask(spoken.answer("late"), within_s=-1.0)
    assert (result.cause, result.billed, result.never_sent, received) == (Cause.TIMEOUT, False, True, [])


def test_what_is_not_covered_at_the_last_moment_does_not_go_out(spoken):
    sending = SendPermission(lambda: False)
    token = SENDING.set(sending)
    try:
        result, received = spoken.ask(spoken.answer("fine"))
    finally:
        SENDING.reset(token)
    assert isinstance(result, CallFailed)
    assert (result.billed, sending.stopped, received) == (False, True, [])


# -- the key, and where it goes --


def test_the_key_goes_only_to_the_operator_s_endpoint(spoken):
    async def go(provider, elsewhere):
        asks = [request(model=spoken.spec()), request(model=spoken.spec(base_url=elsewhere))]
        results = [await provider.ask(one) for one in asks]
        await provider.aclose()
        return results

    with ScriptedEndpoint([spoken.answer("mine")]) as mine, ScriptedEndpoint([spoken.refusal(401, "who?")]) as other:
        provider = spoken.port(mine, gate=Gate.trust_hosts([other.authority]))
        results = asyncio.run(go(provider, spoken.url(other)))
        assert [spoken.key_of(one) for one in mine.received] == [KEY]
        assert KEY not in json.dumps([one.headers for one in other.received])
        assert f"only ever sent to 127.0.0.1 ({spoken.settings[0]})" in results[1].message


@pytest.mark.parametrize("url", ["http://169.254.169.254/", "https://10.0.0.1/", "http://127.0.0.1:10/"])
def test_an_address_that_a_fabric_may_not_name_is_not_asked(spoken, url):
    with ScriptedEndpoint([spoken.answer("fine")]) as endpoint:
        asked = request(model=spoken.spec(base_url=url))
        result = asyncio.run(spoken.port(endpoint).ask(asked))
        assert (result.cause, result.never_sent, endpoint.received) == (Cause.BAD_CONFIGURATION, True, [])


def test_a_missing_key_is_said_before_any_request(spoken):
    provider = spoken.adapter(Endpoint("https://models.invalid", "", ""))
    result = asyncio.run(provider.ask(request(model=spoken.spec())))
    assert (result.cause, result.billed) == (Cause.AUTH, False)
    assert f"set {spoken.settings[1]}" in result.message


FROM_OUTSIDE = [
    "OPENAI_API_KEY",
    "OPENAI_ORG_ID",
    "OPENAI_PROJECT_ID",
    "OPENAI_CUSTOM_HEADERS",
    "ANTHROPIC_API_KEY",
    "ANTHROPIC_AUTH_TOKEN",
    "ANTHROPIC_CUSTOM_HEADERS",
    "ANTHROPIC_PROFILE",
    "GOOGLE_API_KEY",
    "GEMINI_API_KEY",
    "GOOGLE_CLOUD_PROJECT",
    "AZURE_OPENAI_API_KEY",
    "AWS_BEARER_TOKEN_BEDROCK",
]


def test_what_the_environment_has_for_the_client_libraries_is_not_used(spoken, monkeypatch):
    for name in FROM_OUTSIDE:
        monkeypatch.setenv(name, "X-Planted: from-the-environment")
    for name in ("OPENAI_BASE_URL", "ANTHROPIC_BASE_URL", "GOOGLE_GEMINI_BASE_URL", "HTTP_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    result, received = spoken.ask(spoken.answer("ok"), key="")
    assert isinstance(result, ModelReplied), result
    assert "from-the-environment" not in json.dumps(received[0].headers)
    assert spoken.key_header not in received[0].headers


@pytest.mark.parametrize("status", [200, 401])
def test_the_key_is_never_shown(spoken, status):
    step = spoken.answer(f"it is {KEY}") if status == 200 else spoken.refusal(status, f"bad key {KEY}", KEY)
    result, _ = spoken.ask(step)
    assert KEY not in str(result)
    assert "[secret]" in str(result)


def test_many_calls_share_one_client(spoken):
    async def go(endpoint, provider):
        tasks = [asyncio.create_task(provider.ask(request(model=spoken.spec()))) for _ in range(20)]
        received = await asyncio.to_thread(endpoint.wait, 20)
        for task in tasks:
            task.cancel()
        ended = await asyncio.gather(*tasks, return_exceptions=True)
        clients = len(provider._transports)
        await provider.aclose()
        return len(received), clients, {type(one) for one in ended}

    with ScriptedEndpoint([hang()]) as endpoint:
        assert asyncio.run(go(endpoint, spoken.port(endpoint))) == (20, 1, {asyncio.CancelledError})


def test_an_unknown_option_is_named(spoken):
    result, received = spoken.ask(spoken.answer("ok"), spec={"options": {"temprature": 1}})
    assert (result.cause, result.never_sent, received) == (Cause.BAD_CONFIGURATION, True, [])
    assert "temprature" in result.message


def test_a_model_without_an_id_says_what_to_set(spoken):
    result, received = spoken.ask(spoken.answer("ok"), spec={"model": ""})
    assert (result.cause, result.never_sent, received) == (Cause.BAD_CONFIGURATION, True, [])
    assert "set its `model`" in result.message
    assert ("FABRIC_MODEL" in result.message) == (spoken.name == "openai")
