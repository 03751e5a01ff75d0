"""Two who write at one fabric at the same time, in real browsers: two windows of one draft, two authors over one revision, a network that goes, drills of a draft."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

from fabric.selectors.drafts.lookup import EDITOR_S
from tests.e2e.conftest import NOWHERE, Visitor
from tests.e2e.installation import installed

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

DRILLING_MS = 120_000
SAVING = "**/draft?part=*"


@pytest.fixture(scope="module")
def installation(tmp_path_factory):
    """With the shipped fabrics only."""
    with installed(tmp_path_factory.mktemp("data")) as found:
        yield found


def drafting(visitor: Visitor, fabric: str) -> Page:
    """Begins a draft of it, by mouse."""
    page = visitor.page
    page.goto(f"/fabrics/{fabric}")
    page.get_by_role("button", name="Edit").click()
    page.wait_for_url(f"**/fabrics/{fabric}/draft")
    return page


def box(page: Page, path: str):
    """The control of a place in the draft."""
    return page.locator(f'[id="f.{path}"]')


def typed(page: Page, path: str, text: str, changes: int) -> None:
    """Writes into a field, and waits until it is saved as that many changes of the draft."""
    box(page, path).fill(text)
    expect(page.locator("#draft-head")).to_contain_text(re.compile(rf"\b{changes} changes?\b"))
    expect(page.locator("#saved [data-word]")).to_have_text("Draft")


def titled(page: Page, title: str) -> None:
    """Gives the draft a title, which is saved."""
    box(page, "title").fill(title)
    expect(page.locator("h1")).to_have_text(title)
    expect(page.locator("#saved [data-word]")).to_have_text("Draft")


def question(page: Page, path: str, was: str, mine: str, theirs: str):
    """The question about a path: what was, and both."""
    asked = page.locator("#draft-said fieldset, #merge-form fieldset").filter(
        has=page.locator("legend code", has_text=re.compile(rf"^{path}$"))
    )
    expect(asked.locator("legend")).to_contain_text(f"was {was}")
    sides = asked.locator(".side-of")
    expect(sides.nth(0).locator(".said")).to_have_text(mine)
    expect(sides.nth(1).locator(".said")).to_have_text(theirs)
    return sides


def discarded(page: Page) -> None:
    """The draft is thrown away, so that the next test begins anew."""
    page.locator(".menu-of summary").click()
    page.get_by_role("button", name="Discard the draft").click()
    page.wait_for_url("**/fabrics")


def refused(page: Page, *fields: tuple[str, str, str]) -> None:
    """The refusal stands above the part: each field with its value here, and as it was saved meanwhile."""
    said = page.locator("#draft-said")
    expect(said.locator("[role=alert]")).to_contain_text("The draft was changed since this page was loaded")
    expect(page.locator("#saved [data-word]")).to_have_text("Not saved:")
    for path, here, saved in fields:
        row = said.locator("li").filter(has=page.locator("code", has_text=re.compile(rf"^{path}$")))
        expect(row.locator(".said.mono")).to_have_text([here, saved])


def test_a_window_that_is_older_than_the_draft_is_refused_and_keeps_what_was_typed(visit, installation):
    left, right = visit(NOWHERE), visit(NOWHERE)
    one = drafting(left, "research-desk")
    two = right.page
    two.goto(one.url)
    titled(one, "Research, on the left")
    box(two, "title").fill("Research, the second")
    refused(two, ("title", "Research, the second", "Research, on the left"))
    expect(box(two, "title")).to_have_value("Research, the second")
    expect(box(two, "title")).to_be_focused()

    # Who writes on has not chosen: nothing of the other's is written over.
    two.keyboard.press("End")
    two.keyboard.type(" one")
    box(two, "description").fill("Written while it was refused.")
    refused(
        two,
        ("title", "Research, the second one", "Research, on the left"),
        ("description", "Written while it was refused.", box(one, "description").input_value()),
    )
    expect(box(one, "title")).to_have_value("Research, on the left")
    two.keyboard.press("F8")
    expect(two.locator("#keep-mine")).to_be_focused()
    two.keyboard.press("Enter")
    expect(two.locator("#draft-said")).to_have_count(0)
    expect(two.locator("h1")).to_have_text("Research, the second one")
    expect(two.locator("#saved [data-word]")).to_have_text("Draft")

    # And the other way round: the older window leaves its own out.
    box(one, "title").fill("Research, the third")
    refused(one, ("title", "Research, the third", "Research, the second one"))
    one.locator("#leave-mine").click()
    expect(one.locator("#draft-said")).to_have_count(0)
    held = {"title": "Research, the second one", "description": "Written while it was refused."}
    for page in (one, two):
        for path, text in held.items():
            expect(box(page, path)).to_have_value(text)
        page.reload()
        for path, text in held.items():
            expect(box(page, path)).to_have_value(text)
    discarded(two)
    assert left.complaints + right.complaints == []


def test_what_is_typed_while_an_answer_is_on_its_way_stays_in_its_field(visit, installation):
    left, right = visit(NOWHERE), visit(NOWHERE)
    one = drafting(left, "checked-answer")
    two = right.page
    two.goto(one.url)
    held = []

    def hold(route) -> None:
        """The first saving comes to the server after the other one's, and the title is typed into before its answer is there."""
        if not held and route.request.method == "POST":
            held.append(route)
            titled(one, "Checked on the left")
            box(two, "title").press_sequentially("Twice ")
        route.continue_()

    two.route(SAVING, hold)
    box(two, "example").press_sequentially("x")
    refused(two, ("title", "Twice Checked answer", "Checked on the left"))
    expect(box(two, "title")).to_have_value("Twice Checked answer")
    two.locator("#keep-mine").click()
    expect(two.locator("#draft-said")).to_have_count(0)
    expect(box(two, "title")).to_have_value("Twice Checked answer")
    discarded(two)
    assert left.complaints + right.complaints == []


