import asyncio
import json

import pytest

from fabric.core.events.inputs import ModelReplied, ToolCall
from fabric.core.schema.payloads import json_schema
from fabric.core.spec.tree import ModelSpec
from fabric.core.values.taxonomy import Cause
from fabric.http.transport import Gate
from fabric.providers.openai_compatible import ANSWER_BYTES_MAX, Endpoint, OpenAICompatible
from fabric.runtime.ports.calls import ChatMessage
from simulator.endpoint import ScriptedEndpoint, Step, answer, call, drop, hang, hang_up, refusal, unfit_text
from tests.fabric.providers.asking import KEY, TOOL, request


def ask_all(provider, requests):
    """Asks one after the other on one loop, and closes; a test that hangs fails instead."""

    async def go():
        try:
            return [await asyncio.wait_for(provider.ask(one), 60) for one in requests]
        finally:
            await provider.aclose()

    return asyncio.run(go())


def ask(script, *, key=KEY, **changed):
    with ScriptedEndpoint(script if callable(script) else [script]) as endpoint:
        provider = OpenAICompatible(Endpoint(endpoint.url, "small", key))
        (result,) = ask_all(provider, [request(**changed)])
        return result, endpoint.received


def test_an_answer_is_mapped():
    result, received = ask(answer("Hello.", usage=(12, 3), model="small-2"))
    assert result == ModelReplied(
        command_id="c1", attempt=2, text="Hello.", input_tokens=12, output_tokens=3, model="small-2"
    )
    (sent,) = received
    assert (sent.method, sent.path, sent.key, sent.idempotency_key) == ("POST", "/v1/chat/completions", KEY, "key-1")
    assert sent.headers["x-fabric-call"] == "r1/c1/2"
    assert sent.headers["traceparent"] == f"00-{'a' * 32}-{'b' * 16}-01"
    assert sent.body["model"] == "small"
    assert sent.body["max_tokens"] == 100
    assert "response_format" not in sent.body


def test_a_whole_conversation_goes_out_in_order():
    messages = (
        ChatMessage("system", "S"),
        ChatMessage("user", "U"),
        ChatMessage("assistant", "thinking", (ToolCall(call_id="1", tool="look", args={"at": "ü"}),)),
        ChatMessage("tool", "seen", call_id="1", tool="look"),
        ChatMessage("assistant", "", (ToolCall(call_id="2", tool="look", args=None, raw_args='{"at"'),)),
        ChatMessage("tool", "error", call_id="2", tool="look"),
        ChatMessage("user", "Again."),
    )
    _, received = ask(answer("ok"), messages=messages, tools=(TOOL,))
    sent = received[0].body["messages"]
    assert [one["role"] for one in sent] == ["system", "user", "assistant", "tool", "assistant", "tool", "user"]
    assert json.loads(sent[2]["tool_calls"][0]["function"]["arguments"]) == {"at": "ü"}
    assert json.loads(sent[4]["tool_calls"][0]["function"]["arguments"]) == {"invalid_json": '{"at"'}
    assert (sent[3]["tool_call_id"], sent[3]["content"]) == ("1", "seen")
    assert received[0].body["tools"][0]["function"]["parameters"] == TOOL.parameters


def test_tool_calls_keep_their_raw_text_when_they_are_no_object():
    calls = [
        call("look", {"at": "x"}, "a"),
        call("look", '{"at": ', "b"),
        call("look", "[1]", "c"),
        call("look", "", "d"),
        call("look", 'Sure: {"at": "x"}', "e"),
        call("look", {}, ""),
    ]
    result, _ = ask(answer(None, calls), tools=(TOOL,))
    assert [(one.call_id, one.args, one.raw_args) for one in result.calls] == [
        ("a", {"at": "x"}, ""),
        ("b", None, '{"at": '),
        ("c", None, "[1]"),
        ("d", {}, ""),
        ("e", None, 'Sure: {"at": "x"}'),
        ("", {}, ""),
    ]


