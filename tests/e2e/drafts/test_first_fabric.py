"""A first fabric, from a template to the result of its first run: in a handful of steps, by mouse and by keyboard alone; and how fast it is checked while one types.

Steps are counted as the person counts them who sits there: a click, a field that is filled in, a key that leads on. The figures are printed (``-s``), not asserted.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from statistics import median, quantiles

import pytest
from playwright.sync_api import Page, Response, expect

from tests.e2e.conftest import NOWHERE
from tests.e2e.installation import RUN

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

CELL = "provider_failure.interactive"
TIMES = f"f.decision_table.{CELL}.rungs.0.times"
HANDFUL = 16
"""Steps that are too many."""
TABS_MAX = 60
TYPED = "A first fabric of somebody who has never seen one before."


@dataclass
class Steps:
    """The steps of an author, in order."""

    page: Page
    done: list[str] = field(default_factory=list)

    def __call__(self, what: str, act: Callable[[], object]) -> None:
        self.done.append(what)
        act()

    def told(self, how: str) -> None:
        """Prints them, and holds them to a handful."""
        print(f"\n{how}: {len(self.done)} steps from the list of fabrics to a result: {'; '.join(self.done)}")
        assert len(self.done) <= HANDFUL


def published(page: Page, name: str) -> None:
    """Its page says that it is, and its table that a cell is of its own."""
    page.wait_for_url(re.compile(rf"/fabrics/{name}(\?.*)?$"))
    expect(page.locator(".page-head .badge").first).to_have_text("Published")


def result(page: Page) -> None:
    """A run that came to its end."""
    page.wait_for_url(RUN)
    page.locator("#live[data-live=ended]").wait_for()
    assert page.locator("#panel-head .badge").first.inner_text() == "Completed"


def test_by_mouse(visit, installation):
    page = visit(NOWHERE).page
    page.goto("/fabrics")
    step = Steps(page)
    step("New fabric", page.get_by_role("link", name="New fabric").click)
    step("the template", page.locator(".template", has_text="Blank").click)
    step("its name", lambda: page.locator("#name").fill("first-by-mouse"))
    step("Create draft", page.locator("#begin").click)
    page.wait_for_url("**/fabrics/first-by-mouse/draft")
    step("Decision table", page.get_by_role("link", name="Decision table").click)
    step("a cell", page.locator(f'[id="open-{CELL}"]').click)
    times = page.locator(f'[id="{TIMES}"]')
    before = times.get_attribute("placeholder") or times.input_value()
    step("its retries", lambda: times.fill("1"))
    expect(page.locator("#saved")).to_contain_text("Draft")
    expect(page.locator("#draft-head")).to_contain_text("1 change")
    assert before != "1"
    step("Publish…", page.locator("#to-publish").click)
    step("Publish", page.locator("#publish").click)
    published(page, "first-by-mouse")
    step("Start a run", page.get_by_role("link", name="Start a run").click)
    step("the request", lambda: page.locator("#text").fill("Say what you can do."))
    step("Start the run", page.get_by_role("button", name="Start the run").click)
    result(page)
    step.told("by mouse")
    ((spec,),) = installation.stored(
        "SELECT r.spec FROM fabric_revision r JOIN fabric_fabric f ON f.published_id = r.id WHERE f.name = 'first-by-mouse'"
    )
    assert '"provider_failure"' in str(spec)


def tab_to(page: Page, wanted: str) -> None:
    """Tab until what has that id, or says that, has the focus."""
    for _ in range(TABS_MAX):
        if wanted in page.evaluate("[document.activeElement.id, document.activeElement.textContent.trim()]"):
            return
        page.keyboard.press("Tab")
    raise AssertionError(f"{wanted} was not reached in {TABS_MAX} tabs")


def filled(page: Page, wanted: str, text: str) -> None:
    """Go to a field by Tab and write into it."""
    tab_to(page, wanted)
    page.keyboard.press("Control+a")
    page.keyboard.type(text)


def test_by_keyboard_alone(visit):
    page = visit(NOWHERE).page
    page.goto("/fabrics")
    keys, step = page.keyboard, Steps(page)
    step("n", lambda: keys.press("n"))
    page.wait_for_url("**/fabrics/+new")
    tab_to(page, "t-research")
    step("the template", lambda: keys.press("ArrowUp"))  # Round to the last one: Blank.
    expect(page.locator("#t-blank")).to_be_checked()
    step("its name", lambda: filled(page, "name", "first-by-keys"))
    step("Enter", lambda: keys.press("Enter"))
    page.wait_for_url("**/fabrics/first-by-keys/draft")
    tab_to(page, "Decision table")
    step("Decision table", lambda: keys.press("Enter"))
    page.wait_for_url("**part=table**")
    first = page.locator("[data-cell]").first.get_attribute("id")
    assert first
    tab_to(page, first)
    step("a cell", lambda: moved_to(page, f"open-{CELL}"))
    step("Enter", lambda: keys.press("Enter"))
    page.locator(f'[id="{TIMES}"]').wait_for()
    step("its retries", lambda: filled(page, TIMES, "1"))
    expect(page.locator("#draft-head")).to_contain_text("1 change")
    step("Ctrl Enter", lambda: keys.press("Control+Enter"))
    page.wait_for_url("**/draft/publish")
    step("Ctrl Enter", lambda: keys.press("Control+Enter"))
    published(page, "first-by-keys")
    tab_to(page, "Start a run")
    step("Start a run", lambda: keys.press("Enter"))
    page.wait_for_url("**/start?fabric=first-by-keys")
    step("the request", lambda: filled(page, "text", "Say what you can do."))
    step("Ctrl Enter", lambda: keys.press("Control+Enter"))
    result(page)
    step.told("by keyboard")


def moved_to(page: Page, wanted: str) -> None:
    """Down and across in the grid until a cell has the focus."""
    for key in ["ArrowDown"] * 8:
        for _ in range(3):
            if page.evaluate("document.activeElement.id") == wanted:
                return
            page.keyboard.press("ArrowRight")
        for _ in range(3):
            page.keyboard.press("ArrowLeft")
        page.keyboard.press(key)
    raise AssertionError(f"{wanted} was not reached")


def test_how_fast_it_is_checked_while_one_types(visit):
    page = visit(NOWHERE).page
    page.goto("/fabrics/+new?template=document-check")
    page.locator("#name").fill("typed-into")
    page.locator("#begin").click()
    page.wait_for_url("**/fabrics/typed-into/draft")
    described = page.locator('[name="f.description"]')
    described.fill("")
    expect(page.locator("#saved")).to_contain_text("Draft")
    took: list[float] = []
    for letter in TYPED:
        with page.expect_response(is_saving) as answered:
            described.press_sequentially(letter)
        timing = answered.value.request.timing
        took.append(timing["responseStart"] - timing["requestStart"])
    assert len(took) >= 30
    p95 = quantiles(took, n=20)[-1]
    print(
        f"\nchecked while typing, {len(took)} keystrokes: p50 {median(took):.0f} ms, p95 {p95:.0f} ms, most {max(took):.0f} ms"
    )
    expect(page.locator("#problems")).to_contain_text("Ready to publish.")
    expect(described).to_have_value(TYPED)


def is_saving(response: Response) -> bool:
    return response.request.method == "POST" and "/draft?part=" in response.url
