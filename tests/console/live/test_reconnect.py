"""A real server on loopback, a run that really runs, and a page that keeps losing its socket."""

from __future__ import annotations

import asyncio
import json
import socket as sockets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import uvicorn
from asgiref.sync import sync_to_async
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed
from websockets.typing import Origin

from console.live import consumer
from console.live.admission import places
from fabric.composition import engine as wiring
from fabric.models import Run
from fabric.services.fabrics.revisions import fabric_publish
from fabric.services.runs.start import run_start
from tests.console.live.sockets import ORIGIN, cookie_of, on_a_loop, rows_of
from tests.fabric.services.world import NOTES, SMALL

SLOW = SMALL.replace("name: small", "name: slow").replace(
    "    provider: scripted\n", "    provider: scripted\n    options: {delay_s: 0.15}\n"
)


@pytest.fixture
def slow(actor):
    return fabric_publish(actor=actor, source=SLOW).name


@asynccontextmanager
async def server(**options: Any) -> AsyncIterator[str]:
    """The whole application on a port of its own; its WebSocket address. ``options``: of uvicorn."""
    from console.asgi import application

    listener = sockets.create_server(("127.0.0.1", 0))
    options = {"log_level": "warning", "lifespan": "off", "ws": "websockets-sansio"} | options
    running = uvicorn.Server(uvicorn.Config(application, **options))
    serving = asyncio.create_task(running.serve(sockets=[listener]))
    try:  # The listener is there already: who comes early waits in its queue.
        yield f"ws://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        running.should_exit = True
        await serving


class Page:
    """The page's script keeps its cursor, its panels and its rows."""

    def __init__(self, run_id: str, cookie: str) -> None:
        self.run_id = run_id
        self.headers = {"Cookie": cookie}
        self.cursor, self.panels = 0, ""
        self.rows: list[int] = []
        self.code = 0

    async def follow(self, base: str, frames: int) -> None:
        """Connects from the cursor and takes so many frames, then goes away without a word; or is told that it is over."""
        address = f"{base}/live/runs/{self.run_id}?after={self.cursor}&panels={self.panels}"
        connection = await connect(address, origin=Origin(ORIGIN), additional_headers=self.headers)
        try:
            for _ in range(frames):
                frame = json.loads(await asyncio.wait_for(connection.recv(), 20))
                assert frame["after"] == self.cursor
                assert rows_of(frame) == list(range(self.cursor + 1, frame["seq"] + 1))
                self.rows += rows_of(frame)
                self.cursor, self.panels = frame["seq"], frame["panels"]
        except ConnectionClosed as closed:
            self.code = closed.rcvd.code if closed.rcvd else 1006
        finally:
            connection.transport.abort()


def test_twenty_reconnects_and_a_server_restart_while_a_run_runs(browser, actor, slow):
    cookie = cookie_of(browser)

    async def scene():
        engine = wiring.local_engine()
        await sync_to_async(engine.__enter__)()
        try:
            started = await sync_to_async(run_start)(
                store=wiring.store(),
                nudge=wiring.nudge(),
                actor=actor,
                fabric=slow,
                text="What do the notes say?",
                documents=(NOTES,),
            )
            page = Page(started.run_id, cookie)
            for half in range(2):
                async with server() as base:
                    for _ in range(10):
                        await page.follow(base, 1)
                    if half:
                        await page.follow(base, 1_000)
            return page, await sync_to_async(Run.objects.get)(id=started.run_id)
        finally:
            await sync_to_async(engine.__exit__)(None, None, None)

    page, run = on_a_loop(scene)
    assert run.state == "completed"
    assert page.rows == list(range(1, run.last_seq + 1))
    assert page.code == consumer.ENDED


def test_many_pages_of_one_run_see_the_same(browser, actor, slow, monkeypatch):
    monkeypatch.setattr(places, "most", 100)
    cookie = cookie_of(browser)

    async def scene():
        engine = wiring.local_engine()
        await sync_to_async(engine.__enter__)()
        try:
            started = await sync_to_async(run_start)(
                store=wiring.store(), nudge=wiring.nudge(), actor=actor, fabric=slow, text="What?", documents=(NOTES,)
            )
            pages = [Page(started.run_id, cookie) for _ in range(40)]
            async with server() as base:
                await asyncio.gather(*(page.follow(base, 1_000) for page in pages))
            return pages, await sync_to_async(Run.objects.get)(id=started.run_id)
        finally:
            await sync_to_async(engine.__exit__)(None, None, None)

    pages, run = on_a_loop(scene)
    assert run.last_seq > 10
    assert {tuple(page.rows) for page in pages} == {tuple(range(1, run.last_seq + 1))}
