import asyncio
import json
import socket
import threading

import httpx2
import pytest

from fabric.core.schema.payloads import Plan, Summary, json_schema
from fabric.providers.openai_compatible import Endpoint, OpenAICompatible
from simulator.endpoint import ScriptedEndpoint, Step, answer, call, drop, hang, hang_up, refusal, trickle
from simulator.endpoint.behaviour.misbehaviour import agents
from tests.fabric.providers.asking import TOOL, request


def post(endpoint, agent="", body=None, client=httpx2):
    headers = {"Authorization": "Bearer k", "Idempotency-Key": "i", "X-Fabric-Agent": agent}
    return client.post(f"{endpoint.url}/chat/completions", json=body or {"messages": []}, headers=headers, timeout=20)


def text_of(response):
    return response.json()["choices"][0]["message"]["content"]


def test_steps_are_taken_in_order_and_the_last_one_repeats():
    with ScriptedEndpoint([answer("1"), answer("2")]) as endpoint:
        assert [text_of(post(endpoint)) for _ in range(3)] == ["1", "2", "2"]


def test_steps_by_agent():
    script = {"planner": [answer("p1"), answer("p2")], "*": [answer("x1"), answer("x2")]}
    with ScriptedEndpoint(script) as endpoint:
        found = [text_of(post(endpoint, agent)) for agent in ("planner", "a", "planner", "b", "a")]
        assert found == ["p1", "x1", "p2", "x2", "x2"]
        assert [(one.number, one.agent, one.agent_number) for one in endpoint.received] == [
            (1, "planner", 1),
            (2, "a", 1),
            (3, "planner", 2),
            (4, "b", 1),
            (5, "a", 2),
        ]


def test_a_function_of_the_request():
    with ScriptedEndpoint(lambda received: answer(f"{received.number}:{received.body['q']}")) as endpoint:
        assert text_of(post(endpoint, body={"q": "why"})) == "1:why"


def test_each_request_is_in_the_ledger_before_it_is_answered(tmp_path):
    ledger = tmp_path / "ledger.jsonl"
    at_answer = []

    def script(received):
        at_answer.append(len(ledger.read_text().splitlines()))
        return answer("ok")

    with ScriptedEndpoint(script, ledger=ledger) as endpoint:
        post(endpoint, "reader", {"a": 1})
        post(endpoint, "reader", {"a": 2})
    assert at_answer == [1, 2]
    line = json.loads(ledger.read_text().splitlines()[1])
    assert (line["number"], line["method"], line["agent"], line["key"], line["idempotency_key"], line["body"]) == (
        2,
        "POST",
        "reader",
        "k",
        "i",
        {"a": 2},
    )


def test_one_connection_serves_many_requests():
    with ScriptedEndpoint([answer("ok")]) as endpoint, httpx2.Client() as client:
        for _ in range(5):
            assert post(endpoint, client=client).status_code == 200
        ports = {one.headers["host"] for one in endpoint.received}
        assert len(ports) == 1
        assert len(endpoint.received) == 5


def test_a_refusal_has_its_status_headers_and_body():
    with ScriptedEndpoint([refusal(429, "slow", code="c", kind="t", headers={"Retry-After": "9"})]) as endpoint:
        response = post(endpoint)
        assert (response.status_code, response.headers["retry-after"]) == (429, "9")
        assert response.json() == {"error": {"message": "slow", "type": "t", "code": "c"}}


@pytest.mark.parametrize("step", [drop(), hang_up()], ids=["inside the answer", "before it"])
def test_a_connection_is_dropped(step):
    with ScriptedEndpoint([step]) as endpoint, pytest.raises(httpx2.RemoteProtocolError):
        post(endpoint)


def test_a_trickle_goes_on_and_on():
    with (
        ScriptedEndpoint([trickle(every_s=0.001)]) as endpoint,
        httpx2.stream("POST", endpoint.url, timeout=20) as response,
    ):
        assert b"".join(piece for piece, _ in zip(response.iter_raw(), range(20), strict=False)).strip() == b""


