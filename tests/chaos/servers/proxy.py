"""A small TCP proxy between one process and one server, that can be told to cut, to swallow or to delay.

It runs on a thread of its own, for any number of proxies.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any, Literal, TypeVar

DELAY_S = 0.2
CHUNK = 65_536
START_S = 10.0
Mode = Literal["pass", "blackhole", "delay"]
T = TypeVar("T")
Listener = Callable[[], Callable[[bytes], None]]
"""Called for each connection; what it gives is told every chunk on its way to the server."""


class Proxy:
    """One listening port that leads to ``target`` on the loopback address."""

    def __init__(self, proxies: Proxies, target: int, listener: Listener | None = None) -> None:
        self.port = 0
        self.mode: Mode = "pass"
        self.swallowed = threading.Event()
        """Set when something was swallowed."""
        self._proxies, self._target, self._listener = proxies, target, listener
        self._open: set[asyncio.StreamWriter] = set()

    def cut(self) -> None:
        """Ends every connection there is, both ends; new ones may come."""
        self._proxies.do(self._cut())

    def heal(self) -> None:
        """Passes everything again. What was swallowed is gone for good, so the connections that it was on are cut."""
        swallowed, self.mode = self.mode == "blackhole", "pass"
        if swallowed:
            self.cut()

    async def _cut(self) -> None:
        for writer in list(self._open):
            writer.transport.abort()

    async def listen(self) -> None:
        """Begins to listen, on the proxies' loop."""
        server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open.add(writer)
        onward: asyncio.StreamWriter | None = None
        try:
            back, onward = await asyncio.open_connection("127.0.0.1", self._target)
            self._open.add(onward)
            heard = self._listener() if self._listener is not None else None
            async with asyncio.TaskGroup() as both:
                both.create_task(self._pump(reader, onward, heard))
                both.create_task(self._pump(back, writer))
        except* OSError:
            pass  # Either end has gone, or the server is away: for both it is over.
        finally:
            for one in filter(None, (writer, onward)):
                self._open.discard(one)
                one.transport.abort()

    async def _pump(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, heard: Callable[[bytes], None] | None = None
    ) -> None:
        while chunk := await reader.read(CHUNK):
            if heard is not None:
                heard(chunk)
            if self.mode == "blackhole":
                self.swallowed.set()
                continue
            if self.mode == "delay":
                await asyncio.sleep(DELAY_S)
            writer.write(chunk)
            await writer.drain()
        with contextlib.suppress(OSError):
            writer.write_eof()


class Proxies:
    """The thread that all proxies of a site share; a context manager."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="chaos-proxies", daemon=True)

    def __enter__(self) -> Proxies:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.do(self._end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(START_S)
        self._loop.close()

    def to(self, target: int, listener: Listener | None = None) -> Proxy:
        """A new proxy to a port. ``listener`` is told what goes to the server, on the proxies' thread."""
        proxy = Proxy(self, target, listener)
        self.do(proxy.listen())
        return proxy

    def do(self, work: Coroutine[Any, Any, T]) -> T:
        """Runs a coroutine on the proxies' loop and waits for it."""
        done: Future[T] = asyncio.run_coroutine_threadsafe(work, self._loop)
        return done.result(START_S)

    async def _end(self) -> None:
        here = asyncio.current_task()
        tasks = [task for task in asyncio.all_tasks() if task is not here]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
