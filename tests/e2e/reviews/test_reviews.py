"""Reviews in a real browser: claimed, edited by fields, submitted, taken back and answered by keys alone; who is second keeps what they wrote; without a
script and on a phone."""

from __future__ import annotations

import json
import re

import pytest

from fabric.runtime.ports.journal import TAKEN_BACK
from tests.e2e.conftest import NOWHERE, begun
from tests.e2e.reviews.review_scenes import ORDERING, waiting
from tests.e2e.runs.held_scenes import PAYING

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

DESK = PAYING.replace(
    "usd: {type: integer, maximum: 100}", "usd: {type: integer, maximum: 100}, urgent: {type: boolean}"
)


@pytest.fixture(scope="module")
def installation(tmp_path_factory):
    """A module of its own: nothing else waits there."""
    for found in begun(tmp_path_factory):
        found.publish(DESK)
        found.publish(ORDERING)
        yield found


@pytest.fixture
def review(visit, installation):
    """The id of a call that waits for a word, in the tier in which a person has a day."""
    return waiting(visit(NOWHERE).page, installation, "paying")


def answers(installation, review):
    """Return what was sent about a review, and whether it was taken back."""
    rows = installation.stored(
        "SELECT body, consumed_seq FROM fabric_inbox WHERE input_id LIKE ? ORDER BY created_at",
        f"decision:{review}:%",
    )
    return [(json.loads(bytes(body)), consumed) for body, consumed in rows]


def test_the_whole_way_by_keys_alone(visit, installation, review):
    visitor = visit(f"/reviews/{review}")
    page = visitor.page
    page.locator("#live[data-live=live]").wait_for()
    page.keyboard.press("c")
    page.get_by_text("Claimed by you, expires").wait_for()
    # Nothing is decided by a letter: it leads to the fields of the answer.
    page.keyboard.press("e")
    page.locator('[id="f.to"]:focus').wait_for()
    page.keyboard.press("Control+A")
    page.keyboard.type("Ben")
    page.keyboard.press("Tab")
    page.keyboard.press("Control+A")
    page.keyboard.type("40")
    page.locator("#changes", has_text="2 of 3 fields").wait_for()
    assert page.locator("#changes .add").count() == 2
    assert page.locator(".input.changed").count() == 2
    assert answers(installation, review) == []
    page.keyboard.press("Control+Enter")
    page.get_by_role("heading", name="You edited this").wait_for()
    page.locator("body").press("u")
    page.get_by_text("You withdrew your answer.").wait_for()
    assert page.locator('[id="f.to"]').input_value() == "Ben"
    assert page.locator('[id="f.usd"]').input_value() == "40"
    page.keyboard.press("r")
    page.locator("#message:focus").wait_for()
    page.keyboard.type("He has his money.")
    page.keyboard.press("Control+Enter")
    page.get_by_role("heading", name="You rejected this").wait_for()
    (first, taken_back), (second, _) = answers(installation, review)
    assert first["edited"] == {"note": "Invoice 4711, due on Friday", "to": "Ben", "usd": 40}
    assert taken_back == TAKEN_BACK
    assert (second["verb"], second["message"]) == ("reject", "He has his money.")
    assert visitor.complaints == []


def test_the_page_says_by_itself_when_the_run_has_taken_an_answer(visit, installation, review):
    visitor = visit(f"/reviews/{review}")
    page = visitor.page
    page.locator("label[data-press=verb-reject]").click()
    page.locator("#message").fill("He has his money.")
    page.keyboard.press("Control+Enter")
    page.get_by_role("heading", name="You rejected this").wait_for()
    page.evaluate("window.same = true")
    page.locator("#decided-by").wait_for()
    assert page.evaluate("window.same"), "the page was not loaded again"
    assert visitor.complaints == []


def test_what_is_wrong_is_said_at_its_field_and_nothing_is_lost(visit, installation, review):
    page = visit(f"/reviews/{review}").page
    page.locator("label[data-press=verb-edit]").click()
    page.locator('[id="f.usd"]').fill("many")
    page.locator("#message").fill("Less would do.")
    page.keyboard.press("Control+Enter")
    page.get_by_text("Give a whole number, such as 12.").wait_for()
    page.locator('[id="f.usd"]:focus').wait_for()
    assert page.locator('[id="f.usd"]').input_value() == "many"
    assert page.locator("#message").input_value() == "Less would do."
    page.locator('[id="f.usd"]').fill("400")
    page.keyboard.press("Control+Enter")
    page.locator('[id="e.usd"]', has_text="100").wait_for()
    assert answers(installation, review) == []


