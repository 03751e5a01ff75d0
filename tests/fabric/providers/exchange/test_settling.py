"""A reader reads each odd answer of an endpoint: a row for each, in each protocol, at once and as a stream."""

from __future__ import annotations

import json
from typing import Any

import pytest

from fabric.providers.exchange.settlement import OWN_BYTES_MAX, settle
from fabric.providers.exchange.wire import parse_body
from fabric.providers.protocols.chat import Chat
from fabric.providers.protocols.gemini import GenerateContent
from fabric.providers.protocols.messages_api import MessagesApi
from fabric.providers.protocols.responses import Responses
from fabric.runtime.ports.calls import ToolOffer
from tests.fabric.providers.asking import request

CHAT, ANTHROPIC, GOOGLE, RESPONSES = Chat(), MessagesApi(), GenerateContent(), Responses()
LOOK = ToolOffer(
    name="look",
    description="Looks.",
    parameters={
        "type": "object",
        "properties": {
            "key": {"type": "string"},
            "limit": {"type": "integer"},
            "maybe": {"type": ["string", "null"]},
            "either": {"anyOf": [{"type": "string"}, {"type": "null"}]},
        },
        "required": ["key"],
    },
)


def read(protocol: Any, body: Any):
    """A body as the engine gets it."""
    text = body if isinstance(body, str) else json.dumps(body)
    value = parse_body(text, "")
    assert protocol.is_answer(value), value
    return settle(request(tools=(LOOK,)), protocol.read(value), protocol=protocol.key, mended=False)


def chat(message: Any = None, finish: Any = "stop", **more: Any) -> dict[str, Any]:
    message = {"role": "assistant", "content": None} if message is None else message
    return {"choices": [{"index": 0, "message": message, "finish_reason": finish}], "model": "m", **more}


def chat_call(arguments: Any, **more: Any) -> dict[str, Any]:
    call = {"id": "a", "type": "function", "function": {"name": "look", "arguments": arguments}, **more}
    return chat({"role": "assistant", "content": None, "tool_calls": [call]}, "tool_calls")


def anthropic(*content: Any, **more: Any) -> dict[str, Any]:
    return {
        "type": "message",
        "role": "assistant",
        "model": "m",
        "content": list(content),
        "stop_reason": "end_turn",
        **more,
    }


def google(*parts: Any, finish: Any = "STOP") -> dict[str, Any]:
    return {"candidates": [{"content": {"role": "model", "parts": list(parts)}, "finishReason": finish}]}


def responses(*output: Any, **more: Any) -> dict[str, Any]:
    return {"object": "response", "status": "completed", "model": "m", "output": list(output), **more}


def calls_with(arguments: Any) -> list[tuple[Any, Any]]:
    """One call with these arguments, in each protocol."""
    return [
        (CHAT, chat_call(arguments)),
        (ANTHROPIC, anthropic({"type": "tool_use", "id": "a", "name": "look", "input": arguments})),
        (GOOGLE, google({"functionCall": {"id": "a", "name": "look", "args": arguments}})),
        (RESPONSES, responses({"type": "function_call", "call_id": "a", "name": "look", "arguments": arguments})),
    ]


# -- arguments ---------------------------------------------------------------------------------------------------------

ARGUMENTS = {
    "none": (None, {}),
    "empty text": ("", {}),
    "blanks": (" \n", {}),
    "the text null": ("null", {}),
    "an object": ({"key": "alpha"}, {"key": "alpha"}),
    "text": ('{"key": "alpha"}', {"key": "alpha"}),
    "text in text": (json.dumps('{"key": "alpha"}'), {"key": "alpha"}),
    "null for what is optional": ({"key": "a", "limit": None}, {"key": "a"}),
    "null where null is taken": (
        {"key": "a", "maybe": None, "either": None},
        {"key": "a", "maybe": None, "either": None},
    ),
    "null for what is required": ({"key": None}, {"key": None}),
    "null for an unknown field": ({"key": "a", "other": None}, {"key": "a", "other": None}),
    "nineteen digits": ('{"key": 2512292042121000001}', {"key": 2512292042121000001}),
    "an unsigned integer": ('{"key": 18446744073709551615}', {"key": 18446744073709551615}),
    "an unsigned integer in an object": ({"key": 18446744073709551615}, {"key": 18446744073709551615}),
    "braces": ({"key": "{0!r:>{width}} %(x)s ${HOME}"}, {"key": "{0!r:>{width}} %(x)s ${HOME}"}),
}


