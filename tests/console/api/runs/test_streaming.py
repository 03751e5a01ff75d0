"""A run's events as a stream, over the real server, read by the client httpx-sse. Also: sockets of programs."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager

import httpx
import httpx_sse
import pytest
from asgiref.sync import sync_to_async
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from console.api.runs import streaming
from console.live.admission import NOT_ALLOWED, SIGNED_OUT, places
from console.web_server import SERVED
from fabric.composition import engine as wiring
from fabric.core.people.scopes import Scope
from fabric.models import Member, Run
from fabric.services.people.tokens import token_revoke
from fabric.services.runs.start import run_start
from fabric.worker.nudges.listener import NullNudge
from tests.console.live.sockets import close_code, cookie_of, frame_from, on_a_loop, socket
from tests.console.live.test_reconnect import server, slow
from tests.fabric.services.world import NOTES, ran
from tests.people import member, token_of

__all__ = ["slow"]


@pytest.fixture(autouse=True)
def _free_places():
    places.clear()


@pytest.fixture
def queued(actor, small):
    """A run that no worker takes up."""
    return run_start(store=wiring.store(), nudge=NullNudge(), actor=actor, fabric=small, text="What?").run_id


def bearer(secret: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {secret}"}


def address(run_id: str, query: str = "") -> str:
    return f"/api/v1/runs/{run_id}/stream{query}"


@asynccontextmanager
async def caller(secret: str) -> AsyncIterator[httpx.AsyncClient]:
    """A program with a token, at a server with the product's own options."""
    async with server(http=SERVED["http"]) as base:
        home = base.replace("ws://", "http://")
        async with httpx.AsyncClient(base_url=home, headers=bearer(secret), timeout=30) as client:
            yield client


async def follow(
    client: httpx.AsyncClient, run_id: str, most: int = 10_000, query: str = "?content=omit", **headers: str
):
    """Takes so many events, then goes away without a word; or to the end."""
    taken = []
    async with (
        httpx_sse.aconnect_sse(client, "GET", address(run_id, query), headers=headers) as source,
        aclosing(source.aiter_sse()) as events,
    ):
        async for event in events:
            taken.append(event)
            if len(taken) == most:
                break
    return taken


def test_a_client_that_is_cut_again_and_again_gets_each_event_once_and_then_the_end(actor, slow, token):
    async def scene():
        engine = wiring.local_engine()
        await sync_to_async(engine.__enter__)()
        try:
            named = {"store": wiring.store(), "nudge": wiring.nudge(), "actor": actor, "fabric": slow}
            run_id = (await sync_to_async(run_start)(**named, text="What?", documents=(NOTES,))).run_id
            async with caller(token) as client:
                found = await follow(client, run_id, 3)
                for _ in range(4):
                    found += await follow(client, run_id, 3, **{"Last-Event-ID": found[-1].id})
                return found + await follow(client, run_id, **{"Last-Event-ID": found[-1].id}), run_id
        finally:
            await sync_to_async(engine.__exit__)(None, None, None)

    found, run_id = on_a_loop(scene)
    last = Run.objects.get(id=run_id).last_seq
    *events, end = found
    assert [int(event.id) for event in events] == list(range(1, last + 1))
    assert (end.event, end.json()) == ("end", {"state": "completed", "last_seq": last})
    assert [event.json()["kind"] for event in events] == [event.event for event in events]
    assert set(events[0].json()) == {"seq", "kind", "at", "summary", "id", "trace_id", "span_id", "parent_span_id", "timestamp", "source", "destination", "payload", "content"}  # fmt: skip
    assert [event.retry for event in found[:3]] == [2_000, None, None]


def test_events_of_the_stream_are_those_of_the_list(actor, small, program):
    run = ran(actor, small)
    listed = program.get(f"/api/v1/runs/{run.id}/events").json()["events"]
    answer = program.get(address(run.id))
    assert answer.headers["Content-Type"] == "text/event-stream"
    data = [json.loads(line[6:]) for line in answer.getvalue().decode().splitlines() if line.startswith("data: ")]
    assert data[:-1] == listed
    assert data[-1] == {"state": "completed", "last_seq": run.last_seq}


def test_the_header_counts_before_the_parameter(actor, small, program):
    run = ran(actor, small)
    said = (
        program.get(address(run.id, "?after=3"), headers={"Last-Event-ID": str(run.last_seq - 1)}).getvalue().decode()
    )
    assert [line for line in said.splitlines() if line.startswith("id:")] == [f"id: {run.last_seq}"] * 2


def test_in_silence_a_comment_is_sent(queued, token, monkeypatch):
    monkeypatch.setattr(streaming, "HEARTBEAT_S", 0.05)
    monkeypatch.setattr(streaming, "RECHECK_S", 0.05)

    async def scene():
        async with caller(token) as client, client.stream("GET", address(queued)) as answer:
            lines = answer.aiter_lines()
            return [await anext(lines) for _ in range(5)]

    assert on_a_loop(scene) == [":", "", ":", "", ":"]


@pytest.mark.parametrize("change", ["token", "right"])
def test_it_ends_soon_after_the_token_or_the_right_is_gone(actor, queued, monkeypatch, change):
    monkeypatch.setattr(streaming, "RECHECK_S", 0.05)
    vera = member("vera", "viewer")
    secret = token_of(vera, "follower", [Scope.READ])

    async def scene():
        async with caller(secret) as client, client.stream("GET", address(queued)) as answer:
            assert answer.status_code == 200
            if change == "token":
                await sync_to_async(token_revoke)(actor=actor, name="follower")
            else:
                await sync_to_async(Member.objects.filter(user=vera).delete)()
            return await asyncio.wait_for(answer.aread(), 20)

    assert on_a_loop(scene) == b":\n\n"


