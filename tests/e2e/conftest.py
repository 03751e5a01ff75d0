"""A real browser in front of a whole Fabric Flow."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, StorageState, sync_playwright

from tests.console.launch.started_processes import PATIENCE_S
from tests.e2e.chromium import chromium_path, launched, still
from tests.e2e.installation import Installation, installed
from tests.fabric.services.world import DOUBTFUL

PATIENCE_MS = 1000 * PATIENCE_S
NOWHERE = "about:blank"
EXPECTED = ("status of 4", "WebSocket connection", "htmx:ws:error")
"""What a browser complains of when something is refused or a socket breaks, which tests bring about."""


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "e2e: drives a real browser (chromium) against manage.py up")


def begun(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    """An installation in which nothing has happened: for a module that needs one of its own, as ``pytest.fixture(begun, scope="module")``."""
    with installed(tmp_path_factory.mktemp("data")) as found:
        found.publish(DOUBTFUL)
        yield found


@pytest.fixture(scope="package")
def installation(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    """The same for all modules: a test takes nothing for granted of how much is there. A module that takes an installation apart, or adds members,
    has one of its own.
    """
    for found in begun(tmp_path_factory):
        found.shared = True
        yield found


@pytest.fixture(scope="package")
def chromium() -> Iterator[Browser]:
    """The system's Chromium, for all tests of this folder: while it is there, this thread has a running event loop."""
    if chromium_path() is None:
        sentence = "every test in a browser: no chromium is installed (TEST_CHROMIUM names one)"
        if os.environ.get("CI", "").lower() in ("true", "1"):
            pytest.fail(f"left out {sentence}", pytrace=False)
        pytest.skip(sentence)
    with sync_playwright() as playwright:
        browser = launched(playwright.chromium)
        yield browser
        browser.close()


@dataclass
class Visitor:
    """A member at a browser, signed in; the fixture keeps each complaint of the browser."""

    context: BrowserContext
    page: Page
    complaints: list[str] = field(default_factory=list)

    @property
    def rows(self) -> list[int]:
        """The seqs of the events in the page, in the order in which they stand there."""
        return [
            int(seq)
            for seq in self.page.eval_on_selector_all(
                "#events-rows tr[data-seq]", "rows => rows.map(r => r.dataset.seq)"
            )
        ]


@pytest.fixture(scope="package")
def cookies() -> dict[str, StorageState]:
    """Of who came by a one-time link, by the address of the installation: signed, so any number of browsers may have them until one signs out."""
    return {}


@pytest.fixture
def signed_in(installation: Installation, chromium: Browser, cookies: dict[str, StorageState]) -> StorageState:
    """The cookies of a member who is signed in, and whom no test signs out."""
    if installation.base not in cookies:
        cookies[installation.base] = sign_in(installation, chromium)
    return cookies[installation.base]


def sign_in(installation: Installation, chromium: Browser) -> StorageState:
    """Comes by a one-time link."""
    context = still(chromium, base_url=installation.base)
    context.set_default_timeout(PATIENCE_MS)
    page = context.new_page()
    page.goto(installation.login_link())
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_url(f"{installation.base}/")
    state = context.storage_state()
    context.close()
    return state


@pytest.fixture
def visit(installation: Installation, chromium: Browser, signed_in: StorageState) -> Iterator[Callable[..., Visitor]]:
    """Makes visitors, each with a browser profile of its own, on the overview: ``visit(java_script_enabled=False)``.

    ``at``: another page, or NOWHERE for who goes on to one; no page is loaded for nothing.
    Nothing moves on its pages by itself: what does takes the processor from all other tests. ``alone``: with a sign-in of its own, for who signs out. ``of``: the same person in another browser.
    """
    contexts = []

    def make(at: str = "/", *, alone: bool = False, of: Visitor | None = None, **options: object) -> Visitor:
        state = sign_in(installation, chromium) if alone else of.context.storage_state() if of else signed_in
        context = still(chromium, base_url=installation.base, storage_state=state, **options)
        context.set_default_timeout(PATIENCE_MS)
        contexts.append(context)
        visitor = Visitor(context, context.new_page())
        context.on("weberror", lambda one: visitor.complaints.append(str(one.error)))
        context.on(
            "console",
            lambda said: (
                visitor.complaints.append(said.text)
                if said.type == "error" and not any(words in said.text for words in EXPECTED)
                else None
            ),
        )
        visitor.page.goto(at)
        return visitor

    yield make
    for context in contexts:
        context.close()
