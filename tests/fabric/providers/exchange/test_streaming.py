"""Answers that stream in, over real HTTP in each provider's own protocol: calls are told as they become whole, and what breaks off is a failure that says what had come."""

import asyncio
import json
import threading
import time

import pytest

from fabric.core.events.inputs import CallFailed, ModelReplied
from fabric.core.values.taxonomy import Cause
from fabric.providers.exchange.wire import STREAM_TYPE
from fabric.providers.openai_compatible import ANSWER_BYTES_MAX
from fabric.providers.protocols.fitting import compact
from simulator.endpoint import ScriptedEndpoint, Step
from tests.fabric.providers.asking import KEY, TOOL, request, side_by_side
from tests.fabric.providers.wires import ANTHROPIC, ASKED, GOOGLE, OPENAI, RESPONSES, STREAMED, event

STREAMS = {"options": {"stream": True}}
A, B = ("look", {"at": "the first place of all"}, "a"), ("look", {"at": "the second"}, "b")
ARGS_CHARS = len(json.dumps(A[1])) + len(json.dumps(B[1]))
PROMPT_BYTES = len("You are a reader.Hello?") + len(compact([TOOL.name, TOOL.description, dict(TOOL.parameters)]))
"""Of all that is sent: the messages and the tool."""
WAIT_S = 20


@pytest.fixture(params=STREAMED, ids=lambda spoken: spoken.name)
def spoken(request):
    return request.param


in_pieces = pytest.mark.parametrize("spoken", [OPENAI, RESPONSES, ANTHROPIC], ids=lambda one: one.name)
"""The protocols that send the arguments of a call in pieces."""


def before(events, mark):
    """The events up to the one that holds these words, and the rest."""
    at = next(n for n, event in enumerate(events) if mark.encode() in event)
    return events[:at], events[at:]


def sends(events):
    return Step(content_type=STREAM_TYPE, pieces=tuple(events))


def half(events, mode):
    """Sends these and drops the connection, or says no more."""
    return Step(content_type=STREAM_TYPE, mode=mode, pieces=(*events, *[b""] * len(events)))


def asked(spoken, step, **changed):
    """The result of one ask, and what was told meanwhile. Whatever comes back, nothing is asked for twice."""
    told = []
    given = {"spec": STREAMS, "tools": (TOOL,), "streamed": told.append, **changed}
    result, received = spoken.ask(step, **given)
    assert [(one.path, spoken.asks_stream(one.body)) for one in received] == [(spoken.streams_at, True)]
    return result, told


def test_a_whole_answer_is_what_it_would_be_at_once(spoken):
    given = ("I look.", [A, B], (12, 34))
    at_once, _ = spoken.ask(spoken.answer(*given), tools=(TOOL,))
    result, told = asked(spoken, sends(spoken.events(*given)))
    assert isinstance(result, ModelReplied)
    assert result == at_once
    assert [(one.command_id, one.attempt, one.calls) for one in told] == [("c1", 2, result.calls[:n]) for n in (1, 2)]


@pytest.mark.parametrize("finish", ["length", "content_filter"])
def test_the_end_of_a_streams_answer_is_mapped(spoken, finish):
    result, _ = asked(spoken, sends(spoken.events("half", finish=finish)))
    assert (result.text, result.finish) == ("half", finish)


def test_a_call_is_told_while_the_rest_of_its_answer_is_still_coming(spoken):
    first, rest = before(spoken.events("I look.", [A, B]), '"b"')
    told, heard = [], threading.Event()

    def held():
        yield from (*first, rest[0])
        assert heard.wait(WAIT_S), "nothing was told before the answer was whole"
        yield from rest[1:]

    def tells(given):
        told.append(given)
        heard.set()

    result, _ = asked(spoken, lambda _: Step(content_type=STREAM_TYPE, pieces=held()), streamed=tells)
    assert [(one.call_id, one.args) for one in result.calls] == [("a", A[1]), ("b", B[1])]
    assert (result.text, result.input_tokens, result.output_tokens) == ("I look.", 10, 5)
    assert [one.calls for one in told] == [result.calls[:1], result.calls]


