"""Passkeys in a real Chromium, with an authenticator of the browser's own (WebAuthn over its debugging protocol)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest
from django.contrib.auth.models import User
from django.test import Client
from playwright.sync_api import Browser, Page, sync_playwright

from fabric.models import SecondFactor, SignIn
from fabric.services.actors import login_link_create, owner_ensure
from tests.e2e.chromium import chromium_path, launched, still
from tests.people import member

pytestmark = [pytest.mark.e2e, pytest.mark.slow, pytest.mark.django_db(transaction=True)]
PASSWORD = "six dull words beside the sea"
PATIENCE_MS = 120_000


@pytest.fixture
def site(live_server: Any, settings: Any, monkeypatch: pytest.MonkeyPatch) -> str:
    """The console under a name, which passkeys need."""
    monkeypatch.setenv("DJANGO_ALLOW_ASYNC_UNSAFE", "true")  # The browser's driver has an event loop in this thread.
    base = f"http://localhost:{urlsplit(live_server.url).port}"
    settings.FABRIC_PUBLIC_URL, settings.FABRIC_ORIGINS = base, [base]
    # The first answer of a process loads every address, which takes long on a busy machine: no page has to wait for that.
    Client(HTTP_HOST="localhost").get("/login")
    return base


@pytest.fixture
def vera(site: str) -> User:
    owner_ensure()
    user = member("vera")
    user.set_password(PASSWORD)
    user.save()
    return user


@pytest.fixture
def own_chromium() -> Iterator[Browser]:
    if chromium_path() is None:
        pytest.skip("no chromium is installed (TEST_CHROMIUM names one)")
    with sync_playwright() as playwright:
        browser = launched(playwright.chromium)
        yield browser
        browser.close()


@pytest.fixture
def page(own_chromium: Browser, site: str) -> Iterator[Page]:
    """A page whose browser has an authenticator that asks for a finger, and is given it."""
    context = still(own_chromium, base_url=site)
    context.set_default_timeout(PATIENCE_MS)
    page = context.new_page()
    debugger = context.new_cdp_session(page)
    debugger.send("WebAuthn.enable")
    options = {
        "protocol": "ctap2",
        "transport": "internal",
        "hasResidentKey": True,
        "hasUserVerification": True,
        "isUserVerified": True,
        "automaticPresenceSimulation": True,
    }
    made = debugger.send("WebAuthn.addVirtualAuthenticator", {"options": options})
    page.verified = lambda to: debugger.send(  # type: ignore[attr-defined]
        "WebAuthn.setUserVerified", {"authenticatorId": made["authenticatorId"], "isUserVerified": to}
    )
    yield page
    context.close()


def test_a_passkey_is_made_and_signs_in_without_a_password(page: Page, site: str, vera: User) -> None:
    page.goto(f"/login/link#{login_link_create(vera)}")
    assert "#" not in page.url, "the token is out of the address bar"
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_url(f"{site}/")
    page.goto("/people/security")
    page.get_by_label("Name of the passkey").fill("laptop")
    page.locator("#passkey-add").click()
    page.get_by_role("heading", name="Your recovery codes").wait_for()
    assert page.locator(".codes code").count() == 10
    row = SecondFactor.objects.get()
    assert (row.kind, row.name, row.user) == ("passkey", "laptop", vera)

    page.goto("/people/security")
    page.locator("#end-all").click()
    page.wait_for_url("**/login")
    page.goto("/login?next=/reviews")
    page.locator("#passkey-use").click()
    page.wait_for_url(f"{site}/reviews")
    assert SignIn.objects.get(ended_at=None).way == "passkey"
    assert SecondFactor.objects.get().counter > row.counter

    # It is the second factor of a password too.
    page.goto("/people/security")
    page.locator("#end-all").click()
    page.wait_for_url("**/login")
    page.get_by_label("Name").fill("vera")
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Sign in", exact=True).click()
    page.wait_for_url("**/login/second")
    page.locator("#passkey-use").click()
    page.wait_for_url(f"{site}/")


def test_a_passkey_without_a_finger_and_a_passkey_of_no_member_sign_no_one_in(page: Page, vera: User) -> None:
    page.goto(f"/login/link#{login_link_create(vera)}")
    page.get_by_role("button", name="Sign in").click()
    page.goto("/people/security")
    page.locator("#passkey-add").click()
    page.get_by_role("heading", name="Your recovery codes").wait_for()
    page.goto("/people/security")
    page.locator("#end-all").click()
    page.wait_for_url("**/login")

    page.verified(to=False)  # type: ignore[attr-defined]
    page.locator("#passkey-use").click()
    page.get_by_text("No passkey was shown").wait_for()
    page.verified(to=True)  # type: ignore[attr-defined]

    SecondFactor.objects.all().delete()
    page.goto("/login")
    page.locator("#passkey-use").click()
    page.get_by_text("The browser showed no passkey that is known here").wait_for()
    page.goto("/reviews")
    assert "/login" in page.url


def test_an_answer_that_was_kept_does_not_count_again(page: Page, site: str, vera: User) -> None:
    page.goto(f"/login/link#{login_link_create(vera)}")
    page.get_by_role("button", name="Sign in").click()
    page.goto("/people/security")
    page.locator("#passkey-add").click()
    page.get_by_role("heading", name="Your recovery codes").wait_for()
    page.goto("/people/security")
    page.locator("#end-all").click()
    page.wait_for_url("**/login")
    kept: list[dict[str, str]] = []

    def keep(request: Any) -> None:
        if request.url.endswith("/login/passkey"):
            kept.append(dict(pair.split("=", 1) for pair in (request.post_data or "").split("&")))

    page.on("request", keep)
    page.locator("#passkey-use").click()
    page.wait_for_url(f"{site}/")
    page.goto("/people/security")
    page.locator("#end-all").click()
    page.wait_for_url("**/login")
    # As the browser would send it, with the form's token of now.
    page.evaluate(
        """given => {
            const form = document.querySelector("form[data-passkey]");
            for (const name of ["state", "answer"]) {
                form.elements[name].value = decodeURIComponent(given[name].replaceAll("+", " "));
            }
            form.submit();
        }""",
        kept[0],
    )
    page.get_by_text("The browser showed no passkey that is known here").wait_for()
    assert not SignIn.objects.filter(ended_at=None).exists()
