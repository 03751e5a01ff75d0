"""A page that does not read what it is sent: it holds up nobody, costs a bounded amount, and is let go so that it can come back."""

from __future__ import annotations

import asyncio

import pytest

from console.live import consumer, watch
from console.live.hub import LiveHub
from tests.console.live.journal import Ears, Journal
from tests.console.live.sockets import close_code, cookie_of, on_a_loop, socket

ROW = "x" * 4_000


@pytest.fixture
def wide(monkeypatch):
    """A hub over a journal whose rows are large, in place of this process's."""
    journal, ears = Journal(1), Ears()
    monkeypatch.setattr(watch, "FRAME_MIN_S", 0.001)
    plain = journal.read

    def read(key, after, limit):
        batch = plain(key, after, limit)
        rows = tuple(type(row)(row.seq, row.html.replace("></tr>", f' title="{ROW}"></tr>')) for row in batch.rows)
        return type(batch)(rows, batch.head)

    monkeypatch.setattr(journal, "read", read)
    hubs = {}

    def hub():
        return hubs.setdefault(asyncio.get_running_loop(), LiveHub(journal, ears, poll_s=0.01))

    monkeypatch.setattr(consumer, "live_hub", hub)
    return journal


@pytest.fixture
def run_path(actor, small):
    from fabric import wiring
    from fabric.adapters.nudge import NullNudge
    from fabric.services.runs import run_start

    run = run_start(store=wiring.store(), nudge=NullNudge(), actor=actor, fabric=small, text="What?").run_id
    return f"/live/runs/{run}"


def test_the_code_it_is_let_go_with_is_one_that_pages_come_back_after(browser, wide, run_path, monkeypatch):
    """A socket that can still be told is told: 1013, which is in the page's list of codes to reconnect after."""
    monkeypatch.setattr(consumer, "SEND_S", 0.05)
    stuck = asyncio.Event()

    async def scene():
        sock = socket(run_path, cookie=cookie_of(browser))
        await sock.connect()
        real = consumer.RunConsumer.send

        async def send(self, text_data=None, bytes_data=None, close=False):
            await stuck.wait()
            await real(self, text_data)

        monkeypatch.setattr(consumer.RunConsumer, "send", send)
        return await close_code(sock)

    assert on_a_loop(scene) == consumer.TRY_AGAIN
