"""Panels that changed and the heartbeat reach a page without events; the heartbeat says that there is nothing new."""

from __future__ import annotations

import asyncio
import json

from console.live import reader as watch_module
from tests.console.live.journal import Journal
from tests.console.live.pages import Page, joined, live


def test_panels_that_keep_changing_are_drawn_now_and_then_and_at_last(monkeypatch):
    """While rows come at every look; the last panels come too, though nothing wakes the reader any more."""
    monkeypatch.setattr(watch_module, "PANELS_S", 0.4)
    journal = Journal(1)
    journal.urgent = False

    async def scene(hub, ears):
        page = Page(after=1)
        async with joined(hub, page) as place:
            for number in range(1, 9):
                journal.grow(head=f"h{number}")
                ears.say({"run-1": journal.seq})
                await page.follow(place, journal.seq)
            looks = len(journal.reads)
            while page.panels != ("h8",):
                page.take((await place.next()).text)
        assert looks >= 9
        assert journal.drawn < looks
        assert page.swapped[-1] == "h8"
        assert page.rows == list(range(2, 10))

    live(scene, journal)


def test_what_panels_must_not_be_late_with_is_drawn_at_once(monkeypatch):
    monkeypatch.setattr(watch_module, "PANELS_S", 3_600)
    journal = Journal(1)

    async def scene(hub, ears):
        page = Page(after=1)
        async with joined(hub, page) as place:
            for head in ("h1", "h2"):
                journal.grow(head=head)
                ears.say({"run-1": journal.seq})
                await page.follow(place, journal.seq)
            journal.urgent = False
            journal.end()
            ears.say({"run-1": journal.seq})
            await page.to_end(place)
        assert page.swapped == ["h1", "h2", "ended"]

    live(scene, journal)


def test_a_page_that_comes_back_gets_the_panels_that_changed_meanwhile():
    journal = Journal(1)

    async def scene(hub, ears):
        page = Page(after=1)
        async with joined(hub, page):
            pass
        journal.grow(3, head="h1")
        ears.say({"run-1": journal.seq})
        async with joined(hub, page) as place:
            await page.follow(place, 4)
            while page.panels != ("h1",):
                page.take((await place.next()).text)
        assert page.rows == [2, 3, 4]
        assert page.swapped == ["h1"]

    live(scene, journal)


def test_a_panel_comes_when_it_changed_and_only_then():
    journal = Journal(1)

    async def scene(hub, ears):
        page = Page(after=1)
        async with joined(hub, page) as place:
            for head in ("", "h1", "", "h2"):
                journal.grow(head=head)
                ears.say({"run-1": journal.seq})
                await page.follow(place, journal.seq)
        assert page.swapped == ["h1", "h2"]

    live(scene, journal)


def test_a_heartbeat_breaks_the_silence(monkeypatch):
    monkeypatch.setattr(watch_module, "HEARTBEAT_S", 0.05)

    async def scene(hub, ears):
        page = Page(after=3)
        async with joined(hub, page) as place:
            for _ in range(3):
                page.take((await place.next()).text)
        assert page.rows == []
        assert all(json.loads(frame)["at"] > 0 for frame in page.frames)

    live(scene, Journal(3), poll_s=0.01)


def test_a_heartbeat_is_made_once_for_all(monkeypatch):
    monkeypatch.setattr(watch_module, "HEARTBEAT_S", 0.05)

    async def scene(hub, ears):
        pages = [Page(after=3) for _ in range(20)]

        async def listen(page):
            async with joined(hub, page) as place:
                return [await place.next() for _ in range(3)]

        beats = await asyncio.gather(*map(listen, pages))
        assert {tuple(map(id, heard)) for heard in beats} == {tuple(map(id, beats[0]))}
        assert len({id(frame) for frame in beats[0]}) == 3

    live(scene, Journal(3), poll_s=0.01)


def test_no_heartbeat_while_the_store_does_not_answer(monkeypatch):
    """A page does not call itself live while no process knows."""
    monkeypatch.setattr(watch_module, "HEARTBEAT_S", 0.05)
    journal = Journal(3)

    async def scene(hub, ears):
        page = Page(after=3)
        async with joined(hub, page) as place:

            async def listen():
                while True:
                    page.take((await place.next()).text)

            listening = asyncio.create_task(listen())
            await page.heard(4)
            journal.broken = True
            looks, heard = journal.looks, len(page.frames)
            await journal.asked(lambda: journal.looks >= looks + 60)
            assert len(page.frames) <= heard + 2
            journal.broken = False
            await page.heard(len(page.frames) + 1)
            listening.cancel()

    live(scene, journal, poll_s=0.01)


def test_panels_that_change_without_their_run_are_looked_at_again_and_others_are_not(monkeypatch):
    monkeypatch.setattr(watch_module, "AGAIN_S", 0.01)
    monkeypatch.setattr(watch_module, "PANELS_S", 0.0)
    still, moving = Journal(2), Journal(2)
    moving.again = True

    async def quiet(hub, ears):
        async with joined(hub, Page(after=2)):
            before = len(still.reads)
            await still.asked(lambda: still.looks > 30)
            assert len(still.reads) == before

    async def scene(hub, ears):
        page = Page(after=2)
        async with joined(hub, page) as place:
            moving.grow(0, head="h1")
            found = await place.next()
            assert found is not None
            page.take(found.text)
            assert page.swapped == ["h1"]
            frames = len(page.frames)
            await moving.asked(lambda: moving.drawn > 5)
            assert len(page.frames) == frames  # No page hears of what did not change.

    live(quiet, still, poll_s=0.01)
    live(scene, moving)