@pytest.mark.parametrize(
    ("finish", "mapped"), [("stop", "stop"), ("length", "length"), ("content_filter", "content_filter")]
)
def test_the_end_of_an_answer_is_mapped(finish, mapped):
    assert ask(answer("half", finish=finish))[0].finish == mapped


@pytest.mark.parametrize("usage", [None, (0, 0), (-5, -5), (10**30, 10**30)])
def test_tokens_that_are_not_reported_are_charged_at_worst_case(usage):
    result, _ = ask(answer("four", usage=usage))
    assert result.input_tokens == len("You are a reader.Hello?")
    assert result.output_tokens == 4


def test_nul_and_surrogates_are_mended_and_told():
    result, _ = ask(unfit_text())
    assert result.text == "a\ufffdb\ufffdc😀"
    assert result.sanitized


def test_nul_and_surrogates_in_arguments_are_mended_and_told():
    result, _ = ask(answer(None, [call("look", {"at": "a\0\ud800"})]), tools=(TOOL,))
    assert result.calls[0].args == {"at": "a\ufffd\ufffd"}
    assert result.sanitized
    assert not ask(answer(None, [call("look", {"at": "ü😀"})]), tools=(TOOL,))[0].sanitized


def test_bytes_that_are_no_utf_8_are_mended_and_told():
    result, _ = ask(Step(body=answer("caf?").body.replace(b"caf?", b"caf\xe9")))
    assert (result.text, result.sanitized) == ("caf\ufffd", True)


def test_an_escaped_backslash_before_a_u_is_left_alone():
    result, _ = ask(answer("C:\\u0000 and \\ud800"))
    assert result.text == "C:\\u0000 and \\ud800"
    assert not result.sanitized


# -- schema --


def test_a_schema_is_asked_for_where_it_can_be():
    _, received = ask(answer("{}"), output_schema=json_schema("plan"), output="plan")
    form = received[0].body["response_format"]
    assert (form["type"], form["json_schema"]["name"]) == ("json_schema", "plan")
    assert form["json_schema"]["schema"] == json_schema("plan")


@pytest.mark.parametrize(
    ("spec", "tools"),
    [(ModelSpec(name="main", structured_output=False), ()), (ModelSpec(name="main"), (TOOL,))],
    ids=["told not to", "beside tools"],
)
def test_no_schema_is_asked_for_where_it_does_harm(spec, tools):
    _, received = ask(answer("{}"), model=spec, tools=tools, output_schema=json_schema("plan"))
    assert "response_format" not in received[0].body


def test_a_schema_in_the_form_of_llama_cpp():
    spec = ModelSpec(name="main", options={"response_format": "json_object"})
    _, received = ask(answer("{}"), model=spec, output_schema=json_schema("critique"))
    assert received[0].body["response_format"] == {"type": "json_object", "schema": json_schema("critique")}


def test_an_endpoint_without_response_format_says_what_to_set_and_is_asked_once():
    step = refusal(400, "Unrecognized request argument supplied: response_format")
    result, received = ask(step, output_schema=json_schema("plan"))
    assert result.cause is Cause.BAD_REQUEST
    assert "set `structured_output: false` on the fabric's model 'main'" in result.message
    assert len(received) == 1


def test_tools_are_not_sent_to_a_model_without_tool_calls():
    _, received = ask(answer("ok"), model=ModelSpec(name="main", tool_calls=False), tools=(TOOL,))
    assert "tools" not in received[0].body


# -- the end of the deadline --


def test_nothing_is_sent_after_the_deadline():
    result, received = ask(answer("late"), within_s=-1.0)
    assert (result.cause, result.billed, result.never_sent, received) == (Cause.TIMEOUT, False, True, [])


