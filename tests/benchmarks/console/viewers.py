"""Viewers of a run's page as a process of their own: real WebSocket clients on loopback that keep a cursor as the page's script does.

One line of JSON each way. The benchmark says what to follow, then ``count`` with the instants of the commits, then ``stop``; the viewers say
``ready`` once all of them have a first frame, and what they counted. Instants are this machine's monotonic clock, in nanoseconds.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake
from websockets.typing import Origin

MANY_AT_ONCE = 50
"""Viewers that open a socket at one time at the beginning; after a restart all of them do."""
AGAIN_S = 0.05
LOOK_S = 0.005
WAIT_S = 60.0
FRAME_ROWS = 100


@dataclass(slots=True)
class Viewer:
    """One page: its cursor, and when which rows came."""

    cookie: str
    cursor: int = 0
    panels: str = ""
    arrivals: list[tuple[int, int, int]] = field(default_factory=list)
    """First row, last row, instant."""
    wrong: int = 0
    opened_ns: int = 0
    first_ns: int = 0
    """From opening the socket to the first frame on it, the latest time."""
    connections: int = 0
    gate: asyncio.Semaphore = field(default_factory=asyncio.Semaphore)
    news: asyncio.Event = field(default_factory=asyncio.Event)

    async def follow(self, address: str, origin: str) -> None:
        """Follows for ever, from the cursor, whatever happens to the socket."""
        while True:
            try:
                async with self.gate:
                    self.opened_ns = time.monotonic_ns()
                    url = f"{address}?after={self.cursor}&panels={self.panels}"
                    socket = await connect(url, origin=Origin(origin), additional_headers={"Cookie": self.cookie})
                    self.take(await socket.recv())
                    self.first_ns = time.monotonic_ns() - self.opened_ns
                    self.connections += 1
                    self.news.set()
                async for text in socket:
                    self.take(text)
            except (ConnectionClosed, OSError, InvalidHandshake, EOFError):
                await asyncio.sleep(AGAIN_S)

    def take(self, text: str | bytes) -> None:
        """A frame; its head is read without its content."""
        now = time.monotonic_ns()
        assert isinstance(text, str)
        head = json.loads(text[: text.index(',"content"')] + "}")
        if head["after"] != self.cursor:
            self.wrong += 1
        if head["seq"] > self.cursor:
            self.arrivals.append((self.cursor + 1, head["seq"], now))
        self.cursor, self.panels = head["seq"], head["panels"]
        self.news.set()


def percentile(values: Sequence[float], share: float) -> float:
    """The value below which that share of the sorted values lies; 0 of none."""
    return values[min(len(values) - 1, int(share * len(values)))] if values else 0.0


def latencies_ms(viewers: Iterable[Viewer], committed: dict[int, int]) -> list[float]:
    """From commit to arrival for every row and viewer, sorted, in milliseconds. Rows behind a link are left out."""
    found = []
    for viewer in viewers:
        for first, last, at in viewer.arrivals:
            rows = range(max(first, last - FRAME_ROWS + 1), last + 1)
            found += [(at - committed[seq]) / 1e6 for seq in rows if seq in committed]
    return sorted(found)


def counted(viewers: Sequence[Viewer], committed: dict[int, int]) -> dict[str, Any]:
    """Return what the viewers saw since they were last asked."""
    times = latencies_ms(viewers, committed)
    firsts = sorted(viewer.first_ns / 1e6 for viewer in viewers)
    frames = sum(len(viewer.arrivals) for viewer in viewers)
    found = {
        "cursors": [min(viewer.cursor for viewer in viewers), max(viewer.cursor for viewer in viewers)],
        "wrong": sum(viewer.wrong for viewer in viewers),
        "connections": min(viewer.connections for viewer in viewers),
        "frames_per_viewer": round(frames / len(viewers), 1),
        "p50_ms": round(percentile(times, 0.50), 1),
        "p99_ms": round(percentile(times, 0.99), 1),
        "max_ms": round(times[-1], 1) if times else 0.0,
        "first_p50_ms": round(percentile(firsts, 0.50), 1),
        "first_p99_ms": round(percentile(firsts, 0.99), 1),
    }
    for viewer in viewers:
        viewer.arrivals.clear()
    return found


async def serve() -> None:
    """Serves on standard input and output."""
    loop = asyncio.get_running_loop()
    asked = json.loads(await loop.run_in_executor(None, sys.stdin.readline))
    cookies = asked["cookies"]
    gate, news = asyncio.Semaphore(MANY_AT_ONCE), asyncio.Event()
    viewers = [Viewer(cookies[n % len(cookies)], asked["after"], gate=gate, news=news) for n in range(asked["viewers"])]
    tasks = [asyncio.create_task(one.follow(asked["address"], asked["origin"])) for one in viewers]
    await until(news, lambda: all(viewer.connections for viewer in viewers))
    for viewer in viewers:
        viewer.gate = asyncio.Semaphore(len(viewers))  # From here on all of them may open at one time.
    say({"ready": True})
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        said = json.loads(line)
        if "reach" in said:
            seq, connections = said["reach"], said["connections"]

            def reached(seq: int = seq, connections: int = connections) -> bool:
                return all(one.cursor >= seq and one.connections >= connections for one in viewers)

            await until(news, reached)
            say({"at": time.monotonic_ns()})
        else:
            committed = {int(seq): at for seq, at in said["count"].items()}
            say(await asyncio.to_thread(counted, viewers, committed))
    for task in tasks:
        task.cancel()


async def until(news: asyncio.Event, reached: Callable[[], bool]) -> None:
    """Waits for frames until that is so, for a minute at most."""
    with suppress(TimeoutError):
        async with asyncio.timeout(WAIT_S):
            while not reached():
                news.clear()
                await news.wait()
                await asyncio.sleep(LOOK_S)  # Looking at all of them after each frame would be work of its own.


def say(found: dict[str, Any]) -> None:
    """One line to the benchmark."""
    print(json.dumps(found), flush=True)


if __name__ == "__main__":
    asyncio.run(serve())