@pytest.mark.parametrize("width", [390, 1440])
def test_a_refusal_stands_above_the_part_and_is_reached_before_it(visit, installation, width):
    left, right = visit(NOWHERE), visit(NOWHERE)
    one = drafting(left, "research-desk")
    two = right.page
    two.set_viewport_size({"width": width, "height": 844})
    two.goto(one.url)
    titled(one, "Research, on the left")
    box(two, "title").fill("Research, the second")
    refused(two, ("title", "Research, the second", "Research, on the left"))
    # Beside the words that say where it is, what has no room of the breadcrumbs is left out or ends in an ellipsis: nothing is cut off.
    assert two.locator(".crumbs").evaluate("crumbs => crumbs.scrollWidth <= crumbs.clientWidth")
    foot = two.locator("#draft-said").bounding_box()
    foot = foot["y"] + foot["height"]
    for below in ("#problems", "#history", "#part"):
        assert two.locator(below).bounding_box()["y"] >= foot
    # The words that say where it is lead there, and the keyboard comes to it before it comes to what stands below.
    two.locator("#saved a").focus()
    two.keyboard.press("Enter")
    expect(two.locator("#keep-mine")).to_be_focused()
    expect(two.locator("#keep-mine")).to_be_in_viewport()
    two.locator("#draft-tabs a").last.focus()
    two.keyboard.press("Tab")
    expect(two.locator("#leave-mine")).to_be_focused()
    two.keyboard.press("Enter")
    expect(two.locator("#draft-said")).to_have_count(0)
    expect(box(two, "title")).to_have_value("Research, on the left")
    discarded(two)
    assert left.complaints + right.complaints == []


def a_second_window_closes(bens: Page, mine: Page) -> None:
    """One of Ben's two windows goes: he is still there."""
    second = bens.context.new_page()
    with second.expect_response("**/draft/beat"):
        second.goto(bens.url)
    second.close(run_before_unload=True)
    with mine.expect_response("**/draft/beat", timeout=30_000):
        pass
    expect(mine.locator("#draft-here")).to_contain_text("ben is looking at Fabric")


