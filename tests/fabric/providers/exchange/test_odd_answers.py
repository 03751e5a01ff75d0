"""Answers in odd forms, as servers and gateways send them, over real HTTP: what has one meaning is read, and nothing of an answer that was cut is taken."""

from __future__ import annotations

import asyncio
import gzip
import json
from collections.abc import Callable
from typing import Any

import pytest

from fabric.core.events.inputs import CallFailed, ModelReplied
from fabric.core.values.taxonomy import Cause
from fabric.core.values.units import JSON
from fabric.providers.exchange.http_model import Endpoint
from fabric.providers.exchange.wire import STREAM_TYPE
from simulator.endpoint import Step
from tests.fabric.providers.asking import KEY, TOOL, request
from tests.fabric.providers.wires import ANTHROPIC, BEDROCK, GOOGLE, OPENAI, RESPONSES, STREAMED, Spoken, step

A = {"at": "a"}
CALL = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": '{"at": "a"}'}}
NAMED = {"id": "c1", "name": "look"}
USAGE = {"prompt_tokens": 12, "completion_tokens": 7}
MADE = ("", [("look", A)])
"""Returns the body of an answer with that call."""


def said(result: Any) -> tuple[str, list[tuple[str, JSON]]]:
    assert isinstance(result, ModelReplied), result
    return result.text, [(call.tool, call.args) for call in result.calls]


def chat(*messages: JSON, finish: JSON = "stop", **more: JSON) -> JSON:
    choices = [{"index": n, "message": one, "finish_reason": finish} for n, one in enumerate(messages)]
    return {"model": "m", "choices": choices, "usage": USAGE, **more}


def calls(given: JSON) -> JSON:
    return chat({"role": "assistant", "content": None, "tool_calls": given}, finish="tool_calls")


def message(*content: JSON, stop: str = "end_turn") -> JSON:
    return {"type": "message", "content": list(content), "stop_reason": stop, "usage": {"input_tokens": 12}}


def gemini(*parts: JSON, finish: JSON = "STOP", usage: JSON = None) -> JSON:
    return {"candidates": [{"content": {"parts": list(parts)}, "finishReason": finish}], "usageMetadata": usage}


def response(*output: JSON, **more: JSON) -> JSON:
    return {"id": "r", "status": "completed", "output": list(output), **more}


FUNCTION = {"type": "function_call", "call_id": "c1", "name": "look", "arguments": '{"at": "a"}'}
TEXT = {"content": [{"type": "output_text", "text": "hi"}]}
TEXT_CALL = {"content": "I look."}, {"tool_calls": [CALL]}

FORMS: list[tuple[str, Spoken, JSON, JSON]] = [
    # The content.
    ("content: an object", OPENAI, chat({"content": {"answer": 1}}), ('{"answer": 1}', [])),
    ("content: a number", OPENAI, chat({"content": 42}), ("42", [])),
    ("content: a text in an object", OPENAI, chat({"content": [{"type": "text", "text": {"value": "hi"}}]}), ("hi", [])),
    # Calls.
    ("calls: JSON text", OPENAI, calls(json.dumps([CALL])), MADE),
    ("calls: by number", OPENAI, calls({"0": CALL}), MADE),
    ("calls: a list in a list", OPENAI, calls([[CALL]]), MADE),
    ("calls: texts", OPENAI, calls([json.dumps(CALL)]), MADE),
    ("a call: function is its name", OPENAI, calls([{"function": "look", "arguments": A}]), MADE),
    ("a call: its name outside", OPENAI, calls([{"name": "look", "function": {"arguments": A}}]), MADE),
    ("a call: its arguments outside", OPENAI, calls([{"function": {"name": "look"}, "arguments": A}]), MADE),
    ("a call: empty text, arguments outside", OPENAI, calls([{**NAMED, "arguments": "", "input": A}]), MADE),
    ("a call: blanks around its name", OPENAI, calls([{"name": " look\n", "arguments": A}]), MADE),
    ("a call: function around it", RESPONSES, response({"type": "function_call", "function": {**NAMED, "args": A}}), MADE),
    ("a call: arguments for args", GOOGLE, gemini({"functionCall": {"name": "look", "arguments": A}}), MADE),
    ("a call: snake case", GOOGLE, gemini({"function_call": {"name": "look", "args": A}}), MADE),
    ("a call: without its type", ANTHROPIC, message({**NAMED, "input": A}), MADE),
    ("arguments: an empty object first", OPENAI, calls([{**NAMED, "arguments": '{}{"at": "a"}'}]), MADE),
    ("arguments: twice", OPENAI, calls([{**NAMED, "arguments": '{"at": "a"}\n{"at": "a"}'}]), MADE),
    ("arguments: two objects", OPENAI, calls([{**NAMED, "arguments": '{"at": "a"}{"at": "b"}'}]), ("", [("look", None)])),
    ("arguments: a line break", OPENAI, calls([{**NAMED, "arguments": '{"at": "a\nb"}'}]), ("", [("look", {"at": "a\nb"})])),
    ("arguments: a number beyond all", OPENAI, calls([{**NAMED, "arguments": '{"at": 1e400}'}]), ("", [("look", None)])),
    ("arguments: in pieces", GOOGLE, gemini({"functionCall": {"name": "look", "willContinue": True}}), ("", [("look", None)])),
    # What stands around them.
    ("choices: text and calls apart", OPENAI, chat(*TEXT_CALL, finish="tool_calls"), ("I look.", [("look", A)])),
    ("choices: a second answer", OPENAI, chat({"content": "one"}, {"tool_calls": [CALL]}), ("one", [])),
    ("choices: the index as text", OPENAI, {"choices": [{"index": "1"}, {"index": "0", "message": {"content": "hi"}}]}, ("hi", [])),
    ("candidates: out of order", GOOGLE, {"candidates": [{"index": 1}, {"index": 0, "content": {"parts": [{"text": "hi"}]}}]}, ("hi", [])),
    ("a list of one", ANTHROPIC, [message({"type": "text", "text": "hi"})], ("hi", [])),
    ("a list of chunks", GOOGLE, [gemini({"text": "h"}, finish=None), gemini({"text": "i"})], ("hi", [])),
    ("an envelope", OPENAI, {"code": 0, "data": chat({"content": "hi"})}, ("hi", [])),
    ("an envelope of text", OPENAI, {"statusCode": 200, "body": json.dumps(chat({"content": "hi"}))}, ("hi", [])),
    ("an envelope of Google's", GOOGLE, {"response": gemini({"text": "hi"})}, ("hi", [])),
    ("a block without its type", ANTHROPIC, message({"text": "hi"}), ("hi", [])),
    ("a type of null", ANTHROPIC, {**message({"type": "text", "text": "hi"}), "type": None}, ("hi", [])),
    ("an item without its type", RESPONSES, response(TEXT), ("hi", [])),
    ("an echo of the user", RESPONSES, response({"type": "message", "role": "user", "content": "Hello?"}, TEXT), ("hi", [])),
    ("output_text alone", RESPONSES, {"status": "completed", "output_text": "hi"}, ("hi", [])),
]  # fmt: skip