def test_a_caller_has_so_many_open_and_a_place_is_free_after_each(queued, token, monkeypatch):
    monkeypatch.setattr(places, "most", 2)

    async def scene():
        async with caller(token) as client:
            async with client.stream("GET", address(queued)) as one, client.stream("GET", address(queued)) as two:
                third = await client.get(address(queued))
                assert (one.status_code, two.status_code, third.status_code) == (200, 200, 429)
                assert "has 2 streams and sockets open: close one first" in third.json()["detail"]
            while (
                again := await client.send(client.build_request("GET", address(queued)), stream=True)
            ).status_code != 200:
                await again.aclose()
            await again.aclose()
            return again.status_code

    assert on_a_loop(scene) == 200


def test_a_server_that_stops_does_not_wait_for_it(queued, token):
    async def scene():
        async with server(http=SERVED["http"]) as base:
            client = httpx.AsyncClient(base_url=base.replace("ws://", "http://"), headers=bearer(token), timeout=30)
            answer = await client.send(client.build_request("GET", address(queued)), stream=True)
            assert answer.status_code == 200
        body = await answer.aread()
        await client.aclose()
        return body

    assert on_a_loop(scene, timeout_s=8) == b":\n\n"


def test_a_signed_in_page_follows_too(browser, queued):
    async def scene():
        async with server(http=SERVED["http"]) as base:
            home = base.replace("ws://", "http://")
            async with (
                httpx.AsyncClient(base_url=home, headers={"Cookie": cookie_of(browser)}) as client,
                client.stream("GET", address(queued)) as answer,
            ):
                return answer.status_code

    assert on_a_loop(scene) == 200


@pytest.mark.parametrize(
    ("query", "headers", "status", "said"),
    [
        ("?after=-1", {}, 422, "After is too small"),
        ("?after=x", {}, 422, "After must be a whole number"),
        ("?content=some", {}, 422, "Content must be one of"),
        ("?limit=1", {}, 422, "there is no such parameter"),
        ("", {"Last-Event-ID": "x"}, 422, "must be a whole number"),
    ],
)
def test_bad_input_is_one_sentence(queued, program, query, headers, status, said):
    answer = program.get(address(queued, query), headers=headers)
    assert answer.status_code == status
    assert said in answer.json()["detail"]


def test_without_the_scope_or_the_run_there_is_none(actor, queued, client):
    secret = token_of(member("vera", "editor"), "starter", [Scope.START])
    assert client.get(address(queued), headers=bearer(secret), HTTP_HOST="127.0.0.1").status_code == 403
    reader = token_of(member("rosa", "editor"), "reader", [Scope.READ])
    unknown = address("019a8b5e-4a53-7c1e-9a64-3f7d2b1c0e55")
    assert client.get(unknown, headers=bearer(reader), HTTP_HOST="127.0.0.1").status_code == 404


def test_contents_are_withheld_from_who_may_not_read_them_also_while_it_goes_on(actor, slow):
    secret = token_of(member("vera", "viewer"), "follower", [Scope.READ])

    async def scene():
        engine = wiring.local_engine()
        await sync_to_async(engine.__enter__)()
        try:
            named = {"store": wiring.store(), "nudge": wiring.nudge(), "actor": actor, "fabric": slow}
            run_id = (await sync_to_async(run_start)(**named, text="What?", documents=(NOTES,))).run_id
            async with caller(secret) as client:
                return [event.json() for event in await follow(client, run_id, query="")][:-1]
        finally:
            await sync_to_async(engine.__exit__)(None, None, None)

    contents = [event["content"] for event in on_a_loop(scene) if event["content"] is not None]
    assert len(contents) > 5
    assert {tuple(content) for content in contents} == {("withheld", "bytes")}


# -- the socket takes tokens too ---------------------------------------------------------------------------------------


def test_a_program_follows_by_the_socket_with_its_token_and_no_origin(queued, token):
    async def scene():
        async with (
            server() as base,
            connect(f"{base}/live/runs/{queued}", additional_headers=bearer(token)) as followed,
        ):
            return json.loads(await asyncio.wait_for(followed.recv(), 20))

    assert on_a_loop(scene)["after"] == 0


def test_a_socket_without_origin_and_token_is_refused(queued, browser):
    async def scene():
        async with server() as base:
            with pytest.raises(InvalidStatus) as refused:
                await connect(f"{base}/live/runs/{queued}", additional_headers={"Cookie": cookie_of(browser)})
            return refused.value.response.status_code

    assert on_a_loop(scene) == 403


@pytest.mark.parametrize(
    ("scopes", "header", "code"),
    [((Scope.START,), "", NOT_ALLOWED), ((Scope.READ,), "Bearer nonsense", SIGNED_OUT), ((Scope.READ,), "Basic x", SIGNED_OUT)],
)  # fmt: skip
def test_a_token_that_may_not_read_closes_the_socket_whatever_cookie_comes_with_it(
    queued, browser, scopes, header, code
):
    secret = token_of(member("vera", "editor"), "one", scopes)

    async def scene():
        sock = socket(f"/live/runs/{queued}", cookie=cookie_of(browser), authorization=header or f"Bearer {secret}")
        await sock.connect()
        return await close_code(sock)

    assert on_a_loop(scene) == code


def test_a_page_with_a_cookie_follows_as_before(queued, browser):
    async def scene():
        sock = socket(f"/live/runs/{queued}", cookie=cookie_of(browser))
        await sock.connect()
        frame = await frame_from(sock)
        await sock.disconnect()
        return frame

    assert on_a_loop(scene)["after"] == 0