def test_two_authors_over_one_revision_publish_one_after_the_other(visit, installation):
    owner, other = visit(NOWHERE), visit(NOWHERE)
    other.context.clear_cookies()
    other.page.goto(installation.login_link_of("ben"))
    other.page.get_by_role("button", name="Sign in").click()
    other.page.wait_for_url(f"{installation.base}/")
    mine, bens = drafting(owner, "checked-answer"), drafting(other, "checked-answer")
    expect(bens.locator("#draft-here")).to_contain_text("owner is looking at Fabric")
    expect(mine.locator("#draft-here")).to_contain_text("ben is looking at Fabric", timeout=30_000)
    a_second_window_closes(bens, mine)
    typed(mine, "title", "Checked by the owner", 1)
    typed(mine, "example", "What does the owner ask?", 2)
    typed(bens, "title", "Checked by Ben", 1)
    typed(bens, "description", "Ben says what it is for.", 2)
    bens.close(run_before_unload=True)
    # Sooner than an editor is forgotten that only falls silent.
    expect(mine.locator("#draft-here")).not_to_contain_text("ben", timeout=(EDITOR_S - 15) * 1_000)
    bens = other.context.new_page()
    bens.goto("/fabrics/checked-answer/draft/publish")
    expect(bens.locator("#publish")).to_be_enabled()
    mine.locator("#to-publish").click()
    mine.wait_for_url("**/draft/publish")
    mine.locator("#publish").click()
    mine.wait_for_url("**/fabrics/checked-answer")

    # The page that Ben had open knew nothing of it.
    bens.locator("#publish").click()
    expect(bens.locator("#moved")).to_contain_text("r2")
    expect(bens.locator("#moved")).to_contain_text("owner")
    expect(bens.locator("#publish")).to_be_disabled()
    bens.locator("#moved").get_by_role("link", name="Bring it in").click()
    sides = question(bens, "title", "Checked answer", "Checked by Ben", "Checked by the owner")
    expect(bens.locator("#merge-form table")).to_contain_text("What does the owner ask?")
    sides.nth(0).click()
    bens.locator("#bring-in").click()
    bens.wait_for_url("**/fabrics/checked-answer/draft")
    expect(box(bens, "example")).to_have_value("What does the owner ask?")
    bens.locator("#to-publish").click()
    bens.locator("#publish").click()
    bens.wait_for_url("**/fabrics/checked-answer")
    text = installation.manage("fabric", "export", "checked-answer")
    for line in ("title: Checked by Ben", "description: Ben says what it is for.", "example: What does the owner ask?"):
        assert line in text
    assert owner.complaints + other.complaints == []


def test_drills_of_a_draft_are_followed_on_its_page_to_their_end(visit):
    visitor = visit(NOWHERE)
    page = drafting(visitor, "research-desk")
    page.goto(f"{page.url}?part=table&cell=provider_failure.interactive")
    typed(page, "decision_table.provider_failure.interactive.rungs.0.times", "1", 1)
    page.locator("#to-publish").click()
    page.wait_for_url("**/draft/publish")
    told = page.locator("#drills-told")
    expect(told).to_have_text("This draft has no drill yet.")
    page.evaluate("document.body.dataset.same = 'yes'")
    page.locator("#drill-changed").click()
    expect(told).to_contain_text("done; the draft is drilled in simulated time.")
    expect(page.locator("#drill-changed")).to_be_disabled()
    expect(told).to_contain_text(re.compile(r"\d+ of 24 cells do what the table says"), timeout=DRILLING_MS)
    expect(page.locator("#drill-changed")).to_be_enabled()
    expect(page.locator("body")).to_have_attribute("data-same", "yes")
    assert page.locator("#draft-drills tbody a").count() >= 1
    assert visitor.complaints == []
