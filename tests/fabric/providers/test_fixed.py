"""The provider that asks no model: one call, its answer, its failure."""

from __future__ import annotations

import asyncio
import json

import pytest

from fabric.core.spec.tree import ModelSpec
from fabric.core.values.taxonomy import Cause
from fabric.providers.fixed import Fixed
from fabric.runtime.ports.calls import ChatMessage
from tests.fabric.providers.asking import TOOL, request

CALL = {"tool": "look", "args": {"at": "it"}}


def ask(came="", options=None, **more):
    messages = (ChatMessage("user", "Hello?"), *([ChatMessage("tool", came, tool="look")] if came else []))
    model = ModelSpec(
        name="nobody", provider="fixed", options={"agents": {"reader": CALL}} if options is None else options
    )
    return asyncio.run(Fixed().ask(request(model=model, messages=messages, tools=(TOOL,), **more)))


def test_it_makes_the_call_that_is_written_and_spends_nothing():
    said = ask()
    assert [(one.tool, one.args) for one in said.calls] == [("look", {"at": "it"})]
    assert (said.input_tokens, said.output_tokens, said.text) == (0, 0, "")


@pytest.mark.parametrize(
    ("came", "text"),
    [('{"answer": "Approve"}', "Approve"), ('{"n": 3}', '{"n": 3}'), ("plain", "plain"), ("  ", "done")],
)
def test_what_came_back_is_the_answer(came, text):
    assert ask(came).text == text
    assert json.loads(ask(came, output_schema={"type": "object"}).text) == {"text": text, "citations": []}


def test_an_error_of_the_call_is_the_agents_failure():
    failed = ask('{"error": {"cause": "tool_error", "message": "2 tests failed"}}')
    assert (failed.cause, failed.message) == (Cause.TOOL_CONSTRAINT, "look: 2 tests failed")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, "and none is written"),
        ({"agents": {"other": CALL}}, "and none is written"),
        ({"agents": {"reader": {"tool": "pay"}}}, "and 'pay' is no tool of it"),
        ({"agents": [1]}, "and none is written"),
    ],
)
def test_where_no_call_is_written_it_says_where_to_write_it(options, said):
    failed = ask(options=options)
    assert failed.cause is Cause.BAD_CONFIGURATION
    assert said in failed.message
    assert "write options.agents.reader.tool" in failed.message
