"""The socket of a run's page: who gets one, what it sends, what it is closed with."""

from __future__ import annotations

import asyncio
from uuid import uuid4

import pytest
from asgiref.sync import sync_to_async
from django.conf import settings
from django.contrib.auth.models import User
from django.test import Client

from console.live import consumer
from console.live.admission import places
from fabric.composition import engine as wiring
from fabric.selectors.reviews.lookup import list_open_reviews
from fabric.services.actors import login_link_create
from fabric.services.fabrics.revisions import fabric_publish
from fabric.services.runs.start import run_start
from fabric.worker.nudges.listener import NullNudge
from tests.console.live.sockets import ORIGIN, close_code, cookie_of, frame_from, on_a_loop, rows_of, socket
from tests.fabric.services.world import SMALL, ran


@pytest.fixture(autouse=True)
def _clear_admissions():
    """A test that ends with its sockets open leaves them counted; a server tells the application of every one that goes."""
    places.clear()


@pytest.fixture
def queued(actor, small):
    started = run_start(
        store=wiring.store(), nudge=NullNudge(), actor=actor, fabric=small, text="What do the notes say?"
    )
    return started.run_id


def path(run_id, after=0, panels=""):
    return f"/live/runs/{run_id}?after={after}&panels={panels}"


def code_of(address, **given):
    async def scene():
        sock = socket(address, **given)
        connected, _ = await sock.connect()
        assert connected
        code = await close_code(sock)
        await sock.disconnect()
        return code

    return on_a_loop(scene)


def test_a_finished_run_is_sent_and_closed(browser, actor, small):
    run = ran(actor, small)

    async def scene():
        sock = socket(path(run.id), cookie=cookie_of(browser))
        await sock.connect()
        frame = await frame_from(sock)
        assert rows_of(frame) == list(range(1, run.last_seq + 1))
        assert "#panel-outcome" in frame["content"]
        assert "40 dollars" in frame["content"]
        return await close_code(sock)

    assert on_a_loop(scene) == consumer.ENDED


def test_the_page_and_its_socket_agree_about_the_panels(browser, actor, doubtful):
    """The hub does not send again what the page was made with, and never the tokens of forms."""
    run = ran(actor, doubtful)
    page = browser.get(f"/runs/{run.id}").content.decode()
    address = page.partition('hx-ws:connect="')[2].partition('"')[0].replace("&amp;", "&")
    assert address.startswith(f"/live/runs/{run.id}?after={run.last_seq}&panels=")

    async def scene():
        known, unknown = socket(address, cookie=cookie_of(browser)), socket(path(run.id), cookie=cookie_of(browser))
        for sock in (known, unknown):
            await sock.connect()
        first = await frame_from(known)
        assert first["content"].startswith('<hx-partial hx-target="#live"')
        frame = await frame_from(unknown)
        while frame["seq"] < run.last_seq or "#panel-ask" not in frame["content"]:
            frame = await frame_from(unknown)
        assert f"/runs/{run.id}/review" in frame["content"]
        assert "csrf" not in frame["content"]
        assert 'name="verb"' not in frame["content"]
        for sock in (known, unknown):
            await sock.disconnect()

    on_a_loop(scene)
    assert list_open_reviews(actor, run.id)


@pytest.mark.parametrize(
    "origin",
    [
        "http://127.0.0.1:8421",
        "https://127.0.0.1:8420",
        "http://evil.example",
        "http://127.0.0.1.evil.example:8420",
        "http://127.0.0.1:8420.evil.example",
        "http://127.0.0.1:84200",
        "http://[127.0.0.1",
        "null",
        None,
    ],
)
def test_a_page_of_another_origin_is_not_let_in(browser, queued, origin):
    async def scene():
        sock = socket(path(queued), cookie=cookie_of(browser), origin=origin)
        connected, _ = await sock.connect()
        return connected

    assert on_a_loop(scene) is False


def test_its_own_origins_are_let_in(browser, queued):
    assert ORIGIN in settings.FABRIC_ORIGINS

    async def scene():
        for origin in settings.FABRIC_ORIGINS:
            sock = socket(path(queued), cookie=cookie_of(browser), origin=origin)
            assert (await sock.connect())[0]
            await frame_from(sock)
            await sock.disconnect()

    on_a_loop(scene)


@pytest.mark.parametrize("cookie", ["", f"{settings.SESSION_COOKIE_NAME}=forged"])
def test_no_one_is_told_why(queued, cookie):
    assert code_of(path(queued), cookie=cookie) == consumer.SIGNED_OUT


def test_an_unknown_and_a_foreign_run(browser, stranger):
    fabric_publish(actor=stranger, source=SMALL)
    nudge = NullNudge()
    foreign = run_start(store=wiring.store(), nudge=nudge, actor=stranger, fabric="small", text="theirs").run_id
    for run_id in (uuid4(), foreign):
        assert code_of(path(run_id), cookie=cookie_of(browser)) == consumer.NOT_ALLOWED


