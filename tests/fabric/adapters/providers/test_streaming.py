"""Answers that an OpenAI-compatible endpoint streams, over real HTTP: calls are told as they become whole, and what breaks off is a failure that says what had come."""

import json
import threading

import pytest

from fabric.adapters.providers.openai_compatible import ANSWER_BYTES_MAX
from fabric.adapters.providers.streaming import STREAM_TYPE
from fabric.core.inputs import CallFailed, ModelReplied
from fabric.core.spec import ModelSpec
from fabric.core.taxonomy import Cause
from simulator.endpoint import Step, answer, call, cut_stream, refusal, trickle
from simulator.endpoint.streaming import streamed
from tests.fabric.adapters.providers.asking import KEY, TOOL
from tests.fabric.adapters.providers.test_openai_compatible import ask

STREAMS = ModelSpec(name="main", model="small", options={"stream": True})
ASKED = {"stream": True, "stream_options": {"include_usage": True}}
A, B = call("look", {"at": "the first place of all"}, "a"), call("look", {"at": "the second"}, "b")
WAIT_S = 20


def pieces(*calls, text=None, **more):
    return list(streamed(answer(text, calls, **more), ASKED).pieces)


def before(events, mark):
    """The events up to the one that holds these words, and the rest."""
    at = next(n for n, event in enumerate(events) if mark.encode() in event)
    return events[:at], events[at:]


def sends(events):
    return Step(content_type=STREAM_TYPE, pieces=tuple(events))


def drops(events):
    """Sends these and closes."""
    return Step(content_type=STREAM_TYPE, mode="drop", pieces=(*events, *[b""] * len(events)))


def asked(step, told=None, **changed):
    heard = [] if told is None else told
    given = {"model": STREAMS, "tools": (TOOL,), "streamed": heard.append, **changed}
    result, received = ask(step, **given)
    return result, heard, received


def test_a_call_is_told_while_the_rest_of_its_answer_is_still_coming():
    first, rest = before(pieces(A, B, text="I look."), '"b"')
    told, heard = [], threading.Event()

    def held():
        yield from (*first, rest[0])
        assert heard.wait(WAIT_S), "nothing was told before the answer was whole"
        yield from rest[1:]

    def tells(given):
        told.append(given)
        heard.set()

    result, _, received = asked(lambda _: Step(content_type=STREAM_TYPE, pieces=held()), streamed=tells)
    assert isinstance(result, ModelReplied)
    assert [(one.call_id, one.args["at"]) for one in result.calls] == [
        ("a", "the first place of all"),
        ("b", "the second"),
    ]
    assert (result.text, result.input_tokens, result.output_tokens) == ("I look.", 10, 5)
    assert [(one.command_id, one.attempt, one.calls) for one in told] == [("c1", 2, result.calls[:1])]
    assert {name: received[0].body[name] for name in ASKED} == ASKED


def test_a_stream_is_asked_for_only_where_the_model_says_so_and_calls_may_be_in_it():
    for changed in ({"model": ModelSpec(name="main", model="small")}, {"tools": ()}, {"streamed": None}):
        result, told, received = asked(answer("Hello."), **changed)
        assert (result.text, told, "stream" in received[0].body and received[0].body["stream"]) == ("Hello.", [], False)


def test_a_stream_that_breaks_off_after_a_call_says_so_and_keeps_what_had_come():
    first, rest = before(pieces(A, B), '"b"')
    result, told, received = asked(drops([*first, rest[0]]))
    assert isinstance(result, CallFailed)
    assert (result.cause, result.partial, result.billed, result.status) == (Cause.DROPPED_STREAM, True, True, 200)
    assert [one.calls[-1].call_id for one in told] == ["a"]
    assert json.loads(result.raw)["calls"][0] == {"id": "a", "tool": "look", "args": A["function"]["arguments"]}
    assert len(received) == 1


def test_a_stream_that_breaks_off_before_any_output_is_no_partial_answer():
    result, told, _ = asked(drops(pieces(A, B)[:1]))
    assert (result.cause, result.partial, told) == (Cause.DROPPED_STREAM, False, [])


