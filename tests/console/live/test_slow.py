"""A page that does not read what it is sent: it stops no other page, costs a bounded amount, and is let go so that it can come back.

Real sockets: the far end is a TCP socket whose small receive buffer is set before it connects, and that reads only when a test says so.
"""

from __future__ import annotations

import asyncio
import json
import select
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import uvicorn
import uvloop
from websockets.client import ClientProtocol
from websockets.frames import Frame, Opcode
from websockets.http11 import Response
from websockets.typing import Origin
from websockets.uri import parse_uri

from console.live import consumer
from console.live.admission import places
from console.live.hub import live_close
from fabric.composition import engine as wiring
from fabric.models import Revision
from fabric.worker.nudges.local_socket import SocketNudge
from tests.benchmarks.console.live import Feeder
from tests.console.live.following import Page, following, stands_for
from tests.console.live.sockets import ORIGIN, cookie_of

BUFFER = 8_192
"""Of the kernel, at each end."""
HIGH_WATER = 65_536
"""What asyncio and uvloop let wait in a transport before they ask to be spared."""
FRAME_BYTES = 160_000
"""No frame of a hundred of these rows with its panels is larger."""
PATIENCE_S = 30.0

LOOPS = [pytest.param(asyncio.new_event_loop, id="asyncio"), pytest.param(uvloop.new_event_loop, id="uvloop")]


@pytest.fixture(autouse=True)
def _short(monkeypatch):
    """A shorter time for each wait."""
    for name, seconds in (("SEND_S", 0.3), ("RECHECK_S", 0.1), ("CLOSE_S", 0.1)):
        monkeypatch.setattr(consumer, name, seconds)
    places.clear()


@pytest.fixture
def feeder(actor, small, settings):
    """Writes the journal of a run, as its owner would, in another process."""
    revision = Revision.objects.get(fabric__name=small)
    made = Feeder(wiring.store(), SocketNudge(settings.FABRIC_DATA), actor.workspace_id, revision.id)
    yield made
    made.close()


def scene(
    loop_factory: Callable[[], asyncio.AbstractEventLoop], play: Callable[[uvicorn.Server, str], Awaitable[None]]
) -> None:
    """Plays against the whole application, served on a loop of that kind."""

    async def main() -> None:
        async with asyncio.timeout(3 * PATIENCE_S), serving() as (server, address):
            await play(server, address)

    with asyncio.Runner(loop_factory=loop_factory) as runner:
        runner.run(main())


@asynccontextmanager
async def serving() -> AsyncIterator[tuple[uvicorn.Server, str]]:
    from console.asgi import application

    listener = socket.create_server(("127.0.0.1", 0))
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, BUFFER)  # Its connections inherit it.
    server = uvicorn.Server(uvicorn.Config(application, log_level="warning", lifespan="off", ws="websockets-sansio"))
    task = asyncio.create_task(server.serve(sockets=[listener]))
    try:
        yield server, f"ws://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        await task
        await live_close()


class RawPage:
    """A page's socket as the kernel has it: opened by hand, read when it is told to."""

    def __init__(self, address: str, run_id: str, cookie: str) -> None:
        uri = parse_uri(f"{address}/live/runs/{run_id}?after=0&panels=")
        self._protocol = ClientProtocol(uri, origin=Origin(ORIGIN), max_size=None)
        self.socket = socket.socket()
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER)
        self.socket.connect((uri.host, uri.port))
        request = self._protocol.connect()
        request.headers["Cookie"] = cookie
        self._protocol.send_request(request)
        self._send()

    def _send(self) -> None:
        for chunk in self._protocol.data_to_send():
            self.socket.sendall(chunk)

    def opened(self) -> None:
        """Reads the answer to the handshake and nothing after it: what came with it waits."""
        answer = b""
        while not answer.endswith(b"\r\n\r\n"):
            answer += self.socket.recv(1)
        assert answer.startswith(b"HTTP/1.1 101"), answer
        self._protocol.receive_data(answer)
        (said,) = self._protocol.events_received()
        assert isinstance(said, Response)

    def gone(self) -> None:
        """Waits until the other end is rid of it, without reading anything."""
        ends = select.poll()
        ends.register(self.socket, select.POLLRDHUP)  # A reset and a hang-up are always told.
        assert ends.poll(PATIENCE_S * 1_000), "it is still held"

    def frames(self) -> Iterator[dict[str, Any]]:
        """Reads, for as long as it is asked to."""
        while True:
            for event in self._protocol.events_received():
                if isinstance(event, Frame) and event.opcode is Opcode.TEXT:
                    yield json.loads(bytes(event.data))
            self._protocol.receive_data(self.socket.recv(65_536))
            self._send()


async def fed(feeder: Feeder, batches: int = 1) -> None:
    """A hundred events a batch, committed."""
    for _ in range(batches):
        await asyncio.to_thread(feeder.feed, 100)
        await asyncio.to_thread(feeder.settle, 1)


def held(server: uvicorn.Server) -> int:
    """The most bytes that wait in a connection of the server."""
    return max((one.transport.get_write_buffer_size() for one in server.server_state.connections), default=0)


async def until(condition: Callable[[], bool]) -> None:
    """Waits for what nothing tells of."""
    for _ in range(3_000):
        if condition():
            return
        await asyncio.sleep(0.01)
    raise AssertionError("it did not come to be so")


@pytest.mark.parametrize("loop_factory", LOOPS)
def test_a_page_that_takes_nothing_is_let_go_at_a_bounded_cost(browser, feeder, loop_factory):
    """Others have everything meanwhile, and nothing of it is left: no task, no place, no descriptor, no byte."""
    cookie = cookie_of(browser)

    async def play(server, address):
        stuck = await asyncio.to_thread(RawPage, address, feeder.run_id, cookie)
        await asyncio.to_thread(stuck.opened)
        async with following(Page(f"{address}/live/runs/{feeder.run_id}", ORIGIN, cookie)) as reader:
            gone = asyncio.create_task(asyncio.to_thread(stuck.gone))
            most = 0
            while not gone.done():
                await fed(feeder)
                await reader.has(feeder.seq)
                most = max(most, held(server))
            await gone
            assert HIGH_WATER < most < HIGH_WATER + FRAME_BYTES
            assert reader.shown == list(range(1, feeder.seq + 1))
            await until(lambda: len(server.server_state.connections) == 1)
            assert len(places) == 1
        stuck.socket.close()

    scene(loop_factory, play)


@pytest.mark.parametrize("loop_factory", LOOPS)
def test_a_page_that_pauses_for_a_while_gets_everything_in_order_afterwards(browser, feeder, loop_factory, monkeypatch):
    """The page gets once what it could not take: as rows, or, of very much, as one link and the newest rows."""
    monkeypatch.setattr(consumer, "SEND_S", 3_600)
    cookie = cookie_of(browser)

    async def play(server, address):
        def take(page):
            frames = []
            for frame in page.frames():
                frames.append(frame)
                if frame["seq"] == feeder.seq:
                    break
            return frames

        page = await asyncio.to_thread(RawPage, address, feeder.run_id, cookie)
        await asyncio.to_thread(page.opened)
        while not held(server) > HIGH_WATER:
            await fed(feeder)
        await fed(feeder, 60)
        frames = await asyncio.to_thread(take, page)
        assert [seq for frame in frames for seq in stands_for(frame)] == list(range(1, feeder.seq + 1))
        assert len(frames) < 60
        assert any('class="folded"' in frame["content"] for frame in frames)
        page.socket.close()
        await until(lambda: not server.server_state.connections)

    scene(loop_factory, play)
