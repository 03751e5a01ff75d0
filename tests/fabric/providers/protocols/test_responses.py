"""The Responses API: what it keeps, what goes back and what a model that takes over is given; streamed and not."""

from __future__ import annotations

import json
from typing import Any

import pytest

from fabric.core.events.inputs import ModelReplied
from fabric.core.values.taxonomy import Cause
from fabric.providers.exchange.wire import STREAM_TYPE
from fabric.runtime.ports.calls import ChatMessage
from simulator.endpoint import Step
from tests.fabric.providers.asking import TOOL
from tests.fabric.providers.wires import RESPONSES, event, step

REASON = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAA="}
AGAIN = {"type": "reasoning", "id": "rs_2", "summary": [], "encrypted_content": "gBBB="}
CALLS = [
    {"type": "function_call", "id": f"fc_{n}", "call_id": f"call_{n}", "name": "look", "arguments": '{"at": "here"}'}
    for n in (1, 2)
]
WORDS = {"type": "message", "id": "m", "role": "assistant", "content": [{"type": "output_text", "text": "I look."}]}
ITEMS = [REASON, WORDS, CALLS[0], AGAIN, CALLS[1]]


def body(items: list[Any], **more: Any) -> dict[str, Any]:
    usage = {"input_tokens": 10, "output_tokens": 5, "total_tokens": 15}
    return {"id": "resp_1", "model": "o4", "status": "completed", "output": items, "usage": usage, **more}


def whole(items: list[Any], **more: Any) -> Step:
    return step(body(items, **more))


def streamed(items: list[Any], **more: Any) -> Step:
    said: list[Any] = [{"type": "response.created", "response": body([], status="in_progress")}]
    for n, item in enumerate(items):
        said += [
            {"type": f"response.output_item.{word}", "output_index": n, "item": item} for word in ("added", "done")
        ]
    last = {"type": "response.completed", "response": body(items, **more)}
    return Step(content_type=STREAM_TYPE, pieces=tuple(event(one) for one in (*said, last)))


ways = pytest.mark.parametrize("sends", [whole, streamed])


def ask(answer: Step, messages: Any = None, **spec: Any) -> tuple[Any, Any]:
    options = {"stream": True, **spec.pop("options", {})}
    more = {"messages": messages} if messages else {}
    result, (sent,) = RESPONSES.ask(
        answer, spec={"model": "o4-mini", **spec, "options": options}, tools=(TOOL,), streamed=[].append, **more
    )
    return result, sent.body


def went_on(first: ModelReplied, *more: ChatMessage) -> tuple[ChatMessage, ...]:
    results = (ChatMessage("tool", "seen", call_id=call.call_id, tool="look") for call in first.calls)
    said = ChatMessage("assistant", first.text, first.calls, own=first.own, model="main")
    return (ChatMessage("system", "S"), ChatMessage("user", "Look."), said, *results, *more)


@ways
def test_without_a_store_encrypted_reasoning_goes_back_right_before_what_it_is_of(sends: Any):
    first, sent = ask(sends(ITEMS))
    assert (sent["store"], sent["include"]) == (False, ["reasoning.encrypted_content"])
    _, sent = ask(sends([WORDS]), went_on(first))
    assert [one.get("type", one.get("role")) for one in sent["input"]] == [
        "user",
        "reasoning",
        "assistant",
        "function_call",
        "reasoning",
        "function_call",
        "function_call_output",
        "function_call_output",
    ]
    assert [sent["input"][n] for n in (1, 4)] == [REASON, AGAIN]
    assert [one["call_id"] for one in sent["input"] if "call_id" in one] == ["call_1", "call_2"] * 2
    assert "previous_response_id" not in sent


@ways
def test_with_a_store_only_what_is_new_goes_out(sends: Any):
    options = {"store": True}
    first, sent = ask(sends(ITEMS, store=True), options=options)
    assert sent["store"] is True
    assert "include" not in sent
    _, sent = ask(sends([WORDS], store=True), went_on(first, ChatMessage("user", "And now?")), options=options)
    assert sent["previous_response_id"] == "resp_1"
    assert [one.get("type", one.get("role")) for one in sent["input"]] == [
        "function_call_output",
        "function_call_output",
        "user",
    ]
    assert sent["instructions"] == "S"


@ways
@pytest.mark.parametrize("stored", [False, True])
def test_a_model_that_takes_over_is_given_none_of_it(sends: Any, stored: bool):
    options = {"store": stored}
    first, _ = ask(sends(ITEMS, store=stored), options=options)
    _, sent = ask(sends([WORDS]), went_on(first), name="other", options=options)
    assert "previous_response_id" not in sent
    assert not any(words in json.dumps(sent["input"]) for words in ("gAAA=", "rs_1", "resp_1", "call_1"))
    assert [one["type"] for one in sent["input"][2:]] == ["function_call"] * 2 + ["function_call_output"] * 2


@pytest.mark.parametrize(
    ("spec", "asked_for"),
    [
        ({"model": "o4-mini"}, True),
        ({"model": "gpt-5.1"}, True),
        ({"model": "gpt-4o-mini"}, False),
        ({"model": "ft:gpt-4.1:me"}, False),
        ({"model": "my-deployment", "options": {"reasoning_back": "never"}}, False),
    ],
)
def test_encrypted_reasoning_is_asked_for_where_it_is_given(spec: Any, asked_for: bool):
    _, sent = ask(whole([WORDS]), **spec)
    assert ("include" in sent) is asked_for


def test_a_model_that_refuses_to_give_it_names_the_option():
    error = {"message": "Encrypted content is not supported with this model.", "type": "invalid_request_error"}
    result, _ = ask(step({"error": {**error, "param": "include", "code": None}}, 400))
    assert result.cause is Cause.BAD_REQUEST
    assert "set the option `reasoning_back: never`" in result.message


@ways
def test_a_response_that_is_cut_or_failed_says_so(sends: Any):
    cut, _ = ask(sends([WORDS], status="incomplete", incomplete_details={"reason": "max_output_tokens"}))
    assert (cut.text, cut.finish) == ("I look.", "length")
    failed, _ = ask(sends([], status="failed", error={"code": "rate_limit_exceeded", "message": "Slow down."}))
    assert (failed.cause, "Slow down." in failed.message) == (Cause.RATE_LIMIT, True), failed