def test_a_stream_is_asked_for_only_where_the_model_says_so_and_calls_may_be_in_it(spoken):
    for changed in ({"spec": {}}, {"tools": ()}, {"streamed": None}):
        told = []
        given = {"spec": STREAMS, "tools": (TOOL,), "streamed": told.append, **changed}
        result, (sent,) = spoken.ask(spoken.answer("Hello."), **given)
        assert (result.text, told) == ("Hello.", [])
        assert sent.path.partition("?")[0] == spoken.path
        assert sent.body.get("stream") in (None, False)


# -- what breaks off --


def test_a_stream_that_breaks_off_after_a_call_says_so_and_keeps_what_had_come(spoken):
    first, _ = before(spoken.events(None, [A, B]), '"b"')
    result, told = asked(spoken, half(first, "drop"))
    assert isinstance(result, CallFailed)
    assert (result.cause, result.partial, result.billed, result.status) == (Cause.DROPPED_STREAM, True, True, 200)
    assert [one.calls[-1].call_id for one in told] == ["a"]
    said = json.loads(result.raw)["calls"][0]
    assert (said["id"], said["tool"]) == ("a", "look")
    assert (json.loads(said["args"]) if isinstance(said["args"], str) else said["args"]) == A[1]


def test_a_stream_that_breaks_off_before_any_output_is_no_partial_answer(spoken):
    result, told = asked(spoken, half(spoken.events(None, [A, B])[:1], "drop"))
    assert (result.cause, result.partial, told) == (Cause.DROPPED_STREAM, False, [])


@in_pieces
def test_a_stream_that_breaks_off_within_a_calls_arguments_tells_nothing_of_it(spoken):
    first, rest = before(spoken.events(None, [A, B]), r"{\"at")
    result, told = asked(spoken, half([*first, rest[0]], "drop"))
    assert (result.cause, result.partial, told) == (Cause.DROPPED_STREAM, True, [])