def test_closing_lets_go_of_those_that_hang_and_of_the_thread():
    failed = []

    def ask(endpoint):
        try:
            post(endpoint)
        except httpx2.TransportError as error:
            failed.append(error)

    with ScriptedEndpoint([hang()]) as endpoint:
        threads = [threading.Thread(target=ask, args=(endpoint,)) for _ in range(5)]
        for thread in threads:
            thread.start()
        endpoint.wait(5)
    for thread in threads:
        thread.join(20)
    assert len(failed) == 5
    assert not any(thread.name == "scripted-endpoint" for thread in threading.enumerate())


def test_what_is_no_http_is_hung_up_on_and_does_no_harm():
    with ScriptedEndpoint([answer("ok")]) as endpoint:
        host, port = endpoint.authority.split(":")
        for raw in (b"nonsense\r\n\r\n", b"POST / HTTP/1.1\r\nContent-Length: -1\r\n\r\n", b"x" * 100_000, b""):
            with socket.create_connection((host, int(port))) as one:
                one.sendall(raw)
                one.shutdown(socket.SHUT_WR)
                while one.recv(1_000):
                    pass
        assert endpoint.received == []
        assert post(endpoint).status_code == 200


def test_waiting_for_a_request_that_does_not_come_ends():
    with ScriptedEndpoint([answer()]) as endpoint, pytest.raises(TimeoutError, match="0 of 1 requests"):
        endpoint.wait(1, timeout_s=0.05)


def test_a_port_that_is_taken_is_an_error_at_once():
    with ScriptedEndpoint([answer()]) as endpoint, pytest.raises(OSError, match="in use"):
        ScriptedEndpoint([answer()], port=int(endpoint.authority.split(":")[1])).__enter__()


# -- the scripted agents --


def ask_scripted(step, **changed):
    async def go(provider):
        found = await provider.ask(request(**changed))
        await provider.aclose()
        return found

    with ScriptedEndpoint(step) as endpoint:
        return asyncio.run(go(OpenAICompatible(Endpoint(endpoint.url, "scripted", ""))))


def test_the_scripted_agents_speak_the_protocol():
    plan = ask_scripted(agents({"workers": ["a", "b"]}), output="plan", output_schema=json_schema("plan"))
    assert [brief.agent for brief in Plan.model_validate_json(plan.text).briefs] == ["a", "b"]
    summary = ask_scripted(agents(), output="summary", output_schema=json_schema("summary"))
    assert "Hello?" in Summary.model_validate_json(summary.text).text
    assert (summary.input_tokens, summary.model) == (6, "scripted")


def test_the_scripted_agents_propose_calls_over_the_protocol():
    result = ask_scripted(agents({"script": "bad_arguments"}), tools=(TOOL,))
    assert [(one.tool, one.args, one.raw_args) for one in result.calls] == [("look", None, '{"name": "notes.md')]
    assert len(ask_scripted(agents({"script": "flood"}), tools=(TOOL,)).calls) == 200


def test_scripted_failures_have_their_status():
    fail = {"cause": "rate_limit", "status": 429, "retry_after_s": 2}
    result = ask_scripted(agents({"fail": fail}))
    assert (result.status, result.retry_after_s) == (429, 2.0)


def test_models_are_listed_and_other_paths_are_not_found():
    with ScriptedEndpoint(agents()) as endpoint:
        assert httpx2.get(f"{endpoint.url}/models").json()["data"][0]["id"] == "scripted"
        assert httpx2.post(f"{endpoint.url}/embeddings", json={}).status_code == 404


def test_a_step_that_waits_is_answered_in_the_end():
    with ScriptedEndpoint([Step(body=b"{}", delay_s=0.01)]) as endpoint:
        assert post(endpoint).json() == {}


def test_calls_are_as_the_protocol_has_them():
    assert call("look", {"at": 1}, "x") == {
        "id": "x",
        "type": "function",
        "function": {"name": "look", "arguments": '{"at": 1}'},
    }
