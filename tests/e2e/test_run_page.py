"""A run's page in a real browser: its parts follow the run, its views are links, and it works without a script."""

from __future__ import annotations

import pytest

from tests.e2e.test_first_run import start

pytestmark = [pytest.mark.e2e, pytest.mark.slow]


def test_header_and_timeline_follow_the_run(visit):
    visitor = visit()
    page = visitor.page
    start(visitor, "doubtful")
    page.locator("article.question").wait_for()
    assert page.locator("#panel-head .waits").count() == 1
    # The wait reaches to the edge of the lane: it goes on.
    assert page.locator("#panel-timeline rect.g-human").count() >= 1
    assert page.locator("#panel-timeline tr.worker").count() >= 1
    page.locator("article.question").get_by_role("button", name="Approve").click()
    page.locator("#live[data-live=ended]").wait_for()
    assert page.locator("#panel-head .waits").count() == 0
    assert page.locator("#panel-timeline line.g-now").count() == 0
    assert page.locator("#panel-head .margin").count() >= 6
    seen = page.locator("#panel-timeline").inner_html()
    page.reload()
    assert page.locator("#panel-timeline").inner_html() == seen  # What was built live is what is there.
    assert visitor.complaints == []


def test_every_view_follows_the_run_to_its_end(visit):
    visitor = visit()
    page = visitor.page
    start(visitor, "doubtful")
    page.locator("article.question").wait_for()
    run = page.url.partition("?")[0]
    page.get_by_role("link", name="Graph").click()
    page.wait_for_url("**view=graph")
    assert "waits for a person" in page.locator("#panel-graph").inner_text()
    page.locator("article.question").get_by_role("button", name="Approve").click()
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
    visitor = visit(java_script_enabled=False)
    page = visitor.page
    start(visitor, "doubtful")
    while page.locator("article.question").count() == 0:
        page.locator("#live").click()
    page.get_by_role("link", name="Cost", exact=True).click()
    assert "By model" in page.locator("#panel-cost").inner_text()
    page.get_by_role("link", name="Input and output").click()
    assert "What do the notes say about costs?" in page.locator("#panel-io").inner_text()


@pytest.mark.parametrize("width", [1440, 390])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_view_scrolls_sideways(visit, width, scheme):
    visitor = visit(viewport={"width": width, "height": 900}, color_scheme=scheme)
    page = visitor.page
    start(visitor, "Research desk")
    page.locator("#live[data-live=ended]").wait_for()
    run = page.url.partition("?")[0]
    for query in ("", "?view=events", "?view=graph", "?view=protections", "?view=cost", "?view=io", "?fold=off"):
        page.goto(f"{run}{query}")
        assert page.evaluate("document.documentElement.scrollWidth") <= width, query
    assert visitor.complaints == []
