"""When a streamed call is whole: once its own JSON object is, over real HTTP in each provider's own protocol."""

import threading

import pytest

from fabric.providers.exchange.wire import STREAM_TYPE
from simulator.endpoint import Step
from tests.fabric.providers.exchange.test_streaming import A, asked, sends
from tests.fabric.providers.wires import OPENAI, STREAMED, event

WAIT_S = 20


@pytest.fixture(params=STREAMED, ids=lambda spoken: spoken.name)
def spoken(request):
    return request.param


def test_an_only_call_is_told_once_its_own_object_is_whole(spoken):
    """Nothing follows it before it is told: the stream goes on only then."""
    events = spoken.events("I look.", [A])
    told, heard = [], threading.Event()

    def held():
        for one in events:
            yield one
            if heard.is_set() or not _closes(one):
                continue
            assert heard.wait(WAIT_S), "the call was whole and not told"

    def tells(given):
        told.append(given)
        heard.set()

    result, _ = asked(spoken, lambda _: Step(content_type=STREAM_TYPE, pieces=held()), streamed=tells)
    assert [one.calls for one in told] == [result.calls]
    assert result.calls[0].args == A[1]


def _closes(piece):
    """Return True if the arguments of the first call have ended with this piece."""
    return b"of all" in piece or b'"}"' in piece


PIECES = {
    "another object behind it": (['{"at": "x"}', ', "more": 1}'], [{"at": "x"}], None),
    "a second object behind it": (['{"at": "x"}', '{"at": "y"}'], [{"at": "x"}], None),
    "itself once more": (['{"at": "x"}', '{"at": "x"}'], [{"at": "x"}], {"at": "x"}),
    "an empty object before it": (["{}", '{"at": "x"}'], [], {"at": "x"}),
    "a brace in a text": (['{"at": "}', ' {"}'], [{"at": "} {"}], {"at": "} {"}),
    "an object in it": (['{"at": {"b": 1}', ', "c": 2}'], [{"at": {"b": 1}, "c": 2}], {"at": {"b": 1}, "c": 2}),
}
"""Of the pieces of a call's arguments: what is told while they come, and what the whole answer has; None: no object."""


@pytest.mark.parametrize("pieces", PIECES)
def test_a_call_is_told_once_and_with_whole_arguments_alone(pieces):
    sent, early, whole = PIECES[pieces]
    start = {"index": 0, "id": "a", "type": "function", "function": {"name": "look", "arguments": ""}}
    deltas = [{"tool_calls": [start]}]
    deltas += [{"tool_calls": [{"index": 0, "function": {"arguments": one}}]} for one in sent]
    chunks = [{"choices": [{"index": 0, "delta": one}]} for one in deltas]
    chunks.append({"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]})
    result, told = asked(OPENAI, sends([*map(event, chunks), b"data: [DONE]\n\n"]))
    assert [one.calls[-1].args for one in told] == early
    assert [one.args for one in result.calls] == [whole]
