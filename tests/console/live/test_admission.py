"""The hub admits followers, asked for many sockets at once, and closes open sockets of those who lost the right."""

from __future__ import annotations

import asyncio

import pytest
from asgiref.sync import sync_to_async
from channels.layers import InMemoryChannelLayer, channel_layers
from django.conf import settings
from django.contrib.auth.models import User
from django.contrib.sessions.models import Session
from django.db import OperationalError, connection
from django.db.backends.utils import CursorWrapper
from django.test import Client

from console.live import admission as door
from console.live import consumer
from console.live.admission import end_sign_in, find_ended, places
from console.live.hub import close_sockets
from fabric.composition import engine as wiring
from fabric.models import SignIn, Workspace
from fabric.services.actors import DEFAULT_WORKSPACE, login_link_create
from fabric.services.runs.start import run_start
from fabric.worker.nudges.listener import NullNudge
from tests.console.live.sockets import close_code, cookie_of, frame_from, on_a_loop, socket
from tests.people import signed_in


@pytest.fixture(autouse=True)
def _clear_admissions():
    places.clear()


@pytest.fixture
def queued(actor, small):
    return run_start(store=wiring.store(), nudge=NullNudge(), actor=actor, fabric=small, text="What?").run_id


@pytest.fixture
def statements(monkeypatch):
    """The queries that the database was asked, on any thread."""
    asked = []
    real = CursorWrapper.execute

    def execute(self, sql, params=None):
        asked.append(sql)
        return real(self, sql, params)

    monkeypatch.setattr(CursorWrapper, "execute", execute)
    return asked


def shut_out():
    User.objects.update(is_active=False)


def new_password():
    user = User.objects.get()
    user.set_password("another")
    user.save()


def gone():
    User.objects.all().delete()


def moved():
    Workspace.objects.filter(name=DEFAULT_WORKSPACE).update(name="elsewhere now")


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (shut_out, consumer.SIGNED_OUT),
        (new_password, consumer.SIGNED_OUT),
        (gone, consumer.SIGNED_OUT),
        (moved, consumer.NOT_ALLOWED),
    ],
)
def test_a_right_that_is_lost_closes_the_socket(browser, queued, monkeypatch, change, code):
    monkeypatch.setattr(consumer, "RECHECK_S", 0.05)

    async def scene():
        sock = socket(f"/live/runs/{queued}", cookie=cookie_of(browser))
        await sock.connect()
        await frame_from(sock)
        await sync_to_async(change)()
        return await close_code(sock)

    closed = on_a_loop(scene)
    # The session is asked first and the right after it: who goes in between has lost the right.
    assert closed == code or (change is gone and closed == consumer.NOT_ALLOWED)


def test_a_session_that_is_deleted_closes_the_socket(owner, queued, monkeypatch):
    monkeypatch.setattr(consumer, "RECHECK_S", 0.05)
    monkeypatch.setattr(settings, "SESSION_ENGINE", "django.contrib.sessions.backends.db")
    browser = Client(HTTP_HOST="127.0.0.1")
    browser.post("/login/link", {"token": login_link_create(owner)})

    async def scene():
        sock = socket(f"/live/runs/{queued}", cookie=cookie_of(browser))
        await sock.connect()
        await frame_from(sock)
        assert await sync_to_async(Session.objects.count)() == 1
        await sync_to_async(Session.objects.all().delete)()
        return await close_code(sock)

    assert on_a_loop(scene) == consumer.SIGNED_OUT


def test_a_cookie_kept_from_before_signing_out_opens_nothing(browser, queued, monkeypatch):
    monkeypatch.setattr(consumer, "RECHECK_S", 3_600)  # The first one is closed at once, not at the next look.
    cookie = cookie_of(browser)

    async def scene():
        first = socket(f"/live/runs/{queued}", cookie=cookie)
        await first.connect()
        await frame_from(first)
        await sync_to_async(browser.post)("/logout")
        assert await close_code(first) == consumer.SIGNED_OUT
        second = socket(f"/live/runs/{queued}", cookie=cookie)
        await second.connect()
        return await close_code(second)

    assert on_a_loop(scene) == consumer.SIGNED_OUT


def test_a_sign_out_that_no_message_told_of_is_found_at_the_next_look(browser, queued, monkeypatch):
    """Another server, which the channel layer does not reach: here, a server that was not there when it happened."""
    cookie = cookie_of(browser)
    end_sign_in(browser.session["mark"])

    async def scene():
        sock = socket(f"/live/runs/{queued}", cookie=cookie)
        await sock.connect()
        return await close_code(sock)

    assert on_a_loop(scene) == consumer.SIGNED_OUT


def test_of_sign_ins_those_have_ended_that_go_on_no_more_or_never_were(browser, owner, settings):
    mark, elsewhere = browser.session["mark"], signed_in(owner).session["mark"]
    assert find_ended([mark, elsewhere, "", "another"]) == {"", "another"}
    browser.post("/logout")
    assert find_ended([mark, elsewhere]) == {mark}
    SignIn.objects.filter(id=elsewhere).update(seen_at=0)
    assert find_ended([elsewhere]) == {elsewhere}


def test_signing_out_works_while_the_database_cannot_remember_it(browser, queued, caplog):
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE fabric_signin RENAME TO elsewhere")
    try:
        close_sockets(browser.session["mark"])
    finally:
        with connection.cursor() as cursor:
            cursor.execute("ALTER TABLE elsewhere RENAME TO fabric_signin")
    assert "could not be remembered" in caplog.text


