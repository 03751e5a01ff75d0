"""Every tool port keeps one contract: the virtual world's tools in memory, callables, HTTP tools, HTTP tools from OpenAPI, tools of MCP servers.

Each is asked for the same bookings of the same service (``books.py``), and what it says of a call is compared with what the service did.
"""

import asyncio
import json
import os
import time
from contextlib import contextmanager

import pytest

from fabric.core.events.inputs import CallFailed, ToolFinished
from fabric.core.spec.tools import ToolSpec
from fabric.core.values.saga import Outcome
from fabric.core.values.taxonomy import Cause
from fabric.http.transport import Gate
from fabric.services.importers.openapi import build_tools, read_document
from fabric.tools.functions import named_tools as operators
from fabric.tools.functions.permits import Permits
from fabric.tools.runner import ToolRunner
from simulator.cast.services import BOOK, Service
from simulator.endpoint import ScriptedEndpoint, Step, hang, hang_up
from tests.fabric.tools.asking import request
from tests.fabric.tools.books import PARAMETERS, REFUSED, VARIABLE, Books
from tests.fabric.tools.mcp import worlds as mcp_worlds

MODULE = ("-m", "tests.fabric.tools.books")
FAULTS = {"refused": "effect_refused", "lost": "effect_lost_answer", "slow": "effect_lost_answer"}
"""What strikes in the virtual world where a booking is of such a kind. An answer that is lost there is lost until the deadline."""


def spec(**changed):
    return ToolSpec(**({"name": "book", "description": "Books.", "parameters": PARAMETERS} | changed))


class InMemory:
    """The tools of the virtual world, whose clock does not pass: a call without an answer before the deadline is over at once."""

    def __init__(self, books):
        self._kind = ""
        self._service = Service(lambda fault: fault == FAULTS.get(self._kind), lambda: False)
        self._books = books

    async def run(self, asked):
        self._kind = asked.args["kind"]
        served = self._service.run(asked)
        self._books.path.write_text("".join(f"{key}\n" for key in self._service.done))
        if not served.silent:
            return served.result
        ids = {"command_id": asked.command_id, "attempt": asked.attempt}
        return CallFailed(**ids, cause=Cause.TIMEOUT, message="no answer before the call's deadline")

    async def end(self):
        pass

    def close(self):
        pass


@contextmanager
def in_memory(books):
    yield InMemory(books), {"tool": spec(name=BOOK, kind="callable", target="the-world")}


@contextmanager
def callables(books):
    named = operators.build_tools({"book": "tests.fabric.tools.books.book"})
    environment = {**os.environ, VARIABLE: str(books.path)}
    permits = Permits(variables=frozenset({VARIABLE}), environment=environment, tools=named)
    yield ToolRunner(permits=permits), {"tool": spec(kind="callable", target="book", effect="idempotent")}


def _endpoint(books):
    """The service over HTTP."""

    def reply(received):
        try:
            made = books.book(received.idempotency_key, received.body["kind"])
        except ValueError as error:
            return Step(status=409, body=json.dumps({"detail": str(error)}).encode())
        return {"lost": hang_up(), "slow": hang()}.get(received.body["kind"], Step(body=json.dumps(made).encode()))

    return ScriptedEndpoint(reply)


@contextmanager
def http(books):
    with _endpoint(books) as endpoint:
        port = ToolRunner(gate=Gate.trust_hosts([endpoint.authority]))
        yield port, {"tool": spec(kind="http", target=f"http://{endpoint.authority}/bookings", method="POST")}


@contextmanager
def openapi(books):
    body = {"required": True, "content": {"application/json": {"schema": PARAMETERS}}}
    operation = {"operationId": "book", "summary": "Books.", "requestBody": body, "responses": {}}
    text = json.dumps(
        {"openapi": "3.1.0", "info": {"title": "Rooms", "version": "1"}, "paths": {"/bookings": {"post": operation}}}
    )
    with _endpoint(books) as endpoint:
        (made,) = build_tools(read_document(text, origin="rooms.json"), base=f"http://{endpoint.authority}").tools
        yield ToolRunner(gate=Gate.trust_hosts([endpoint.authority])), {"tool": made.tool}


@contextmanager
def mcp_command(books):
    server = mcp_worlds.stdio(args=MODULE, variables=(VARIABLE,))
    port = mcp_worlds.runner(server, VARIABLE, **{VARIABLE: str(books.path)})
    yield port, {"tool": spec(kind="mcp", target="things/book"), "server": server}


@contextmanager
def mcp_address(books):
    with mcp_worlds.served(module=MODULE, **{VARIABLE: str(books.path)}) as where:
        port = ToolRunner(gate=Gate.trust_hosts([where]), permits=Permits())
        yield port, {"tool": spec(kind="mcp", target="things/book"), "server": mcp_worlds.http(where)}


REAL = (callables, http, openapi, mcp_command, mcp_address)
TOLD_AS = {mcp_command: Outcome.UNKNOWN, mcp_address: Outcome.UNKNOWN}
"""What an error of the tool's own says of the world, where that is not *rejected*: an MCP server's ``isError`` says nothing of how far it had come."""


class Booking:
    """A port that is open, and the service behind it."""

    def __init__(self, way, port, given, books):
        self.way, self.books, self._port, self._given = way, books, port, given

    async def book(self, kind, key="k1", *, within_s=30.0, **changed):
        """One booking."""
        args = {"kind": kind}
        if "body" in (self._given["tool"].parameters or {}).get("properties", {}):
            args = {"body": args}
        return await self._port.run(
            request(**self._given, args=args, idempotency_key=key, within_s=within_s, **changed)
        )


