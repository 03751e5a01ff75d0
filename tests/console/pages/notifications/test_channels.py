"""Members add channels of chats on the page of notifications, and remove them; an address is shown no more."""

from __future__ import annotations

import pytest

from fabric.models import ChatRoute

ADDRESS = "https://hooks.slack.com/services/T00000000/B00000000/XXXXXXXXXXXXXXXXXXXXXXXX"
SECRET = "XXXXXXXXXXXXXXXXXXXXXXXX"
PAGE = "/notifications/channels"


def page(browser):
    return browser.get("/notifications").content.decode()


def test_a_channel_of_a_fabric_is_added_shown_and_removed(browser, small):
    done = browser.post(PAGE, {"channel": "slack", "address": ADDRESS, "fabric": small}, follow=True)
    said = done.content.decode()
    assert f"Reviews of {small} go to Slack from now on." in said
    assert "https://hooks.slack.com" in said
    assert SECRET not in said
    done = browser.post(f"{PAGE}/{ChatRoute.objects.get().id}/remove", follow=True)
    assert f"Reviews of {small} go to that channel of Slack no more." in done.content.decode()
    assert f"Reviews of {small}" not in page(browser)


def test_without_a_fabric_it_is_ones_own(browser, small):
    browser.post(PAGE, {"channel": "teams", "address": "https://example.org/workflows/1?sig=x", "fabric": ""})
    assert "Reviews for you" in page(browser)


@pytest.mark.parametrize(
    ("sent", "said"),
    [
        ({"channel": "irc", "address": ADDRESS}, "is no chat; there are: slack, teams."),
        ({"channel": "slack", "address": ""}, "The address is missing"),
        ({"channel": "slack", "address": f"https://127.0.0.1/{SECRET}"}, "is not public (loopback)"),
        ({"channel": "slack", "address": ADDRESS, "fabric": "nothing"}, "no fabric is named"),
    ],
)
def test_a_refused_form_keeps_what_is_no_secret(browser, small, sent, said):
    answer = browser.post(PAGE, sent)
    body = answer.content.decode()
    assert answer.status_code == 422
    assert said.lower() in body.lower()
    assert SECRET not in body
    assert not ChatRoute.objects.exists()


def test_a_channel_that_there_is_not_is_not_removed(browser, small):
    assert browser.post(f"{PAGE}/nothing/remove").status_code == 404