@pytest.mark.parametrize("row", ARGUMENTS)
@pytest.mark.parametrize("n", range(4), ids=["chat", "anthropic", "google", "responses"])
def test_arguments_that_mean_one_thing_are_read(row, n):
    given, wanted = ARGUMENTS[row]
    protocol, body = calls_with(given)[n]
    result = read(protocol, body)
    assert [(one.call_id, one.tool, one.args, one.raw_args) for one in result.calls] == [("a", "look", wanted, "")]
    assert not result.sanitized


@pytest.mark.parametrize("n", range(4), ids=["chat", "anthropic", "google", "responses"])
@pytest.mark.parametrize(
    "given", ['{"key": "alp', "[1]", 'Sure: {"key": 1}', '{"key": NaN}', '{"key": 1, "key": 2}', "x", [1]]
)
def test_arguments_that_mean_nothing_keep_their_text(n, given):
    protocol, body = calls_with(given)[n]
    (call,) = read(protocol, body).calls
    assert (call.args, call.raw_args) == (None, given if isinstance(given, str) else json.dumps(given))


def test_a_number_of_400_digits_is_kept_as_text_and_reported():
    result = read(CHAT, chat_call('{"key": ' + "9" * 400 + "}"))
    assert (result.calls[0].args, result.sanitized) == ({"key": "9" * 400}, True)


def test_json_of_50_levels_is_read():
    deep = json.loads("[" * 50 + "]" * 50)
    assert read(CHAT, chat_call({"key": deep})).calls[0].args == {"key": deep}


# -- the form of an answer ---------------------------------------------------------------------------------------------

WORDS = {
    "without id, object and created": (CHAT, chat({"content": "hi"})),
    "without a role": (
        CHAT,
        chat({"content": "hi"}) | {"id": 7, "object": None, "created": "today", "system_fingerprint": 3},
    ),
    "without an index": (CHAT, {"choices": [{"message": {"content": "hi"}, "finish_reason": "stop"}]}),
    "an index as text": (CHAT, {"choices": [{"index": "0", "message": {"content": "hi"}}]}),
    "one choice that is no list": (CHAT, {"choices": {"message": {"content": "hi"}}}),
    "a message that is text": (CHAT, chat("hi")),
    "a completion of old": (CHAT, {"choices": [{"text": "hi", "finish_reason": "stop"}]}),
    "a delta at once": (CHAT, {"choices": [{"delta": {"content": "hi"}}]}),
    "parts": (CHAT, chat({"content": [{"type": "text", "text": "h"}, {"type": "text", "text": "i"}]})),
    "parts with thinking": (
        CHAT,
        chat({"content": [{"type": "thinking", "thinking": "x"}, {"type": "text", "text": "hi"}]}),
    ),
    "parts that are text": (CHAT, chat({"content": ["h", "i"]})),
    "no calls, in three ways": (CHAT, chat({"content": "hi", "tool_calls": [], "function_call": None})),
    "odd usage": (CHAT, chat({"content": "hi"}, usage="none")),
    "an unknown finish": (CHAT, chat({"content": "hi"}, "eos")),
    "content as text": (ANTHROPIC, {"content": "hi", "stop_reason": "end_turn"}),
    "no type and no role": (ANTHROPIC, {"content": [{"type": "text", "text": "hi"}]}),
    "no usage": (ANTHROPIC, anthropic({"type": "text", "text": "hi"}, usage=None)),
    "an unknown block": (ANTHROPIC, anthropic({"type": "text", "text": "hi"}, {"type": "new"})),
    "nothing but parts": (GOOGLE, {"candidates": [{"content": {"parts": [{"text": "hi"}]}}]}),
    "one part": (GOOGLE, {"candidates": [{"content": {"parts": {"text": "hi"}}}]}),
    "thoughts beside it": (GOOGLE, google({"text": "x", "thought": True}, {"text": "hi"})),
    "output as text": (RESPONSES, {"output": "hi"}),
    "unknown items": (
        RESPONSES,
        responses({"type": "new"}, {"type": "message", "content": [{"type": "output_text", "text": "hi"}]}),
    ),
}


