"""Streams in odd forms, as servers and gateways send them, over real HTTP: what has one meaning is read, and nothing of an answer that was cut is taken."""

from __future__ import annotations

import json

import pytest

from fabric.core.events.inputs import CallFailed
from fabric.core.values.taxonomy import Cause
from fabric.core.values.units import JSON
from fabric.providers.exchange import streams as streaming
from fabric.providers.exchange.wire import STREAM_TYPE
from simulator.endpoint import Step
from tests.fabric.providers.asking import TOOL
from tests.fabric.providers.exchange.test_odd_answers import CALL, USAGE, A, gemini, message, response, said
from tests.fabric.providers.exchange.test_streaming import asked, half, sends
from tests.fabric.providers.wires import ANTHROPIC, GOOGLE, OPENAI, RESPONSES, STREAMED, Spoken, event

LOOK = {"name": "look", "arguments": ""}


def chunk(delta: JSON, finish: JSON = None, **more: JSON) -> JSON:
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}], **more}


def piece(call_id: str | None, arguments: JSON = "", index: JSON = 0, **more: JSON) -> JSON:
    return {"index": index, "id": call_id, "function": {"arguments": arguments, **more}}


def pieces(*several: JSON) -> list[JSON]:
    """Each of them in a chunk of its own, and the end."""
    return [
        *(chunk({"tool_calls": one if isinstance(one, list) else [one]}) for one in several),
        chunk({}, "tool_calls"),
    ]


def whole(arguments: JSON, **more: JSON) -> list[JSON]:
    return pieces(piece("a", arguments, name="look", **more))


START = {"type": "message_start", "message": message(stop="")}
TOOL_USE = {"type": "tool_use", "id": "a", "name": "look", "input": {}}


def block(index: JSON, kind: JSON, delta: JSON) -> list[JSON]:
    at = {} if index is None else {"index": index}
    return [
        {"type": "content_block_start", "content_block": kind, **at},
        {"type": "content_block_delta", "delta": delta, **at},
    ]


def text(index: JSON, words: str) -> list[JSON]:
    return block(index, {"type": "text", "text": ""}, {"type": "text_delta", "text": words})


def use(index: JSON, arguments: JSON) -> list[JSON]:
    return block(index, TOOL_USE, {"type": "input_json_delta", "partial_json": arguments})


