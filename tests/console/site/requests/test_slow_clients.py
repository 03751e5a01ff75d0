"""Slow clients: their connections end, honest ones are served meanwhile, and what may last lasts."""

from __future__ import annotations

import asyncio
import resource
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import asynccontextmanager, suppress
from shutil import which

import pytest
import uvicorn
from websockets.asyncio.client import connect

from console.site.requests import slow_clients
from console.site.requests.slow_clients import BODY_S, HEAD_S, SPARE, ImpatientProtocol
from console.web_server import SERVED
from tests.console.bad_clients import SLOW, Slow
from tests.console.launch.started_processes import PATIENCE_S
from tests.console.serving import WebServer, serving


@pytest.fixture(scope="module")
def server(tmp_path_factory) -> Iterator[WebServer]:
    with serving(tmp_path_factory.mktemp("slow")) as found:
        yield found


@pytest.fixture
def files() -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(max(soft, 4_096), hard), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.slow
@pytest.mark.usefixtures("files")
def test_600_slow_clients_are_dropped_and_an_honest_one_is_served_meanwhile(server):
    slow = Slow(server.port, SLOW)
    dripping = threading.Thread(target=slow.drip, args=[4 * HEAD_S])
    dripping.start()
    upload = _Upload(server.port)
    upload.start()
    served = 0
    while dripping.is_alive():
        assert server.ask("GET", "/login")[0] == 200
        served += 1
    dripping.join()
    assert len(slow.said) == SLOW
    assert time.monotonic() - slow.begun < 3 * HEAD_S
    assert {said[:12] for said in slow.said.values()} == {b"HTTP/1.1 408", b""}
    assert sum(said == b"" for said in slow.said.values()) >= SLOW // 3
    assert served > 5
    upload.join()
    assert upload.status == b"HTTP/1.1 401"
    slow.close()


class _Upload(threading.Thread):
    """A large body over a slow line: as many bytes as ``BODY_S`` wants and some more, for longer than twice that."""

    BYTES, EVERY_S = 1_500, 0.5

    def __init__(self, port: int) -> None:
        super().__init__(daemon=True)
        self.port, self.status = port, b""

    def run(self) -> None:
        parts = round(2.5 * BODY_S / self.EVERY_S)
        with socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE_S) as line:
            head = "POST /api/v1/runs HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
            line.sendall(f"{head}Content-Length: {parts * self.BYTES}\r\n\r\n".encode())
            for _ in range(parts):
                line.sendall(b" " * self.BYTES)
                threading.Event().wait(self.EVERY_S)
            self.status = line.recv(12)


@pytest.mark.skipif(which("prlimit") is None, reason="needs prlimit")
def test_more_connections_than_there_may_be_are_closed_and_those_before_are_answered(tmp_path):
    limited = "prlimit", f"--nofile={256 + SPARE + 20}"
    with serving(tmp_path, *limited) as server:
        idle = [socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE_S) for _ in range(20)]
        assert server.ask("GET", "/login") == (503, b"Service Unavailable")
        more = [socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE_S) for _ in range(SPARE + 10)]
        more[-1].settimeout(HEAD_S / 2)  # Sooner than a head that does not come ends it.
        assert more[-1].recv(1) == b""
        for one in (*idle, *more):
            one.close()
        while server.ask("GET", "/login")[0] != 200:
            pass


class Hasty(ImpatientProtocol):
    """With deadlines that a test can wait for."""

    head_s = body_s = taken_s = 0.5
    body_bytes = 1_000


