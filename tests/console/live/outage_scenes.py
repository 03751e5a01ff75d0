"""The scenes of ``test_outages``, each played in a process of its own: a feeder, a server, a page, and something that goes away."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import sys
from collections.abc import Callable, Coroutine
from typing import Any

import django

PATIENCE_S = 25.0
BACK_OFF_S = 0.1


class Page:
    """What the page's script does: a cursor, rows in order, and coming back after the codes that ask for it."""

    def __init__(self, address: str, origin: str, cookie: str, after: int = 0) -> None:
        self.address, self.origin, self.cookie = address, origin, cookie
        self.cursor, self.panels = after, ""
        self.shown: list[int] = []
        self.badge = ""
        self.codes: list[int] = []
        self.socket: Any = None
        self._news = asyncio.Event()

    async def live(self) -> None:
        """Follows for ever."""
        from websockets.asyncio.client import connect
        from websockets.exceptions import ConnectionClosed, InvalidHandshake
        from websockets.typing import Origin

        while True:
            url = f"{self.address}?after={self.cursor}&panels={self.panels}"
            try:
                given = {"Cookie": self.cookie}
                async with connect(url, origin=Origin(self.origin), additional_headers=given) as self.socket:
                    async for text in self.socket:
                        self.take(json.loads(text))
            except ConnectionClosed as closed:
                self.codes.append(closed.rcvd.code if closed.rcvd else 1006)
            except (OSError, InvalidHandshake, EOFError):
                self.codes.append(1006)
            assert not [code for code in self.codes if code >= 4000], self.codes
            await asyncio.sleep(BACK_OFF_S)

    def take(self, frame: dict) -> None:
        assert frame["after"] == self.cursor, (frame["after"], self.cursor)
        rows = [int(seq) for seq in re.findall(r'<tr[^>]* data-seq="(\d+)"', frame["content"])]
        link = re.search(r'data-first="(\d+)" data-last="(\d+)"', frame["content"])
        if link:
            rows = [*range(int(link[1]), int(link[2]) + 1), *rows]
        assert rows == list(range(self.cursor + 1, frame["seq"] + 1))
        self.shown += rows
        self.cursor, self.panels = frame["seq"], frame["panels"]
        self._news.set()

    async def has(self, seq: int) -> None:
        """Waits until it shows everything up to this event."""
        async with asyncio.timeout(PATIENCE_S):
            while self.cursor < seq:
                self._news.clear()
                await self._news.wait()


class Stage:
    """The feeder, the server and the page of a scene."""

    def __init__(self) -> None:
        from django.contrib.auth.models import User

        from fabric import wiring
        from fabric.services.workspaces import login_link_create, workspace_default
        from simulator.bench import flow5
        from simulator.bench.live import Feeder, Server

        workspace = workspace_default()
        self.feeder = Feeder(wiring.store(), wiring._local_nudge(), workspace, flow5_revision(workspace))
        self.server = Server()
        self.server.start()
        user = User.objects.create_user("viewer")
        self.cookie = self.server.signed_in(login_link_create(user))
        self.flow5 = flow5

    def page(self, after: int = 0) -> Page:
        base = f"127.0.0.1:{self.server.port}"
        return Page(f"ws://{base}/live/runs/{self.feeder.run_id}", f"http://{base}", self.cookie, after)

    async def feed(self, *counts: int) -> None:
        for count in counts:
            await asyncio.to_thread(self.feeder.feed, count)
            await asyncio.to_thread(self.feeder.settle, 1)


def flow5_revision(workspace: str) -> str:
    from fabric.models import Fabric, Revision
    from simulator.bench.flow5 import SPEC

    fabric = Fabric.objects.create(workspace_id=workspace, name=SPEC.name, title=SPEC.title)
    body = SPEC.model_dump_json()
    return Revision.objects.create(workspace_id=workspace, fabric=fabric, number=1, digest=SPEC.digest(), spec=body).id


# -- the scenes --------------------------------------------------------------------------------------------------------


async def restarted_server(stage: Stage, page: Page) -> None:
    """Stopped in good order, with events while it is down."""
    await asyncio.to_thread(stage.server.stop)
    await stage.feed(7, 30)
    await asyncio.to_thread(stage.server.start)
    await page.has(stage.feeder.seq)
    assert 1012 in page.codes


async def killed_server(stage: Stage, page: Page) -> None:
    """As the kernel does when memory is short."""
    await asyncio.to_thread(stage.server.stop, signal.SIGKILL)
    await stage.feed(7, 400)
    await asyncio.to_thread(stage.server.start)
    await page.has(stage.feeder.seq)


async def sleeping_laptop(stage: Stage, page: Page) -> None:
    """The lid closes without a word, the run goes on, and much later the page comes back from its cursor; thrice."""
    for missed in (5, 150, 2_000):
        assert page.socket is not None
        page.socket.transport.abort()
        await stage.feed(*[50] * (missed // 50), missed % 50 or 50)
        await page.has(stage.feeder.seq)


async def database_away(stage: Stage, page: Page) -> None:
    """The server's every connection is cut while it reads and waits; events go on as soon as they can be written."""
    from fabric.adapters.nudge import NullNudge

    for _ in range(3):
        await asyncio.to_thread(_cut)
        await stage.feed(3, 20)
        await page.has(stage.feeder.seq)
    # The poll must have survived too: these are written by somebody whose nudges nobody hears.
    stage.feeder._writer._nudge = NullNudge()
    await stage.feed(11)
    await page.has(stage.feeder.seq)


def _cut() -> None:
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )


async def flushed_redis(stage: Stage, page: Page) -> None:
    """Everything in it is forgotten; the page does not notice, and a sign-out still closes it."""
    import redis

    with redis.Redis.from_url(os.environ["CHANNEL_URL"]) as client:
        client.flushall()
        await stage.feed(5, 60)
        await page.has(stage.feeder.seq)
        assert not page.codes


async def redis_away(stage: Stage, page: Page) -> None:
    """It ends for good; the page goes on, and others come."""
    import redis

    with redis.Redis.from_url(os.environ["CHANNEL_URL"]) as client:
        client.shutdown(nosave=True)
    await stage.feed(5, 60)
    await page.has(stage.feeder.seq)
    assert not page.codes
    late = stage.page()
    following = asyncio.create_task(late.live())
    await late.has(stage.feeder.seq)
    following.cancel()


SCENES: dict[str, Callable[[Stage, Page], Coroutine[Any, Any, None]]] = {
    scene.__name__: scene
    for scene in (restarted_server, killed_server, sleeping_laptop, database_away, flushed_redis, redis_away)
}


async def play(name: str, stage: Stage) -> None:
    await stage.feed(20)
    page = stage.page()
    following = asyncio.create_task(page.live())
    await page.has(20)
    scene = asyncio.create_task(SCENES[name](stage, page))
    done, _ = await asyncio.wait({scene, following}, return_when=asyncio.FIRST_COMPLETED)
    for task in done:
        task.result()
    following.cancel()
    assert page.shown == list(range(1, stage.feeder.seq + 1))


if __name__ == "__main__":
    django.setup()
    on = Stage()
    try:
        asyncio.run(play(sys.argv[1], on))
    finally:
        on.server.stop(signal.SIGKILL)
    print("each once, in order")
