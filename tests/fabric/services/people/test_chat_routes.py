"""Reviews go to the channels of chats to which members route them; the addresses stay secret."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from fabric.adapters.notifications.chat import Chats
from fabric.core.texts.notifications import CHATS, NotificationState
from fabric.http.transport import Gate
from fabric.models import AuditLine, ChatRoute, Member, Notification
from fabric.runtime.ports.batch_parts import names_text
from fabric.secrets.known_secrets import KNOWN
from fabric.selectors.chat_routes import list_chat_routes
from fabric.services.errors import Refused
from fabric.services.installation import facts as here
from fabric.services.notifications.delivery import notifications_send
from fabric.services.notifications.member_mail import members_notify, notification_preference_set
from fabric.services.people.chat_routes import ROUTES_MAX, chat_route_add, chat_route_remove
from fabric.services.rights import TOKEN
from fabric.worker.process.duties import database_us
from tests.fabric.adapters.notifications.receivers import webhook_receiver
from tests.fabric.services.notifications.scenes import post_to, telling
from tests.people import member

ADDRESS = "https://hooks.slack.com/services/T00000000/B00000000/XXXXXXXXXXXXXXXXXXXXXXXX"
SECRET = "XXXXXXXXXXXXXXXXXXXXXXXX"


@pytest.fixture
def hook(settings):
    """A channel on this machine, which the operator lists."""
    with webhook_receiver() as receiver:
        settings.FABRIC_ALLOWED_HOSTS = (receiver.url.split("/")[2],)
        yield receiver


@pytest.fixture
def ana(actor):
    """A reviewer."""
    member("ana", "reviewer")
    return replace(actor, name="ana", roles=frozenset({"reviewer"}))


def notify():
    return members_notify(now=database_us(), mailed=False)


def send(settings):
    chats = Chats(Gate.trust_hosts(settings.FABRIC_ALLOWED_HOSTS), deadline_s=5.0).send
    return notifications_send(replace(post_to(sends=dict.fromkeys(CHATS, chats)), box=here.secret_box()))


def rows():
    return sorted(Notification.objects.values_list("channel", "shown", "told", "state"))


class TestRoutesOfFabrics:
    def test_its_reviews_go_to_its_channel_alone(self, actor, nudge, small, doubtful, hook, settings):
        notify()
        chat_route_add(actor=actor, channel="slack", address=hook.url, fabric=small)
        telling(actor, nudge, small, reminded=("reminder",))
        telling(actor, nudge, doubtful, review="esc-2")
        assert notify() == 2
        assert notify() == 0
        assert send(settings) == 2
        shown = hook.url.rpartition("/")[0].partition("/hook")[0]
        assert [(one[0], one[2], one[3]) for one in rows()] == [
            ("slack", "reminder", NotificationState.SENT),
            ("slack", "review", NotificationState.SENT),
        ]
        assert {one[1] for one in rows()} == {"/".join(shown.split("/")[:3])}
        assert all("/reviews/esc-1|" in json.dumps(json.loads(got.body)) for got in hook.got)

    def test_a_new_channel_hears_of_nothing_before_it(self, actor, nudge, small):
        notify()
        chat_route_add(actor=actor, channel="teams", address=ADDRESS, fabric=small)
        telling(actor, nudge, small)
        ChatRoute.objects.update(added_at=database_us() + 3_600_000_000)  # As if it came after the review.
        assert notify() == 0

    def test_a_removed_channel_gets_nothing_and_its_address_is_erased(self, actor, nudge, small, hook, settings):
        notify()
        route = chat_route_add(actor=actor, channel="slack", address=hook.url, fabric=small)
        telling(actor, nudge, small)
        notify()
        chat_route_remove(actor=actor, route_id=route.id)
        send(settings)
        assert (hook.got, bytes(ChatRoute.objects.get().sealed)) == ([], b"")
        assert [one[3] for one in rows()] == [NotificationState.SKIPPED]
        assert list_chat_routes(actor) == []

    def test_a_dead_channel_is_shown_as_failed(self, actor, nudge, small, hook, settings):
        notify()
        chat_route_add(actor=actor, channel="slack", address=hook.url, fabric=small)
        telling(actor, nudge, small)
        notify()
        hook.answers.append((404, {}, b"no_service"))
        send(settings)
        row = Notification.objects.get()
        assert (row.state, row.error) == (NotificationState.FAILED, f"{row.shown} answered HTTP 404")

    def test_an_address_that_does_not_open_is_shown(self, actor, nudge, small, hook, settings):
        notify()
        chat_route_add(actor=actor, channel="slack", address=hook.url, fabric=small)
        ChatRoute.objects.update(sealed=b"damaged")
        telling(actor, nudge, small)
        notify()
        send(settings)
        row = Notification.objects.get()
        assert (row.state, hook.got) == (NotificationState.FAILED, [])
        assert "does not open" in row.error

    def test_a_private_address_is_refused_when_it_is_added(self, actor, small):
        for address in ("https://127.0.0.1/x", "http://hooks.example.org/x", "https://localhost/x"):
            with pytest.raises(Refused) as refused:
                chat_route_add(actor=actor, channel="slack", address=address, fabric=small)
            assert (refused.value.code, refused.value.field) == ("invalid", "address")
        assert not ChatRoute.objects.exists()

    def test_only_its_editors_route_it(self, actor, ana, small):
        with pytest.raises(Refused, match="may not route reviews to a chat"):
            chat_route_add(actor=ana, channel="slack", address=ADDRESS, fabric=small)
        route = chat_route_add(actor=actor, channel="slack", address=ADDRESS, fabric=small)
        with pytest.raises(Refused, match="may not remove channels"):
            chat_route_remove(actor=ana, route_id=route.id)
        assert [one.may_remove for one in list_chat_routes(ana)] == [False]

    def test_a_fabric_has_so_many_channels(self, actor, small):
        for _ in range(ROUTES_MAX):
            chat_route_add(actor=actor, channel="slack", address=ADDRESS, fabric=small)
        with pytest.raises(Refused, match="the most that there may be"):
            chat_route_add(actor=actor, channel="slack", address=ADDRESS, fabric=small)


class TestRoutesOfMembers:
    def test_reviews_that_ask_them_go_there(self, actor, ana, nudge, small, hook, settings):
        notify()
        chat_route_add(actor=ana, channel="slack", address=hook.url)
        telling(actor, nudge, small, asked=names_text(["reviewer"]))
        telling(actor, nudge, small, review="esc-2", asked=names_text(["finance"]))
        assert notify() == 1
        send(settings)
        assert rows() == [("slack", "ana", "review", NotificationState.SENT)]

    def test_one_who_wants_no_notifications_gets_none(self, actor, ana, nudge, small):
        notify()
        chat_route_add(actor=ana, channel="slack", address=ADDRESS)
        notification_preference_set(actor=ana, wants=())
        telling(actor, nudge, small, asked=names_text(["reviewer"]))
        assert notify() == 0

    def test_one_who_has_left_gets_none(self, actor, ana, nudge, small, hook, settings):
        notify()
        chat_route_add(actor=ana, channel="slack", address=hook.url)
        telling(actor, nudge, small, asked=names_text(["reviewer"]))
        notify()
        Member.objects.filter(name="ana").update(removed_at=1)
        send(settings)
        assert (hook.got, [one[3] for one in rows()]) == ([], [NotificationState.SKIPPED])

    def test_no_other_member_sees_or_removes_it(self, actor, ana):
        route = chat_route_add(actor=ana, channel="slack", address=ADDRESS)
        assert list_chat_routes(actor) == []
        with pytest.raises(Refused, match="there is no channel"):
            chat_route_remove(actor=actor, route_id=route.id)

    def test_a_token_adds_none(self, ana):
        with pytest.raises(Refused, match="a token cannot"):
            chat_route_add(actor=replace(ana, via=f"{TOKEN}x"), channel="slack", address=ADDRESS)


@pytest.mark.parametrize(
    ("field", "asked"),
    [
        ("channel", {"channel": "irc"}),
        ("address", {"address": " "}),
        ("address", {"address": "hooks.slack.com"}),
        ("address", {"address": "https://user:pass@hooks.slack.com/x"}),
        ("address", {"address": "https://hooks.slack.com:99999/x"}),
        ("address", {"address": f"https://hooks.slack.com/{SECRET}#part"}),
        ("address", {"address": f"ftp://hooks.slack.com/{SECRET}"}),
        ("address", {"address": "https://hooks.slack.com/" + "x" * 2_000}),
        ("fabric", {"fabric": "nothing"}),
    ],
)
def test_bad_input_is_one_sentence_without_the_address(actor, field, asked):
    with pytest.raises(Refused) as refused:
        chat_route_add(actor=actor, **{"channel": "slack", "address": ADDRESS, "fabric": "", **asked})
    assert refused.value.field == field
    assert SECRET not in refused.value.message
    assert not ChatRoute.objects.exists()


def test_the_address_is_nowhere_in_the_clear(actor, nudge, small, hook, settings):
    notify()
    hook_secret = "B0LONGENOUGHTOBEASECRET"
    address = f"{hook.url}/{hook_secret}"
    chat_route_add(actor=actor, channel="slack", address=address, fabric=small)
    telling(actor, nudge, small)
    notify()
    send(settings)
    stored = [*ChatRoute.objects.values_list(), *AuditLine.objects.values_list(), *Notification.objects.values_list()]
    assert hook_secret not in repr(stored)
    assert hook_secret.encode() not in b"".join(bytes(one) for row in stored for one in row if isinstance(one, bytes))
    assert hook_secret not in KNOWN.mask_text(f"at {address}"), "this process masks it from then on"
    assert [line.subject for line in AuditLine.objects.filter(kind="chat_route_added")] == [small]
