"""The frame of every page in a real browser: keys, palette, search, pausing, themes, without script, on a phone."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from console.pages.shell.keys import KEYS
from console.templatetags.figures import span
from tests.e2e.asked import asked
from tests.e2e.conftest import NOWHERE
from tests.e2e.decided import decided

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

FOCUSED = "document.activeElement.id"


@pytest.fixture(scope="module")
def waiting(installation) -> str:
    """The address of a run that waits for a person."""
    return f"/runs/{asked(installation, 'doubtful', 'Which ledger is due?')}"


def opened(page, name: str) -> bool:
    return page.locator(f"dialog#{name}").evaluate("dialog => dialog.open")


def test_keys_lead_to_every_place_of_the_sheet(visit):
    visitor = visit()
    page = visitor.page
    going = [key for _, group in KEYS for key in group if key.do == "go"]
    assert len(going) == 7
    for key in going:
        page.goto("/search")
        page.locator("h1").click()
        target = page.locator(f'[data-keys="{key.keys}"][data-do=go]').get_attribute("data-to")
        for one in key.keys.split():
            page.keyboard.press(one)
        page.wait_for_url(f"**{target}")
    assert visitor.complaints == []


def test_letters_are_letters_where_one_types_and_in_dialogs(visit):
    page = visit().page
    page.keyboard.press("/")
    assert page.evaluate(FOCUSED) == "top-q"
    page.keyboard.type("gr?n")
    assert page.locator("#top-q").input_value() == "gr?n"
    assert not opened(page, "keys")
    page.locator("h1").click()
    page.keyboard.press("?")
    assert opened(page, "keys")
    page.keyboard.press("g")
    page.keyboard.press("r")
    page.keyboard.press("n")
    assert opened(page, "keys")
    page.keyboard.press("Escape")
    assert not opened(page, "keys")
    page.keyboard.press("Alt+n")
    page.keyboard.press("Shift+N")
    assert page.url.endswith("/")


PRESSED = """(given) => document.body.dispatchEvent(
    new KeyboardEvent("keydown", {key: "?", bubbles: true, cancelable: true, ...given}))"""


def test_a_sign_that_a_keyboard_has_behind_altgr_is_that_sign(visit):
    page = visit().page
    page.evaluate(PRESSED, {"ctrlKey": True, "altKey": True})
    assert not opened(page, "keys")
    page.evaluate(PRESSED, {"ctrlKey": True, "altKey": True, "modifierAltGraph": True})
    assert opened(page, "keys")


def test_keys_of_a_run_press_what_its_page_shows(visit, waiting):
    """The run page has all that there is to press; a key whose thing is not there, or hidden, does nothing."""
    page = visit(NOWHERE).page
    page.goto(waiting)
    for key, shown in (("c", "Cost"), ("y", "Graph"), ("v", "Events"), ("t", "Timeline")):
        page.keyboard.press(key)
        page.locator(".tabs [aria-current=page]", has_text=shown).wait_for()
    page.goto("/search")
    page.locator("h1").click()
    for key in "cyvt[]z":
        page.keyboard.press(key)
    assert page.url.endswith("/search")


def test_letters_can_be_turned_off_and_stay_off(visit):
    page = visit().page
    page.locator(".keys-hint").click()
    page.locator("#keys-on").uncheck()
    page.keyboard.press("Escape")
    page.goto("/runs")
    page.keyboard.press("?")
    page.keyboard.press("n")
    assert not opened(page, "keys")
    page.keyboard.press("Control+k")
    assert opened(page, "palette")
    page.keyboard.press("Escape")
    page.locator(".keys-hint").click()
    assert not page.locator("#keys-on").is_checked()
    page.locator("#keys-on").check()
    page.keyboard.press("Escape")
    page.keyboard.press("n")
    page.wait_for_url("**/start")


def test_the_palette_finds_chooses_opens_and_gives_the_focus_back(visit, waiting):
    visitor = visit(NOWHERE)
    page = visitor.page
    page.goto("/runs")
    page.locator("#top-q").focus()
    page.keyboard.press("Control+k")
    assert page.evaluate(FOCUSED) == "palette-q"
    page.keyboard.press("Escape")
    assert page.evaluate(FOCUSED) == "top-q"
    page.keyboard.press("Control+k")
    page.keyboard.type("ledger")
    page.locator("#palette-found a[id^=palette-run]").first.wait_for()
    chosen = page.locator("#palette [aria-selected=true]")
    assert "Which ledger is due?" in chosen.inner_text()
    assert page.locator("#palette-q").get_attribute("aria-activedescendant") == chosen.get_attribute("id")
    page.keyboard.press("Enter")
    page.wait_for_url(f"**{waiting}")
    page.keyboard.press("Control+k")
    first = page.locator("#palette [aria-selected=true]").get_attribute("id")
    page.keyboard.press("ArrowDown")
    assert page.locator("#palette [aria-selected=true]").get_attribute("id") != first
    page.keyboard.press("ArrowUp")
    page.keyboard.press("ArrowUp")
    page.locator("#palette [role=option]").last.and_(page.locator("[aria-selected=true]")).wait_for()
    assert visitor.complaints == []


def test_what_the_palette_cannot_find_is_said(visit):
    page = visit().page
    page.keyboard.press("Control+k")
    page.keyboard.type("zzzz")
    page.get_by_text("No results").wait_for()
    page.keyboard.press("Escape")
    page.keyboard.press("Control+k")
    page.locator("#palette-go-1").wait_for()
    assert page.locator("#palette-q").input_value() == ""


def test_the_actions_of_a_page(visit, waiting):
    page = visit(NOWHERE).page
    page.goto(waiting)
    page.locator("h1").click()
    page.keyboard.press(".")
    chosen = page.locator("#palette-here [aria-selected=true]")
    chosen.wait_for()
    page.locator("#palette-here [role=option]", has_text="Cancel").click()
    page.wait_for_url("**/cancel")


def test_what_is_counted_stays_true_while_a_page_is_open(visit, installation):
    visitor = visit(NOWHERE)
    page = visitor.page
    page.goto("/search")
    count = page.locator("#nav-links .count[data-tone=human]")
    before = int(count.first.inner_text().split()[0]) if count.count() else 0
    asked(installation, "doubtful", "Who is asked?")
    page.wait_for_function(
        "before => parseInt(document.querySelector('#nav-links .count[data-tone=human]')?.textContent) > before",
        arg=before,
    )
    assert page.locator("#notice").inner_text() == ""
    assert visitor.complaints == []


def test_search_by_slash_and_enter(visit, waiting):
    visitor = visit()
    page = visitor.page
    page.keyboard.press("/")
    page.keyboard.type(waiting[-8:])
    page.keyboard.press("Enter")
    page.wait_for_url("**/search?q=*")
    page.locator("h1").click()
    page.keyboard.press("j")
    assert page.evaluate("document.activeElement.textContent") == "Which ledger is due?"
    page.keyboard.press("k")
    page.keyboard.press("Enter")
    page.wait_for_url(f"**{waiting}")
    assert visitor.complaints == []


def test_what_cannot_be_sent_is_disabled_while_this_machine_is_offline(visit, waiting):
    visitor = visit(NOWHERE)
    page = visitor.page
    page.goto("/runs/start")
    page.get_by_label("Your request").fill("Worth keeping")
    button = page.get_by_role("button", name="Start the run")
    visitor.context.set_offline(True)
    expect(button).to_be_disabled()
    assert button.get_attribute("title") == "Offline: nothing can be sent"
    page.locator("#text").press("Control+Enter")
    assert page.url.endswith("/runs/start")
    assert page.locator("#text").input_value() == "Worth keeping"
    visitor.context.set_offline(False)
    expect(button).to_be_enabled()
    page.goto(waiting)
    cancel = page.get_by_role("link", name="Cancel…")
    visitor.context.set_offline(True)
    expect(cancel).to_be_disabled()
    cancel.click(force=True)
    assert page.url.endswith(waiting)
    visitor.context.set_offline(False)
    expect(cancel).to_be_enabled()


def test_a_server_on_this_machine_needs_no_network(visit):
    page = visit(NOWHERE).page
    page.goto("/runs/start")
    page.evaluate("Object.defineProperty(navigator, 'onLine', { value: false }); dispatchEvent(new Event('offline'))")
    with page.expect_response("**/livez"):
        page.evaluate("dispatchEvent(new Event('offline'))")
    assert page.get_by_role("button", name="Start the run").is_enabled()


def test_pausing_what_is_live(visit, waiting):
    visitor = visit(NOWHERE)
    page = visitor.page
    page.goto(waiting)
    page.locator("#live[data-live=live]").wait_for()
    before = visitor.rows
    page.locator("h1").click()
    page.keyboard.press("p")
    page.locator("#live[data-live=paused]").wait_for()
    assert page.locator("#live").inner_text().startswith("Paused")
    assert page.locator("#live-pause").get_attribute("aria-pressed") == "true"
    other = visitor.context.new_page()
    other.goto(waiting)
    decided(other, "approve")
    other.locator("#live[data-live=ended]").wait_for()
    page.bring_to_front()
    page.wait_for_function("document.querySelector('#live').textContent.includes('more wait')")
    assert visitor.rows == before
    page.keyboard.press("p")
    page.locator("#live[data-live=ended]").wait_for()
    seen = visitor.rows
    assert len(seen) > len(before)
    assert seen == sorted(set(seen))
    page.reload()
    assert visitor.rows == seen


SHADE = "getComputedStyle(document.body).backgroundColor"


def test_the_theme_is_there_before_the_page_is(visit):
    visitor = visit(color_scheme="light")
    page = visitor.page
    light = page.evaluate(SHADE)
    page.locator(".nav .theme label", has_text="Dark").click()
    # The first thing that a body is painted with.
    page.add_init_script(
        "new MutationObserver((_, self) => document.body && (window.shade = document.documentElement.dataset.theme, self.disconnect()))"
        ".observe(document, {childList: true, subtree: true})"
    )
    page.goto("/reviews")
    assert page.evaluate("window.shade") == "dark"
    dark = page.evaluate(SHADE)
    assert dark != light
    other = visitor.context.new_page()
    other.goto("/runs")
    other.locator(".nav .theme label", has_text="System").click()
    page.wait_for_function(f"{SHADE} === '{light}'")


def test_without_script_everything_is_still_reached(visit, waiting):
    visitor = visit(java_script_enabled=False, color_scheme="dark")
    page = visitor.page
    for name, address in (
        ("Runs", "/runs"),
        ("Reviews", "/reviews"),
        ("Fabrics", "/fabrics"),
        ("New run", "/runs/start"),
        ("Overview", "/"),
    ):
        page.locator("#nav-links").get_by_role("link", name=name).click()
        page.wait_for_url(f"**{address}")
    assert page.locator(".js-only:visible").count() == 0
    dark = page.locator("body").evaluate("body => getComputedStyle(body).backgroundColor")
    page.locator(".nav .theme label", has_text="Light").click()
    assert page.locator("body").evaluate("body => getComputedStyle(body).backgroundColor") != dark
    page.locator("#top-q").fill("ledger")
    page.locator("#top-q").press("Enter")
    page.wait_for_url("**/search?q=ledger")
    page.get_by_role("link", name="Which ledger is due?").click()
    page.wait_for_url(f"**{waiting}")


SPANS = """async all => { const { span } = await import("/static/shell/times.js"); return all.map(span); }"""


def test_the_script_writes_durations_as_the_server_does(visit):
    seconds = [10, 59, 60, 120, 460, 3_600, 3_605, 86_400, 90_061, 259_200]
    written = visit().page.evaluate(SPANS, seconds)
    assert written == [span(one * 1_000_000) for one in seconds]
    assert written[3] == "2 m"


@pytest.mark.parametrize("script", [True, False])
def test_on_a_phone_there_is_a_tab_bar_and_nothing_scrolls_sideways(visit, waiting, script):
    page = visit(viewport={"width": 390, "height": 844}, java_script_enabled=script).page
    for address in (
        "/",
        "/search",
        "/search?q=ledger",
        "/search?q=" + "x" * 150,
        "/styleguide",
        "/nothing",
        "/runs/start",
        waiting,
    ):
        page.goto(address)
        assert page.locator("html").evaluate("html => html.scrollWidth") <= 390, address
    bar = page.locator("#tab-links a:visible")
    assert [text.split("\n")[0] for text in bar.all_inner_texts()] == [
        "Overview",
        "Runs",
        "Reviews",
        "Drills",
        "New run",
        "More",
    ]
    page.locator("#tab-links").get_by_role("link", name="More").click()
    assert page.locator("#more").get_by_role("link", name="Fabrics").is_visible()
    assert not page.locator(".nav").is_visible()
    page.locator("#tab-links").get_by_role("link", name="Runs").click()
    page.wait_for_url("**/runs")
    page.get_by_role("link", name="Search", exact=True).click()
    page.wait_for_url("**/search")
