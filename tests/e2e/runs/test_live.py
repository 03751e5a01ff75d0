"""A page that follows a run in a real browser, through whatever happens to it: every event is in it once, and in order."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise

import pytest
from playwright.sync_api import Page, Route

from console.live.frames import FRAME_ROWS
from tests.console.launch.started_processes import Lines, started
from tests.e2e.asked import asked
from tests.e2e.chromium import UNSEEN, chromium_path
from tests.e2e.conftest import NOWHERE, PATIENCE_MS
from tests.e2e.runs.feeder import feeding

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

BEGUN = 10
"""Events that a run has when its page is opened."""
WATCH = """() => {
  window.added = [];
  const seqs = (nodes) => [...nodes].filter((node) => node.dataset?.seq).map((row) => Number(row.dataset.seq));
  new MutationObserver((changes) => changes.forEach((change) => window.added.push(...seqs(change.addedNodes))))
    .observe(document.getElementById("events-rows"), { childList: true });
}"""
CLOSE = "document.getElementById('live-socket')._htmx.ws.connection.socket.close()"
OPEN = """() => {
  window.htmx?.process(document.body); // Or else it is chance: htmx looks once by itself, and its part for sockets may come after that.
  return document.getElementById("live-socket")?._htmx?.ws?.connection;
}"""
"""Has htmx open the page's socket as soon as it can."""


@pytest.fixture(scope="module")
def like(installation):
    """A run that those of the tests are made after."""
    return asked(installation, "doubtful", "What do the notes say about costs?")


@pytest.fixture(scope="module")
def feeder(installation):
    with feeding(installation) as found:
        yield found


@pytest.fixture
def run_id(feeder, like):
    return feeder.make(like, BEGUN)


class Follower:
    """A page with every event of a run, and what was added to it while it was open."""

    def __init__(self, page: Page, base: str, run_id: str) -> None:
        self.page = page
        self.sockets = 0
        page.on("websocket", self._opened)
        page.goto(f"{base}/runs/{run_id}?events=full")
        self.is_live()
        page.evaluate(WATCH)

    def _opened(self, _: object) -> None:
        self.sockets += 1

    def is_live(self) -> None:
        self.page.locator("#live[data-live=live]").wait_for()

    def has(self, seq: int) -> None:
        """Waits for an event."""
        self.page.locator(f"#events-rows tr[data-seq='{seq}']").wait_for(state="attached")

    @property
    def rows(self) -> list[tuple[int, int]]:
        """Return what the list stands for, in its order: rows, and ranges behind links."""
        ranges = "rows => rows.map(({dataset}) => [Number(dataset.seq ?? dataset.first), Number(dataset.seq ?? dataset.last)])"
        return [(first, last) for first, last in self.page.eval_on_selector_all("#events-rows tr", ranges)]

    def is_whole(self, seq: int, *, since: int = BEGUN) -> None:
        """Every event once and in order, and none was ever there that was taken away again."""
        self.has(seq)
        assert self.rows == [(number, number) for number in range(1, seq + 1)]
        assert self.page.evaluate("window.added") == list(range(since + 1, seq + 1))


@pytest.fixture
def follower(visit, installation, run_id):
    visitor = visit(NOWHERE)
    yield Follower(visitor.page, installation.base, run_id)
    assert visitor.complaints == []


def test_reloaded_in_the_middle(follower, feeder):
    feeder.begin(60)
    for _ in range(5):
        follower.page.reload()
        follower.is_live()
    follower.page.evaluate(WATCH)
    rows = follower.rows  # Read once: more may come meanwhile.
    assert rows == [(seq, seq) for seq in range(1, len(rows) + 1)]
    feeder.begin(10)
    reached = feeder.end()
    follower.has(reached)
    assert follower.rows == [(seq, seq) for seq in range(1, reached + 1)]


def test_a_socket_that_is_closed_twenty_times(follower, feeder):
    for _ in range(20):
        feeder.begin(4)
        with follower.page.expect_websocket():
            follower.page.evaluate(CLOSE)
        feeder.end()
    follower.is_whole(feeder.add(1))
    assert follower.sockets >= 21


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_web_server_that_is_started_anew(follower, feeder, installation, number):
    """In good order or not: what was recorded while it was away comes too."""
    for _ in range(2):
        feeder.begin(20)
        with follower.page.expect_websocket():
            os.kill(installation.web_server(), number)
            feeder.end()
        reached = feeder.add(5)
        follower.has(reached)
    follower.is_live()
    follower.is_whole(reached)