def test_who_is_second_keeps_what_they_wrote(visit, installation, review):
    slow, fast = visit(f"/reviews/{review}"), visit(NOWHERE, of=visit(NOWHERE)).page
    page = slow.page
    for part in ("**/news?**", "**/beat"):
        page.route(part, lambda route: None)  # The page has not heard yet.
    page.locator("label[data-press=verb-edit]").click()
    page.locator('[id="f.to"]').fill("Ben")
    page.locator("#message").fill("To the right one.")
    fast.goto(f"/reviews/{review}")
    fast.locator("label[data-press=verb-reject]").click()
    fast.locator("#message").fill("Not at all.")
    fast.get_by_role("button", name="Reject").click()
    fast.get_by_role("button", name="Continue now").click()
    fast.locator("#decided-by").or_(fast.locator("#waiting")).wait_for()
    page.locator("#message").focus()
    page.keyboard.press("Control+Enter")
    page.get_by_text("Your answer was not recorded. Your text is below.").wait_for()
    kept = page.locator("#kept")
    assert "You wanted to edit" in kept.inner_text()
    assert "To the right one." in kept.inner_text()
    assert "Ben" in kept.locator(".diff .add").inner_text()
    assert [given["verb"] for given, _ in answers(installation, review)] == ["reject"]
    assert slow.complaints == []


def test_pressed_twice_it_is_one_answer(visit, installation, review):
    page = visit(f"/reviews/{review}").page
    page.locator("label[data-press=verb-reject]").click()
    page.locator("#message").fill("No.")
    page.get_by_role("button", name="Reject").dblclick()
    page.get_by_role("heading", name="You rejected this").wait_for()
    assert len(answers(installation, review)) == 1


def test_the_next_one_comes_up_and_the_last_answer_can_still_be_taken_back(visit, installation, review):
    other = waiting(visit(NOWHERE).page, installation, "paying")
    page = visit(f"/reviews/{review}").page
    page.locator("label[data-press=verb-reject]").click()
    page.locator("#message").fill("No.")
    page.get_by_label("go to the next").check()
    page.keyboard.press("Control+Enter")
    page.wait_for_url(re.compile(rf"/reviews/[0-9a-f]+\?decided={review}"))
    assert page.get_by_label("go to the next").is_checked()
    page.locator("#decided").get_by_text("You rejected").wait_for()
    page.locator("body").press("u")
    page.wait_for_url(f"**/reviews/{review}")
    page.get_by_text("You withdrew your answer.").wait_for()
    assert answers(installation, other) == []


def test_all_of_one_kind_are_selected_by_one_press_and_shown_before_they_are_decided(visit, installation, review):
    waiting(visit(NOWHERE).page, installation, "paying")
    visitor = visit("/reviews")
    page = visitor.page
    bar, alike = page.locator("#bulk"), page.locator(".c-pick input[data-like^=paying]")
    many = alike.count()
    assert many > 1
    alike.first.check()
    bar.get_by_text("1 selected").wait_for()
    frame, seen = bar.bounding_box(), page.viewport_size
    assert frame["y"] + frame["height"] <= seen["height"], "the bar stays in sight"
    bar.get_by_role("button", name=f"Select the {many} like this one").click()
    bar.get_by_text(f"{many} selected").wait_for()
    bar.get_by_role("button", name="Clear").click()
    assert page.locator(".c-pick :checked").count() == 0
    alike.first.check()
    bar.get_by_role("button", name="like this one").click()
    bar.get_by_role("button", name="Decide the selected").click()
    page.get_by_role("heading", name=f"Decide {many} reviews together?").wait_for()
    assert page.get_by_text("Never opened by you").count() > 0
    call = page.locator(".together .boxed").first
    low = call.bounding_box()["height"]
    page.locator(".together .peek summary").first.click()
    assert call.bounding_box()["height"] > low
    assert visitor.complaints == []


def test_without_a_script(visit, installation, review):
    page = visit("/reviews", java_script_enabled=False).page
    page.locator(f"#ask-{review} a.cell").click()
    page.get_by_role("button", name="Claim").click()
    page.get_by_text("Claimed by you, expires").wait_for()
    page.locator("#v-edit").check(force=True)
    page.locator('[id="f.usd"]').fill("12")
    page.get_by_role("button", name="Review changes").click()
    page.locator("#changes", has_text="1 of 3 fields").wait_for()
    assert page.locator('[id="f.usd"]').input_value() == "12"
    assert answers(installation, review) == []
    page.get_by_role("button", name="Submit edit").click()
    page.get_by_role("heading", name="You edited this").wait_for()
    page.get_by_role("button", name="Undo").click()
    page.get_by_text("You withdrew your answer.").wait_for()
    assert page.locator('[id="f.usd"]').input_value() == "12"


def test_on_a_phone(visit, review):
    visitor = visit(f"/reviews/{review}", viewport={"width": 390, "height": 844})
    page = visitor.page
    assert not page.locator("#review-queue").evaluate("queue => queue.open"), "the queue is folded"
    for act in (lambda: None, lambda: page.locator("label[data-press=verb-edit]").click()):
        act()
        assert page.locator("html").evaluate("html => html.scrollWidth") <= 390
    page.goto("/reviews")
    assert page.locator("html").evaluate("html => html.scrollWidth") <= 390
    assert visitor.complaints == []


