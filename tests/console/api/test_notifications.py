"""Notifications over the API: listed with what became of them, and sent again."""

from typing import get_args

import pytest

from console.api.notifications import MailKind
from fabric.core.texts.notifications import MEMBER_KINDS, Channel, Delivery, NotificationHappening
from fabric.models import AuditLine, Notification, Review
from tests.fabric.services.notifications.scenes import HOOK, known, made, sent, telling
from tests.fabric.services.world import nudge

__all__ = ["nudge"]
NOTIFICATIONS = "/api/v1/notifications"


def test_a_member_may_want_each_kind_of_mail_that_there_is():
    assert set(get_args(MailKind)) == set(MEMBER_KINDS)


@pytest.fixture
def run_id(actor, nudge, small):
    """An alert and a review for a webhook that refuses the alert."""
    known(HOOK)
    run_id = telling(actor, nudge, small)
    made(HOOK)
    sent(
        HOOK,
        sends={
            Channel.WEBHOOK: lambda *_: Delivery(
                NotificationHappening.REFUSED, "https://hooks.example.org answered HTTP 410"
            )
        },
    )
    return run_id


def test_they_are_listed_with_what_became_of_them(program, run_id):
    listed = program.get(NOTIFICATIONS).json()
    assert (len(listed["notifications"]), listed["more"]) == (2, False)
    (failed,) = program.get(f"{NOTIFICATIONS}?state=failed").json()["notifications"]
    assert (failed["told"], failed["run_id"], failed["path"]) == ("alert", run_id, f"/runs/{run_id}")
    assert (failed["channel"], failed["to"], failed["attempts"]) == ("webhook", "https://hooks.example.org", 1)
    assert (failed["error"], failed["next_at"]) == ("https://hooks.example.org answered HTTP 410", None)
    (waiting,) = program.get(f"{NOTIFICATIONS}?state=waiting").json()["notifications"]
    assert waiting["path"] == "/reviews/esc-1"
    assert waiting["next_at"] == waiting["made_at"]
    assert program.get(f"{NOTIFICATIONS}?limit=1").json()["more"]
    assert "secret" not in program.get(NOTIFICATIONS).content.decode()


def test_one_that_was_not_needed_is_skipped_and_says_why(program, run_id):
    Review.objects.update(decided_at=1, verb="approve")
    sent(HOOK, sends={})
    (skipped,) = program.get(f"{NOTIFICATIONS}?state=skipped").json()["notifications"]
    assert (skipped["state"], skipped["error"]) == ("skipped", "answered before it was sent")
    assert (skipped["sent_at"], skipped["next_at"]) == (None, None)
    again = program.post(f"{NOTIFICATIONS}/{skipped['id']}/resend", {})
    assert again.status_code == 409


@pytest.mark.parametrize("query", ["state=none", "limit=0", "limit=201", "page=2"])
def test_what_cannot_be_asked_is_refused(program, run_id, query):
    assert program.get(f"{NOTIFICATIONS}?{query}").status_code == 422


def test_one_is_sent_again_and_one_that_was_sent_is_not(program, run_id):
    failed = Notification.objects.get(state="failed")
    again = program.post(f"{NOTIFICATIONS}/{failed.id}/resend", {})
    assert (again.status_code, again.json()["state"], again.json()["attempts"]) == (200, "waiting", 1)
    assert AuditLine.objects.filter(kind="notification_resent", subject=failed.id).count() == 1
    sent(HOOK, sends={Channel.WEBHOOK: lambda *_: Delivery(NotificationHappening.DELIVERED)})
    assert program.post(f"{NOTIFICATIONS}/{failed.id}/resend", {}).status_code == 409
    assert program.post(f"{NOTIFICATIONS}/none/resend", {}).status_code == 404


class TestChannels:
    ADDRESS = "https://hooks.slack.com/services/T00000000/B00000000/XXXXXXXXXXXXXXXXXXXXXXXX"

    def test_one_of_a_fabric_is_added_listed_and_removed(self, program, small):
        path = "/api/v1/notifications/channels"
        added = program.post(path, {"channel": "slack", "address": self.ADDRESS, "fabric": small})
        assert added.status_code == 200
        assert (added.json()["host"], added.json()["fabric"]) == ("https://hooks.slack.com", small)
        assert "XXXX" not in added.content.decode()
        assert program.get(path).json() == {"channels": [added.json()]}
        assert program.post(f"{path}/{added.json()['id']}/remove").json() == added.json()
        assert program.get(path).json() == {"channels": []}

    def test_a_token_routes_no_persons_reviews(self, program):
        refused = program.post("/api/v1/notifications/channels", {"channel": "slack", "address": self.ADDRESS})
        assert refused.status_code == 403

    def test_a_private_address_is_refused_at_its_field(self, program, small):
        body = {"channel": "teams", "address": "https://10.0.0.1/x", "fabric": small}
        refused = program.post("/api/v1/notifications/channels", body)
        assert (refused.status_code, [one["path"] for one in refused.json()["errors"]]) == (422, ["address"])
