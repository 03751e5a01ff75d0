"""`notifications`: lists what was told and has one sent again."""

from fabric.core.texts.notifications import Channel, Delivery, NotificationHappening
from fabric.models import Notification
from tests.fabric.management.console import command
from tests.fabric.services.notifications.scenes import HOOK, known, made, sent, telling


def test_they_are_listed_and_one_is_sent_again(actor, nudge, small):
    assert command("notification", "list").out == "There are no notifications.\n"
    known(HOOK)
    run_id = telling(actor, nudge, small, alert=None)
    made(HOOK)
    refuse = {
        Channel.WEBHOOK: lambda *_: Delivery(
            NotificationHappening.REFUSED, "https://hooks.example.org answered HTTP 410"
        )
    }
    sent(HOOK, sends=refuse)
    one = Notification.objects.get()
    said = command("notification", "list").out
    assert said.startswith(one.id)
    assert f"review of run {run_id} (small) to https://hooks.example.org: failed, 1 attempt; " in said
    assert "secret" not in said
    (listed,) = command("notification", "list", "--state", "failed", "--json").last["notifications"]
    assert (listed["id"], listed["state"], listed["path"]) == (one.id, "failed", "/reviews/esc-1")
    assert command("notification", "list", "--state", "sent", "--json").last == {"notifications": [], "more": False}
    (again,) = command("notification", "retry", one.id[-12:], "--json").last["notifications"]
    assert (again["state"], again["id"]) == ("waiting", one.id)


def test_what_is_not_there_is_one_sentence(actor):
    said = command("notification", "retry", "none")
    assert (said.code, said.out) == (2, "")
    assert (
        said.err
        == "there is no notification 'none' in this workspace; `python3 manage.py notification list` lists them\n"
    )


def test_a_channel_of_a_chat_is_added_listed_and_removed(actor, small, monkeypatch):
    assert command("notification", "channel", "list").out == "There are no channels.\n"
    monkeypatch.setenv("CHAT", "https://hooks.slack.com/services/T0/B0/XXXXXXXXXXXXXXXXXXXXXXXX")
    added = command("notification", "channel", "add", "slack", "--fabric", small, "--from-env", "CHAT")
    assert added.out.endswith(f" slack at https://hooks.slack.com: reviews of {small}\n")
    assert command("notification", "channel", "list").out == added.out
    told = command("notification", "channel", "list", "--json").last["channels"]
    done = command("notification", "channel", "remove", told[0]["id"])
    assert done.out.endswith(f": reviews of {small}, removed\n")


def test_a_channel_without_an_address_is_refused(actor, small):
    done = command("notification", "channel", "add", "slack", "--fabric", small, "--from-env", "NOWHERE")
    assert (done.code, done.err) == (2, "--from-env: NOWHERE is not set\n")
