"""Pages of a run, as their script has them, over a hub whose journal is in memory."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Awaitable, Callable
from contextlib import asynccontextmanager

from console.live.frames import FRAME_ROWS
from console.live.hub import LiveHub
from console.live.reader import RunKey, Subscription
from tests.console.live.journal import KEY, Ears, Journal

FAR = 3600.0
"""A poll that does not come: the test's nudges do it all."""


def live(scene: Callable[..., Awaitable[None]], journal: Journal, *, poll_s: float = FAR) -> None:
    """Runs a scene against a hub over a journal."""

    async def main() -> None:
        ears = Ears()
        hub = LiveHub(journal, ears, poll_s=poll_s)
        try:
            await asyncio.wait_for(scene(hub, ears), 30)
        finally:
            await hub.close()

    asyncio.run(main())


class Page:
    """A page as its script has it: a cursor, panels, and the rows it was given."""

    def __init__(self, after: int = 0, panels: tuple[str, ...] = ("h0",)) -> None:
        self.cursor = after
        self.panels = panels
        self.rows: list[int] = []
        self.folded: list[tuple[int, int]] = []
        self.swapped: list[str] = []
        self.frames: list[str] = []
        self.badges: list[str] = []
        self._news = asyncio.Event()

    async def heard(self, frames: int) -> None:
        """Waits until it has got so many frames."""
        while len(self.frames) < frames:
            self._news.clear()
            await self._news.wait()

    def take(self, text: str) -> None:
        frame = json.loads(text)
        assert frame["after"] == self.cursor, "a gap, or the same once more"
        seqs = [int(seq) for seq in re.findall(r'<tr data-seq="(\d+)"', frame["content"])]
        first = frame["after"] + 1
        link = re.search(r'<tr class="folded" data-first="(\d+)" data-last="(\d+)">', frame["content"])
        if link:
            assert int(link[1]) == first
            first = int(link[2]) + 1
            self.folded.append((int(link[1]), int(link[2])))
        assert seqs == list(range(first, frame["seq"] + 1))
        assert len(seqs) <= FRAME_ROWS
        self.rows += seqs
        self.swapped += re.findall(r"<p>(\w+)</p>", frame["content"])
        self.cursor, self.panels = frame["seq"], tuple(frame["panels"].split("."))
        self.frames.append(text)
        self._news.set()
        self.badges.append(frame["content"].rpartition("<a id=")[2])

    async def follow(self, place: Subscription, until: int) -> None:
        while self.cursor < until:
            found = await place.next()
            assert found is not None
            self.take(found.text)

    async def to_end(self, place: Subscription) -> None:
        while (found := await place.next()) is not None:
            self.take(found.text)


@asynccontextmanager
async def joined(hub: LiveHub, page: Page, key: RunKey = KEY):
    """A page that has its first frame."""
    with hub.follow(key, page.cursor, page.panels) as place:
        first = await place.next()
        assert first is not None
        page.take(first.text)
        yield place