def test_a_network_that_goes_and_comes(follower, feeder):
    page = follower.page
    for _ in range(3):
        page.context.set_offline(True)
        page.locator("#live[data-live=stale]", has_text="Offline").wait_for()
        feeder.add(15, 5)
        with page.expect_websocket():
            page.context.set_offline(False)
        # By the new socket alone. What was still on its way on it would say next time that the page is live, offline or not.
        reached = feeder.add(1)
        follower.has(reached)
        follower.is_live()
    follower.is_whole(reached)


def test_a_network_that_went_before_anything_was_said(visit, installation, feeder, run_id):
    """The socket was there before the page's own script, and nothing had come on it: the page finds it all the same."""
    page = visit(NOWHERE).page

    def follow(route: Route) -> None:
        page.wait_for_function(OPEN)
        route.continue_()

    page.route("**/runs/live*.js", follow)
    page.goto(f"{installation.base}/runs/{run_id}?events=full", wait_until="domcontentloaded")
    page.context.set_offline(True)
    page.locator("#live[data-live=stale]", has_text="Offline").wait_for()
    with page.expect_websocket():
        page.context.set_offline(False)
    page.locator(f"#events-rows tr[data-seq='{feeder.add(1)}']").wait_for()


@pytest.mark.parametrize("jump_s", [3_600, -7_200])
def test_a_clock_that_is_set_while_the_page_is_open(follower, feeder, jump_s):
    """An operator sets the clock, or the machine was asleep: nothing is lost, and what the page says of the age becomes true again."""
    page = follower.page
    feeder.begin(20)
    page.clock.set_system_time(time.time() + jump_s)
    reached = feeder.end()
    follower.has(reached)
    reached = feeder.add(5)
    follower.has(reached)
    page.locator("#live[data-live=live] [data-age]", has_text=re.compile(r"^(now|\d s|1\d s)$")).wait_for()
    follower.is_whole(reached)


def test_a_server_that_falls_silent_is_called_stale_and_not_live(follower, feeder, installation):
    """The badge: live, stale with its age, live again."""
    page, stopped = follower.page, installation.web_server()
    os.kill(stopped, signal.SIGSTOP)
    try:
        page.clock.set_system_time(time.time() + 30)
        stale = page.locator("#live[data-live=stale]", has_text="Stale")
        stale.wait_for()
        assert re.fullmatch(r"(29|[3-5]\d) s", stale.locator("[data-age]").inner_text())
    finally:
        os.kill(stopped, signal.SIGCONT)
    reached = feeder.add(5)
    follower.has(reached)
    follower.is_live()
    follower.is_whole(reached)


def test_a_page_that_is_paused_says_how_much_waits(follower, feeder):
    page = follower.page
    page.get_by_role("button", name="Pause").click()
    page.locator("#live[data-live=paused]", has_text="Paused").wait_for()
    reached = feeder.add(12, 3)
    page.locator("#live [data-age]", has_text="12 more wait").wait_for()
    assert follower.rows[-1] == (BEGUN, BEGUN)
    page.locator("#live-pause").click()
    follower.has(reached)
    follower.is_live()
    follower.is_whole(reached)


def test_a_page_out_of_the_browsers_own_keeping_is_made_anew(follower, feeder):
    """Back to a page that was kept: its socket was closed when it was left. Told to it as the browser does."""
    page = follower.page
    page.evaluate("dispatchEvent(new PageTransitionEvent('pagehide', {persisted: true}))")
    reached = feeder.add(7)
    with page.expect_navigation():
        page.evaluate("setTimeout(() => dispatchEvent(new PageTransitionEvent('pageshow', {persisted: true})))")
    follower.has(reached)
    follower.is_live()
    assert follower.rows == [(seq, seq) for seq in range(1, reached + 1)]


# -- tabs that are really hidden ----------------------------------------------------------------------------------------


