"""A run's page in a real browser: its parts follow the run, its views are links, and it works without a script."""

from __future__ import annotations

import pytest

from tests.e2e.asked import asked
from tests.e2e.conftest import NOWHERE
from tests.e2e.decided import decided
from tests.e2e.runs.test_first_run import start

pytestmark = [pytest.mark.e2e, pytest.mark.slow]


def beside(page):
    """Return what stands around the list of events: how many there are, in the tabs too, and where one would begin to read."""
    counts = [page.locator(place).text_content() for place in ("#events-shown", "#events-all", ".tabs")]
    marks = page.locator("#landmarks li").evaluate_all(
        "all => all.map(li => [li.innerText, li.dataset.tone, ...['href', 'hx-get', 'data-press'].map(n => li.firstElementChild.getAttribute(n))])"
    )
    assert len(marks) > 3
    return [*(" ".join(said.split()) for said in counts), *marks]


def test_header_and_timeline_follow_the_run(visit):
    visitor = visit(NOWHERE)
    page = visitor.page
    start(visitor, "doubtful")
    page.locator("article.review").wait_for()
    assert page.locator("#panel-head .waits").count() == 1
    # The wait reaches to the edge of the lane: it goes on.
    assert page.locator("#panel-timeline rect.g-human").count() >= 1
    assert page.locator("#panel-timeline tr.worker").count() >= 1
    decided(page, "approve")
    page.locator("#live[data-live=ended]").wait_for()
    assert page.locator("#panel-head .waits").count() == 0
    assert page.locator("#panel-timeline line.g-now").count() == 0
    assert page.locator("#panel-head .margin").count() >= 4
    seen = page.locator("#panel-timeline").inner_html()
    told = beside(page)
    page.reload()
    assert page.locator("#panel-timeline").inner_html() == seen  # What was built live is what is there.
    assert beside(page) == told
    assert visitor.complaints == []


def test_every_view_follows_the_run_to_its_end(visit):
    visitor = visit(NOWHERE)
    page = visitor.page
    start(visitor, "doubtful")
    page.locator("article.review").wait_for()
    run = page.url.partition("?")[0]
    page.get_by_role("link", name="Graph").click()
    page.wait_for_url("**view=graph")
    assert "waits for a person" in page.locator("#panel-graph").inner_text()
    decided(page, "approve")
    page.locator("#live[data-live=ended]").wait_for()
    page.locator("#panel-graph", has_not_text="waits for a person").wait_for()
    for view, target in (
        ("protections", "#panel-protections"),
        ("cost", "#panel-cost"),
        ("io", "#panel-io"),
        ("events", "#events"),
    ):
        page.goto(f"{run}?view={view}")
        assert page.locator(target).is_visible()
        assert page.locator(".tabs [aria-current=page]").count() == 1
    assert visitor.complaints == []


def test_views_and_folding_are_links_that_need_no_script(visit):
    visitor = visit(NOWHERE, java_script_enabled=False)
    page = visitor.page
    start(visitor, "doubtful")
    while page.locator("article.review").count() == 0:
        page.locator("#live").click()
    page.get_by_role("link", name="Cost", exact=True).click()
    assert "By model" in page.locator("#panel-cost").inner_text()
    page.get_by_role("link", name="Input and output").click()
    assert "What do the notes say about costs?" in page.locator("#panel-io").inner_text()


@pytest.mark.parametrize("width", [1440, 390])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_view_scrolls_sideways(visit, width, scheme):
    visitor = visit(NOWHERE, viewport={"width": width, "height": 900}, color_scheme=scheme)
    page = visitor.page
    start(visitor, "Research desk")
    page.locator("#live[data-live=ended]").wait_for()
    run = page.url.partition("?")[0]
    for query in ("", "?view=events", "?view=graph", "?view=protections", "?view=cost", "?view=io", "?fold=off"):
        page.goto(f"{run}{query}")
        assert page.evaluate("document.documentElement.scrollWidth") <= width, query
    assert visitor.complaints == []


@pytest.fixture(scope="module")
def desk(installation):
    """The address of a run that has ended."""
    return f"/runs/{asked(installation, 'research-desk', 'Which notes are there?')}"


def test_bars_and_names_of_the_timeline_show_their_event_beside_it(visit, desk):
    visitor = visit(NOWHERE)
    page = visitor.page
    page.goto(desk)
    page.locator("#live[data-live=ended]").wait_for()
    address = page.url
    bar = page.locator("#panel-timeline tr.worker rect.g-model").first
    said = bar.locator("title").text_content()
    bar.click()
    page.locator(f"#inspector [data-shown='{said.rpartition(' ')[2]}']").wait_for()
    page.locator("#panel-timeline tr.stage th a", has_text="validate").click()
    page.locator("#h-inspector", has_text="Stage began").wait_for()
    assert page.locator("#events-rows a.seq[aria-current]").count() == 1
    assert page.url == address  # Nothing was loaded but what stands beside it.
    assert visitor.complaints == []


def test_keys_lead_from_stage_to_stage_and_unfold_time(visit, desk):
    visitor = visit(NOWHERE)
    page = visitor.page
    page.goto(desk)
    page.locator("#live[data-live=ended]").wait_for()
    title, verdict = page.locator("#h-inspector"), page.locator("#inspector .verdict")
    page.keyboard.press("]")
    title.wait_for()
    seen = []
    for stage in ("Plan", "Fan-out", "Fan-in", "Validate", "Finalize"):
        page.locator("#inspector .verdict", has_text=f"{stage} began").wait_for()
        seen.append(verdict.inner_text().split()[0])
        page.keyboard.press("]")
    page.keyboard.press("[")
    page.locator("#inspector .verdict", has_text="Validate began").wait_for()
    assert seen == ["Plan", "Fan-out", "Fan-in", "Validate", "Finalize"]
    for key, view in (("y", "graph"), ("c", "cost"), ("v", "events")):
        page.keyboard.press(key)
        page.wait_for_url(f"**view={view}")
    page.keyboard.press("t")
    page.wait_for_url(lambda url: "view=" not in url)
    assert visitor.complaints == []


def test_idle_time_is_unfolded_by_a_key_and_folded_again(visit):
    visitor = visit(NOWHERE)
    page = visitor.page
    start(visitor, "doubtful")
    page.locator("article.review").wait_for()
    page.goto(f"{page.url.partition('?')[0]}?fold=off")
    page.keyboard.press("z")
    page.wait_for_url(lambda url: "fold=off" not in url)
    assert visitor.complaints == []


def test_a_run_is_started_like_another_one(visit, desk):
    visitor = visit(NOWHERE)
    page = visitor.page
    page.goto(desk)
    page.get_by_role("link", name="Run again").click()
    page.wait_for_url("**/start?from=*")
    assert page.get_by_label("Your request").input_value() == "Which notes are there?"
