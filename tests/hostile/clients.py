"""``python -m tests.hostile.clients``: slow clients and large ones against the web server itself, as a table for docs/figures.md. Loopback alone."""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from console.site.requests.slow_clients import HEAD_S
from tests.console.bad_clients import LARGE, SENDERS, SLOW, Slow, posted
from tests.console.serving import WebServer, serving

HEAD = "| clients | what became of them | honest requests meanwhile: served, slowest | memory of the web server |\n|---|---|---|---|"


def asked_while(busy: threading.Thread, server: WebServer) -> tuple[int, float]:
    """Asks for the sign-in page as long as a thread runs: how often it was served, and the seconds that the slowest took."""
    served, slowest = 0, 0.0
    while busy.is_alive():
        begun = time.monotonic()
        served += server.ask("GET", "/login")[0] == 200
        slowest = max(slowest, time.monotonic() - begun)
    return served, slowest


def rows(server: WebServer) -> Iterator[str]:
    """A row for the slow, and one for the large."""
    before = server.resident_bytes()
    slow = Slow(server.port, SLOW)
    dripping = threading.Thread(target=slow.drip, args=[5 * HEAD_S])
    dripping.start()
    served, slowest = asked_while(dripping, server)
    lasted = time.monotonic() - slow.begun
    slow.close()
    grown = (server.resident_bytes() - before) / 2**20
    yield f"| {SLOW}, a byte a second or none | {len(slow.said)} dropped within {lasted:.0f} s | {served}, {slowest:.1f} s | +{grown:.0f} MB |"
    before = server.resident_bytes()
    with ThreadPoolExecutor(SENDERS) as pool:
        said = {line.decode() for line in pool.map(lambda _: posted(server, "/api/v1/runs", LARGE), range(SENDERS))}
    grown = (server.resident_bytes() - before) / 2**20
    yield f"| {SENDERS} strangers with {LARGE // 2**20} MB each | {', '.join(sorted(said))} | | +{grown:.0f} MB |"


if __name__ == "__main__":
    print(HEAD)
    with tempfile.TemporaryDirectory() as folder, serving(Path(folder)) as found:
        for row in rows(found):
            print(row, flush=True)