@pytest.fixture
def booking(request, tmp_path):
    """Plays a scene against a way to the service."""
    books, way = Books(tmp_path / "books"), request.param

    def play(scene):
        with way(books) as (port, given):
            return mcp_worlds.played(lambda: scene(Booking(way, port, given, books)), port, within_s=120)

    play.way = way
    return play


def named(way):
    return way.__name__


each = pytest.mark.parametrize("booking", [in_memory, *REAL], indirect=True, ids=named)
each_real = pytest.mark.parametrize("booking", REAL, indirect=True, ids=named)


def done(found):
    """Return True if a result says that it was done; None: it does not know."""
    if found.outcome is None:
        return isinstance(found, ToolFinished) and not found.error
    return {Outcome.ANSWERED: True, Outcome.REJECTED: False}.get(found.outcome)


@each
def test_what_is_answered_is_the_result_and_was_done_once_a_key(booking):
    async def scene(to):
        first = await to.book("room", command_id="c7", attempt=3)
        again = await to.book("room")
        other = await to.book("room", "k2")
        return (first, again, other), to.books.keys()

    (first, again, other), keys = booking(scene)
    assert (first.command_id, first.attempt, first.error, first.sanitized, first.code) == ("c7", 3, "", False, "")
    assert [done(one) for one in (first, again, other)] == [True] * 3
    assert first.result == again.result != other.result
    assert keys == ["k1", "k2"]


@each
def test_an_error_of_the_tools_own_is_data_and_nothing_was_done(booking):
    async def scene(to):
        return await to.book("refused", attempt=2), to.books.keys()

    found, keys = booking(scene)
    assert isinstance(found, ToolFinished)
    assert (found.command_id, found.attempt, found.result, keys) == ("t1", 2, None, [])
    assert "refused" in found.error or REFUSED in found.error
    assert found.outcome in (TOLD_AS.get(booking.way, Outcome.REJECTED), None)
    assert done(found) is not True


@each
def test_an_answer_that_is_lost_leaves_the_outcome_unknown_and_the_next_attempt_under_its_key_does_nothing_twice(
    booking,
):
    async def scene(to):
        lost = await to.book("lost")
        if to.way is not mcp_address:  # Its server went with the answer.
            again = await to.book("room", attempt=2)
            assert done(again), again
        return lost, to.books.keys()

    lost, keys = booking(scene)
    assert (lost.outcome, lost.command_id, lost.attempt, keys) == (Outcome.UNKNOWN, "t1", 1, ["k1"])
    assert not (isinstance(lost, ToolFinished) and not lost.error)


@each
def test_what_does_not_answer_is_left_at_the_deadline_and_its_outcome_is_unknown(booking):
    async def scene(to):
        await to.book("room", "warm")
        began = time.monotonic()
        found = await to.book("slow", within_s=3.0)
        return found, time.monotonic() - began, to.books.keys()

    found, took_s, keys = booking(scene)
    assert isinstance(found, CallFailed)
    assert (found.cause, found.outcome) == (Cause.TIMEOUT, Outcome.UNKNOWN)
    assert (found.billed, found.never_sent) == (False, False)
    assert keys == ["warm", "k1"]
    assert took_s < 20
    assert found.message
    assert "\n" not in found.message


@each_real
def test_nothing_is_sent_after_the_deadline(booking):
    async def scene(to):
        return await to.book("room", within_s=-1.0), to.books.keys()

    found, keys = booking(scene)
    assert (found.cause, found.never_sent, done(found), keys) == (Cause.TIMEOUT, True, False, [])


@each_real
def test_arguments_that_do_not_fit_are_told_and_nothing_was_done(booking):
    async def scene(to):
        return await to.book(7), to.books.keys()

    found, keys = booking(scene)
    assert isinstance(found, ToolFinished)
    assert "the arguments do not fit" in found.error
    assert (done(found), keys) == (False, [])


@each_real
def test_a_result_that_is_too_large_is_told_and_was_done(booking):
    async def scene(to):
        return await to.book("large"), to.books.keys()

    found, keys = booking(scene)
    assert isinstance(found, ToolFinished)
    assert "ask for less" in found.error
    assert (found.result, done(found), keys) == (None, True, ["k1"])


@each_real
def test_text_that_no_database_takes_is_mended_and_told(booking):
    async def scene(to):
        return await to.book("unfit")

    found = booking(scene)
    assert "a\ufffdb" in json.dumps(found.result, ensure_ascii=False)
    assert "\0" not in json.dumps(found.result, ensure_ascii=False)
    assert found.sanitized


@each
def test_calls_side_by_side_each_have_their_own_answer(booking):
    async def scene(to):
        names = [f"n{n}" for n in range(8)]
        found = await asyncio.gather(*(to.book("room", name, command_id=name) for name in names))
        return names, [one.command_id for one in found], [one.result for one in found], to.books.keys()

    names, ids, results, keys = booking(scene)
    assert ids == names
    assert sorted(set(keys)) == names
    assert len({json.dumps(one) for one in results}) == len(names)


@each_real
def test_a_call_that_is_let_go_of_raises_nothing_but_that_and_ends_no_other(booking):
    async def scene(to):
        await to.book("room", "warm")
        os.mkfifo(to.books.bell)
        out = asyncio.create_task(to.book("slow", "k2"))
        await asyncio.to_thread(to.books.bell.read_text)
        out.cancel()
        with pytest.raises(asyncio.CancelledError):
            await out
        return await to.book("room", "k3")

    assert done(booking(scene))
