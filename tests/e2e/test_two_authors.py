"""Two who write at one fabric at the same time, in real browsers: two windows of one draft, two authors over one revision, a network that goes, drills of a draft."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

from fabric.selectors.drafts import EDITOR_S
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


def written_on(two: Page) -> None:
    """Who goes back into the field and writes on has not answered: nothing of the other's is written over."""
    box(two, "title").focus()
    two.keyboard.press("End")
    two.keyboard.type(" one")
    question(two, "title", "Research, the first", "Research, the second one", "Research, on the left")
    expect(two.locator("h1")).to_have_text("Research, on the left")
    expect(box(two, "title")).to_be_focused()
    expect(box(two, "title")).to_have_value("Research, the second one")
    for _ in " one":
        two.keyboard.press("Backspace")
    question(two, "title", "Research, the first", "Research, the second", "Research, on the left")


def test_two_windows_of_one_draft_merge_and_ask_only_where_both_wrote(visit, installation):
    left, right = visit(NOWHERE), visit(NOWHERE)
    one = drafting(left, "research-desk")
    two = right.page
    two.goto(one.url)
    typed(one, "title", "Research, left", 1)
    typed(two, "example", "What binds us?", 2)
    expect(box(two, "title")).to_have_value("Research, left")
    expect(two.locator("#draft-said")).to_have_count(0)

    # A field that the second one is in is not drawn anew: it follows all the same, and nothing is written back.
    box(two, "title").focus()
    titled(one, "Research, the first")
    two.keyboard.press("Control+s")
    expect(box(two, "title")).to_have_value("Research, the first")

    # The same field: the one that is later is asked, and answers by keyboard alone.
    titled(one, "Research, on the left")
    box(two, "title").fill("Research, the second")
    question(two, "title", "Research, the first", "Research, the second", "Research, on the left")
    expect(two.locator("#saved [data-word]")).to_have_text("Not saved:")
    expect(box(two, "title")).to_have_value("Research, the second")
    expect(box(two, "title")).to_be_focused()
    box(two, "description").fill("Written while it was asked.")
    expect(two.locator("#draft-head")).to_contain_text("3 changes")
    expect(box(two, "title")).to_have_value("Research, the second")
    expect(two.locator("#draft-said")).to_be_visible()
    written_on(two)
    two.keyboard.press("F8")
    expect(two.locator('[id="mine.title"]')).to_be_focused()
    two.keyboard.press("Enter")
    expect(two.locator("#draft-said")).to_have_count(0)
    expect(two.locator("h1")).to_have_text("Research, the second")
    expect(two.locator("#saved [data-word]")).to_have_text("Draft")

    # And the other way round, by mouse.
    box(one, "title").fill("Research, the third")
    sides = question(one, "title", "Research, on the left", "Research, the third", "Research, the second")
    sides.nth(1).click()
    one.locator("#choose").click()
    expect(one.locator("#draft-said")).to_have_count(0)
    expect(box(one, "title")).to_have_value("Research, the second")
    held = {"title": "Research, the second", "example": "What binds us?", "description": "Written while it was asked."}
    for page in (one, two):
        page.reload()
        for path, text in held.items():
            expect(box(page, path)).to_have_value(text)
    discarded(two)
    assert left.complaints + right.complaints == []


def test_what_is_typed_while_an_answer_brings_anothers_text_is_asked_of(visit, installation):
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
            with one.expect_response(SAVING):
                box(one, "tiers.default").select_option("batch")
            box(two, "title").press_sequentially("Twice ")
        route.continue_()

    box(two, "tiers.default").select_option("high_stakes")
    expect(two.locator("#draft-head")).to_contain_text("1 change")
    one.reload()
    two.route(SAVING, hold)
    box(two, "example").press_sequentially("x")
    question(two, "title", "Checked answer", "Twice Checked answer", "Checked on the left")
    expect(box(two, "title")).to_have_value("Twice Checked answer")
    # What was picked before in this window follows as well, and goes on being what the other picked.
    expect(box(two, "tiers.default")).to_have_value("batch")
    # Who goes on writing there has not chosen: the question is asked of what stands there now.
    box(two, "title").press_sequentially("!")
    question(two, "title", "Checked answer", "Twice !Checked answer", "Checked on the left")
    two.locator("#choose").click()
    expect(two.locator("#draft-said")).to_have_count(0)
    expect(box(two, "title")).to_have_value("Twice !Checked answer")
    expect(box(two, "tiers.default")).to_have_value("batch")
    discarded(two)
    assert left.complaints + right.complaints == []


@pytest.mark.parametrize("width", [390, 1440])
def test_a_question_stands_above_the_part_and_is_reached_before_it(visit, installation, width):
    left, right = visit(NOWHERE), visit(NOWHERE)
    one = drafting(left, "research-desk")
    two = right.page
    two.set_viewport_size({"width": width, "height": 844})
    two.goto(one.url)
    titled(one, "Research, on the left")
    box(two, "title").fill("Research, the second")
    sides = question(two, "title", "Research desk", "Research, the second", "Research, on the left")
    expect(two.locator("#draft-said [role=alert]")).to_contain_text("Title was changed in another window")
    # Beside the words that say where it is, what has no room of the breadcrumbs is left out or ends in an ellipsis: nothing is cut off.
    assert two.locator(".crumbs").evaluate("crumbs => crumbs.scrollWidth <= crumbs.clientWidth")
    foot = two.locator("#draft-said").bounding_box()
    foot = foot["y"] + foot["height"]
    for below in ("#problems", "#history", "#part"):
        assert two.locator(below).bounding_box()["y"] >= foot
    # The words that say where it is lead there, and the keyboard comes to it before it comes to what stands below.
    two.locator("#saved a").focus()
    two.keyboard.press("Enter")
    expect(two.locator('[id="mine.title"]')).to_be_focused()
    expect(sides.nth(0)).to_be_in_viewport()
    two.locator("#draft-tabs a").last.focus()
    two.keyboard.press("Tab")
    expect(two.locator('[id="mine.title"]')).to_be_focused()
    two.keyboard.press("ArrowRight")
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
    expect(told).to_have_text("This draft was never drilled.")
    page.evaluate("document.body.dataset.same = 'yes'")
    page.locator("#drill-changed").click()
    expect(told).to_contain_text("done; the draft is drilled on a virtual clock.")
    expect(page.locator("#drill-changed")).to_be_disabled()
    expect(told).to_contain_text(re.compile(r"\d+ of 24 cells do what the table says"), timeout=DRILLING_MS)
    expect(page.locator("#drill-changed")).to_be_enabled()
    expect(page.locator("body")).to_have_attribute("data-same", "yes")
    assert page.locator("#draft-drills tbody a").count() >= 1
    assert visitor.complaints == []