def test_a_stream_that_ends_as_if_it_were_over_is_a_broken_one(spoken):
    events = spoken.events("this sentence is never finished")
    result, _ = asked(spoken, sends(events[: len(events) // 2]))
    assert (result.cause, result.partial) == (Cause.DROPPED_STREAM, True)


def test_a_stream_of_nothing_is_a_broken_one(spoken):
    result, _ = asked(spoken, sends([]))
    assert (result.cause, result.partial, result.billed) == (Cause.DROPPED_STREAM, False, True)


def test_a_trickle_of_comments_ends_at_the_deadline():
    step = Step(content_type=STREAM_TYPE, mode="trickle", pieces=(b": still here\n\n",))
    for spoken, (result, _) in side_by_side(STREAMED, lambda spoken: asked(spoken, step, within_s=2.0)):
        assert (result.cause, result.billed, result.partial) == (Cause.TIMEOUT, True, False), spoken.name


def test_a_stream_that_goes_silent_ends_at_the_deadline_and_leaves_no_connection_behind():
    for spoken, (result, left, told) in side_by_side(STREAMED, gone_silent):
        found = (result.cause, result.billed, result.partial, len(told), left)
        assert found == (Cause.TIMEOUT, True, True, 1, []), spoken.name
        assert "I look." in result.raw, spoken.name


def gone_silent(spoken):
    """The result of a stream that says no more after its first call, the connections left, and what was told."""
    first, _ = before(spoken.events("I look.", [A, B]), '"b"')

    async def go(provider, told):
        given = request(2.0, model=spoken.spec(**STREAMS), tools=(TOOL,), streamed=told.append)
        result = await provider.ask(given)
        (transport,) = provider._transports.values()
        left = list(transport._inner._pool.connections)
        await provider.aclose()
        return result, left

    with ScriptedEndpoint([half(first, "stall")]) as endpoint:
        result, left = asyncio.run(go(spoken.port(endpoint), told := []))
    return result, left, told


def test_more_bytes_than_an_answer_may_have_are_not_read(spoken):
    first, rest = before(spoken.events("MARK"), "MARK")

    def endless():
        yield from first
        for _ in range(ANSWER_BYTES_MAX // 1_000_000 + 5):
            yield rest[0].replace(b"MARK", b"x" * 1_000_000)

    result, _ = asked(spoken, lambda _: Step(content_type=STREAM_TYPE, pieces=endless()))
    assert (result.cause, result.partial) == (Cause.MALFORMED_ANSWER, True)
    assert "larger than" in result.message


@pytest.mark.parametrize("within_s", [30.0, 4.0], ids=["then", "at the deadline"])
@pytest.mark.parametrize("mode", ["stall", "broken"])
def test_an_answer_that_is_over_is_whole_however_its_stream_ends(spoken, mode, within_s):
    """The connection stays open, or breaks; what was paid for is not lost, and costs what it says."""
    events = spoken.events("I look.", [A, B], usage=(12, 34))
    step = half([*events, *[b": still here\n\n"] * len(events)], mode) if mode == "stall" else half(events, mode)
    begun = time.monotonic()
    result, told = asked(spoken, step, within_s=within_s)
    assert isinstance(result, ModelReplied), result
    assert (result.text, [call.args for call in result.calls], len(told)) == ("I look.", [A[1], B[1]], 2)
    assert (result.input_tokens, result.output_tokens, result.usage_problem) == (12, 34, "")
    assert time.monotonic() - begun < 10


@pytest.mark.parametrize("said", [False, True])
def test_an_error_within_a_stream_is_judged_although_the_stream_goes_silent(spoken, said):
    events = spoken.events(None, [A, B])
    error = b"event: error\ndata: " + spoken.refusal(*spoken.overloaded).body + b"\n\n"
    first = [*(before(events, '"b"')[0] if said else events[:1]), error]
    begun = time.monotonic()
    result, _ = asked(spoken, half([*first, *[b": still here\n\n"] * len(first)], "stall"))
    assert (result.cause, result.status, result.billed) == (Cause.SERVER_ERROR, spoken.reported, said)
    assert time.monotonic() - begun < 10


# -- what is no answer --


@pytest.mark.parametrize("said", [False, True])
def test_an_error_within_a_stream_is_what_it_says(spoken, said):
    events = spoken.events(None, [A, B])
    error = b"event: error\ndata: " + spoken.refusal(*spoken.overloaded).body + b"\n\n"
    result, _ = asked(spoken, sends([*(before(events, '"b"')[0] if said else events[:1]), error]))
    assert (result.cause, result.status, result.partial) == (Cause.SERVER_ERROR, spoken.reported, said)
    assert result.billed is said
    assert "It says: " in result.message


@pytest.mark.parametrize("data", [b"[1]", b"it began", b"[" * 200])
def test_an_event_that_is_no_json_object_is_a_malformed_answer(spoken, data):
    first, _ = before(spoken.events(None, [A, B]), '"b"')
    result, _ = asked(spoken, sends([*first, b"data: " + data + b"\n\n"]))
    assert (result.cause, result.partial) == (Cause.MALFORMED_ANSWER, True)
    assert "an event that is no JSON object" in result.message


@pytest.mark.parametrize(
    ("spoken", "value"),
    [(spoken, value) for spoken in STREAMED for value in spoken.nonsense],
    ids=lambda given: getattr(given, "name", None),
)
def test_an_object_that_is_no_event_of_the_protocols_is_a_malformed_answer(spoken, value):
    first, rest = before(spoken.events(None, [A, B]), '"b"')
    result, _ = asked(spoken, sends([*first, event(value), *rest]))
    assert (result.cause, result.partial, result.billed) == (Cause.MALFORMED_ANSWER, True, True), result
    assert result.message.endswith(
        ("an event that is not as its protocol has it", f"events that are no {spoken.protocol.noun}")
    )


def test_an_answer_that_comes_at_once_where_a_stream_was_wanted_is_read(spoken):
    at_once = Step(body=spoken.answer("Hello.", [A]).body, content_type="application/json; charset=utf-8")
    result, told = asked(spoken, lambda _: at_once)
    assert (result.text, [call.args for call in result.calls], told) == ("Hello.", [A[1]], [])


def test_a_stream_that_comes_where_none_was_wanted_is_read(spoken):
    result, received = spoken.ask(sends(spoken.events("Hello.", [A])), tools=(TOOL,))
    assert not received[0].body.get("stream")
    assert (result.text, [call.args for call in result.calls]) == ("Hello.", [A[1]])


def test_a_refusal_of_a_stream_is_a_refusal(spoken):
    result, _ = asked(spoken, spoken.refusal(429, "slow down", headers={"Retry-After": "3"}))
    assert (result.cause, result.retry_after_s, result.partial) == (Cause.RATE_LIMIT, 3.0, False)


def test_an_unstreamed_answer_that_breaks_off_says_so_too(spoken):
    result, _ = spoken.ask(Step(mode="drop", body=spoken.answer("this is never finished").body))
    assert (result.cause, result.partial) == (Cause.DROPPED_STREAM, True)


# -- what is mended, and what is counted --


def test_usage_that_is_missing_at_the_end_is_charged_at_worst_case(spoken):
    result, _ = asked(spoken, sends(spoken.events(None, [A, B], usage=None)))
    assert (result.input_tokens, result.output_tokens) == (PROMPT_BYTES, ARGS_CHARS)


@pytest.mark.parametrize("spoken", [OPENAI, ANTHROPIC], ids=lambda one: one.name)
def test_a_piece_that_comes_twice_makes_a_call_that_is_not_told(spoken):
    first, rest = before(spoken.events(None, [A, B]), r"{\"at")
    result, told = asked(spoken, sends([*first, rest[0], *rest]))
    assert [one.args is None for one in result.calls] == [True, False]
    assert [one.calls[-1].call_id for one in told] == ["b"]


def test_the_key_is_taken_out_of_a_stream_and_bytes_that_are_no_utf_8_are_mended(spoken):
    events = [one.replace(b'"key"', b'"' + KEY.encode() + b' caf\xe9"') for one in spoken.events("key")]
    result, _ = asked(spoken, sends(events))
    assert (result.text, result.sanitized) == ("[secret] caf\ufffd", True)


WRITTEN = {
    "carriage returns": lambda events: [one.replace(b"\n", b"\r\n") for one in events],
    "no blank after the colon": lambda events: [one.replace(b"data: ", b"data:") for one in events],
    "comments between": lambda events: [part for one in events for part in (b": ping\n\n", one)],
    "names of another's": lambda events: [
        b"event: chunk\nid: 1\nretry: 5\n" + one.split(b"\n", 1)[1] if one.startswith(b"event:") else one
        for one in events
    ],
    "no names": lambda events: [one[one.index(b"data:") :] for one in events],
    "a byte at a time": lambda events: [bytes([byte]) for byte in b"".join(events)],
    "all at once": lambda events: [b"".join(events)],
    "a gateway's last line": lambda events: [*events, b"data: [DONE]\n\n"],
}
"""Ways to write the same events."""


@pytest.mark.parametrize("way", WRITTEN)
def test_however_a_stream_is_written_it_is_the_same_answer(spoken, way):
    events = [one.replace(rb"\u00fc", "ü".encode()) for one in spoken.events("I look for a güte.", [A, B])]
    result, told = asked(spoken, sends(WRITTEN[way](events)))
    assert (result.text, [one.args for one in result.calls]) == ("I look for a güte.", [A[1], B[1]])
    assert (result.input_tokens, result.output_tokens, len(told)) == (10, 5, 2)
    assert not result.sanitized


# -- what one protocol alone says --


def test_an_openai_compatible_endpoint_is_asked_for_the_usage_too():
    _, (sent,) = OPENAI.ask(sends(OPENAI.events("Hi.")), spec=STREAMS, tools=(TOOL,), streamed=print)
    assert {name: sent.body[name] for name in ASKED} == ASKED


def without(events, mark, field):
    """The events, those that hold these words without a field."""
    told = []
    for one in events:
        value = json.loads(one[one.index(b"{") :])
        told.append(event({k: v for k, v in value.items() if k != field}) if mark.encode() in one else one)
    return told


def test_what_anthropic_counts_at_the_beginning_does_not_pass_for_the_whole():
    events = ANTHROPIC.events(None, [A, B], usage=(12, 34))
    for given in (without(events, "message_delta", "usage"), [one for one in events if b"message_delta" not in one]):
        result, _ = asked(ANTHROPIC, sends(given))
        assert (result.input_tokens, result.output_tokens) == (12, ARGS_CHARS)


def test_a_block_of_anthropics_that_begins_empty_is_no_output_yet():
    events = ANTHROPIC.events("never finished")
    first, rest = before(events, "content_block_start")
    for given, partial in (([*first, rest[0]], False), ([*first, *rest[:2]], True)):
        result, _ = asked(ANTHROPIC, half(given, "drop"))
        assert (result.cause, result.partial) == (Cause.DROPPED_STREAM, partial)


def test_an_event_of_anthropics_of_an_unknown_kind_is_passed_over():
    events = ANTHROPIC.events("Hi.")
    for place in (0, 4):
        given = [*events[:place], event({"type": "weather", "message": {"id": 1}}), *events[place:]]
        assert asked(ANTHROPIC, sends(given))[0].text == "Hi."


def test_a_last_line_alone_does_not_end_an_answer_of_another_protocol():
    for spoken, ends in ((ANTHROPIC, 2), (GOOGLE, 1)):
        events = [*spoken.events("never finished")[:-ends], b"data: [DONE]\n\n"]
        assert asked(spoken, sends(events))[0].cause is Cause.DROPPED_STREAM


def test_what_google_counts_on_the_way_does_not_pass_for_the_whole():
    events = without(GOOGLE.events(None, [A, B], usage=(12, 34)), "finishReason", "usageMetadata")
    result, _ = asked(GOOGLE, sends(events))
    assert (result.input_tokens, result.output_tokens) == (PROMPT_BYTES, ARGS_CHARS)


def test_calls_of_googles_without_ids_are_told_under_those_that_they_come_with():
    events = [one.replace(b', "id": "a"', b"").replace(b', "id": "b"', b"") for one in GOOGLE.events(None, [A, B])]
    result, told = asked(GOOGLE, sends(events))
    assert [one.calls for one in told] == [result.calls[:1], result.calls]
    assert [one.call_id for one in result.calls] == ["", ""]


@pytest.mark.parametrize("ends", ["in the middle", "as one that could go on"])
def test_a_stream_of_googles_is_not_taken_up_again_by_its_client_library(ends):
    events = [
        one.replace(b'"index": 0', b'"index": 0, "continuationToken": "YWJj"')
        for one in GOOGLE.events("half an answer")
    ]
    if ends == "in the middle":
        result, _ = asked(GOOGLE, half(events[:3], "drop"))
        assert (result.cause, result.partial) == (Cause.DROPPED_STREAM, True)
    else:
        result, _ = asked(GOOGLE, sends([one.replace(b'"STOP"', b'"CONTINUATION"') for one in events]))
        assert (result.text, result.finish) == ("half an answer", "length")


def test_a_prompt_that_google_blocks_ends_the_stream_as_content_filter():
    result, _ = asked(GOOGLE, sends([event({"promptFeedback": {"blockReason": "SAFETY"}})]))
    assert (result.text, result.finish) == ("", "content_filter")