def told(*events: JSON, **usage: JSON) -> list[JSON]:
    end = {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": usage}
    return [START, *(one for several in events for one in several), end, {"type": "message_stop"}]


ITEM = {"type": "function_call", "call_id": "a", "name": "look", "arguments": ""}
ADDED = {"type": "response.output_item.added", "output_index": 0}
DONE = {"type": "response.completed", "response": response()}
DELTA = "response.output_text.delta"
ARGUMENTS = "response.function_call_arguments.delta"
MADE = ("", [("look", A)])
TWO = ("", [("look", {"at": "1"}), ("look", {"at": "2"})])
FIRST, SECOND = '{"at": "1"}', '{"at": "2"}'
BOTH = [piece("a", name="look"), piece("b", name="look")]

READ: list[tuple[str, Spoken, list[JSON], JSON]] = [
    ("arguments: an object", OPENAI, whole(A), MADE),
    ("arguments: a list", OPENAI, whole(["x"]), ("", [("look", None)])),
    ("arguments: a number", OPENAI, whole(7), ("", [("look", None)])),
    ("calls: by their ids", OPENAI, pieces(BOTH, piece("a", FIRST), piece("b", SECOND)), TWO),
    ("calls: the index as text", OPENAI, pieces(piece("a", "", "0", name="look"), piece("b", "", "1", name="look"), piece(None, FIRST, "0"), piece(None, SECOND, "1")), TWO),
    ("calls: the index as a fraction", OPENAI, pieces(piece("a", "", 0.0, name="look"), piece("b", "", 1.0, name="look"), piece(None, FIRST, 0.0), piece(None, SECOND, 1.0)), TWO),
    ("a call: another id each time", OPENAI, pieces(piece("a", '{"at"', name="look"), piece("b", ': "a"}')), MADE),
    ("choices: text and calls apart", OPENAI, [chunk({"content": "I look."}), {"choices": [{"index": 1, "delta": {"tool_calls": [CALL]}}]}, chunk({}, "tool_calls")], ("I look.", [("look", A)])),
    ("choices: the index as text", OPENAI, [{"choices": [{"index": "0", "delta": {"content": "hi"}, "finish_reason": "stop"}]}], ("hi", [])),
    ("choices: one, of index 1", OPENAI, [{"choices": [{"index": 1, "delta": {"content": "hi"}, "finish_reason": "stop"}]}], ("hi", [])),
    ("the whole message once more", OPENAI, [chunk({"content": "hi"}), {"choices": [{"delta": {}, "message": {"content": "hi"}, "finish_reason": "stop"}]}], ("hi", [])),
    ("blocks: all of index 0", ANTHROPIC, told(text(0, "hi"), use(0, '{"at": "a"}')), ("hi", [("look", A)])),
    ("blocks: without an index", ANTHROPIC, told(text(None, "hi"), use(None, '{"at": "a"}')), ("hi", [("look", A)])),
    ("blocks: the index as text", ANTHROPIC, told(use("0", '{"at": "a"}')), MADE),
    ("blocks: arguments as an object", ANTHROPIC, told(use(0, A)), MADE),
    ("chunks in envelopes", GOOGLE, [{"response": gemini({"text": "h"}, finish=None)}, {"response": gemini({"text": "i"})}], ("hi", [])),
    ("items: their pieces alone", RESPONSES, [{**ADDED, "item": ITEM}, {"type": ARGUMENTS, "output_index": 0, "delta": '{"at": "a"}'}, DONE], MADE),
    ("items: an unannounced text", RESPONSES, [{"type": DELTA, "output_index": 0, "delta": "hi"}, DONE], ("hi", [])),
    ("items: over, though in progress", RESPONSES, [{**DONE, "response": response({"type": "message", "content": "hi"}, status="in_progress")}], ("hi", [])),
]  # fmt: skip


@pytest.mark.parametrize(("spoken", "events", "expected"), [row[1:] for row in READ], ids=[row[0] for row in READ])
def test_each_form_of_a_stream_is_read(spoken: Spoken, events: list[JSON], expected: JSON):
    result, began = asked(spoken, sends([event(one) for one in events]))
    assert said(result) == expected
    # Whatever began before the answer was whole is in it as it began.
    assert [one.calls for one in began] == [result.calls[: len(one.calls)] for one in began]


COUNTS: list[tuple[str, Spoken, list[JSON], JSON]] = [
    ("in the choice", OPENAI, [{"choices": [{"delta": {"content": "hi"}, "finish_reason": "stop", "usage": USAGE}]}], (12, 7)),
    ("in Groq's field", OPENAI, [chunk({"content": "hi"}, "stop", x_groq={"usage": USAGE})], (12, 7)),
    ("zero behind it", OPENAI, [chunk({"content": "hi"}, usage=USAGE), chunk({}, "stop", usage=dict.fromkeys(USAGE, 0))], (12, 7)),
    ("nothing behind it", OPENAI, [chunk({"content": "hi"}, usage=USAGE), chunk({}, "stop", usage={})], (12, 7)),
    ("input: zero behind it", ANTHROPIC, told(text(0, "hi"), input_tokens=0, output_tokens=7), (12, 7)),
]  # fmt: skip


@pytest.mark.parametrize(("spoken", "events", "counts"), [row[1:] for row in COUNTS], ids=[f"{row[1].name} {row[0]}" for row in COUNTS])  # fmt: skip
def test_a_count_of_a_stream_is_not_taken_back(spoken: Spoken, events: list[JSON], counts: JSON):
    result, _ = asked(spoken, sends([event(one) for one in events]))
    assert (result.input_tokens, result.output_tokens) == counts


# -- the end --


@pytest.mark.parametrize("spoken", [OPENAI, GOOGLE], ids=lambda one: one.name)
def test_an_end_that_every_chunk_names_is_none_until_the_stream_ends(spoken: Spoken, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(streaming, "LAST_S", 0.3)
    words = [f"w{n} " for n in range(10)]
    chunks = [chunk({"content": word}, "stop") if spoken is OPENAI else gemini({"text": word}) for word in words]
    slowly = Step(content_type=STREAM_TYPE, pieces=tuple(event(one) for one in chunks), every_s=0.1)
    assert asked(spoken, slowly)[0].text == "".join(words)
    cut = half([event(one) for one in chunks[:4]], "drop")
    result, _ = asked(spoken, cut)
    assert (result.cause, result.partial) == (Cause.DROPPED_STREAM, True)


@pytest.mark.parametrize("word", ["null", "", "None", "FINISH_REASON_UNSPECIFIED"])
def test_a_word_for_no_end_is_none(word: str):
    events = [event(chunk({"tool_calls": [piece("a", one, name="look")]}, word)) for one in ("", '{"at":')]
    result, began = asked(OPENAI, sends(events))
    assert (result.cause, result.partial, began) == (Cause.DROPPED_STREAM, True, [])


@pytest.mark.parametrize("last", ["stop", None])
def test_an_answer_that_was_cut_stays_cut_whatever_its_stream_says_next(last: str | None):
    chat_events = [chunk({"tool_calls": [CALL]}), chunk({}, "length"), chunk({}, last)]
    google = [
        gemini({"functionCall": {"name": "look", "args": A}}, finish="MAX_TOKENS"),
        gemini({"text": ""}, finish=last),
    ]
    for spoken, events in ((OPENAI, chat_events), (GOOGLE, google)):
        assert asked(spoken, sends([event(one) for one in events]))[0].finish == "length"


def test_an_open_call_behind_which_a_message_stops_without_a_reason_is_cut():
    result, _ = asked(ANTHROPIC, sends([event(one) for one in (START, *use(0, ""), {"type": "message_stop"})]))
    assert (result.cause, result.partial) == (Cause.DROPPED_STREAM, True)


def test_a_second_message_is_not_taken_for_the_answer():
    result, _ = asked(ANTHROPIC, sends([event(one) for one in (*told(text(0, "one")), *told(text(0, "two")))]))
    assert (result.cause, result.billed) == (Cause.MALFORMED_ANSWER, True)


# -- errors --

NAMED = b'event: error\ndata: {"message": "Overloaded", "code": 503}\n\n'
IN_CHOICE = event({"choices": [{"delta": {}, "finish_reason": "error", "error": {"code": 502, "message": "It died"}}]})


@pytest.mark.parametrize(("spoken", "error"), [*((one, NAMED) for one in STREAMED), (OPENAI, IN_CHOICE), (OPENAI, event({"object": "error", "message": "It died", "code": 500}))], ids=lambda one: "" if isinstance(one, bytes) else one.name)  # fmt: skip
def test_no_half_of_an_answer_passes_before_an_error(spoken: Spoken, error: bytes):
    events = spoken.events("the half of it")
    result, _ = asked(spoken, sends([*events[:-2], error, *events[-2:], b"data: [DONE]\n\n"]))
    assert isinstance(result, CallFailed)
    assert (result.cause, result.partial, result.billed) == (Cause.SERVER_ERROR, True, True)


# -- events --


@pytest.mark.parametrize("nothing", [b"data:\n\n", b"data: null\n\n", b"event: ping\ndata: ping\n\n", b"\n\n\n"])
def test_an_event_that_says_nothing_is_passed_over(nothing: bytes):
    for spoken in STREAMED:
        result, _ = asked(spoken, sends([nothing, *spoken.events("hi"), nothing]))
        assert said(result) == ("hi", []), spoken.name


def test_a_mark_before_the_first_event_is_none_of_it():
    result, _ = asked(
        OPENAI, sends([b"\xef\xbb\xbf" + event(chunk({"content": "h"})), event(chunk({"content": "i"}, "stop"))])
    )
    assert result.text == "hi"


def test_an_event_whose_type_is_its_name_alone_is_read():
    ended = f"event: response.completed\ndata: {json.dumps({'response': response({'type': 'message', 'content': 'hi'})})}\n\n"
    assert asked(RESPONSES, sends([ended.encode()]))[0].text == "hi"


@pytest.mark.parametrize("kind", ["application/json", "text/plain", ""])
def test_a_stream_is_one_whatever_its_content_type_says(kind: str):
    for spoken in STREAMED:
        body = b"".join(spoken.events("I look.", [("look", A, "c1")], (10, 5)))
        result, _ = spoken.ask(Step(body=body, content_type=kind), tools=(TOOL,))
        assert said(result) == ("I look.", [("look", A)]), spoken.name
        cut, _ = spoken.ask(Step(body=body[: len(body) // 3], content_type=kind), tools=(TOOL,))
        assert cut.cause in (Cause.DROPPED_STREAM, Cause.MALFORMED_ANSWER), spoken.name