@pytest.mark.parametrize(("spoken", "body", "expected"), [row[1:] for row in FORMS], ids=[row[0] for row in FORMS])
def test_each_form_of_a_body_is_read(spoken: Spoken, body: JSON, expected: JSON):
    result, received = spoken.ask(step(body), tools=(TOOL,))
    assert said(result) == expected
    assert len(received) == 1


CUT: list[tuple[str, Spoken, JSON, str]] = [
    *(
        (f"chat: {word}", OPENAI, {**calls([CALL]), "choices": [{**calls([CALL])["choices"][0], "finish_reason": word}]}, end)
        for word, end in [("insufficient_system_resource", ""), ("error", ""), ("abort", ""), ("max_completion_tokens", "length"), ({"type": "length"}, "length")]
    ),
    ("chat: the model's own word", OPENAI, {"choices": [{**calls([CALL])["choices"][0], "native_finish_reason": "MAX_TOKENS"}]}, "length"),
    ("anthropic: error", ANTHROPIC, message({"type": "tool_use", **NAMED, "input": A}, stop="error"), ""),
    ("google: other", GOOGLE, gemini({"functionCall": {"name": "look", "args": A}}, finish="OTHER"), ""),
    *((f"responses: {one}", RESPONSES, response(FUNCTION, status=one), "") for one in ("in_progress", "queued", "cancelled", "expired")),
    ("responses: an item", RESPONSES, response({**FUNCTION, "status": "incomplete"}), "length"),
]  # fmt: skip


@pytest.mark.parametrize(("spoken", "body", "end"), [row[1:] for row in CUT], ids=[row[0] for row in CUT])
def test_an_answer_that_its_server_cut_is_no_whole_one(spoken: Spoken, body: JSON, end: str):
    body = {**body, "usage": USAGE}
    result, _ = spoken.ask(step(body), tools=(TOOL,))
    if end:
        assert result.finish == end
        return
    assert isinstance(result, CallFailed)
    assert (result.cause, result.partial, result.billed) == (Cause.DROPPED_STREAM, True, True)
    assert "broke off its answer and says so" in result.message
    if spoken is not GOOGLE:
        assert (result.input_tokens, result.output_tokens) == (12, 7)


# -- money --


