"""The hub when there is much: pages far behind, bursts, a thousand that come back at once. Work is counted, not timed."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack

import pytest

from console.live import reader as watch_module
from console.live.frames import BEHIND_MAX, FRAME_ROWS
from console.live.reader import RING_ROWS
from tests.console.live.journal import KEY, Journal
from tests.console.live.pages import FAR, Page, joined, live


@pytest.mark.parametrize("far", [BEHIND_MAX - 10, RING_ROWS * 3])
def test_a_page_behind_beside_one_at_the_tip(far):
    """A little behind it gets every row; far behind it gets one link to what it missed, and the newest rows."""
    journal = Journal(far)

    async def scene(hub, ears):
        first, late = Page(after=far), Page()
        async with joined(hub, first) as tip, joined(hub, late) as behind:
            journal.grow(7)
            ears.say({"run-1": journal.seq})
            await asyncio.gather(first.follow(tip, far + 7), late.follow(behind, far + 7))
        assert first.rows == list(range(far + 1, far + 8))
        folded = sum(last - begun + 1 for begun, last in late.folded)
        assert folded == (far - FRAME_ROWS if far > BEHIND_MAX else 0)
        assert late.rows == list(range(folded + 1, far + 8))

    live(scene, journal)


def test_a_first_follower_far_behind_costs_two_looks_and_delays_no_one():
    journal = Journal(20 * RING_ROWS)

    async def scene(hub, ears):
        late, tip = Page(), Page(after=journal.seq)
        async with joined(hub, late), joined(hub, tip) as place:
            assert late.folded == [(1, journal.seq - FRAME_ROWS)]
            assert len(journal.reads) == 2
            journal.grow()
            ears.say({"run-1": journal.seq})
            await tip.follow(place, journal.seq)
        assert len(journal.reads) == 3

    live(scene, journal)


def test_a_burst_of_ten_thousand_rows_is_a_hundred_rows_and_one_link():
    journal = Journal(1)

    async def scene(hub, ears):
        pages = [Page(after=1) for _ in range(20)]
        async with AsyncExitStack() as stack:
            places = [await stack.enter_async_context(joined(hub, page)) for page in pages]
            journal.grow(10_000)
            ears.say({"run-1": journal.seq})
            await asyncio.gather(*(page.follow(place, 10_001) for page, place in zip(pages, places, strict=True)))
        for page in pages:
            assert page.folded == [(2, 9_901)]
            assert page.rows == list(range(9_902, 10_002))
            assert '<a href="/runs/run-1?before=9902#events">9,900 more</a>' in page.frames[-1].replace('\\"', '"')
        assert journal.rendered <= 201

    live(scene, journal)


def test_rows_that_come_faster_than_frames_are_all_there_in_order():
    """Bursts of every size, while pages come and go: each row is shown once, or stands behind exactly one link."""
    journal = Journal(0)

    async def scene(hub, ears):
        page = Page()
        for size in (1, 99, 100, 101, 250, 300, 301, 450, 2_000, 3):
            journal.grow(size)
            with hub.follow(KEY, page.cursor, page.panels) as place:
                ears.say({"run-1": journal.seq})
                await page.follow(place, journal.seq)
        hidden = [seq for first, last in page.folded for seq in range(first, last + 1)]
        assert sorted(hidden + page.rows) == list(range(1, journal.seq + 1))
        assert page.rows == sorted(page.rows)

    live(scene, journal)


def test_a_thousand_pages_that_come_back_at_once_are_one_look():
    journal = Journal(60)

    async def scene(hub, ears):
        pages = [Page(after=40) for _ in range(1_000)]

        async def come_back(page):
            with hub.follow(KEY, page.cursor, page.panels) as place:
                await page.follow(place, 60)

        await asyncio.gather(*map(come_back, pages))
        assert all(page.rows == list(range(41, 61)) for page in pages)
        assert len(journal.reads) == 1
        assert hub.watched == 1

    live(scene, journal)


@pytest.mark.parametrize(("look_s", "least_s"), [(0.0, watch_module.FRAME_MIN_S), (0.3, watch_module.FRAME_MAX_S)])
def test_the_harder_a_look_is_the_rarer_frames_become(monkeypatch, look_s, least_s):
    """By the reader's own clock: pauses asked for, not time passed."""
    journal = Journal(1)
    pauses = []
    real = asyncio.sleep

    async def sleep(seconds, *more):
        if watch_module.FRAME_MIN_S <= seconds < FAR:
            pauses.append(seconds)
        await real(seconds, *more)

    journal.look_s = look_s
    monkeypatch.setattr(watch_module.asyncio, "sleep", sleep)

    async def scene(hub, ears):
        page = Page(after=1)
        async with joined(hub, page) as place:
            for _ in range(3):
                journal.grow()
                ears.say({"run-1": journal.seq})
                await page.follow(place, journal.seq)

    live(scene, journal)
    assert pauses
    assert min(pauses) >= least_s
    assert max(pauses) <= watch_module.FRAME_MAX_S
