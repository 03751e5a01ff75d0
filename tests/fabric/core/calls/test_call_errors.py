"""One object says what went wrong with a call: the call as a whole and its error (S2 "Error handling")."""

from __future__ import annotations

import json

import pytest

from fabric.core import events as ev
from fabric.core.calls.tool_answers import ARGS_BYTES
from fabric.core.values.taxonomy import Cause
from tests.fabric.core.fabrics import lone
from tests.fabric.core.harness import ran
from tests.fabric.core.scripts import asks, broken, call, gives, summary

ARGS = {"q": "x"}


def told(world):
    """Return what the model read of its calls, in its last request."""
    return [json.loads(message.text) for message in world.requests[-1].messages if message.role == "tool"]


@pytest.mark.parametrize(
    ("proposed", "look", "cause"),
    [
        (call("look", "a", **ARGS), gives(error="422: no such place"), "tool_error"),
        (call("nowhere", "a", **ARGS), gives(), Cause.TOOL_CONSTRAINT),
        (call("look", "a", of={"$ref": "calls.b.result"}), gives(), Cause.TOOL_CONSTRAINT),
    ],
)
def test_the_model_reads_the_whole_call_beside_its_error(proposed, look, cause):
    world = ran(lone(), {"worker": [asks(proposed), summary()], "look": look})
    (one,) = told(world)
    assert one["call"] == {"id": "a", "tool": proposed.tool, "args": proposed.args}
    assert one["error"]["cause"] == cause
    (content,) = world.content_of(ev.CallRefused) + world.content_of(ev.ToolAnswered)
    assert content == one, "the event's content is the same object"


def test_arguments_that_are_no_object_stand_there_as_they_came():
    world = ran(lone(), {"worker": [broken(raw='{"q": '), summary()]})
    (one,) = told(world)
    assert one["call"]["raw_args"] == '{"q": '


def test_large_arguments_are_not_repeated():
    large = call("look", "a", q="x" * ARGS_BYTES)
    world = ran(lone(), {"worker": [asks(large), summary()], "look": gives(error="too long")})
    (one,) = told(world)
    assert one["call"] == {"id": "a", "tool": "look"}


def test_the_same_error_of_another_call_is_the_same_error_to_the_detectors():
    first, second = (call("look", name, n=number) for number, name in enumerate("ab"))
    world = ran(lone(), {"worker": [asks(first, second), summary()], "look": gives(error="not found")})
    assert len({fact.masked_hash for fact in world.of(ev.ToolAnswered)}) == 1