@pytest.mark.parametrize(
    "query", ["", "?after=x", "?after=-5", "?after=99999999999999999999&panels=%00", "?" + "a=1&" * 50]
)
def test_an_address_that_makes_no_sense(browser, queued, query):
    async def scene():
        sock = socket(f"/live/runs/{queued}{query}", cookie=cookie_of(browser))
        assert (await sock.connect())[0]
        frame = await frame_from(sock)
        assert frame["seq"] == 0
        await sock.disconnect()

    on_a_loop(scene)


def test_a_user_who_is_shut_out_loses_the_socket(browser, queued, monkeypatch):
    monkeypatch.setattr(consumer, "RECHECK_S", 0.05)

    async def scene():
        sock = socket(path(queued), cookie=cookie_of(browser))
        await sock.connect()
        await frame_from(sock)
        await sync_to_async(User.objects.update)(is_active=False)
        return await close_code(sock)

    assert on_a_loop(scene) == consumer.SIGNED_OUT


def test_a_run_that_is_taken_away_loses_the_socket(browser, queued, stranger, monkeypatch):
    monkeypatch.setattr(consumer, "RECHECK_S", 0.05)
    from fabric.models import Run

    async def scene():
        sock = socket(path(queued), cookie=cookie_of(browser))
        await sock.connect()
        await frame_from(sock)
        await sync_to_async(Run.objects.filter(id=queued).update)(workspace_id=stranger.workspace_id)
        return await close_code(sock)

    assert on_a_loop(scene) == consumer.NOT_ALLOWED


def test_signing_out_in_one_tab_closes_the_sockets_of_all_of_that_session_alone(browser, owner, queued, monkeypatch):
    monkeypatch.setattr(consumer, "RECHECK_S", 3_600)  # At once, not at the next look.
    other = Client(HTTP_HOST="127.0.0.1")
    other.post("/login/link", {"token": login_link_create(owner)})

    async def scene():
        mine = [socket(path(queued), cookie=cookie_of(browser)) for _ in range(2)]
        theirs = socket(path(queued), cookie=cookie_of(other))
        for sock in (*mine, theirs):
            await sock.connect()
            await frame_from(sock)
        await sync_to_async(browser.post)("/logout")
        codes = [await close_code(sock) for sock in mine]
        assert await theirs.receive_nothing()
        await theirs.disconnect()
        return codes

    assert on_a_loop(scene) == [consumer.SIGNED_OUT] * 2


def test_a_user_has_so_many_sockets_and_gets_a_place_back(browser, queued, monkeypatch):
    monkeypatch.setattr(places, "most", 2)

    async def scene():
        open_ones = [socket(path(queued), cookie=cookie_of(browser)) for _ in range(2)]
        for sock in open_ones:
            await sock.connect()
            await frame_from(sock)
        third = socket(path(queued), cookie=cookie_of(browser))
        await third.connect()
        assert await close_code(third) == consumer.TOO_MUCH
        await third.disconnect()
        await open_ones[0].disconnect()
        fourth = socket(path(queued), cookie=cookie_of(browser))
        await fourth.connect()
        await frame_from(fourth)
        for sock in (fourth, open_ones[1]):
            await sock.disconnect()

    on_a_loop(scene)
    assert len(places) == 0


@pytest.mark.parametrize("said", [["x" * 1_025], ["ä" * 600], ["hello"] * 21])
def test_a_socket_that_talks_is_cut_off(browser, queued, said):
    async def scene():
        sock = socket(path(queued), cookie=cookie_of(browser))
        await sock.connect()
        await frame_from(sock)
        for text in said:
            await sock.send_to(text_data=text)
        return await close_code(sock)

    assert on_a_loop(scene) == consumer.TOO_MUCH


def test_a_little_talk_is_ignored(browser, queued):
    async def scene():
        sock = socket(path(queued), cookie=cookie_of(browser))
        await sock.connect()
        await frame_from(sock)
        await sock.send_to(text_data='{"type": "session.ended"}')
        assert await sock.receive_nothing()
        await sock.disconnect()

    on_a_loop(scene)


def test_an_old_socket_is_asked_to_come_back(browser, queued, monkeypatch):
    monkeypatch.setattr(consumer, "RECHECK_S", 0.02)
    monkeypatch.setattr(consumer, "LIFE_S", 0.05)
    assert code_of(path(queued), cookie=cookie_of(browser)) == consumer.COME_BACK


def test_nothing_is_left_running(browser, queued):
    async def scene():
        sock = socket(path(queued), cookie=cookie_of(browser))
        await sock.connect()
        await frame_from(sock)
        await sock.disconnect()
        names = {task.get_coro().__qualname__ for task in asyncio.all_tasks()}
        assert not {name for name in names if "RunConsumer._" in name}

    on_a_loop(scene)
