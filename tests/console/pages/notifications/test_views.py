"""The page of notifications: what was told to whom, what failed, and sending it again without a script."""

import re
from html import unescape

import pytest

from console.pages.notifications.views import MAILS, REACHED
from console.words.notifications import CHANNELS, KIND_WORDS, STATES
from fabric.core.texts.notifications import (
    CALLING,
    CHANGES,
    COMMENTED,
    EVENTS,
    MEMBER_KINDS,
    Channel,
    Delivery,
    NotificationHappening,
    NotificationKind,
    NotificationState,
)
from fabric.models import AuditLine, Member, Notification, NotificationPreference, Review, Run
from fabric.selectors.notifications import find_mail
from tests.fabric.services.notifications.scenes import HOOK, OPS, known, made, sent, telling
from tests.fabric.services.world import nudge
from tests.people import member, signed_in

__all__ = ["nudge"]
PAGE = "/notifications"


def text(response):
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", response.content.decode())).split())


@pytest.fixture
def told(actor, nudge, small, settings):
    """An alert and a review of a run, to a mailbox and a webhook; nothing is sent yet."""
    settings.FABRIC_NOTIFY_MAIL, settings.FABRIC_NOTIFY_WEBHOOKS = (OPS.address,), (HOOK.address,)
    known(OPS, HOOK)
    run_id = telling(actor, nudge, small)
    assert made(OPS, HOOK) == 4
    return run_id


def refused_once():
    """The webhook refuses the first that it gets; the mailbox takes all."""
    refuse = lambda *_: Delivery(NotificationHappening.REFUSED, "https://hooks.example.org answered HTTP 410")  # noqa: E731
    sent(
        OPS, HOOK, sends={Channel.WEBHOOK: refuse, Channel.EMAIL: lambda *_: Delivery(NotificationHappening.DELIVERED)}
    )


def test_every_word_is_there():
    assert set(STATES) == set(NotificationState)
    assert set(KIND_WORDS) == set(NotificationKind)
    assert set(CHANNELS) == set(REACHED) == set(Channel)


def test_everything_that_members_are_told_may_be_wanted_or_not():
    of_changes = {told for told in CHANGES.values() if told is not None}
    of_reviews = {told for kind in CALLING for told in EVENTS[kind]} | COMMENTED
    assert set(MAILS) == set(MEMBER_KINDS) == of_changes | of_reviews


def test_without_a_target_the_page_says_how_one_is_named(browser, actor):
    shown = text(browser.get(PAGE))
    assert "Notifications are off; messages appear only here" in shown
    assert "FABRIC_NOTIFY_MAIL" in shown


def test_before_anything_happened_it_says_who_is_told(browser, actor, settings):
    settings.FABRIC_NOTIFY_MAIL = ("ops@example.org", "two@example.org")
    shown = text(browser.get(PAGE))
    assert "No notifications yet" in shown
    assert "Alerts and reviews go to 2 mailboxes." in shown
    assert "Not told 0" not in shown, "nothing to choose from"


def test_it_says_how_many_members_are_mailed_what_asks_them(browser, actor, settings):
    for name, more in (("ana", {}), ("ben", {}), ("robot", {"service": True}), ("left", {"is_active": False})):
        someone = member(name, **more)
        someone.email = f"{name}@example.org"
        someone.save()
    member("noel")
    assert "Notifications are off; messages appear only here No address is configured." in text(browser.get(PAGE)), (
        "no mail server"
    )
    settings.EMAIL_HOST, settings.DEFAULT_FROM_EMAIL = "127.0.0.1", "fabric@example.org"
    shown = text(browser.get(PAGE))
    assert "No notifications yet 2 members are mailed about their reviews." in shown
    assert "No address" not in shown
    ben = Member.objects.get(name="ben")
    NotificationPreference.objects.create(member=ben.id, workspace_id=actor.workspace_id, mailed=False, changed_at=1)
    settings.FABRIC_NOTIFY_MAIL = ("ops@example.org",)
    told = "Alerts and reviews go to 1 mailbox. 1 member is mailed about their reviews."
    assert told in text(browser.get(PAGE))


def test_what_waits_was_sent_and_failed_stands_there_and_no_secret(browser, told):
    assert "4 notifications wait to be sent" in text(browser.get(PAGE))
    refused_once()
    shown = text(browser.get(PAGE))
    assert "One notification could not be sent" in shown
    assert "https://hooks.example.org answered HTTP 410" in shown
    assert "secret" not in browser.get(PAGE).content.decode()
    assert "Not sent 1" in shown
    assert len(re.findall(": small", text(browser.get(f"{PAGE}?state=sent")))) == 2
    assert "ops@example.org by e-mail" not in text(browser.get(f"{PAGE}?state=failed"))
    assert browser.get(f"{PAGE}?state=nonsense").status_code == 200


def test_runs_are_told_apart_by_what_was_asked_of_them(browser, told):
    """And what was told of one that is deleted stays."""
    assert text(browser.get(PAGE)).count("Review: small Why?") == 2
    Run.objects.filter(id=told).update(title="<b>bold</b>")
    assert "<b>bold</b>" not in browser.get(PAGE).content.decode()
    Notification.objects.update(run_id="gone")
    assert text(browser.get(PAGE)).count("Review: small ") == 2


