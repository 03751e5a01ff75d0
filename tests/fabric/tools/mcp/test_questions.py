"""An MCP server asks a person in the middle of a call: over each transport and protocol, answered, refused, and several at once."""

import asyncio
import json
from contextlib import contextmanager

import pytest

from fabric.core.events.inputs import ToolFinished
from fabric.core.reviews.requested_input import question_digest
from fabric.core.spec.mcp import McpServer
from fabric.core.values.saga import Outcome
from fabric.core.values.taxonomy import Cause
from fabric.http.transport import Gate
from tests.fabric.tools.mcp.worlds import call, runner, served, stdio, tool

ASKING = """
import json, sys

def say(**said):
    print(json.dumps({'jsonrpc': '2.0', **said}), flush=True)

form = {'type': 'object', 'properties': {'sure': {'type': 'boolean'}}, 'required': ['sure']}
waiting, asked, came = [], {}, 0
for line in sys.stdin:
    given = json.loads(line)
    if 'method' not in given:
        said = json.dumps([given.get('result', given.get('error')), came])
        call, args = asked.pop(given['id'])
        done = [(call, args), *(one for one in waiting if one[1].get('quiet') == 'until another is asked about')]
        waiting = [one for one in waiting if one not in done]
        for call, args in done:
            error = {'error': {'code': -32603, 'message': said}}
            say(id=call, **(error if 'fails' in args else {'result': {'content': [{'type': 'text', 'text': said}]}}))
    elif given['method'] == 'initialize':
        info = {'name': 'x', 'version': '1'}
        say(id=given['id'], result={'protocolVersion': '2025-06-18', 'capabilities': {}, 'serverInfo': info})
    elif given['method'] == 'tools/list':
        say(id=given['id'], result={'tools': [{'name': 'asks', 'inputSchema': {'type': 'object'}}]})
    elif given['method'] == 'tools/call':
        args, came = given['params']['arguments'], came + 1
        waiting.append((given['id'], args))
        if len(waiting) < args.get('among', 1):
            continue
        for call, args in [one for one in waiting if 'quiet' not in one[1]]:
            waiting.remove((call, args))
            asked[f'q{call}'] = call, args
            question = {'message': 'Are you sure' + args.get('told', '') + '? (1)', 'requestedSchema': form}
            say(id=f'q{call}', method='elicitation/create', params=question)
    elif 'id' in given:
        say(id=given['id'], error={'code': -32601, 'message': 'unknown'})
"""
"""A server of before 2026 over stdio that asks in each call, and answers with what it was given, and how many calls have come.

It asks once ``among`` calls wait. It asks nothing about a ``quiet`` one. It answers one that ``fails`` with an error.
"""


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
    """Return what a server answers to calls one after the other; each step is given the port, the server and what came before."""

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


def test_calls_at_once_are_each_asked_their_own_question():
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

    first, again = told("old http", scene)
    assert [one.requested.message for one in first] == [f"Are you sure{n}? (1)" for n in range(3)]
    assert [("true" in one.result.lower()) for one in again] == [False, True, False]


@pytest.mark.parametrize(
    ("spec", "outcome"),
    [
        (tool("asks"), Outcome.REJECTED),
        (tool("asks", effect="idempotent"), Outcome.UNKNOWN),
        (tool("asks", effect="mutating", compensation="undo"), Outcome.UNKNOWN),
    ],
    ids=lambda one: getattr(one, "effect", ""),
)
def test_a_question_that_names_no_call_ends_all_calls_that_are_out_and_the_next_go_one_at_a_time(spec, outcome):
    async def scene(port, server, _):
        at_once = [{}, {"fails": True}, {"quiet": "until another is asked about"}]
        first = await asyncio.gather(*(call(port, server, "asks", {"among": 3, **one}, spec=spec) for one in at_once))
        again = await asyncio.gather(*(call(port, server, "asks", {"told": str(n)}, spec=spec) for n in range(3)))
        given = {question_digest(one.requested.message, one.requested.schema): {"sure": True} for one in again}
        return first, again, await call(port, server, "asks", {"told": "1"}, spec=spec, answers=given)

    first, again, last = told("old stdio", scene)
    assert [(type(one), one.requested, one.outcome) for one in first] == [(ToolFinished, None, outcome)] * 3
    assert {one.error for one in first} == {
        "MCP server 'things' asked a person while several calls were out, and did not say for which; make one call at a time"
    }
    assert [one.requested.message for one in again] == [f"Are you sure{n}? (1)" for n in range(3)]
    assert json.loads(last.result) == [{"action": "accept", "content": {"sure": True}}, 7]  # Each call went out once.


def test_a_server_whose_questions_name_no_call_has_one_call_at_a_time():
    async def scene(port, server, _):
        await call(port, server, "asks", {"told": "first"})
        return await asyncio.gather(*(call(port, server, "asks", {"told": str(n)}) for n in range(3)))

    assert [one.requested.message for one in told("old stdio", scene)] == [f"Are you sure{n}? (1)" for n in range(3)]


def test_a_call_whose_turn_does_not_come_in_time_is_rejected():
    async def scene(port, server, _):
        await call(port, server, "asks")
        out = asyncio.create_task(call(port, server, "asks", {"quiet": "for ever"}))
        await asyncio.sleep(0)
        waits = await call(port, server, "asks", within_s=0.3)
        out.cancel()
        return waits

    waits = told("old stdio", scene)
    assert (waits.cause, waits.outcome) == (Cause.TIMEOUT, Outcome.REJECTED)
    assert "was not called: another call" in waits.message


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
