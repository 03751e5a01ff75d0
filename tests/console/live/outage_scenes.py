"""The scenes of ``test_outages``, played one after the other in a process of their own: a feeder, servers, pages, and what happens to them.

Each has a run, a feeder and people of its own; the servers are the same for all, and are started anew after a scene that failed.
"""

from __future__ import annotations

import asyncio
import os
import resource
import signal
import sys
import traceback
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack, ExitStack
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import django

from tests.benchmarks.throughput.spec import SPEC
from tests.console.live.following import Page, following
from tests.console.live.proxy import Proxy, proxy_to


def _member(name: str) -> Any:
    """A user who is a member. The module has models, which are there once Django is set up."""
    from tests.people import member

    return member(name)


SAID = "scene:"
WELL = "each once, in order"
"""What is said of a scene in which all was well."""
PEOPLE = 50
SOCKETS_EACH = 20
"""Of one user, at most as many as the console lets one have."""


class House:
    """The scenes share a fabric, and two servers of one public address over the same database."""

    def __init__(self) -> None:
        from fabric.services.actors import workspace_default

        # A thousand pages and their server's ends are more descriptors than some systems give unasked.
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        self.workspace = workspace_default()
        self.revision = flow5_revision(self.workspace)
        self._open = ExitStack()
        self._servers: dict[str, Any] = {}

    @property
    def server(self) -> Any:
        """The one that most scenes are played before."""
        from tests.benchmarks.console.live import Server

        return self._servers.get("first") or self._started("first", Server())

    def second(self) -> Any:
        """Another one."""
        from tests.benchmarks.console.live import Server

        return self._servers.get("second") or self._started("second", Server(self.server))

    def _started(self, name: str, server: Any) -> Any:
        server.start()
        self._open.callback(server.stop, signal.SIGKILL)
        self._servers[name] = server
        return server

    def close(self) -> None:
        """Ends the servers; who asks for one again gets a new one."""
        self._servers.clear()
        self._open.close()


class Stage:
    """A run with its feeder, a browser that looks at it, and what else a scene asks for."""

    def __init__(self, stack: ExitStack, house: House, scene: str) -> None:

        from fabric.composition import engine as wiring
        from tests.benchmarks.console.live import Feeder

        self._stack = stack
        self._house = house
        self.feeder = Feeder(wiring.store(), wiring._local_nudge(), house.workspace, house.revision)
        stack.callback(self.feeder.close)
        self.server = house.server
        self.second = house.second
        self.user = _member(f"viewer of {scene}")
        self.cookie = self.sign_in(self.user)

    def proxied(self) -> tuple[Any, Proxy]:
        """Another server, which reaches its database through a proxy."""
        from tests.benchmarks.console.live import Server

        parts = urlsplit(os.environ["DATABASE_URL"])
        proxy = self._stack.enter_context(proxy_to(parts.hostname or "127.0.0.1", parts.port or 5432))
        who = parts.netloc.rpartition("@")[0]
        near = parts._replace(netloc=f"{who}@127.0.0.1:{proxy.port}" if who else f"127.0.0.1:{proxy.port}")
        server = Server(self.server, DATABASE_URL=urlunsplit(near))
        server.start()
        self._stack.callback(server.stop, signal.SIGKILL)
        return server, proxy

    def sign_in(self, user: Any) -> str:
        """The cookies of a member's browser."""
        from fabric.services.actors import login_link_create

        return str(self.server.signed_in(login_link_create(user)))

    def page(self, server: Any = None, cookie: str = "") -> Page:
        """A page of the run on a server."""
        address = f"ws://127.0.0.1:{(server or self.server).port}/live/runs/{self.feeder.run_id}"
        return Page(address, self.server.origin, cookie or self.cookie)

    async def feed(self, *counts: int) -> int:
        """So many events a commit; the journal's last seq."""
        for count in counts:
            await asyncio.to_thread(self.feeder.feed, count)
            await asyncio.to_thread(self.feeder.settle, 1)
        return self.feeder.seq


def flow5_revision(workspace: str) -> str:
    from fabric.models import Fabric, Revision

    fabric = Fabric.objects.create(workspace_id=workspace, name=SPEC.name, title=SPEC.title)
    body = SPEC.model_dump_json()
    return Revision.objects.create(workspace_id=workspace, fabric=fabric, number=1, digest=SPEC.digest(), spec=body).id


# -- what goes away: the server, the laptop's lid, the database, Redis ---------------------------------------------------


