"""A run's page counts on between two events: the line of now, each call that is out, and the active time."""

from __future__ import annotations

import re

import pytest

from tests.e2e.conftest import NOWHERE
from tests.e2e.runs.test_first_run import start
from tests.e2e.scenes import FABRIC

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

SLOW = FABRIC.format(name="slow", title="Slow", description="Thinks long.", options="{delay_s: 25}", budget=1_000_000)


@pytest.fixture(scope="module")
def slow(installation):
    installation.publish(SLOW)
    return "slow"


def counted(page):
    """Return the call's seconds, the places of the line of now and of its filled part, and the active time."""
    said = page.locator("#panel-timeline [data-out]").first.text_content()
    seconds = re.fullmatch(r"waits for script, (\d+) s of 30 s", said)
    assert seconds, said
    line, bar = page.locator("#tl-grid line.moves"), page.locator("#panel-timeline .g-elapsed").first
    places = [float(one.rstrip("%")) for one in (line.get_attribute("x1"), bar.get_attribute("width"))]
    return int(seconds[1]), *places, page.locator("[data-grows]").text_content()


@pytest.mark.parametrize("motion", ["no-preference", "reduce"])
def test_a_call_that_is_out_is_counted_in_the_browser(visit, slow, motion):
    visitor = visit(NOWHERE, reduced_motion=motion)
    page = visitor.page
    start(visitor, slow)
    page.locator("#panel-timeline [data-out]").first.wait_for(state="attached")
    page.clock.install()
    page.reload()
    page.clock.run_for(1_000)
    seconds, line, bar, active = counted(page)
    seqs = visitor.rows
    page.clock.run_for(6_000)
    later = counted(page)
    assert later[0] == seconds + 6
    assert later[3] != active
    assert (later[1] > line, later[2] > bar) == (motion == "no-preference",) * 2
    page.keyboard.press("p")
    page.locator("#live[data-live=paused]").wait_for()
    held = counted(page)
    page.clock.run_for(6_000)
    assert counted(page) == held  # Nothing moves on a page that its reader paused.
    assert visitor.rows == seqs
    assert visitor.complaints == []