@contextmanager
def plain_chromium(profile: str) -> Iterator[str]:
    """A Chromium that does not keep every tab visible; the address it is driven at."""
    path = chromium_path()
    assert path is not None
    command = [
        path,
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--no-first-run",
        f"--disable-features={UNSEEN}",
    ]
    told = ["--remote-debugging-port=0", f"--user-data-dir={profile}"]
    with started([*command, *told, "about:blank"], stderr=subprocess.PIPE) as process:
        assert process.stderr is not None
        lines = Lines(process.stderr.fileno())
        while not (found := re.search(r"DevTools listening on (\S+)", lines.next())):
            assert process.poll() is None, "it ended"
        yield found[1]


@pytest.fixture
def tabs(chromium, installation, tmp_path, signed_in):
    """Two tabs of one window, of which one at most can be seen; the first one is signed in."""
    with plain_chromium(str(tmp_path)) as address:
        browser = chromium.browser_type.connect_over_cdp(address, no_defaults=True)
        context = browser.contexts[0]
        context.set_default_timeout(PATIENCE_MS)
        context.add_cookies(signed_in["cookies"])
        first = context.pages[0]
        other = context.new_page()
        first.bring_to_front()
        yield first, other
        browser.close()


def hide(first: Page, other: Page) -> None:
    other.bring_to_front()
    first.wait_for_function("document.hidden", polling=100)


@pytest.mark.parametrize("frozen", [False, True])
def test_a_hidden_tab_that_comes_back(tabs, feeder, installation, run_id, frozen):
    """Hidden it follows nothing; frozen nothing in it runs at all, as on a laptop that sleeps."""
    first, other = tabs
    follower = Follower(first, installation.base, run_id)
    devtools = first.context.new_cdp_session(first)
    for _ in range(3):
        hide(first, other)
        assert first.locator("#live").get_attribute("data-live") == "paused"
        if frozen:
            devtools.send("Page.setWebLifecycleState", {"state": "frozen"})
        reached = feeder.add(30, 5)
        if frozen:
            devtools.send("Page.setWebLifecycleState", {"state": "active"})
        assert len(follower.rows) == reached - 30
        feeder.begin(10)
        first.bring_to_front()
        reached = feeder.end()
        follower.has(reached)
        follower.is_live()
    follower.is_whole(reached)


def test_ten_thousand_events_behind_a_hidden_tab_are_a_link_and_the_newest_hundred(tabs, feeder, installation, run_id):
    first, other = tabs
    follower = Follower(first, installation.base, run_id)
    hide(first, other)
    reached = feeder.add(10_000, 500)
    first.bring_to_front()
    follower.has(reached)
    rows = follower.rows
    assert all(first_seq == last_before + 1 for (_, last_before), (first_seq, _) in pairwise(rows))
    # One look of the reader, or some where it looked while they were written: each is a link and a hundred rows.
    looks = sum(first_seq != last for first_seq, last in rows)
    assert looks
    assert BEGUN + looks + FRAME_ROWS <= len(rows) <= BEGUN + looks * (1 + FRAME_ROWS)
    first_seq, last = rows[BEGUN]
    link = first.locator("#events-rows tr.folded a").first
    assert link.inner_text() == f"{last - first_seq + 1:,} more"
    link.click()
    first.locator(f"#events-rows tr[data-seq='{last}']").wait_for()
    assert {last - first_seq for first_seq, last in follower.rows} == {0}


# -- signing out --------------------------------------------------------------------------------------------------------


def test_a_page_whose_user_signs_out_elsewhere_shows_no_more(visit, installation, feeder, run_id):
    visitor = visit(NOWHERE, alone=True)
    follower = Follower(visitor.page, installation.base, run_id)
    page = visit(NOWHERE, of=visitor).page
    page.goto("/runs")
    page.get_by_role("button", name="Sign out").first.click()
    page.wait_for_url("**/login")
    follower.page.locator("#live[data-live=stale]", has_text="Signed out").wait_for()
    rows = follower.rows
    feeder.add(5)
    sockets = follower.sockets
    with page.expect_response("**/login"):
        page.reload()
    assert follower.rows == rows
    assert follower.sockets == sockets
    assert visitor.complaints == []
