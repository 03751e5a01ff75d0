"""A page that follows a run over a real socket, as its script does."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake
from websockets.typing import Origin

PATIENCE_S = 240.0
"""A thousand pages at one server, beside other tests, take over a minute."""
BACK_OFF_S = 0.1
AS_A_BROWSER: dict[str, Any] = {"open_timeout": None, "ping_interval": None, "max_size": None}
"""A browser waits for its server. A client that gives up and comes again leaves a server that starts thousands of dead sockets to answer first."""
FINAL = 4000
"""From here on codes ask a page not to come back."""


def stands_for(frame: dict[str, Any]) -> list[int]:
    """The seqs of a frame, those behind its link included."""
    rows = [int(seq) for seq in re.findall(r'<tr[^>]* data-seq="(\d+)"', frame["content"])]
    link = re.search(r'data-first="(\d+)" data-last="(\d+)"', frame["content"])
    return [*(range(int(link[1]), int(link[2]) + 1) if link else ()), *rows]


class Page:
    """A cursor, rows in order, and coming back after the codes that ask for it."""

    def __init__(self, address: str, origin: str, cookie: str, after: int = 0) -> None:
        self.address, self.origin, self.cookie = address, origin, cookie
        self.cursor, self.panels = after, ""
        self.shown: list[int] = []
        self.rows = 0
        """Rows that it was sent; the others stand behind links."""
        self.codes: list[int] = []
        self.opened = 0
        """Sockets that were opened."""
        self.socket: ClientConnection | None = None
        self._news = asyncio.Event()

    async def live(self) -> int:
        """Follows until it is told not to come back; that code."""
        while not self.codes or self.codes[-1] < FINAL:
            try:
                async with self.connected() as self.socket:
                    async for text in self.socket:
                        self.take_text(text)
                self.codes.append(1000)
            except ConnectionClosed as closed:
                self.codes.append(closed.rcvd.code if closed.rcvd else 1006)
            except (OSError, InvalidHandshake, EOFError):
                self.codes.append(1006)
            self._news.set()
            await asyncio.sleep(BACK_OFF_S)
        return self.codes[-1]

    @asynccontextmanager
    async def connected(self) -> AsyncIterator[ClientConnection]:
        """A socket from the cursor on."""
        url = f"{self.address}?after={self.cursor}&panels={self.panels}"
        given = {"Cookie": self.cookie}
        async with connect(url, origin=Origin(self.origin), additional_headers=given, **AS_A_BROWSER) as found:
            self.opened += 1
            yield found

    def take_text(self, text: str | bytes) -> None:
        """A frame as it came."""
        self.take(json.loads(text))

    def take(self, frame: dict[str, Any]) -> None:
        """A frame: it begins where the page is, and has everything up to where it ends, each once and in order."""
        assert frame["after"] == self.cursor, (frame["after"], self.cursor)
        seqs = stands_for(frame)
        assert seqs == list(range(self.cursor + 1, frame["seq"] + 1))
        self.shown += seqs
        self.rows += frame["content"].count("<tr") - frame["content"].count('class="folded"')
        self.cursor, self.panels = frame["seq"], frame["panels"]
        self._news.set()

    async def has(self, seq: int) -> None:
        """Waits until it shows everything up to this event."""
        async with asyncio.timeout(PATIENCE_S):
            while self.cursor < seq:
                self._news.clear()
                await self._news.wait()


@asynccontextmanager
async def following(page: Page) -> AsyncIterator[Page]:
    """The page, live for as long as the block lasts."""
    task = asyncio.create_task(page.live())
    try:
        yield page
        if task.done():
            task.result()
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
