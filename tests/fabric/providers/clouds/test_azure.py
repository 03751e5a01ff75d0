"""Azure OpenAI: its addresses, its header, and what its content filter says."""

from __future__ import annotations

from typing import Any

import pytest

from fabric.core.values.taxonomy import Cause
from fabric.providers.clouds.azure import Azure
from fabric.providers.exchange.http_model import Endpoint
from fabric.providers.exchange.wire import STREAM_TYPE
from simulator.endpoint import Step
from tests.fabric.providers.asking import KEY, TOOL
from tests.fabric.providers.wires import AZURE, RESPONSES, event, step

FILTERED = {"filtered": True, "severity": "high"}


def test_a_dated_version_names_the_deployment_in_the_address():
    spec = {"model": "my-gpt.4o", "options": {"api_version": "2024-10-21"}}
    result, (sent,) = AZURE.ask(AZURE.answer("Hello."), spec=spec)
    assert result.text == "Hello."
    assert sent.path == "/openai/deployments/my-gpt.4o/chat/completions?api-version=2024-10-21"
    assert (sent.body["max_tokens"], sent.headers["api-key"]) == (100, KEY)
    assert "authorization" not in sent.headers


def test_the_responses_api_is_asked_under_v1():
    result, (sent,) = AZURE.ask(RESPONSES.answer("Hello."), spec={"options": {"api": "responses"}})
    assert (result.text, sent.path, sent.headers["api-key"]) == ("Hello.", "/openai/v1/responses", KEY)


def test_a_url_that_ends_in_v1_is_taken_as_it_is():
    path = Azure(Endpoint())._path(AZURE.spec(), "small", "https://example.openai.azure.com/openai/v1", stream=False)
    assert path == "/chat/completions"


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"options": {"api_version": "latest"}}, "write one like 2024-10-21"),
        ({"options": {"api_version": 20241021}}, "write one like 2024-10-21"),
        ({"options": {"api_version": "2024-10-21&x=1"}}, "write one like 2024-10-21"),
        ({"options": {"api_version": "2024-10-21", "api": "responses"}}, "leave that out"),
        ({"model": "a/../b"}, "no name of a deployment"),
    ],
)
def test_what_cannot_be_asked_is_said_before_any_request(spec: Any, words: str):
    result, received = AZURE.ask(AZURE.answer("no"), spec=spec)
    assert (result.cause, received) == (Cause.BAD_CONFIGURATION, [])
    assert words in result.message


def test_a_prompt_that_the_content_filter_refuses_is_content_filter():
    inner = {"code": "ResponsibleAIPolicyViolation", "content_filter_result": {"jailbreak": {"detected": True}}}
    error = {"message": "The response was filtered", "code": "content_filter", "status": 400, "innererror": inner}
    for said in (error, {**error, "code": None}):
        assert AZURE.ask(step({"error": said}, 400))[0].cause is Cause.CONTENT_FILTER


def test_what_the_filter_adds_to_answers_changes_nothing():
    choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "Hi."}}
    choice["content_filter_results"] = {"hate": {"filtered": False, "severity": "safe"}}
    usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
    body = {"model": "scripted", "choices": [choice], "usage": usage, "prompt_filter_results": [{"prompt_index": 0}]}
    result, _ = AZURE.ask(step(body))
    assert (result.text, result.finish, result.own) == ("Hi.", "stop", None)
    withheld = {**choice, "finish_reason": "content_filter", "message": {"role": "assistant"}}
    withheld["content_filter_results"] = {"violence": FILTERED}
    result, _ = AZURE.ask(step({**body, "choices": [withheld]}))
    assert (result.text, result.finish) == ("", "content_filter")


def test_events_of_the_filter_within_a_stream_say_nothing():
    first = event({"choices": [], "prompt_filter_results": [{"prompt_index": 0, "content_filter_results": {}}]})
    late = {
        "index": 0,
        "finish_reason": None,
        "content_filter_offsets": {"check_offset": 1},
        "content_filter_results": {},
    }
    events = AZURE.events("I look.", [("look", {"at": "here"}, "a")])
    pieces = (first, *events[:-2], event({"choices": [late]}), *events[-2:])
    more = {"spec": {"options": {"stream": True}}, "tools": (TOOL,), "streamed": [].append}
    result, _ = AZURE.ask(Step(content_type=STREAM_TYPE, pieces=pieces), **more)
    assert (result.text, [call.args for call in result.calls]) == ("I look.", [{"at": "here"}])


def test_the_model_behind_a_deployment_is_the_price_list_s_business_and_is_not_sent():
    result, (sent,) = AZURE.ask(AZURE.answer("hi"), spec={"options": {"priced_as": "gpt-4o"}})
    assert result.text == "hi"
    assert "priced_as" not in str(sent.body)