def test_a_database_that_does_not_answer_closes_nothing_and_lets_no_one_in(browser, queued, monkeypatch):
    monkeypatch.setattr(consumer, "RECHECK_S", 0.02)
    looked = asyncio.Event()
    real, away = door.admissions, [False]

    def admissions(wanted):
        if away[0]:
            loop.call_soon_threadsafe(looked.set)
            raise OperationalError("the database is away")
        return real(wanted)

    monkeypatch.setattr(door, "admissions", admissions)

    async def scene():
        nonlocal loop
        loop = asyncio.get_running_loop()
        sock, late = (socket(f"/live/runs/{queued}", cookie=cookie_of(browser)) for _ in range(2))
        await sock.connect()
        await frame_from(sock)
        away[0] = True
        for _ in range(3):
            looked.clear()
            await looked.wait()
        await late.connect()
        assert await close_code(late) == consumer.TRY_AGAIN
        away[0] = False
        await sync_to_async(shut_out)()
        return await close_code(sock)

    loop = None
    assert on_a_loop(scene) == consumer.SIGNED_OUT


def test_a_thousand_sockets_that_come_back_at_once_are_a_few_statements(browser, queued, monkeypatch, statements):
    """One read of the run's events, and a few looks at who they are: nothing that grows with the sockets."""
    monkeypatch.setattr(places, "most", 1_000)
    cookie = cookie_of(browser)

    async def scene():
        socks = [socket(f"/live/runs/{queued}", cookie=cookie) for _ in range(1_000)]
        statements.clear()
        await asyncio.gather(*(sock.connect(60) for sock in socks))
        frames = await asyncio.gather(*(frame_from(sock, 60) for sock in socks))
        counted = list(statements)
        await asyncio.gather(*(sock.disconnect() for sock in socks))
        return frames, counted

    frames, counted = on_a_loop(scene, 120)
    assert len(frames) == 1_000
    assert sum("fabric_event" in sql for sql in counted) <= 2
    assert len(counted) <= 80, counted


def test_many_rechecks_are_one_look(browser, queued, monkeypatch):
    monkeypatch.setattr(consumer, "RECHECK_S", 0.3)
    monkeypatch.setattr(places, "most", 200)
    looks = []
    real = door.admissions

    def admissions(wanted):
        looks.append(len(wanted))
        return real(wanted)

    monkeypatch.setattr(door, "admissions", admissions)

    async def scene():
        socks = [socket(f"/live/runs/{queued}", cookie=cookie_of(browser)) for _ in range(200)]
        await asyncio.gather(*(sock.connect(30) for sock in socks))
        await asyncio.gather(*(frame_from(sock, 30) for sock in socks))
        await sync_to_async(shut_out)()
        codes = await asyncio.gather(*(close_code(sock, 30) for sock in socks))
        await asyncio.gather(*(sock.disconnect() for sock in socks))
        return codes

    assert set(on_a_loop(scene)) == {consumer.SIGNED_OUT}
    assert set(looks) == {1}
    assert len(looks) < 40


class Moody(InMemoryChannelLayer):
    """A channel layer that is away when it is told to be, and forgets who listened."""

    away = False

    def __init__(self) -> None:
        super().__init__()
        self.joined = asyncio.Event()

    async def group_send(self, group, message):
        self._try()
        await super().group_send(group, message)

    async def receive(self, channel):
        self._try()
        return await super().receive(channel)

    async def group_add(self, group, channel):
        self._try()
        await super().group_add(group, channel)
        self.joined.set()

    def _try(self):
        if self.away:
            raise ConnectionError("no Redis there")


def test_without_its_channel_layer_a_page_is_live_and_signing_out_works(browser, queued, monkeypatch):
    monkeypatch.setattr(consumer, "RECHECK_S", 3_600)  # At once, not at the next look.
    layer = Moody()
    before = channel_layers.set("default", layer)
    layer.away = True

    async def scene():
        sock = socket(f"/live/runs/{queued}", cookie=cookie_of(browser))
        await sock.connect()
        await frame_from(sock)
        answer = await sync_to_async(browser.post)("/logout")
        assert answer.status_code == 302
        return await close_code(sock)

    try:
        assert on_a_loop(scene) == consumer.SIGNED_OUT
    finally:
        channel_layers.set("default", before)


def test_a_channel_layer_that_forgot_who_listens_is_told_again(browser, queued, monkeypatch):
    """A sign-out on another server after a flush: it is heard all the same."""
    monkeypatch.setattr(door, "REJOIN_S", 0.05)
    monkeypatch.setattr(door, "RETRY_S", 0.02)
    layer = Moody()
    before = channel_layers.set("default", layer)
    mark = browser.session["mark"]

    async def scene():
        sock = socket(f"/live/runs/{queued}", cookie=cookie_of(browser))
        await sock.connect()
        await frame_from(sock)
        layer.groups.clear()
        layer.channels.clear()
        layer.joined.clear()
        await layer.joined.wait()
        await layer.group_send(door.GROUP, {"type": "signed.out", "mark": mark})
        return await close_code(sock)

    try:
        assert on_a_loop(scene) == consumer.SIGNED_OUT
    finally:
        channel_layers.set("default", before)
