"""A graph of rules by hand: from the template to a run whose turns say why, with a rule that can never apply and a worker who is gone on the way; and what goes round is red."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.e2e.conftest import NOWHERE
from tests.e2e.drafts.test_first_fabric import is_saving, published, result, tab_to
from tests.e2e.drafts.topology_scenes import ROUND
from tests.e2e.installation import RUN

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

RULE = "topology.transitions.7"
"""The eighth, which is written by hand."""
REQUEST = "The app shows a crash when I install it. What now?"


def field(page: Page, path: str) -> Locator:
    """The control of a place in the draft."""
    return page.locator(f'[id="f.{path}"]')


def chosen(page: Page, path: str, word: str, keys: str) -> None:
    """A choice by keyboard alone: to the field by Tab, and the letters with which the word begins."""
    tab_to(page, f"f.{path}")
    with page.expect_response(is_saving):
        page.keyboard.type(keys)
    expect(field(page, path).locator("option:checked")).to_have_text(word)


def told(page: Page, *sentences: str) -> None:
    """The problems of the draft, in order."""
    found = page.locator("#problems .problems span")
    expect(found).to_have_text([re.compile(re.escape(one)) for one in sentences])


def leads(page: Page) -> Locator:
    """Return what the picture says that leads to the end, as rows of its table."""
    return page.locator("section[aria-labelledby=h-links] tr", has_text="end of the conversation")


def a_rule_that_never_applies(page: Page) -> None:
    """A rule of one's own has the focus; its first form is one that another always comes before. F8 leads to it, and another speaker mends it."""
    page.locator('[id="add.topology.transitions"]').click()
    expect(field(page, f"{RULE}.when.kind")).to_be_focused()
    chosen(page, f"{RULE}.when.kind", "one of them spoke", "one of them sp")
    told(
        page,
        "Rule 8 can never end the conversation: rule 5 (from_speaker) is tried before it and holds whenever it would",
    )
    expect(page.locator("#draft-tabs [aria-current] .n")).to_contain_text("1 error")
    expect(page.locator("#problems code")).to_contain_text("topology.transitions.7")
    expect(leads(page)).to_have_count(2)  # The reviewer's rule, and what is passed on.
    page.keyboard.press("F8")
    expect(page.locator(f'[id="d.{RULE}"]')).to_have_attribute("open", "")
    chosen(page, f"{RULE}.when.agent", "technical", "tech")
    told(page)
    expect(leads(page).first).to_contain_text("by rule 8")
    expect(page.locator(".topo-card svg.topo")).to_contain_text("technical to end of the conversation: rule 8")


def add_edge_to_removed_agent(page: Page) -> None:
    """It is named at the rules, and mended by taking the step back."""
    with page.expect_response(is_saving):
        field(page, "topology.workers.3").select_option("")
    gone = "no participant is named 'technical'; there are: router, billing, shipping, front-office, reviewer"
    told(page, f"Rule 8 · Agent {gone}", f"Rule 4 · Agent {gone}", "technical agent 'technical' is used nowhere")
    expect(page.locator('[id="d.topology.transitions.3"] .err')).to_have_text(gone)
    page.locator("#undo").click()
    told(page)
    expect(page.locator("#problems")).to_contain_text("Ready to publish.")


def test_rules_are_written_checked_published_and_their_run_says_why(visit):
    visitor = visit(NOWHERE)
    page = visitor.page
    page.goto("/fabrics/+new?template=routing")
    page.locator("#name").fill("by-rules")
    page.locator("#begin").click()
    page.wait_for_url("**/fabrics/by-rules/draft")
    page.get_by_role("link", name="Topology").click()
    expect(page.locator(".items.rules > li")).to_have_count(7)
    expect(page.locator(".items.rules details[open]")).to_have_count(0)
    a_rule_that_never_applies(page)
    add_edge_to_removed_agent(page)
    page.locator("#to-publish").click()
    page.locator("#publish").click()
    published(page, "by-rules")
    page.get_by_role("link", name="Start a run").click()
    page.locator("#text").fill(REQUEST)
    page.get_by_role("button", name="Start the run").click()
    result(page)
    page.keyboard.press("y")
    page.wait_for_url("**view=graph")
    turns = page.locator(".turns-part tbody tr")
    expect(turns).to_have_count(3)
    expect(turns.locator("th")).to_have_text(["router", "technical", "–"])
    expect(turns.locator(".why")).to_have_text(
        [
            "speaks first",
            "rule 4: router spoke and topic is 'technical', so technical speaks next",
            "done: rule 8: technical spoke, so it ends: done",
        ]
    )
    turns.locator(".why a").first.click()
    page.wait_for_url("**/events/*")
    expect(page.locator("main")).to_contain_text("technical")
    assert visitor.complaints == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_what_goes_round_is_red_in_the_strip_and_said_in_its_table(visit, installation, scheme):
    installation.publish(ROUND)
    visitor = visit(NOWHERE, color_scheme=scheme)
    page = visitor.page
    page.goto("/runs/start?fabric=to-and-fro")
    page.locator("#text").fill("Whose invoice is this?")
    page.get_by_role("button", name="Start the run").click()
    page.wait_for_url(RUN)
    page.locator("#live[data-live=ended]").wait_for()
    page.goto(f"{page.url.partition('?')[0]}?view=graph")
    strip = page.locator(".turns-part")
    expect(strip.locator(".banner")).to_contain_text(
        "Agents passed work in a circle until the deadlock monitor stopped it."
    )
    rows = strip.locator("tbody tr")
    expect(rows.locator("th")).to_have_text(["front", "back", "front", "back"])
    expect(rows.locator(".badge", has_text="in a circle")).to_have_count(4)
    expect(rows.nth(3)).to_contain_text("front, refused")
    red = page.evaluate(
        """() => {
            const probe = document.createElement("i");
            probe.dataset.tone = "danger";
            document.querySelector(".turns-part").append(probe);
            probe.style.color = "var(--solid)";
            return getComputedStyle(probe).color;
        }"""
    )
    drawn = strip.locator("svg.turns circle.turn")
    assert drawn.evaluate_all("all => all.map(one => getComputedStyle(one).stroke)") == [red] * 4
    lines = strip.locator("svg.turns path.again")
    assert lines.evaluate_all("all => all.map(one => getComputedStyle(one).stroke)") == [red] * 5
    shade = [int(part) for part in re.findall(r"\d+", red)[:3]]
    assert shade[0] > 1.5 * max(shade[1:]), f"{red} is no red"
    assert visitor.complaints == []
