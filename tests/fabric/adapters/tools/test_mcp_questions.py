"""An MCP server asks a person in the middle of a call: over each transport and protocol, answered, refused, and several at once."""

import asyncio
from contextlib import contextmanager

import pytest

from fabric.adapters.tools.outbound import Gate
from fabric.core.inputs import ToolFinished
from fabric.core.requested_input import question_digest
from fabric.core.saga import Outcome
from fabric.core.spec_mcp import McpServer
from tests.fabric.adapters.tools.mcp_worlds import call, runner, served, stdio, tool

ASKING = """
import json, sys

def say(**said):
    print(json.dumps({'jsonrpc': '2.0', **said}), flush=True)

form = {'type': 'object', 'properties': {'sure': {'type': 'boolean'}}, 'required': ['sure']}
calls = {}
for line in sys.stdin:
    given = json.loads(line)
    if 'method' not in given:
        call = calls.pop(given['id'])
        found = given.get('result', given.get('error'))
        say(id=call, result={'content': [{'type': 'text', 'text': json.dumps(found)}]})
    elif given['method'] == 'initialize':
        info = {'name': 'x', 'version': '1'}
        say(id=given['id'], result={'protocolVersion': '2025-06-18', 'capabilities': {}, 'serverInfo': info})
    elif given['method'] == 'tools/list':
        say(id=given['id'], result={'tools': [{'name': 'asks', 'inputSchema': {'type': 'object'}}]})
    elif given['method'] == 'tools/call':
        calls[f"q{given['id']}"] = given['id']
        question = {'message': 'Are you sure' + given['params']['arguments'].get('told', '') + '? (1)', 'requestedSchema': form}
        say(id=f"q{given['id']}", method='elicitation/create', params=question)
    elif 'id' in given:
        say(id=given['id'], error={'code': -32601, 'message': 'unknown'})
"""
"""A server of before 2026 over stdio that asks in each call, and answers with what it was given."""


@contextmanager
def world(kind):
    if kind == "stdio":
        yield stdio(), None
    elif kind == "old stdio":
        yield stdio(args=("-c", ASKING)), None
    else:
        with served(*(("--old",) if kind == "old http" else ())) as where:
            yield McpServer(name="things", transport="http", url=f"http://{where}/mcp"), Gate(frozenset({where}))


def told(kind, *steps):
    """What a server answers to calls one after the other; each step is given the port, the server and what came before."""

    async def go(port, server):
        found = None
        for step in steps:
            found = await asyncio.wait_for(step(port, server, found), 30)
        return found

    with world(kind) as (server, gate):
        port = runner(server, gate=gate)

        async def all_of_it():
            try:
                return await go(port, server)
            finally:
                await port.end()

        try:
            return asyncio.run(all_of_it())
        finally:
            port.close()


def calls(name, args=None, give=None):
    """A step that calls a tool. ``give``: the answer to the question that came before."""

    async def step(port, server, before):
        question = None if give is None else question_digest(before.requested.message, before.requested.schema)
        return await call(port, server, name, args, answers={} if question is None else {question: give})

    return step


@pytest.mark.parametrize("kind", ["old http", "old stdio"])
def test_a_question_ends_the_call_and_its_answer_goes_with_the_next_one(kind):
    found = told(kind, calls("asks"))
    assert isinstance(found, ToolFinished)
    assert (found.outcome, found.requested.server, found.requested.message) == (
        Outcome.UNKNOWN,  # It answered the question's end with a result.
        "things",
        "Are you sure? (1)",
    )
    assert found.requested.schema["required"] == ["sure"]
    assert "cancel" in found.requested.said
    done = told(kind, calls("asks"), calls("asks", give={"sure": True}))
    assert done.requested is None
    assert "accept" in done.result


@pytest.mark.parametrize("kind", ["stdio", "http", "old http"])
def test_each_protocol_asks_one_question_after_the_other_until_all_are_answered(kind):
    async def scene(port, server, _):
        given, asked = {}, []
        for answer in ({"floor": 4}, {"sure": True}):
            found = await call(port, server, "books", {"room": "blue"}, answers=given)
            asked.append(found.requested.message)
            given[question_digest(found.requested.message, found.requested.schema)] = answer
        return asked, await call(port, server, "books", {"room": "blue"}, answers=given)

    asked, done = told(kind, scene)
    assert asked == ["On which floor is blue?", "Are you sure?"]
    assert (done.result, done.requested) == ("booked blue on floor 4: accept", None)


def test_an_answer_to_another_question_answers_nothing():
    async def scene(port, server, _):
        found = await call(port, server, "books", {"room": "blue"})
        given = {question_digest(found.requested.message, found.requested.schema): {"floor": 4}}
        return await call(port, server, "books", {"room": "red"}, answers=given)

    assert told("http", scene).requested.message == "On which floor is red?"


@pytest.mark.parametrize("kind", ["old http", "old stdio"])
def test_calls_at_once_are_each_asked_their_own_question(kind):
    async def scene(port, server, _):
        first = await asyncio.gather(*(call(port, server, "asks", {"told": str(n)}) for n in range(3)))
        again = [
            call(
                port,
                server,
                "asks",
                {"told": str(n)},
                answers={question_digest(f"Are you sure{n}? (1)", one.requested.schema): {"sure": n == 1}},
            )
            for n, one in enumerate(first)
        ]
        return first, await asyncio.gather(*again)

    first, again = told(kind, scene)
    assert [one.requested.message for one in first] == [f"Are you sure{n}? (1)" for n in range(3)]
    assert [("true" in one.result.lower()) for one in again] == [False, True, False]


def test_a_server_whose_questions_name_no_call_has_one_call_at_a_time():
    async def scene(port, server, _):
        await call(port, server, "asks", {"told": "first"})
        return await asyncio.gather(*(call(port, server, "asks", {"told": str(n)}) for n in range(3)))

    assert [one.requested.message for one in told("old stdio", scene)] == [f"Are you sure{n}? (1)" for n in range(3)]


def test_changes_that_ask_at_once_without_a_name_are_not_made_twice():
    async def scene(port, server, _):
        books = tool("asks", effect="mutating", compensation="undo")
        return await asyncio.gather(*(call(port, server, "asks", {"told": str(n)}, spec=books) for n in range(2)))

    found = told("old stdio", scene)
    assert [(one.requested, one.outcome) for one in found] == [(None, Outcome.UNKNOWN)] * 2
    assert "did not say for which" in found[0].error


def test_forms_alone_are_declared():
    assert told("old http", calls("can")).result == '{"elicitation":{"form":{}}}'


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("asks_elsewhere", "an address that a person is to open is refused"),
        ("asks_by_a_strange_form", "the form of a question is refused: the field 'a' is no text, number, yes or no"),
    ],
)
def test_what_is_no_form_is_refused(name, says):
    found = told("old http", calls(name))
    assert found.requested is None
    assert says in found.error