@pytest.mark.parametrize("row", WORDS)
def test_an_answer_that_means_one_thing_is_read(row):
    result = read(*WORDS[row])
    assert (result.text, result.calls, result.finish) == ("hi", (), "stop")


ODD_CALLS = {
    "the old field": chat({"content": None, "function_call": {"name": "look", "arguments": '{"key": "a"}'}}),
    "no function around it": chat({"tool_calls": [{"name": "look", "arguments": {"key": "a"}}]}),
    "one call that is no list": chat({"tool_calls": {"function": {"name": "look", "parameters": {"key": "a"}}}}),
    "an id of null": chat({"tool_calls": [{"id": None, "function": {"name": "look", "args": {"key": "a"}}}]}),
    "an id of no letters": chat({"tool_calls": [{"id": "", "function": {"name": "look", "input": {"key": "a"}}}]}),
}


@pytest.mark.parametrize("row", ODD_CALLS)
def test_a_call_that_means_one_thing_is_read(row):
    assert [(one.call_id, one.tool, one.args) for one in read(CHAT, ODD_CALLS[row]).calls] == [
        ("", "look", {"key": "a"})
    ]


@pytest.mark.parametrize(("given", "kept"), [("x" * 500, "x" * 500), (7, "7"), ("a|b.c", "a|b.c")])
def test_an_id_is_kept_whole(given, kept):
    assert read(CHAT, chat_call({}, id=given)).calls[0].call_id == kept


FINISHES = [
    *[
        (CHAT, chat({"content": "half"}, said), mapped)
        for said, mapped in [
            ("length", "length"),
            ("max_tokens", "length"),
            ("model_length", "length"),
            ("MAX_TOKENS", "length"),
            ("content_filter", "content_filter"),
            ("tool_use", "stop"),
            (None, "stop"),
            (7, "stop"),
        ]
    ],
    (CHAT, chat({"content": None, "refusal": "I may not."}), "content_filter"),
    *[
        (ANTHROPIC, anthropic({"type": "text", "text": "half"}, stop_reason=said), mapped)
        for said, mapped in [
            ("max_tokens", "length"),
            ("model_context_window_exceeded", "length"),
            ("refusal", "content_filter"),
            ("stop_sequence", "stop"),
            ("pause_turn", "stop"),
        ]
    ],
    *[
        (GOOGLE, google({"text": "half"}, finish=said), mapped)
        for said, mapped in [
            ("MAX_TOKENS", "length"),
            ("SAFETY", "content_filter"),
            ("RECITATION", "content_filter"),
            ("PROHIBITED_CONTENT", "content_filter"),
            ("MALFORMED_FUNCTION_CALL", "stop"),
        ]
    ],
    (RESPONSES, responses(status="incomplete", incomplete_details={"reason": "max_output_tokens"}), "length"),
    (RESPONSES, responses(status="incomplete", incomplete_details={"reason": "content_filter"}), "content_filter"),
    (RESPONSES, responses(status="incomplete"), "length"),
]


@pytest.mark.parametrize("row", range(len(FINISHES)))
def test_why_an_answer_ended_is_read(row):
    protocol, body, mapped = FINISHES[row]
    assert read(protocol, body).finish == mapped


# -- what a provider wants back ----------------------------------------------------------------------------------------