def test_what_was_not_needed_says_why_and_is_no_fault(browser, told):
    Review.objects.update(decided_at=1, verb="approve")
    sent(OPS, HOOK, sends=dict.fromkeys(Channel, lambda *_: Delivery(NotificationHappening.DELIVERED)))
    page = browser.get(f"{PAGE}?state=skipped")
    shown = text(page)
    assert "Not needed 2" in shown
    assert shown.count("answered before it was sent") == 2
    assert "two wrong" not in page.content.decode()
    assert "Send again" not in shown
    assert "All notifications were sent" in shown


def test_when_all_were_taken_it_says_so(browser, told):
    sent(OPS, HOOK, sends=dict.fromkeys(Channel, lambda *_: Delivery(NotificationHappening.DELIVERED)))
    assert "All notifications were sent" in text(browser.get(PAGE))


def test_one_that_is_tried_again_says_when_it_is_due(browser, told):
    failed = lambda *_: Delivery(NotificationHappening.FAILED, "nobody there")  # noqa: E731
    sent(
        OPS, HOOK, sends={Channel.WEBHOOK: failed, Channel.EMAIL: lambda *_: Delivery(NotificationHappening.DELIVERED)}
    )
    said = text(browser.get(PAGE))
    assert "Trying again due " in said
    assert "nobody there" in said


def test_each_leads_to_its_item_and_the_item_is_there(browser, told):
    page = browser.get(PAGE).content.decode()
    links = set(re.findall(rf'class="cell" href="(/runs/{told}[^"]*|/reviews/[^"]*)"', page))
    assert links == {f"/runs/{told}", "/reviews/esc-1"}
    assert browser.get("/reviews/esc-1").status_code == 200
    # What was mailed before reviews had pages of their own leads there still.
    assert 'id="review-esc-1"' in browser.get(f"/runs/{told}").content.decode()


def test_the_overview_names_it(browser, told):
    refused_once()
    shown = text(browser.get("/"))
    assert "one notification could not be sent" in shown.lower()
    assert "https://hooks.example.org could not be shown." in shown
    assert f"{PAGE}?state=failed" in browser.get("/").content.decode()


def test_one_is_sent_again_by_its_button(browser, told):
    refused_once()
    (action,) = set(
        re.findall(r'action="(/notifications/[^"]+/resend)"', browser.get(f"{PAGE}?state=failed").content.decode())
    )
    answer = browser.post(action, follow=True)
    assert answer.redirect_chain == [(PAGE, 302)]
    assert "It is sent again as soon as a worker looks" in text(answer)
    assert not Notification.objects.filter(state="failed", id=action.split("/")[2]).exists()
    assert AuditLine.objects.filter(kind="notification_resent").count() == 1


def test_one_that_was_sent_meanwhile_and_one_that_is_not_there(browser, told):
    one = Notification.objects.all()[0]
    Notification.objects.update(state="sent")
    answer = browser.post(f"{PAGE}/{one.id}/resend")
    assert answer.status_code == 409
    assert "was sent already" in text(answer)
    assert browser.post(f"{PAGE}/none/resend").status_code == 404
    assert browser.get(f"{PAGE}/{one.id}/resend").status_code == 405


def test_who_is_no_operator_looks_and_has_no_button(owner, told):
    refused_once()
    visitor = signed_in(member("vera"))
    page = visitor.get(f"{PAGE}?state=failed")
    assert page.status_code == 200
    assert "answered HTTP 410" in text(page)
    assert "Send again" not in text(page)
    failed = Notification.objects.get(state="failed")
    assert visitor.post(f"{PAGE}/{failed.id}/resend").status_code == 403
    assert Notification.objects.get(id=failed.id).state == "failed"


def test_the_pages_cost_does_not_grow_with_what_is_there(browser, told, django_assert_max_num_queries):
    Notification.objects.bulk_create(
        Notification(
            **{field.attname: getattr(one, field.attname) for field in Notification._meta.fields} | {"id": f"n{n}", "seq": 1_000 + n}
        )
        for n in range(300)
        for one in [Notification.objects.first()]
    )  # fmt: skip
    with django_assert_max_num_queries(20):
        page = browser.get(PAGE).content.decode()
    assert page.count('<tr id="n-') == 200
    assert "older ones are not shown" in page


def test_ones_own_mail_is_changed_on_the_page(browser, owner, actor):
    shown = text(browser.get(PAGE))
    assert "My mail" in shown
    assert "No mail server is configured" in shown
    answer = browser.post(f"{PAGE}/mine", {"email": " me@example.org ", "wants": ["review", "onward"]}, follow=True)
    assert "Saved: mail goes to me@example.org." in text(answer)
    assert 'value="me@example.org"' in answer.content.decode()
    assert find_mail(actor).wants == (NotificationKind.REVIEW, NotificationKind.ONWARD)
    assert re.findall(r'name="wants" value="(\w+)" checked', answer.content.decode()) == ["review", "onward"]
    answer = browser.post(f"{PAGE}/mine", {"email": "me@example.org"}, follow=True)
    assert "You get no mail." in text(answer)
    assert find_mail(actor).wants == ()


def test_what_is_no_address_is_said_and_kept(browser, actor):
    answer = browser.post(f"{PAGE}/mine", {"email": "me@<b>", "wants": ["review", "onward"]})
    assert answer.status_code == 422
    assert "'me@<b>' is no e-mail address" in text(answer)
    assert 'value="me@&lt;b&gt;"' in answer.content.decode()
    assert re.findall(r'name="wants" value="(\w+)" checked', answer.content.decode()) == ["review", "onward"]
    assert find_mail(actor).email == ""
    refused = browser.post(f"{PAGE}/mine", {"email": "", "wants": ["alert"]})
    assert refused.status_code == 422
    assert "There is no mail about 'alert'" in text(refused)