def test_cancelling_is_not_swallowed():
    async def go(endpoint, provider):
        task = asyncio.create_task(provider.ask(request()))
        await asyncio.to_thread(endpoint.wait, 1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await provider.aclose()

    with ScriptedEndpoint([hang()]) as endpoint:
        asyncio.run(go(endpoint, OpenAICompatible(Endpoint(endpoint.url, "small", KEY))))


# -- connections --


def test_fifty_calls_are_in_flight_at_once_on_one_client():
    async def go(endpoint, provider):
        tasks = [asyncio.create_task(provider.ask(request())) for _ in range(50)]
        received = await asyncio.to_thread(endpoint.wait, 50)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        clients = len(provider._transports)
        await provider.aclose()
        return len(received), clients

    with ScriptedEndpoint([hang()]) as endpoint:
        assert asyncio.run(go(endpoint, OpenAICompatible(Endpoint(endpoint.url, "small", KEY)))) == (50, 1)


def test_fifty_calls_all_get_their_own_answer():
    async def go(provider):
        asked = [request(command_id=f"c{n}", messages=(ChatMessage("user", f"q{n}"),)) for n in range(50)]
        results = await asyncio.gather(*(provider.ask(one) for one in asked))
        await provider.aclose()
        return results

    with ScriptedEndpoint(lambda received: answer(received.body["messages"][0]["content"])) as endpoint:
        results = asyncio.run(go(OpenAICompatible(Endpoint(endpoint.url, "small", KEY))))
        assert [(one.command_id, one.text) for one in results] == [(f"c{n}", f"q{n}") for n in range(50)]
        assert len(endpoint.received) == 50


@pytest.mark.parametrize(
    ("step", "billed"), [(drop(), True), (hang_up(), True)], ids=["inside the answer", "before the answer"]
)
def test_a_broken_connection_is_a_dropped_stream_and_asked_once(step, billed):
    result, received = ask(step)
    assert (result.cause, result.billed, len(received)) == (Cause.DROPPED_STREAM, billed, 1)


def test_nothing_answers():
    with ScriptedEndpoint([answer()]) as endpoint:
        url = endpoint.url
    (result,) = ask_all(OpenAICompatible(Endpoint(url, "small", KEY)), [request()])
    assert (result.cause, result.billed) == (Cause.NETWORK, False)
    assert result.message == f"nothing answers at {url}"


def test_a_name_without_address():
    (result,) = ask_all(OpenAICompatible(Endpoint("http://no-such-host.invalid/v1", "small", KEY)), [request()])
    assert result.cause is Cause.NETWORK
    assert "no-such-host.invalid" in result.message


def test_proxies_of_the_environment_are_not_used(monkeypatch):
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    assert isinstance(ask(answer("direct"))[0], ModelReplied)


def test_an_answer_that_is_too_large_is_not_read():
    step = Step(body=b'{"choices": [{"message": {"content": "' + b"x" * ANSWER_BYTES_MAX + b'"}}]}')
    result, _ = ask(step)
    assert result.cause is Cause.MALFORMED_ANSWER
    assert "larger than 10,000,000 bytes" in result.message
    assert len(result.raw) <= 2_000


def test_a_packed_answer_that_is_cut_is_no_answer():
    result, _ = ask(Step(body=b"\x1f\x8b", headers={"Content-Encoding": "gzip"}))
    assert result.cause is Cause.MALFORMED_ANSWER
    assert "packed (gzip) and ends before it is whole" in result.message


def test_redirects_are_not_followed():
    with ScriptedEndpoint([answer("stolen")]) as other:
        result, received = ask(refusal(307, headers={"Location": f"{other.url}/chat/completions"}))
        assert (result.cause, len(received), other.received) == (Cause.BAD_CONFIGURATION, 1, [])
        assert "redirects are not followed" in result.message


# -- configuration and the key --


@pytest.mark.parametrize(
    ("endpoint", "spec", "cause", "said"),
    [
        (Endpoint(), {}, Cause.BAD_CONFIGURATION, "FABRIC_MODEL_URL"),
        (Endpoint("http://127.0.0.1:9/v1"), {}, Cause.BAD_CONFIGURATION, "FABRIC_MODEL"),
        (Endpoint("not a url", "m"), {}, Cause.BAD_CONFIGURATION, "is no URL"),
        (Endpoint("ftp://x/v1", "m"), {}, Cause.BAD_CONFIGURATION, "is no URL"),
        (Endpoint("https://example.org/v1", "m"), {}, Cause.AUTH, "set FABRIC_MODEL_KEY"),
        (Endpoint("http://127.0.0.1:9/v1", "m"), {"options": {"temprature": 1}}, Cause.BAD_CONFIGURATION, "temprature"),
        (Endpoint(), {"model": "m", "base_url": "http://169.254.169.254/"}, Cause.BAD_CONFIGURATION, "plain http"),
        (Endpoint(), {"model": "m", "base_url": "https://10.0.0.1/"}, Cause.BAD_CONFIGURATION, "not public (private)"),
        (
            Endpoint("http://127.0.0.1:9/v1", "m", KEY),
            {"base_url": "http://127.0.0.1:10/v1"},
            Cause.BAD_CONFIGURATION,
            "plain http",
        ),
    ],
)
def test_what_cannot_work_is_said_before_any_request(endpoint, spec, cause, said):
    (result,) = ask_all(OpenAICompatible(endpoint), [request(model=ModelSpec(name="main", **spec))])
    assert result.cause is cause
    assert said in result.message
    assert KEY not in str(result)


def test_a_local_endpoint_needs_no_key_and_gets_no_header():
    result, received = ask(answer("free"), key="")
    assert isinstance(result, ModelReplied)
    assert "authorization" not in received[0].headers


def test_the_key_goes_only_to_the_endpoint_it_was_configured_with():
    with ScriptedEndpoint([answer("mine")]) as mine, ScriptedEndpoint([refusal(401, "who are you?")]) as other:
        provider = OpenAICompatible(Endpoint(mine.url, "small", KEY), gate=Gate.trust_hosts([other.authority]))
        elsewhere = ModelSpec(name="main", base_url=other.url)
        results = ask_all(provider, [request(), request(model=elsewhere), request()])
        assert [one.key for one in mine.received] == [KEY, KEY]
        assert [one.key for one in other.received] == [""]
        assert KEY not in json.dumps(other.received[0].headers)
        assert results[1].cause is Cause.AUTH
        assert "only ever sent to 127.0.0.1 (FABRIC_MODEL_URL)" in results[1].message


def test_credentials_of_the_environment_go_nowhere(monkeypatch):
    for name in ("OPENAI_API_KEY", "OPENAI_ADMIN_KEY", "OPENAI_ORG_ID", "OPENAI_PROJECT_ID"):
        monkeypatch.setenv(name, "from-the-environment")
    _, received = ask(answer("ok"))
    assert "from-the-environment" not in json.dumps(received[0].headers)


@pytest.mark.parametrize("status", [200, 400, 401, 500])
def test_the_key_is_never_shown(status):
    step = answer(f"your key is {KEY}") if status == 200 else refusal(status, f"bad key {KEY}", code=KEY)
    result, _ = ask(step)
    assert KEY not in str(result)
    assert "[secret]" in str(result)


def test_a_key_is_not_shown_in_an_answer_that_breaks_off():
    step = Step(mode="drop", body=f'{{"echo": "{KEY}"'.encode() + b" " * 200)
    result, _ = ask(step)
    assert "[secret]" in result.raw
    assert KEY not in str(result)


def test_the_adapter_may_be_used_on_a_new_loop_after_the_old_one_ended():
    with ScriptedEndpoint([answer("again")]) as endpoint:
        provider = OpenAICompatible(Endpoint(endpoint.url, "small", KEY))
        first = asyncio.run(provider.ask(request()))
        second = asyncio.run(provider.ask(request()))
        assert (first.text, second.text) == ("again", "again")