COUNTS: list[tuple[str, Spoken, JSON, JSON]] = [
    ("text", OPENAI, chat({"content": "hi"}, usage={"prompt_tokens": "12000", "completion_tokens": " 700 "}), (12_000, 700)),
    ("in the choice", OPENAI, {"choices": [{"message": {"content": "hi"}, "usage": USAGE}]}, (12, 7)),
    ("in Groq's field", OPENAI, {**chat({"content": "hi"}), "usage": None, "x_groq": {"usage": USAGE}}, (12, 7)),
    ("the total alone", OPENAI, chat({"content": "hi"}, usage={"total_tokens": 50_000}), (49_998, 2)),
    ("the total alone", GOOGLE, gemini({"text": "hi"}, usage={"totalTokenCount": 50_000}), (49_998, 2)),
    ("snake case", GOOGLE, gemini({"text": "hi"}, usage={"prompt_token_count": 900, "candidates_token_count": 7}), (900, 7)),
    ("OpenAI's names", ANTHROPIC, {**message({"type": "text", "text": "hi"}), "usage": USAGE}, (12, 7)),
    ("the cache by age", ANTHROPIC, {**message({"type": "text", "text": "hi"}), "usage": {"input_tokens": 12, "output_tokens": 7, "cache_creation": {"ephemeral_5m_input_tokens": 100, "ephemeral_1h_input_tokens": 50}}}, (162, 7)),
]  # fmt: skip


@pytest.mark.parametrize(("spoken", "body", "counts"), [row[1:] for row in COUNTS], ids=[f"{row[1].name} {row[0]}" for row in COUNTS])  # fmt: skip
def test_a_count_is_read_wherever_it_stands(spoken: Spoken, body: JSON, counts: JSON):
    result, _ = spoken.ask(step(body))
    assert (result.input_tokens, result.output_tokens) == counts


# -- HTTP --

HTTP: list[tuple[str, Callable[[bytes], Step]]] = [
    ("201", lambda body: Step(status=201, body=body)),
    ("203", lambda body: Step(status=203, body=body)),
    ("unannounced gzip", lambda body: Step(body=gzip.compress(body))),
    ("gzip with padding behind it", lambda body: Step(body=gzip.compress(body) + b"\0\0", headers={"Content-Encoding": "gzip"})),
    ("no gzip, though announced", lambda body: Step(body=body, headers={"Content-Encoding": "gzip"})),
    ("UTF-16 without a mark", lambda body: Step(body=body.decode().encode("utf-16-le"), content_type="application/json; charset=utf-16le")),
    ("JSON that says it is a stream", lambda body: Step(body=body, content_type=STREAM_TYPE)),
]  # fmt: skip


@pytest.mark.parametrize("form", [one for _, one in HTTP], ids=[name for name, _ in HTTP])
@pytest.mark.parametrize("spoken", [*STREAMED, BEDROCK], ids=lambda one: one.name + dict(one.options).get("api", ""))
def test_a_whole_answer_is_read_however_http_carries_it(spoken: Spoken, form: Callable[[bytes], Step]):
    result, _ = spoken.ask(form(spoken.answer("I look.", [("look", A, "c1")]).body), tools=(TOOL,))
    assert said(result) == ("I look.", [("look", A)])
    assert (result.input_tokens, result.output_tokens) == (10, 5)


def test_letters_are_read_as_the_content_type_says():
    body = json.dumps(chat({"content": "café"}), ensure_ascii=False).encode("latin-1")
    result, _ = OPENAI.ask(Step(body=body, content_type="application/json; charset=iso-8859-1"))
    assert result.text == "café"


def test_a_line_break_inside_a_text_is_read():
    result, _ = OPENAI.ask(Step(body=b'{"choices": [{"message": {"content": "a\nb\tc"}}]}'))
    assert result.text == "a\nb\tc"


def served(answer: bytes, spoken: Spoken = OPENAI) -> Any:
    """The result of one ask against a server that sends these bytes and closes."""

    async def go() -> Any:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(answer)
            await writer.drain()
            writer.close()

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        async with server:
            url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}{spoken.base}"
            port = spoken.adapter(Endpoint(url, "", KEY))
            try:
                return await port.ask(request(model=spoken.spec()))
            finally:
                await port.aclose()

    return asyncio.run(go())


@pytest.mark.parametrize("frame", [b"Content-Length: 99999", b"Transfer-Encoding: chunked"])
def test_a_whole_document_is_an_answer_although_its_connection_broke(frame: bytes):
    body = json.dumps(chat({"content": "hi"})).encode()
    head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n" + frame + b"\r\n\r\n"
    chunk = b"%x\r\n%s\r\n" % (len(body), body)
    assert served(head + (chunk if b"chunked" in frame else body)).text == "hi"
    half = body[: len(body) // 2]
    cut = served(head + (b"%x\r\n%s\r\n" % (len(half), half) if b"chunked" in frame else half))
    assert (cut.cause, cut.partial, cut.billed) == (Cause.DROPPED_STREAM, True, True)


# -- errors inside an answer --


def test_an_error_in_a_choice_has_its_cause():
    choice = {"index": 0, "message": {"content": ""}, "error": {"code": 429, "message": "Rate limit exceeded"}}
    result, _ = OPENAI.ask(step({"choices": [choice]}))
    assert (result.cause, result.billed) == (Cause.RATE_LIMIT, False)