OWN = {
    "deepseek": (CHAT, chat({"content": "hi", "reasoning_content": "hm"}), {"reasoning_content": "hm"}),
    "openrouter": (
        CHAT,
        chat({"content": "hi", "reasoning_details": [{"id": "r"}]}),
        {"reasoning_details": [{"id": "r"}]},
    ),
    "litellm": (
        CHAT,
        chat({"content": "hi", "thinking_blocks": [{"signature": "s"}]}),
        {"thinking_blocks": [{"signature": "s"}]},
    ),
    "nothing": (CHAT, chat({"content": "hi", "reasoning_content": "", "annotations": []}), None),
    "anthropic": (
        ANTHROPIC,
        anthropic({"type": "thinking", "thinking": "hm", "signature": "s"}, {"type": "text", "text": "hi"}),
        [{"opaque": {"type": "thinking", "thinking": "hm", "signature": "s"}}, {"text": True}],
    ),
    "google": (
        GOOGLE,
        google({"text": "hi", "thoughtSignature": "s"}),
        [{"opaque": {"text": "hi", "thoughtSignature": "s"}}],
    ),
    "responses": (
        RESPONSES,
        responses({"type": "reasoning", "id": "rs_1", "encrypted_content": "e"}, {"type": "message", "content": "hi"}),
        [{"opaque": {"type": "reasoning", "id": "rs_1", "encrypted_content": "e"}}, {"text": True}],
    ),
}


@pytest.mark.parametrize("row", OWN)
def test_what_a_provider_marks_as_its_own_is_kept(row):
    protocol, body, wanted = OWN[row]
    result = read(protocol, body)
    kept = None if wanted is None else {"protocol": protocol.key, "parts": wanted}
    assert (result.text, result.own) == ("hi", kept)


def test_a_signature_of_a_call_is_kept_with_it():
    signed = {"extra_content": {"google": {"thought_signature": "s"}}}
    assert read(CHAT, chat_call({}, **signed)).calls[0].own == {"protocol": "chat", "parts": signed}
    part = {"functionCall": {"name": "look", "args": {}}, "thoughtSignature": "s"}
    assert read(GOOGLE, google(part)).calls[0].own == {"protocol": "gemini", "parts": {"thoughtSignature": "s"}}


def test_reasoning_that_is_too_large_to_keep_costs_no_answer():
    result = read(CHAT, chat({"content": "hi", "reasoning_content": "x" * (OWN_BYTES_MAX + 1)}))
    assert (result.text, result.own, result.sanitized) == ("hi", None, True)


# -- tokens ------------------------------------------------------------------------------------------------------------

USAGE = [
    (
        CHAT,
        chat(
            {"content": "hi"},
            usage={
                "prompt_tokens": 9,
                "completion_tokens": 5,
                "prompt_tokens_details": {"cached_tokens": 4},
                "completion_tokens_details": {"reasoning_tokens": 3},
            },
        ),
        (9, 5, 4, 3),
    ),
    (
        CHAT,
        chat({"content": "hi"}, usage={"prompt_tokens": 9, "completion_tokens": 5, "prompt_cache_hit_tokens": 4}),
        (9, 5, 4, 0),
    ),
    (
        ANTHROPIC,
        anthropic(
            {"type": "text", "text": "hi"},
            usage={
                "input_tokens": 3,
                "output_tokens": 5,
                "cache_read_input_tokens": 4,
                "cache_creation_input_tokens": 2,
            },
        ),
        (9, 5, 4, 0),
    ),
    (
        GOOGLE,
        google({"text": "hi"})
        | {
            "usageMetadata": {
                "promptTokenCount": 9,
                "candidatesTokenCount": 2,
                "thoughtsTokenCount": 3,
                "cachedContentTokenCount": 4,
            }
        },
        (9, 5, 4, 3),
    ),
    (
        RESPONSES,
        responses(
            {"type": "message", "content": "hi"},
            usage={
                "input_tokens": 9,
                "output_tokens": 5,
                "input_tokens_details": {"cached_tokens": 4},
                "output_tokens_details": {"reasoning_tokens": 3},
            },
        ),
        (9, 5, 4, 3),
    ),
]


@pytest.mark.parametrize("row", range(len(USAGE)))
def test_tokens_are_counted_with_their_parts(row):
    protocol, body, wanted = USAGE[row]
    result = read(protocol, body)
    assert (result.input_tokens, result.output_tokens, result.parts.cached, result.parts.reasoning) == wanted
    assert not result.usage_problem
