"""A change of a fabric shows who was notified of it: on its page, among the notifications, over the API and by the command; and it is sent again."""

from __future__ import annotations

import re
from html import unescape

import pytest

from fabric.core.texts.notifications import Channel, Delivery, NotificationHappening
from fabric.models import Notification
from fabric.services.actors import find_actor
from fabric.services.drafts.change_requests import change_reject, change_request_open
from tests.console.api.client import Program
from tests.fabric.management.console import command
from tests.fabric.services.notifications.scenes import sent
from tests.fabric.services.world import EYES, published_by_two
from tests.people import member, signed_in

REFUSES = {
    Channel.EMAIL: lambda *_: Delivery(NotificationHappening.REFUSED, "the mail server refused the mailbox (550)")
}


def text(response):
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", response.content.decode())).split())


@pytest.fixture
def asked(actor, settings):
    """A change that waits; the mail to the one who may agree, beside the owner without an address, could not be sent."""
    published_by_two(actor, EYES)
    settings.EMAIL_HOST, settings.DEFAULT_FROM_EMAIL = "127.0.0.1", "fabric@example.org"
    ana, ben = member("ana"), member("ben")
    for one in (ana, ben):
        one.email = f"{one.username}@example.org"
        one.save()
    asked = change_request_open(
        actor=find_actor(ana), source=EYES.replace("A small fabric", "Another"), message="<b>Twice</b> the budget."
    )
    sent(sends=REFUSES)
    return asked


def test_its_page_says_who_was_told_and_sends_it_again(browser, actor, asked):
    page = f"/fabrics/small/requests/{asked.id}"
    shown = text(browser.get(page))
    assert "Notifications outside this console Not sent" in shown
    assert "ben by e-mail: second person wanted for a change 1 attempt the mail server refused" in shown
    assert "ben@example.org" not in shown
    (action,) = re.findall(r'action="(/notifications/[^"]+/resend)"', browser.get(page).content.decode())
    assert browser.post(action, {"change": asked.id}, follow=True).redirect_chain == [(page, 302)]
    Notification.objects.update(state="sent")
    again = browser.post(action, {"change": asked.id})
    assert again.status_code == 409
    assert "was sent already" in text(again)
    assert "A change by ana of small" in text(again)
    change_reject(actor=actor, request_id=asked.id, reason="Keep the cap.")
    assert "ana by e-mail: result of a change" in text(browser.get(page))


def test_who_is_no_operator_has_no_button_there(asked):
    visitor = signed_in(member("vera", "editor"))
    shown = text(visitor.get(f"/fabrics/small/requests/{asked.id}"))
    assert "the mail server refused the mailbox (550)" in shown
    assert "Send again" not in shown


def test_it_stands_among_the_notifications_and_on_the_overview(browser, actor, asked):
    page = browser.get("/notifications").content.decode()
    assert re.findall(r'class="cell" href="([^"]+)"', page) == [f"/fabrics/small/requests/{asked.id}"]
    shown = text(browser.get("/notifications"))
    assert "Second person wanted for a change: small asked for by ana <b>Twice</b> the budget." in shown
    assert "<b>Twice" not in page
    assert "ben could not be shown. small" in text(browser.get("/"))
    change_reject(actor=actor, request_id=asked.id, reason="Keep the cap.")
    shown = text(browser.get("/notifications?state=waiting"))
    assert "Result of a change: small rejected by owner Keep the cap." in shown


def test_programs_read_what_it_is_about(browser, asked):
    session = Program()
    session.client = browser
    (one,) = session.get("/api/v1/notifications").json()["notifications"]
    link = f"/fabrics/small/requests/{asked.id}"
    said = (one["told"], one["run_id"], one["change_id"], one["fabric"], one["path"], one["to"])
    assert said == ("change", "", asked.id, "small", link, "ben")
    assert session.post(f"/api/v1/notifications/{one['id']}/resend", {}).json()["state"] == "waiting"
    (row,) = command("notification", "list", "--json").last["notifications"]
    assert (row["change_id"], row["run_id"], row["path"]) == (asked.id, "", link)
    said = command("notification", "list").out
    assert f"change asked for by ana, request {asked.id} (small) to ben: waiting" in said


def test_each_kind_can_be_turned_off(browser, actor):
    said = {"email": "me@example.org", "wants": ["changed"]}
    answer = browser.post("/notifications/mine", said, follow=True).content.decode()
    assert re.findall(r'name="wants" value="(\w+)" checked', answer) == ["changed"]
    session = Program()
    session.client = browser
    assert session.post("/api/v1/notifications/mine", {"wants": ["change"]}).json()["wants"] == ["change"]
    assert "me@example.org : second person wanted for a change." in text(browser.get("/people/account"))
