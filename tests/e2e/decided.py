"""Reviews of runs, answered on their own pages on the way from the run and back."""

from __future__ import annotations

from playwright.sync_api import Page


def decided(page: Page, verb: str, message: str = "") -> None:
    """Answer the review of the run whose page is open, and return to the run."""
    run = page.url
    page.locator("article.review").first.get_by_role("link", name="Decide").click()
    page.locator(f"#v-{verb}").check(force=True)
    if message:
        page.locator("#message").fill(message)
    page.locator("#decision button.primary").click()
    page.locator("#waiting").or_(page.locator("#decided-by")).wait_for()
    page.goto(run)
