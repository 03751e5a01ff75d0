"""A proxy between a program and the server it depends on, so that a test can take the server away: cut off, or silent."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

PATIENCE_S = 25.0
CHUNK = 65_536


class Proxy:
    """Passes bytes on, while it is told to. Runs on a thread of its own; its methods are called from any other."""

    def __init__(self, host: str, port: int) -> None:
        self.port = 0
        self.tried = 0
        """Connections that were asked for, served or not."""
        self.held = 0
        """Chunks that were kept back."""
        self._server = (host, port)
        self._away = False
        self._flowing = asyncio.Event()
        self._flowing.set()
        self._open: set[asyncio.BaseTransport] = set()
        self._changed = threading.Condition()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="proxy", daemon=True)

    # -- what a test does --------------------------------------------------------------------------------------------------

    def cut(self) -> None:
        """From now on every connection is cut at once, those that are open included."""
        self._on_loop(self._cut)

    def stall(self) -> None:
        """From now on nothing is passed on, and no sender learns of it: a network that swallows what it is given."""
        self._on_loop(self._flowing.clear)

    def mend(self) -> None:
        """All is well again: what was held back goes on its way."""
        self._on_loop(self._mend)

    def wait_tried(self, more: int = 1) -> None:
        """Waits until so many more connections were asked for than now."""
        with self._changed:
            wanted = self.tried + more
            assert self._changed.wait_for(lambda: self.tried >= wanted, PATIENCE_S), "no client tries to connect"

    def wait_held(self) -> None:
        """Waits until something was kept back."""
        with self._changed:
            assert self._changed.wait_for(lambda: self.held > 0, PATIENCE_S), "no client sends anything"

    # -- how it does it ----------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Listens; ``port`` is known after it."""
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._listen(), self._loop).result(PATIENCE_S)

    def stop(self) -> None:
        """Ends it with all its connections."""
        self.cut()
        self._on_loop(self._loop.stop)
        self._thread.join(PATIENCE_S)

    def _on_loop(self, what: Callable[[], None]) -> None:
        done = threading.Event()
        self._loop.call_soon_threadsafe(what)
        self._loop.call_soon_threadsafe(done.set)
        if what != self._loop.stop:
            assert done.wait(PATIENCE_S)

    def _cut(self) -> None:
        self._away = True
        for transport in tuple(self._open):
            transport.abort()  # type: ignore[attr-defined]

    def _mend(self) -> None:
        self._away = False
        self._flowing.set()

    async def _listen(self) -> None:
        listening = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = listening.sockets[0].getsockname()[1]

    def _count(self, *, tried: int = 0, held: int = 0) -> None:
        with self._changed:
            self.tried += tried
            self.held += held
            self._changed.notify_all()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._count(tried=1)
        if self._away:
            writer.transport.abort()
            return
        far_reader, far_writer = await asyncio.open_connection(*self._server)
        self._open |= {writer.transport, far_writer.transport}
        try:
            await asyncio.gather(self._pass(reader, far_writer), self._pass(far_reader, writer))
        except OSError:
            pass
        finally:
            for end in (writer, far_writer):
                end.transport.abort()
                self._open.discard(end.transport)

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while chunk := await reader.read(CHUNK):
            if not self._flowing.is_set():
                self._count(held=1)
                await self._flowing.wait()
            writer.write(chunk)
            await writer.drain()
        raise ConnectionResetError  # One end has gone: the other goes too.


@contextmanager
def proxy_to(host: str, port: int) -> Iterator[Proxy]:
    """A proxy for as long as the block lasts."""
    proxy = Proxy(host, port)
    proxy.start()
    try:
        yield proxy
    finally:
        proxy.stop()
