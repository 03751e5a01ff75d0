"""A completion as chunks: nothing is lost, and what is no completion stays what it is."""

from __future__ import annotations

import json
from typing import Any

import pytest

from simulator.endpoint import Step, answer, bad_json, call, cut_stream, empty, error_body, hang, html, refusal, trickle
from simulator.endpoint.wire.streams import DONE, PIECES_MAX, stream_step, wants_stream

LONG = "word " * 5_000
USAGE = {"stream_options": {"include_usage": True}}


def events(step: Step, body: dict[str, Any] | None = None) -> list[Any]:
    """The chunks of a whole stream."""
    *pieces, last = stream_step(step, body or {}).pieces or ()
    assert last == DONE
    assert all(piece.startswith(b"data: ") and piece.endswith(b"\n\n") for piece in pieces)
    return [json.loads(piece[6:]) for piece in pieces]


@pytest.mark.parametrize("text", ["", "short", LONG, "a\0b\ud800c\U0001f600", None])
def test_the_pieces_of_a_text_are_the_text(text):
    chunks = events(answer(text))
    deltas = [chunk["choices"][0]["delta"] for chunk in chunks]
    assert deltas[0]["role"] == "assistant"
    assert "".join(delta.get("content") or "" for delta in deltas) == (text or "")
    assert len(chunks) <= PIECES_MAX + 2
    assert [chunk["choices"][0]["finish_reason"] for chunk in chunks] == [None] * (len(chunks) - 1) + ["stop"]


def test_calls_have_an_index_their_name_once_and_their_arguments_in_pieces():
    made = [call("look", {"q": "x" * 40}, "c1"), call("find", "{broken", "c2")]
    chunks = events(answer("", made))
    parts = [one for chunk in chunks for one in chunk["choices"][0]["delta"].get("tool_calls", ())]
    opened = [(one["index"], one["id"], one["type"], one["function"]["name"]) for one in parts if "id" in one]
    assert opened == [(0, "c1", "function", "look"), (1, "c2", "function", "find")]
    told = ["".join(one["function"]["arguments"] for one in parts if one["index"] == at) for at in (0, 1)]
    assert told == [made[0]["function"]["arguments"], "{broken"]
    assert chunks[-1]["choices"][0]["finish_reason"] == "tool_calls"


def test_the_usage_comes_at_the_end_where_it_is_asked_for():
    for body in ({}, {"stream_options": {"include_usage": False}}):
        assert all("usage" not in chunk for chunk in events(answer("hello"), body))
    *chunks, last = events(answer("hello", usage=(7, 3)), USAGE)
    assert all(chunk["usage"] is None for chunk in chunks)
    assert (last["choices"], last["usage"]["total_tokens"]) == ([], 10)
    assert events(answer("hello", usage=None), USAGE)[-1]["usage"] is None


@pytest.mark.parametrize("step", [refusal(429), html(), hang()], ids=["refusal", "page", "hang"])
def test_what_is_no_answer_is_the_same_in_a_stream(step):
    assert stream_step(step, {}) is step


def test_a_body_that_is_no_completion_is_one_event():
    assert stream_step(bad_json(), {}).pieces == (b"data: " + bad_json().body + b"\n\n",)
    assert stream_step(error_body(), {}).pieces == (b"data: " + error_body().body + b"\n\n",)
    assert stream_step(empty(), {}).pieces == ()


def test_a_stream_that_is_cut_ends_without_a_reason():
    pieces = stream_step(cut_stream(), {}).pieces
    assert pieces
    assert DONE not in pieces
    assert all(json.loads(piece[6:])["choices"][0]["finish_reason"] is None for piece in pieces)


def test_a_trickle_is_of_chunks():
    step = stream_step(trickle(every_s=0.3), {})
    assert (step.mode, step.every_s, len(step.pieces or ())) == ("trickle", 0.3, 1)


@pytest.mark.parametrize(
    ("path", "body", "wanted"),
    [
        ("/v1/chat/completions", {"stream": True}, True),
        ("/v1/chat/completions", {"stream": False}, False),
        ("/v1/chat/completions", {"stream": "yes"}, False),
        ("/v1/chat/completions", None, False),
        ("/bookings", {"stream": True}, False),
    ],
)
def test_a_stream_is_asked_for_in_the_body(path, body, wanted):
    assert wants_stream(path, body) is wanted
