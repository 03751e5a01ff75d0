"""Waiting for events: on the event loop, woken by the run, and honest about who waits."""

from __future__ import annotations

import asyncio
import json
import threading
from uuid import uuid4

import pytest

from console.api.runs import waiting
from console.api.runs.waiting import LongPoll
from fabric.composition import engine as wiring
from fabric.models import Run
from fabric.services.people.tokens import token_revoke
from fabric.services.runs.control import run_cancel
from fabric.services.runs.start import run_start
from tests.console.live.sockets import on_a_loop
from tests.fabric.services.world import HeardNudge, ran

LONG = 20


class Answer:
    """One request through the whole application, as a server would make it."""

    def __init__(self, path, token, query="", body=None):
        self.status = 0
        self.headers = {}
        self.body = b""
        self._incoming = asyncio.Queue()
        sent = b"" if body is None else json.dumps(body).encode()
        self._incoming.put_nowait({"type": "http.request", "body": sent, "more_body": False})
        kind = [] if body is None else [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(sent))]
        self._scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": "GET" if body is None else "POST",
            "scheme": "http",
            "path": path,
            "raw_path": path.encode(),
            "query_string": query.encode(),
            "root_path": "",
            "headers": [(b"host", b"127.0.0.1:8420"), (b"authorization", f"Bearer {token}".encode()), *kind],
            "client": ("127.0.0.1", 1),
            "server": ("127.0.0.1", 8420),
        }

    async def _send(self, message):
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self.headers = {name.decode().lower(): value.decode() for name, value in message["headers"]}
        else:
            self.body += message.get("body", b"")

    async def come(self):
        from console.asgi import application

        await application(self._scope, self._incoming.get, self._send)
        return self

    def hang_up(self):
        self._incoming.put_nowait({"type": "http.disconnect"})

    def json(self):
        return json.loads(self.body)


@pytest.fixture
def started(small, actor):
    """A run that waits for a worker: it has no events yet."""
    return run_start(store=wiring.store(), nudge=HeardNudge(), actor=actor, fabric=small, text="Why?").run_id


def events_of(run_id, token, query=""):
    return Answer(f"/api/v1/runs/{run_id}/events", token, query)


async def waiters(count):
    """Until so many wait."""
    from console.asgi import application

    layer = application.application_mapping["http"]._app
    assert isinstance(layer, LongPoll)
    while layer._waiting != count:  # noqa: ASYNC110 - It counts; there is nothing to be told by.
        await asyncio.sleep(0.01)


def test_without_the_wish_it_answers_at_once(started, token):
    async def scene():
        return await events_of(started, token).come()

    answer = on_a_loop(scene, 10)
    assert answer.status == 200
    assert answer.json()["events"] == []


def test_it_answers_when_the_run_goes_on(started, token, actor):
    from fabric.management.run_follower import Following

    async def scene():
        answer = events_of(started, token, f"wait={LONG}")
        coming = asyncio.create_task(answer.come())
        await waiters(1)
        await asyncio.get_running_loop().run_in_executor(None, lambda: Following(actor, started).to_rest())
        return await coming

    began = asyncio.run(_now())
    answer = on_a_loop(scene, 60)
    assert answer.json()["events"][0]["payload"]["kind"] == "run_started"
    assert asyncio.run(_now()) - began < LONG


async def _now():
    return asyncio.get_running_loop().time()


ASKED = {"fabric": "small", "text": "Why?"}


def answer_while_it_runs(answer, actor):
    """The answer to a caller that waits, while the newest run is carried out."""
    from fabric.management.run_follower import Following

    async def scene():
        coming = asyncio.create_task(answer.come())
        await waiters(1)
        run_id = (await Run.objects.alatest("created_at")).id
        await asyncio.get_running_loop().run_in_executor(None, lambda: Following(actor, run_id).to_rest())
        return await coming

    return on_a_loop(scene, 60)


def test_a_start_that_waits_answers_with_the_end_of_the_run(small, actor, token):
    answer = answer_while_it_runs(Answer("/api/v1/runs", token, f"wait={LONG}", ASKED), actor)
    run = Run.objects.get()
    assert (answer.status, answer.headers["location"]) == (201, f"/api/v1/runs/{run.id}")
    assert (answer.json()["id"], answer.json()["state"]) == (run.id, "completed")
    assert answer.json()["outcome"]


def test_a_run_is_waited_for(started, actor, token):
    answer = answer_while_it_runs(Answer(f"/api/v1/runs/{started}", token, f"wait={LONG}"), actor)
    assert (answer.status, answer.json()["state"]) == (200, "completed")


def test_a_start_that_waits_too_short_shows_the_run_as_it_is(small, token):
    async def scene():
        return await Answer("/api/v1/runs", token, "wait=1", ASKED).come()

    answer = on_a_loop(scene, 15)
    assert (answer.status, answer.json()["state"]) == (201, "queued")


def test_a_start_that_is_refused_waits_for_nothing(small, token):
    async def scene():
        return await Answer("/api/v1/runs", token, f"wait={LONG}", {**ASKED, "fabric": "none"}).come()

    answer = on_a_loop(scene, 10)
    assert answer.status == 404
    assert not Run.objects.exists()


def test_it_gives_up_when_the_time_is_up(started, token):
    async def scene():
        return await events_of(started, token, "wait=1").come()

    answer = on_a_loop(scene, 15)
    assert (answer.status, answer.json()["events"]) == (200, [])


def test_there_is_nothing_to_wait_for_once_it_has_ended(small, actor, token):
    run = ran(actor, small)

    async def scene():
        return await events_of(run.id, token, f"after={run.last_seq}&wait={LONG}").come()

    assert on_a_loop(scene, 10).json()["ended"]


def test_who_hangs_up_waits_no_more(started, token):
    async def scene():
        answer = events_of(started, token, f"wait={LONG}")
        coming = asyncio.create_task(answer.come())
        await waiters(1)
        answer.hang_up()
        await coming
        await waiters(0)
        return answer

    assert on_a_loop(scene, 10).status == 0


def test_a_token_that_is_revoked_meanwhile_learns_nothing(started, token, actor):
    from fabric.management.run_follower import Following

    def revoked():
        token_revoke(actor=actor, name="all")
        run_cancel(store=wiring.store(), nudge=HeardNudge(), actor=actor, run_id=started)
        Following(actor, started).to_rest()

    async def scene():
        coming = asyncio.create_task(events_of(started, token, f"wait={LONG}").come())
        await waiters(1)
        await asyncio.get_running_loop().run_in_executor(None, revoked)
        return await coming

    assert on_a_loop(scene, 60).status == 401


def test_no_thread_is_held_while_many_wait(started, token):
    async def scene():
        coming = [asyncio.create_task(events_of(started, token, "wait=3").come()) for _ in range(40)]
        await waiters(40)
        held = threading.active_count()
        return held, await asyncio.gather(*coming)

    before = threading.active_count()
    held, answers = on_a_loop(scene, 40)
    assert {answer.status for answer in answers} == {200}
    assert held - before < 20


def test_above_the_bound_it_answers_at_once(started, token, monkeypatch):
    monkeypatch.setattr(waiting, "WAITERS_MAX", 0)

    async def scene():
        return await events_of(started, token, f"wait={LONG}").come()

    assert on_a_loop(scene, 10).status == 200


def test_an_unknown_run_is_not_waited_for(token, small):
    async def scene():
        return await events_of(uuid4(), token, f"wait={LONG}").come()

    assert on_a_loop(scene, 10).status == 404
    assert Run.objects.count() == 0