async def application(scope, receive, send):
    """An answer that takes a while and comes in parts; one that is large; a body that is read late; a socket without a word on it."""
    if scope["type"] == "websocket":
        await receive()
        await send({"type": "websocket.accept"})
        await asyncio.sleep(2.0)
        await send({"type": "websocket.send", "text": "still here"})
        await send({"type": "websocket.close"})
        return
    if scope["path"] == "/late":
        await asyncio.sleep(2.0)
        more = True
        while more:
            more = (await receive()).get("more_body", False)
    await send({"type": "http.response.start", "status": 200, "headers": []})
    if scope["path"] == "/early":
        await send({"type": "http.response.body", "body": b"enough"})
        return
    if scope["path"] == "/large":
        for _ in range(400):
            await send({"type": "http.response.body", "body": b"x" * 100_000, "more_body": True})
    for _ in range(4):
        await asyncio.sleep(0.5)
        await send({"type": "http.response.body", "body": b"data: x\n\n", "more_body": True})
    await send({"type": "http.response.body", "body": b"end"})


@asynccontextmanager
async def hasty():
    """A server with those deadlines; yields its port."""
    listening = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(application, lifespan="off", **{**SERVED, "http": Hasty})
    server = uvicorn.Server(config)
    serving_ = asyncio.create_task(server.serve(sockets=[listening]))
    try:
        yield listening.getsockname()[1]
    finally:
        server.should_exit = True
        await serving_


async def said_to(port, request, *, reads=True):
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1_024)
    writer.write(request)
    await writer.drain()
    if not reads:
        await asyncio.sleep(2.0)
    try:
        return await asyncio.wait_for(reader.read(), PATIENCE_S) if reads else await _rest(reader)
    finally:
        writer.close()


async def _rest(reader):
    count = 0
    try:
        while part := await asyncio.wait_for(reader.read(100_000), PATIENCE_S):
            count += len(part)
    except ConnectionResetError:
        pass
    return count


def test_a_stream_a_long_answer_and_a_socket_outlast_every_deadline():
    async def play():
        async with hasty() as port:
            get = b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
            assert (await said_to(port, get)).endswith(b"end\r\n0\r\n\r\n")
            async with connect(f"ws://127.0.0.1:{port}/", compression=None) as opened:
                assert await opened.recv() == "still here"

    asyncio.run(play())


def test_line_ends_between_two_requests_keep_no_connection():
    async def play():
        async with hasty() as port:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            await reader.readuntil(b"0\r\n\r\n")
            writer.write(b"\r\n")
            assert await asyncio.wait_for(reader.read(), PATIENCE_S) == b""
            writer.close()

    asyncio.run(play())


def test_time_in_which_the_server_does_not_read_is_not_the_senders():
    async def play():
        async with hasty() as port:
            post = (
                b"POST /late HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 300000\r\n\r\n"
                + b"x" * 300_000
            )
            assert (await said_to(port, post)).startswith(b"HTTP/1.1 200")

    asyncio.run(play())


def test_a_body_that_goes_on_after_its_answer_is_read_so_far_and_no_further(monkeypatch):
    monkeypatch.setattr(slow_clients, "THROWN_MAX", 500_000)

    async def play():
        async with hasty() as port:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"POST /early HTTP/1.1\r\nHost: x\r\nContent-Length: 50000000\r\n\r\n")
            assert (await reader.readline()).startswith(b"HTTP/1.1 200")
            sent = 0
            with suppress(ConnectionError):
                while sent < 40_000_000:
                    writer.write(b"x" * 100_000)
                    await asyncio.wait_for(writer.drain(), PATIENCE_S)
                    sent += 100_000
            writer.close()
            return sent

    assert asyncio.run(play()) < 40_000_000


def test_an_answer_that_is_not_read_is_cut():
    async def play():
        async with hasty() as port:
            get = b"GET /large HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
            assert await said_to(port, get, reads=False) < 40_000_000

    asyncio.run(play())


@pytest.mark.parametrize(
    "request_",
    [b"GET / HTTP/1.1\r\nHost: x\r\nX: ", b"POST /late HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nx"],
    ids=["head", "body"],
)
def test_what_is_late_is_told_so(request_):
    async def play():
        async with hasty() as port:
            said = await said_to(port, request_)
            assert said.startswith(b"HTTP/1.1 408 ")
            assert said.endswith(b"Send it again over a faster line.\n")

    asyncio.run(play())
