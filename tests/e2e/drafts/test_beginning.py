"""A first fabric in a real browser: begun, changed, seen by others, and kept while the network is away."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

from fabric.selectors.drafts.lookup import EDITOR_S
from tests.e2e import conftest
from tests.e2e.chromium import still
from tests.e2e.conftest import NOWHERE

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

installation = pytest.fixture(conftest.begun, scope="module")
SAVED = re.compile(r"Draft\s+saved (now|\d+ s ago)")


def begun(page: Page, name: str, template: str = "research") -> None:
    """A draft from a template, by mouse."""
    page.goto("/fabrics")
    page.get_by_role("link", name="New fabric").click()
    page.locator(
        ".template", has_text=re.compile("Research with sources" if template == "research" else template)
    ).click()
    page.get_by_label("Name a-z").fill(name)
    page.get_by_role("button", name="Create draft").click()
    page.wait_for_url(f"**/fabrics/{name}/draft")


def test_what_is_typed_while_the_network_is_away_is_kept_and_sent_when_it_is_back(visit, installation):
    page = visit(NOWHERE).page
    begun(page, "kept-desk")
    expect(page.locator("#saved")).to_contain_text(SAVED)
    page.context.set_offline(True)
    title = page.locator('[name="f.title"]')
    title.fill("Typed before the script ran")
    expect(page.locator("#saved")).to_contain_text("Not saved:")
    expect(page.locator("#notice")).to_contain_text("The server cannot be reached. What you typed is still here")
    title.press("End")
    title.type(", and more")
    # A time at which it has been tried again and has failed again: nothing is lost by that.
    with page.expect_event(
        "requestfailed", lambda request: request.method == "POST" and request.url.endswith("part=basics")
    ):
        pass
    assert title.input_value() == "Typed before the script ran, and more"
    ((text,),) = installation.stored("SELECT text FROM fabric_draft WHERE name = 'kept-desk'")
    assert "Typed" not in text
    page.context.set_offline(False)
    expect(page.locator("#saved")).to_contain_text(SAVED)
    expect(page.locator("#notice")).to_be_empty()
    expect(page.locator("h1")).to_have_text("Typed before the script ran, and more")
    assert title.evaluate("field => field === document.activeElement")
    ((text,),) = installation.stored("SELECT text FROM fabric_draft WHERE name = 'kept-desk'")
    assert "title: Typed before the script ran, and more" in text


def test_who_else_looks_is_told_while_they_do(visit, installation, chromium):
    owner = visit(NOWHERE).page
    owner.goto("/fabrics/research-desk")
    owner.get_by_role("button", name="Edit").click()
    owner.wait_for_url("**/draft")
    context = still(chromium, base_url=installation.base)
    ana = context.new_page()
    ana.goto(installation.login_link_of("ana"))
    ana.get_by_role("button", name="Sign in").click()
    ana.goto("/fabrics/research-desk")
    ana.get_by_role("button", name="Edit").click()
    ana.wait_for_url("**/draft")
    ana.get_by_role("link", name="Budgets and limits").click()
    expect(ana.locator("#draft-here")).to_contain_text("owner is looking at Fabric")
    told = owner.locator("#draft-here")
    expect(told).to_contain_text("ana is looking at Budgets and limits", timeout=30_000)
    ana.goto("/fabrics")
    # Sooner than an editor is forgotten that only falls silent.
    expect(told).not_to_contain_text("ana", timeout=(EDITOR_S - 15) * 1_000)
    context.close()
