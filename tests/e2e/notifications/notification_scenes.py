"""Scenes of what is told outside the console: by an installation of its own, whose receivers take it, refuse it, or are not there."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from playwright.sync_api import Page

from tests.e2e.decided import decided
from tests.e2e.installation import Installation, installed
from tests.e2e.scenes import FABRIC, FABRICS, NOTES, PATIENT, REQUESTS, Scene, started
from tests.fabric.adapters.notifications.receivers import mail_server, webhook_receiver
from tests.servers.ports import free_port

REFUSED: tuple[int, dict[str, str], bytes] = 410, {}, b""
TOLD_IN_ALL = 8
"""Two reviews to four targets."""
MANY = 12
"""More than the refusing receiver is asked."""


@contextmanager
def telling(data: Path) -> Iterator[Installation]:
    """An installation that notifies a mailbox and a webhook, another webhook that is gone for good, and one where no server listens."""
    with ExitStack() as stack:
        mail = stack.enter_context(mail_server())
        takes, gone = (stack.enter_context(webhook_receiver()) for _ in range(2))
        gone.answers.extend([REFUSED] * MANY)
        hooks = (takes.url, gone.url, f"http://127.0.0.1:{free_port()}/alerts")
        settings = {
            "FABRIC_NOTIFY_MAIL": "on-call@example.org",
            "FABRIC_NOTIFY_WEBHOOKS": ",".join(hooks),
            "FABRIC_WEBHOOK_SECRET": f"whsec_{base64.b64encode(bytes(32)).decode()}",
            "FABRIC_MAIL_FROM": "fabric@example.org",
            "FABRIC_SMTP_HOST": "127.0.0.1",
            "FABRIC_SMTP_PORT": str(mail.port),
            "FABRIC_SMTP_TLS": "off",
        }
        yield stack.enter_context(installed(data, **settings))


def ask(home: Installation, page: Page) -> None:
    """Reviews of two runs, and what became of telling them; the last is answered before all members were told."""
    title, description, options, budget = FABRICS["contract-advice"]
    home.publish(
        FABRIC.format(name="contract-advice", title=title, description=description, options=options, budget=budget)
    )
    notes = home.data / "notes.md"
    notes.write_text(NOTES)
    for text in REQUESTS[:2]:
        started(page, "contract-advice", text, notes, PATIENT)
    settled = "SELECT id FROM fabric_notification WHERE state != 'waiting' OR error != ''"
    while len(home.stored(settled)) < TOLD_IN_ALL:
        page.wait_for_timeout(200)
    decided(page, "approve")
    page.locator("#live[data-live=ended]").wait_for()
    while not home.stored("SELECT 1 FROM fabric_notification WHERE state = 'skipped'"):
        page.wait_for_timeout(200)


def sent_again(page: Page) -> None:
    page.get_by_role("button", name="Send again").first.click()
    page.get_by_text("It is sent again as soon as a worker looks").wait_for()


def sent_already(page: Page) -> None:
    """The page was loaded before another attempt arrived: the button sends what was sent."""
    form = page.locator("form[action$=resend]").first
    sent = page.locator("tr", has=page.locator("[data-tone=ok]")).first.get_attribute("id") or ""
    form.evaluate("(form, id) => { form.action = `/notifications/${id}/resend`; }", sent.removeprefix("n-"))
    form.get_by_role("button").click()
    page.get_by_role("alert").filter(has_text="was sent already").wait_for()


def _add_channel(page: Page, chat: str, address: str, fabric: str) -> None:
    page.get_by_label("Chat", exact=True).select_option(chat)
    page.get_by_label("Address of its webhook").fill(address)
    page.locator("#channel-fabric").fill(fabric)
    page.get_by_role("button", name="Add the channel").click()


def channels_added(page: Page) -> None:
    """A channel of a fabric, and one of the viewer."""
    _add_channel(page, "slack", "https://hooks.slack.com/services/T00000000/B00000000/XXXX", "contract-advice")
    page.get_by_text("Reviews of contract-advice go to Slack from now on.").wait_for()
    _add_channel(page, "teams", "https://example.org/workflows/1?sig=XXXX", "")
    page.get_by_text("Reviews for you go to Teams from now on.").wait_for()


def channel_refused(page: Page) -> None:
    _add_channel(page, "slack", "https://127.0.0.1/services/x", "contract-advice")
    page.get_by_text("is not public").wait_for()


NOTHING_YET = (Scene("notifications-nothing-yet", "/notifications"),)
TOLD = (
    Scene("notifications", "/notifications"),
    Scene("notifications-failed", "/notifications?state=failed"),
    Scene("notifications-sent", "/notifications?state=sent"),
    Scene("notifications-skipped", "/notifications?state=skipped"),
    Scene("notifications-overview", "/"),
    Scene("notifications-channel-refused", "/notifications", channel_refused, 422),
    Scene("notifications-channels-added", "/notifications", channels_added),
    Scene("notifications-sent-already", "/notifications", sent_already, 409),
    Scene("notifications-sent-again", "/notifications?state=failed", sent_again),
)
"""The last one changes what there is."""