def test_a_stream_that_breaks_off_within_a_calls_arguments_tells_nothing_of_it():
    first, rest = before(pieces(A, B), '"arguments": "{')
    result, told, _ = asked(drops([*first, rest[0]]))
    assert (result.cause, result.partial, told) == (Cause.DROPPED_STREAM, True, [])


def test_a_stream_that_ends_as_if_it_were_over_is_a_broken_one():
    result, _, _ = asked(cut_stream())
    assert (result.cause, result.partial) == (Cause.DROPPED_STREAM, True)


def test_usage_that_is_missing_at_the_end_is_charged_at_worst_case():
    result, _, _ = asked(sends(pieces(A, B, usage=None)))
    assert result.input_tokens == len("You are a reader.Hello?")
    assert result.output_tokens == len(A["function"]["arguments"]) + len(B["function"]["arguments"])


def test_a_chunk_that_comes_twice_makes_a_call_that_is_not_told():
    result, told, _ = asked(as_stream(answer(None, [A, B]), "doubled"))
    assert [one.args is None for one in result.calls] == [True, False]
    assert not told


def as_stream(step, how):
    return Step(body=step.body, stream=how)


def test_a_trickle_ends_at_the_deadline():
    result, _, _ = asked(trickle(), within_s=0.5)
    assert (result.cause, result.billed) == (Cause.TIMEOUT, True)


def test_more_bytes_than_an_answer_may_have_are_not_read():
    def endless():
        one = (
            b"data: "
            + json.dumps({"choices": [{"index": 0, "delta": {"content": "x" * 1_000_000}}]}).encode()
            + b"\n\n"
        )
        for _ in range(ANSWER_BYTES_MAX // 1_000_000 + 5):
            yield one

    result, _, _ = asked(lambda _: Step(content_type=STREAM_TYPE, pieces=endless()))
    assert (result.cause, result.partial) == (Cause.MALFORMED_ANSWER, True)
    assert "larger than" in result.message


@pytest.mark.parametrize("said", [0, 3])
def test_an_error_within_a_stream_is_what_it_says(said):
    error = b'data: {"error": {"message": "overloaded", "type": "server_error", "code": 503}}\n\n'
    result, _, _ = asked(sends([*pieces(A, B)[: 1 + said], error]))
    assert (result.cause, result.status, result.partial) == (Cause.SERVER_ERROR, 503, said > 0)
    assert result.billed is (said > 0)


@pytest.mark.parametrize("event", [b"data: [1]\n\n", b"data: it began\n\n", b"data: " + b"[" * 200 + b"\n\n"])
def test_an_event_that_is_no_json_object_is_a_malformed_answer(event):
    result, _, _ = asked(sends([*pieces(A, B)[:3], event]))
    assert (result.cause, result.partial) == (Cause.MALFORMED_ANSWER, True)
    assert "an event that is no JSON object" in result.message


def test_the_key_is_taken_out_of_a_stream_and_bytes_that_are_no_utf_8_are_mended():
    events = pieces(text="key")
    events = [one.replace(b'"key"', b'"' + KEY.encode() + b' caf\xe9"') for one in events]
    result, _, _ = asked(sends(events))
    assert (result.text, result.sanitized) == ("[key] caf\ufffd", True)


def test_an_endpoint_that_answers_at_once_is_told_apart():
    result, _, _ = asked(lambda _: of_another_type(answer("Hello.")))
    assert result.cause is Cause.MALFORMED_ANSWER
    assert "set the model's option `stream` to false" in result.message


def of_another_type(step):
    """As JSON of another name, which the endpoint does not turn into a stream."""
    return Step(body=step.body, content_type="application/json; charset=utf-8")


def test_a_refusal_of_a_stream_is_a_refusal():
    result, _, _ = asked(refusal(429, "slow down", headers={"Retry-After": "3"}))
    assert (result.cause, result.retry_after_s, result.partial) == (Cause.RATE_LIMIT, 3.0, False)


def test_an_unstreamed_answer_that_breaks_off_says_so_too():
    result, _, _ = asked(
        Step(mode="drop", body=answer("this is never finished").body), model=ModelSpec(name="main", model="small")
    )
    assert (result.cause, result.partial) == (Cause.DROPPED_STREAM, True)