async def restarted_server(stage: Stage) -> None:
    """Stopped in good order, with events while it is down."""
    async with following(stage.page()) as page:
        await page.has(await stage.feed(20))
        await asyncio.to_thread(stage.server.stop)
        await stage.feed(7, 30)
        await asyncio.to_thread(stage.server.start)
        await whole(stage, page)
        assert 1012 in page.codes


async def killed_server(stage: Stage) -> None:
    """As the kernel does when memory is short."""
    async with following(stage.page()) as page:
        await page.has(await stage.feed(20))
        await asyncio.to_thread(stage.server.stop, signal.SIGKILL)
        await stage.feed(7, 400)
        await asyncio.to_thread(stage.server.start)
        await whole(stage, page)


async def sleeping_laptop(stage: Stage) -> None:
    """The lid closes without a word, the run goes on, and much later the page comes back from its cursor; thrice."""
    async with following(stage.page()) as page:
        await page.has(await stage.feed(20))
        for missed in (5, 150, 2_000):
            assert page.socket is not None
            page.socket.transport.abort()
            await page.has(await stage.feed(*[50] * (missed // 50), missed % 50 or 50))
        await whole(stage, page)


async def burst(stage: Stage) -> None:
    """10,000 events at once: for who watches, and for who comes back to them."""
    async with following(stage.page()) as watching, following(stage.page()) as away:
        for page in (watching, away):
            await page.has(await stage.feed(20))
        await asyncio.to_thread(stage.server.stop)
        before = away.rows
        await stage.feed(*[100] * 100)
        await asyncio.to_thread(stage.server.start)
        await whole(stage, away)
        shown = away.rows - before
        # One look of the new server, seldom a second one where it was slow to begin: each is a link and a hundred rows.
        assert 100 <= shown <= 300, f"{shown} rows came"
        await stage.feed(*[100] * 100)
        await whole(stage, watching)


async def thousand_reconnects(stage: Stage) -> None:
    """One page that loses its socket after every frame, while events go on."""
    page = stage.page()
    feeding = asyncio.create_task(stage.feed(*[1] * 1_000))
    for _ in range(1_000):
        async with page.connected() as socket:
            async for text in socket:
                page.take_text(text)
                break
            socket.transport.abort()
    await feeding
    async with following(page):
        await whole(stage, page)
    assert page.opened >= 1_000


async def thousand_pages(stage: Stage) -> None:
    """A thousand pages whose server is killed, and who all come back at one time."""

    def cookies() -> list[str]:
        return [stage.sign_in(_member(f"viewer-{n}")) for n in range(PEOPLE)]

    found = await asyncio.to_thread(cookies)
    async with AsyncExitStack() as stack:
        numbers = range(PEOPLE * SOCKETS_EACH)
        made = [following(stage.page(cookie=found[number % PEOPLE])) for number in numbers]
        pages = [await stack.enter_async_context(page) for page in made]
        await stage.feed(20)
        await asyncio.gather(*(page.has(20) for page in pages))
        await asyncio.to_thread(stage.server.stop, signal.SIGKILL)
        await stage.feed(60)
        await asyncio.to_thread(stage.server.start)
        await stage.feed(5, 5)
        await asyncio.gather(*(whole(stage, page) for page in pages))
        assert min(page.opened for page in pages) >= 2


async def database_away(stage: Stage) -> None:
    """The server's way to its database is cut again and again, while events are written; the page keeps its socket."""
    server, proxy = await asyncio.to_thread(stage.proxied)
    async with following(stage.page(server)) as page:
        await page.has(await stage.feed(20))
        for _ in range(3):
            await asyncio.to_thread(proxy.cut)
            await stage.feed(3, 20)
            await asyncio.to_thread(proxy.wait_tried, 2)
            assert page.cursor < stage.feeder.seq
            await asyncio.to_thread(proxy.mend)
            await page.has(stage.feeder.seq)
        await stage.feed(11)
        await whole(stage, page)
        assert page.opened == 1


async def database_silent(stage: Stage) -> None:
    """The network swallows what the server says to its database; who comes meanwhile is served when it does so no more."""
    server, proxy = await asyncio.to_thread(stage.proxied)
    async with following(stage.page(server)) as page:
        await page.has(await stage.feed(20))
        await asyncio.to_thread(proxy.stall)
        await stage.feed(3, 20)
        async with following(stage.page(server)) as late:
            await asyncio.to_thread(proxy.wait_held)
            assert page.cursor == 20
            await asyncio.to_thread(proxy.mend)
            await whole(stage, page)
            await whole(stage, late)


async def flushed_redis(stage: Stage) -> None:
    """Everything in it is forgotten; the page does not notice."""
    import redis

    async with following(stage.page()) as page:
        await page.has(await stage.feed(20))
        with redis.Redis.from_url(os.environ["CHANNEL_URL"]) as client:
            client.flushall()
        await stage.feed(5, 60)
        await whole(stage, page)
        assert not page.codes


async def redis_away(stage: Stage) -> None:
    """It ends for good; the page goes on, others come, and a server that starts without it serves them."""
    import redis

    async with following(stage.page()) as page:
        await page.has(await stage.feed(20))
        with redis.Redis.from_url(os.environ["CHANNEL_URL"]) as client:
            client.shutdown(nosave=True)
        await stage.feed(5, 60)
        await whole(stage, page)
        assert not page.codes
        other = await asyncio.to_thread(stage.second)
        async with following(stage.page(other)) as late:
            await stage.feed(5)
            await whole(stage, late)


async def whole(stage: Stage, page: Page) -> None:
    """It comes to have every event once and in order."""
    await page.has(stage.feeder.seq)
    assert page.shown == list(range(1, stage.feeder.seq + 1))


# -- rights that are lost ------------------------------------------------------------------------------------------------


def signed_out(stage: Stage) -> None:
    secret = dict(part.split("=", 1) for part in stage.cookie.split("; "))[f"fabric-csrf-{stage.server.public_port}"]
    headers = {"Cookie": stage.cookie, "X-CSRFToken": secret, "Origin": stage.server.origin}
    _, cookies = stage.server.ask("POST", "/logout", headers=headers)
    assert "fabric-session" in cookies, "it was refused"


def disabled(stage: Stage) -> None:
    stage.user.is_active = False
    stage.user.save()


def deleted(stage: Stage) -> None:
    stage.user.delete()


def new_password(stage: Stage) -> None:
    stage.user.set_password("another")
    stage.user.save()


def moved(stage: Stage) -> None:
    from fabric.models import Run, Workspace

    elsewhere = Workspace.objects.create(name="elsewhere")
    Run.objects.filter(id=stage.feeder.run_id).update(workspace_id=elsewhere.id)


REVOKED: dict[str, tuple[Callable[[Stage], None], int]] = {
    "signed_out": (signed_out, 4401),
    "disabled": (disabled, 4401),
    "deleted": (deleted, 4401),
    "new_password": (new_password, 4401),
    "moved": (moved, 4403),
}


async def revoked(stage: Stage, change: Callable[[Stage], None], code: int) -> None:
    """Pages on two servers are closed with that code and let in no more; those of others go on."""
    other_server = await asyncio.to_thread(stage.second)
    other = await asyncio.to_thread(lambda: stage.sign_in(_member(f"not {stage.user.username}")))
    mine = [stage.page(server) for server in (stage.server, other_server)]
    async with following(stage.page(other_server, other)) as theirs:
        tasks = [asyncio.create_task(page.live()) for page in mine]
        await stage.feed(20)
        for page in (*mine, theirs):
            await page.has(20)
        await asyncio.to_thread(change, stage)
        assert await asyncio.gather(*tasks) == [code, code]
        for server in (stage.server, other_server):
            assert await stage.page(server).live() == code
        if code == 4401:
            await stage.feed(5)
            await whole(stage, theirs)
    assert all(page.cursor == 20 and page.opened == 1 for page in mine)


SCENES: dict[str, Callable[[Stage], Coroutine[Any, Any, None]]] = {
    scene.__name__: scene
    for scene in (
        restarted_server,
        killed_server,
        sleeping_laptop,
        burst,
        thousand_reconnects,
        thousand_pages,
        database_away,
        database_silent,
        flushed_redis,
        redis_away,
    )
}


def main(names: list[str]) -> None:
    """Plays scenes, and says of each that all was well or what was not."""
    django.setup()
    house = House()
    for name in names:
        try:
            with ExitStack() as stack:
                stage = Stage(stack, house, name)
                asyncio.run(SCENES[name](stage) if name in SCENES else revoked(stage, *REVOKED[name]))
        except Exception:  # noqa: BLE001 - It is what is said of the scene.
            house.close()
            print(SAID, name, traceback.format_exc())
        else:
            print(SAID, name, WELL)
        sys.stdout.flush()
    house.close()


if __name__ == "__main__":
    main(sys.argv[1:])
