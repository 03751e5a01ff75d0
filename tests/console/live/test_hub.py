"""The hub over a journal in memory: what reaches a page, in which order, and how much work it was."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from console.live import hub as hub_module
from console.live import reader as watch_module
from console.live.reader import RunKey
from tests.console.live.journal import KEY, Journal
from tests.console.live.pages import Page, joined, live


def test_the_first_frame_comes_though_there_is_nothing_new():
    async def scene(hub, ears):
        page = Page(after=3)
        async with joined(hub, page):
            assert page.rows == []
            assert page.swapped == []
            assert 'data-live="live"' in page.badges[0]

    live(scene, Journal(3))


def test_what_a_page_lacks_comes_in_order_once():
    async def scene(hub, ears):
        page = Page()
        async with joined(hub, page) as place:
            await page.follow(place, 250)
        assert page.rows == list(range(1, 251))

    live(scene, Journal(250))


def test_a_nudge_brings_the_new_rows():
    journal = Journal(2)

    async def scene(hub, ears):
        page = Page(after=2)
        async with joined(hub, page) as place:
            for _ in range(5):
                journal.grow(3)
                ears.say({"run-1": journal.seq})
                await page.follow(place, journal.seq)
        assert page.rows == list(range(3, 18))

    live(scene, journal)


def test_a_nudge_that_was_lost_costs_only_the_poll():
    journal = Journal(2)

    async def scene(hub, ears):
        page = Page(after=2)
        async with joined(hub, page) as place:
            journal.grow(4)
            await page.follow(place, 6)
        assert page.rows == [3, 4, 5, 6]
        assert journal.looks > 0

    live(scene, journal, poll_s=0.01)


def test_a_nudge_without_runs_wakes_all_workers():
    journal = Journal(1)

    async def scene(hub, ears):
        page = Page(after=1)
        async with joined(hub, page) as place:
            journal.grow()
            ears.say({})
            await page.follow(place, 2)

    live(scene, journal)


def test_nudges_about_others_and_about_the_known_cause_no_look():
    journal = Journal(5)

    async def scene(hub, ears):
        page = Page(after=5)
        async with joined(hub, page) as place:
            before = len(journal.reads)
            for _ in range(50):
                ears.say({"run-2": 9, "run-1": 5})
                await asyncio.sleep(0.002)
            assert len(journal.reads) == before
            journal.grow()
            ears.say({"run-1": 6})
            await page.follow(place, 6)
            assert len(journal.reads) == before + 1

    live(scene, journal)


def test_every_page_at_the_tip_gets_the_same_bytes_and_a_row_is_rendered_once():
    journal = Journal(1)

    async def scene(hub, ears):
        pages = [Page(after=1) for _ in range(50)]

        async def watch(page, begun):
            async with joined(hub, page) as place:
                begun.release()
                await page.to_end(place)

        begun = asyncio.Semaphore(0)
        tasks = [asyncio.create_task(watch(page, begun)) for page in pages]
        for _ in pages:
            await begun.acquire()
        for _ in range(20):
            journal.grow(5)
            ears.say({"run-1": journal.seq})
            await asyncio.sleep(0)
        journal.end()
        ears.say({"run-1": journal.seq})
        await asyncio.gather(*tasks)
        assert all(page.rows == list(range(2, 103)) for page in pages)
        assert len({tuple(page.frames[1:]) for page in pages}) == 1
        assert journal.rendered == 101
        # The very same objects, not equal ones made again.
        assert {id(frame) for page in pages for frame in page.frames[1:]} == {id(f) for f in pages[0].frames[1:]}

    live(scene, journal)


def test_twenty_reconnects_lose_double_and_reorder_nothing():
    journal = Journal(0)

    async def scene(hub, ears):
        page = Page()

        async def write():
            for n in range(60):
                journal.grow(1 + n % 7)
                if n % 3:
                    ears.say({"run-1": journal.seq})
                await asyncio.sleep(0.005)
            journal.end()
            ears.say({})

        writing = asyncio.create_task(write())
        for _ in range(20):
            with hub.follow(KEY, page.cursor, page.panels) as place:
                for _ in range(2):
                    found = await place.next()
                    if found is None:
                        break
                    page.take(found.text)
        await writing
        with hub.follow(KEY, page.cursor, page.panels) as place:
            await page.to_end(place)
        assert page.rows == list(range(1, journal.seq + 1))
        assert page.panels == ("ended",)

    live(scene, journal)


def test_the_end_is_told_once_everything_was_sent():
    journal = Journal(250)
    journal.end()

    async def scene(hub, ears):
        page = Page()
        with hub.follow(KEY, 0, ("h0",)) as place:
            await page.to_end(place)
        assert page.rows == list(range(1, 252))
        assert page.swapped == ["ended"]
        assert 'data-live="ended"' in page.badges[-1]
        assert all('data-live="live"' in badge for badge in page.badges[:-1])

    live(scene, journal)


def test_a_cursor_beyond_the_journal_is_taken_back_to_its_end():
    async def scene(hub, ears):
        page = Page(after=3)
        with hub.follow(KEY, 999_999, ("h0",)) as place:
            page.take((await place.next()).text)

    live(scene, Journal(3))


def test_a_page_that_knows_more_than_the_reader_is_not_contradicted():
    """It was made from the database a moment ago, and no nudge has come yet: it keeps its cursor, its socket and its order."""
    journal = Journal(3)

    async def scene(hub, ears):
        async with joined(hub, Page(after=3)):
            journal.grow(2)
            page = Page(after=5)
            async with joined(hub, page) as place:
                journal.grow()
                ears.say({"run-1": 6})
                await page.follow(place, 6)
            assert page.rows == [6]

    live(scene, journal)


def test_rows_that_are_ahead_of_the_head_are_sent_once():
    """A writer writes a journal row by row: a page that has all rows waits, instead of getting them for ever."""
    journal = Journal(3)

    async def scene(hub, ears):
        page = Page(after=3)
        async with joined(hub, page) as place:
            journal.lag = 2
            journal.grow(2)
            ears.say({"run-1": 5})
            await page.follow(place, 5)
            with suppress(TimeoutError):
                async with asyncio.timeout(0.3):
                    while True:
                        page.take((await place.next()).text)
                        await asyncio.sleep(0)
        assert page.rows == [4, 5]

    live(scene, journal)


def test_a_look_that_failed_is_made_again(monkeypatch, caplog):
    monkeypatch.setattr(watch_module, "RETRY_S", 0.01)
    journal = Journal(3)

    async def scene(hub, ears):
        page = Page(after=3)
        async with joined(hub, page) as place:
            journal.broken = True
            journal.grow(2)
            ears.say({"run-1": 5})
            await journal.asked(lambda: len(journal.reads) >= 4)
            journal.broken = False
            await page.follow(place, 5)
        assert page.rows == [4, 5]

    live(scene, journal)
    assert "could not be read" in caplog.text


def test_two_workspaces_do_not_share_a_reader():
    async def scene(hub, ears):
        mine, theirs = Page(after=2), Page(after=2)
        async with joined(hub, mine), joined(hub, theirs, RunKey("other", "run-1")):
            assert hub.watched == 2

    live(scene, Journal(2))


def test_a_reader_ends_after_its_last_follower(monkeypatch):
    monkeypatch.setattr(hub_module, "LINGER_S", 0)
    journal = Journal(2)

    async def scene(hub, ears):
        async with joined(hub, Page(after=2)):
            assert hub.watched == 1
        for _ in range(3):
            await asyncio.sleep(0)
        assert hub.watched == 0
        before = len(journal.reads)
        journal.grow(3)
        ears.say({"run-1": 5})
        async with joined(hub, Page(after=2)) as place:
            assert len(journal.reads) > before
            assert place.cursor >= 2

    live(scene, journal)


def test_frames_are_at_least_forty_milliseconds_apart():
    """Counted, not timed: 200 single rows within one frame's time are a handful of looks."""
    journal = Journal(1)

    async def scene(hub, ears):
        page = Page(after=1)
        async with joined(hub, page) as place:
            following = asyncio.create_task(page.follow(place, 201))
            for _ in range(200):
                journal.grow()
                ears.say({"run-1": journal.seq})
                await asyncio.sleep(0)
            await following
        assert page.rows == list(range(2, 202))
        assert len(page.frames) < 20

    live(scene, journal)