def test_the_list_hears_of_what_happens_and_several_are_answered_at_one_go(visit, installation, review):
    visitor = visit("/reviews?fabric=paying")
    page = visitor.page
    page.locator(f"#ask-{review}").wait_for()
    other = waiting(visit(NOWHERE).page, installation, "paying")
    page.locator("#new-rows", has_text="1 new").wait_for()
    assert page.locator(f"#ask-{other}").count() == 0, "nothing moves by itself"
    assert page.title().startswith("(")
    colleague = visit(f"/reviews/{review}").page
    colleague.keyboard.press("c")
    page.locator(f"#ask-{review} .c-hand", has_text="owner").wait_for()
    page.locator("#new-rows a").click()
    page.locator(f"#ask-{other}").wait_for()
    for _ in range(page.locator("tr[id^=ask-]").count()):
        if not page.locator(f"#ask-{other} a.cell:focus").count():
            page.keyboard.press("j")
    page.keyboard.press("x")
    page.locator(f"#ask-{review} input[type=checkbox]").check()
    page.get_by_role("button", name="Decide the selected ones").click()
    page.get_by_role("heading", name="Decide 2 reviews together?").wait_for()
    page.locator("label:has(#v-reject)").click()
    page.locator("#message").fill("Not this month.")
    page.keyboard.press("Control+Enter")
    page.get_by_role("heading", name="Results").wait_for()
    assert page.locator(".said-items .badge", has_text="Rejected").count() == 2
    assert len(answers(installation, review)) == len(answers(installation, other)) == 1
    assert visitor.complaints == []


def test_claim_next_and_on_to_the_next_by_keys(visit, installation, review):
    page = visit("/reviews").page
    page.keyboard.press("n")
    page.wait_for_url(re.compile(r"/reviews/[0-9a-f]+$"))
    page.get_by_text("Claimed by you, expires").wait_for()
    waiting(visit(NOWHERE).page, installation, "paying")
    here = page.url
    page.reload()
    page.keyboard.press("j")
    page.wait_for_url(lambda url: url != here)
    page.keyboard.press("k")
    page.wait_for_url(here)


def parts(page):
    """Return what stands in the rows of the order, each by its part."""
    return page.locator(".nest-items > li").evaluate_all(
        "rows => rows.map(row => row.querySelector('input.input').value)"
    )


def test_rows_are_added_moved_and_taken_away_by_keys(visit, installation):
    visitor = visit(NOWHERE)
    page = visitor.page
    review = waiting(page, installation, "ordering")
    page.goto(f"/reviews/{review}")
    page.locator("label[data-press=verb-edit]").click()
    page.locator("#message").fill("Bolts are missing.")
    page.locator('[id="f.supplier"]').fill("Brandt")
    add = page.get_by_role("button", name="Add to lines")
    add.press("Enter")
    first = page.locator(".nest-items > li:nth-child(3) .nest-item .input").first
    first.and_(page.locator(":focus")).wait_for()
    # What was written elsewhere is not lost when rows come.
    assert page.locator('[id="f.supplier"]').input_value() == "Brandt"
    assert page.locator("#message").input_value() == "Bolts are missing."
    assert page.locator("#v-edit").is_checked()
    page.keyboard.type("Bolts")
    for told in ("40", "0.5", "6", "1"):
        page.keyboard.press("Tab")
        page.keyboard.type(told)
    up = page.get_by_role("button", name=re.compile("^Move lines [32] up$")).last
    up.press("Enter")
    page.locator(".nest-items > li:nth-child(2) input[value=Bolts]").wait_for()
    # The key that moved it moves it on.
    page.get_by_role("button", name="Move lines 2 up").and_(page.locator(":focus")).press("Enter")
    page.locator(".nest-items > li:nth-child(1) input[value=Bolts]").wait_for()
    page.locator('.nest-items > li:nth-child(1) button[id^="down."]:focus').wait_for()
    page.get_by_role("button", name="Remove lines 3").press("Enter")
    add.and_(page.locator(":focus")).wait_for()
    assert parts(page) == ["Bolts", "Front wing"]
    assert page.locator("#changes .add").count() > 0
    assert answers(installation, review) == [], "nothing was sent by any of it"
    page.keyboard.press("Control+Enter")
    page.get_by_role("heading", name="You edited this").wait_for()
    ((given, _),) = answers(installation, review)
    assert given["edited"] == {
        "supplier": "Brandt",
        "lines": [
            {"part": "Bolts", "number": 40, "price": 0.5, "to": {"bay": "6", "floor": 1}},
            {"part": "Front wing", "number": 1, "price": 412.5, "to": {"bay": "4", "floor": 1}},
        ],
        "reference": 4711,
    }
    assert visitor.complaints == []


def test_to_look_at_changes_decides_nothing(visit, installation, review):
    """Neither pressed, nor by Enter in a field, which presses the first button of its form."""
    visitor = visit(f"/reviews/{review}")
    page = visitor.page
    page.locator("label[data-press=verb-edit]").click()
    page.locator("#message").fill("Less would do.")
    for usd, act in (("41", lambda: page.locator("#look").click()), ("42", lambda: page.keyboard.press("Enter"))):
        page.locator('[id="f.usd"]').fill(usd)
        with page.expect_response(f"**/reviews/{review}/changes"):
            act()
        page.locator("#changes .add", has_text=usd).wait_for()
        assert page.locator("#message").input_value() == "Less would do."
    assert answers(installation, review) == []
    assert visitor.complaints == []
