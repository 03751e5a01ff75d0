"""The editor's parts by hand: rows that are typed, limits that are found, a whole cell that is the target, the ladder on a phone, and the keys of publication."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, Route, expect

from tests.e2e.conftest import NOWHERE
from tests.e2e.drafts.test_first_fabric import CELL, TIMES, is_saving

pytestmark = [pytest.mark.e2e, pytest.mark.slow]


def begun(page: Page, name: str, part: str) -> None:
    """A draft of one's own, at a part."""
    page.goto("/fabrics/+new")
    page.locator("#t-blank").check()
    page.locator("#name").fill(name)
    page.locator("#begin").click()
    page.wait_for_url(f"**/fabrics/{name}/draft")
    page.goto(f"/fabrics/{name}/draft?part={part}")


def typed(page: Page, field: str, text: str) -> None:
    """Type into a field letter by letter, and wait until it is saved."""
    box = page.locator(f'[id="{field}"]')
    box.click()
    page.keyboard.press("Control+a")
    with page.expect_response(is_saving):
        page.keyboard.type(text, delay=15)
    page.wait_for_load_state("networkidle")
    expect(box).to_have_value(text)


def test_rows_are_typed_letter_by_letter_and_removed(visit) -> None:
    page = visit(NOWHERE).page
    begun(page, "rows-by-hand", "tools")
    page.locator('[id="add.tools"]').click()
    tool = page.locator(".thing", has=page.locator('[id="f.tools.0.headers_from"]'))
    expect(tool.locator('[id="f.tools.0.headers_from"] li:visible')).to_have_count(1)
    headers = "r.tools.0.headers_from"
    typed(page, f"{headers}.0.0", "Authorization")
    typed(page, f"{headers}.0.1", "CRM_TOKEN")
    typed(page, f"{headers}.1.0", "X-Team")
    typed(page, f"{headers}.1.1", "TEAM")
    page.locator(f'[id="{headers}.0.0"]').fill("")
    page.locator(f'[id="{headers}.0.1"]').fill("")
    expect(page.locator(f'[id="{headers}.1.1"]')).to_have_value("TEAM")
    parameters = "r.tools.0.parameters"
    typed(page, f"{parameters}.0.1", "customer")
    typed(page, f"{parameters}.0.4", "The number of the customer.")
    page.locator('[id="json.tools.0.parameters"] summary').click()
    as_json = page.locator('[id="area.tools.0.parameters"]')
    expect(as_json).to_have_value(re.compile('"description": "The number of the customer."'))
    with page.expect_response(is_saving):
        as_json.fill('{"type": "object", "properties": {"id": {"type": "integer", "minimum": 1}}}')
    expect(page.locator(f'[id="{parameters}.0.1"]')).to_have_value("id")
    typed(page, f"{parameters}.0.4", "A number.")
    expect(as_json).to_have_value(re.compile('"minimum": 1'))
    expect(as_json).to_have_value(re.compile('"A number."'))
    page.get_by_role("button", name="Remove X-Team").click()
    expect(page.get_by_role("button", name="Remove X-Team")).to_have_count(0)
    page.goto("/fabrics/rows-by-hand/draft?part=yaml")
    text = page.locator("#text").input_value()
    assert "headers_from" not in text
    assert "minimum: 1" in text
    assert "A number." in text


def test_limits_are_found_while_one_types(visit) -> None:
    page = visit(NOWHERE).page
    begun(page, "limits-found", "limits")
    groups = page.locator(".limit-group:visible")
    every = groups.count()
    assert every > 5
    expect(page.locator(".limit-group[open]")).to_have_count(0)
    page.locator("#find").fill("turns")
    row = page.locator('[id="row.policy.limits.turns"]')
    expect(row).to_be_visible()
    assert groups.count() < every
    typed(page, "f.policy.limits.turns", "9")
    expect(page.locator("#find")).to_have_value("turns")
    assert groups.count() < every
    page.locator("#find").fill("")
    expect(groups).to_have_count(every)
    page.locator("#changed").check()
    expect(row).to_be_visible()
    page.locator("#find").fill("zebra")
    expect(page.locator("#limits-none")).to_be_visible()


def test_the_whole_of_a_changed_cell_opens_it(visit) -> None:
    page = visit(NOWHERE).page
    begun(page, "whole-cell", f"table&cell={CELL}")
    typed(page, TIMES, "1")
    page.locator("[data-rungs] [data-close]").click()
    expect(page.locator("[data-rungs]")).to_have_count(0)
    note = page.locator("td.changed .note")
    expect(note).to_contain_text("was")
    box = note.bounding_box()
    assert box
    page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    expect(page.locator("[data-rungs]")).to_be_visible()
    page.locator("[data-rungs] [data-close]").click()
    expect(page.locator("[data-rungs]")).to_have_count(0)
    cell = page.locator("td.changed").bounding_box()
    assert cell
    page.mouse.click(cell["x"] + cell["width"] - 4, cell["y"] + cell["height"] - 3)
    expect(page.locator("[data-rungs]")).to_be_visible()


def test_a_closed_ladder_stays_closed_when_a_save_is_slow(visit) -> None:
    page = visit(NOWHERE).page
    begun(page, "slow-save", f"table&cell={CELL}")
    kept: list[Route] = []
    seen: list[str] = []

    def keep_first_save(route: Route) -> None:
        if route.request.method == "GET" or kept:
            route.continue_()
        else:
            kept.append(route)

    page.route("**/draft?part=*", keep_first_save)
    page.on("request", lambda sent: seen.append(f"sent {sent.method}") if "/draft?part=" in sent.url else None)
    page.on(
        "response", lambda got: seen.append(f"answered {got.request.method}") if "/draft?part=" in got.url else None
    )
    with page.expect_request(lambda sent: sent.method == "POST"):
        page.locator(f'[id="{TIMES}"]').fill("1")
    page.locator("[data-rungs] [data-close]").click()
    with page.expect_event("response", lambda got: got.request.method == "GET" and "/draft?part=" in got.url):
        kept[0].continue_()
    expect(page.locator("[data-rungs]")).to_have_count(0)
    assert seen == ["sent POST", "answered POST"] * (len(seen) // 2 - 1) + ["sent GET", "answered GET"]


def test_a_tap_on_a_phone_brings_the_ladder_into_sight(visit) -> None:
    page = visit(NOWHERE).page
    page.set_viewport_size({"width": 390, "height": 844})
    begun(page, "ladder-on-phone", "table")
    page.locator("[data-cell]").first.click()
    ladder = page.locator("#rungs")
    expect(ladder).to_be_in_viewport()
    expect(ladder).to_be_focused()
    expect(ladder.locator("select").first).to_be_in_viewport()


SPOTS = {
    "the body": None,
    "a summary": "summary >> nth=0",
    "an input": '[id="f.title"]',
    "a textarea": "textarea >> nth=0",
    "a select": "select[name^='f.'] >> nth=0",
}


@pytest.mark.parametrize("key", ["Control+Enter", "Meta+Enter"])
def test_the_key_of_publication_works_wherever_the_focus_is(visit, key: str) -> None:
    page = visit(NOWHERE).page
    name = "keys-" + key.partition("+")[0].lower()
    begun(page, name, "basics")
    for spot in SPOTS.values():
        part = "agents" if spot and "summary" in spot else "basics"
        page.goto(f"/fabrics/{name}/draft?part={part}")
        if spot:
            page.locator(spot).focus()
        else:
            page.evaluate("document.activeElement.blur()")
        page.keyboard.press(key)
        page.wait_for_url("**/draft/publish")
