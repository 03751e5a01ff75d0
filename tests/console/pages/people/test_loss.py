"""A member's open pages and sockets end with their membership, and with the role that opened them: by every way in, from the next request or look on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.conf import settings
from django.test import Client

from console.live import consumer
from console.live.admission import NOT_ALLOWED, Credentials, admissions
from console.site.access.policies import SOCKETS
from fabric.composition import engine as wiring
from fabric.core.people.scopes import Scope
from fabric.services.people.invitations import invitation_create
from fabric.services.people.members import login_link_for, member_remove, member_roles_set
from fabric.services.runs.start import run_start
from fabric.worker.nudges.listener import NullNudge
from tests.console.api.runs.test_waiting import LONG, events_of, waiters
from tests.console.live.sockets import close_code, cookie_of, frame_from, on_a_loop, socket
from tests.people import fresh, member, signed_in, token_of


@dataclass(frozen=True)
class Rosa:
    """An owner and what she has open."""

    run: str
    browser: Client
    program: Client
    token: str
    invitation: str
    link: str

    @property
    def cookie(self) -> str:
        return self.browser.cookies[settings.SESSION_COOKIE_NAME].value


@pytest.fixture
def rosa(actor, small) -> Rosa:
    user = member("rosa", "owner", "editor", "reviewer")
    run = run_start(store=wiring.store(), nudge=NullNudge(), actor=actor, fabric=small, text="What?").run_id
    secret = token_of(user, "hers", (Scope.READ, Scope.START))
    invited = invitation_create(actor=fresh(user), roles=["viewer"]).token
    link = login_link_for(actor=fresh(user), name="owner")
    program = Client(HTTP_HOST="127.0.0.1", HTTP_AUTHORIZATION=f"Bearer {secret}")
    return Rosa(run, signed_in(user), program, secret, invited, link)


def removed(actor: Any) -> None:
    member_remove(actor=actor, name="rosa")


def elsewhere(actor: Any) -> None:
    """She keeps a role, at another fabric."""
    member_roles_set(actor=actor, name="rosa", roles=["editor@elsewhere"])


LOSSES = [removed, elsewhere]
WAYS: Mapping[str, tuple[Callable[[Rosa], int], int, int, int]] = {
    "page": (lambda rosa: rosa.browser.get(f"/runs/{rosa.run}").status_code, 200, 403, 404),
    "fragment": (
        lambda rosa: rosa.browser.get(f"/runs/{rosa.run}/review", headers={"HX-Request": "true"}).status_code,
        200,
        403,
        404,
    ),
    "form": (lambda rosa: rosa.browser.post(f"/runs/{rosa.run}/pause").status_code, 302, 403, 404),
    "download": (
        lambda rosa: rosa.browser.get(f"/runs/{rosa.run}/events.ndjson?form=readable").status_code,
        200,
        403,
        404,
    ),
    "operation by session": (lambda rosa: rosa.browser.get(f"/api/v1/runs/{rosa.run}").status_code, 200, 403, 404),
    "operation by token": (lambda rosa: rosa.program.get(f"/api/v1/runs/{rosa.run}").status_code, 200, 401, 404),
    "act by token": (
        lambda rosa: (
            rosa.program.post(f"/api/v1/runs/{rosa.run}/cancel", "{}", content_type="application/json").status_code
        ),
        202,
        401,
        404,
    ),
    "event stream": (lambda rosa: rosa.program.get(f"/api/v1/runs/{rosa.run}/events").status_code, 200, 401, 404),
    "socket": (
        lambda rosa: admissions([(Credentials(rosa.cookie), rosa.run)])[Credentials(rosa.cookie), rosa.run].code,
        0,
        NOT_ALLOWED,
        NOT_ALLOWED,
    ),
    "invitation": (
        lambda rosa: (
            Client(HTTP_HOST="127.0.0.1")
            .post("/people/invitations", {"token": rosa.invitation}, follow=True)
            .status_code
        ),
        200,
        410,
        410,
    ),
    "sign-in link": (
        lambda rosa: Client(HTTP_HOST="127.0.0.1").post("/login/link", {"token": rosa.link}).status_code,
        302,
        410,
        410,
    ),
}
"""Each way in: how it answers, what it says before, after she was removed, and after her roles are at another fabric."""


def test_each_way_in_is_open_before(rosa):
    for name, (asks, before, *_) in WAYS.items():
        if name not in ("act by token", "form"):
            assert asks(rosa) == before, name


@pytest.mark.parametrize("loss", LOSSES)
def test_each_way_in_is_shut_after(rosa, actor, loss):
    loss(actor)
    found = {name: asks(rosa) for name, (asks, *_) in WAYS.items()}
    assert found == {name: after[LOSSES.index(loss)] for name, (_, _, *after) in WAYS.items()}


@pytest.mark.parametrize("loss", LOSSES)
def test_a_socket_that_is_open_is_closed(rosa, actor, loss, monkeypatch):
    monkeypatch.setattr(consumer, "RECHECK_S", 0.05)
    assert set(SOCKETS) == {"live-run"}, "each socket has a scene here"

    async def scene() -> int:
        sock = socket(f"/live/runs/{rosa.run}", cookie=cookie_of(rosa.browser))
        await sock.connect()
        await frame_from(sock)
        await sync_to_async(loss)(actor)
        return await close_code(sock)

    assert on_a_loop(scene) == NOT_ALLOWED


@pytest.mark.parametrize("loss", LOSSES)
def test_who_waits_for_events_learns_nothing(rosa, actor, loss):
    from fabric.management.run_follower import Following

    def goes_on() -> None:
        loss(actor)
        Following(actor, rosa.run).to_rest()

    async def scene() -> Any:
        coming = asyncio.create_task(events_of(rosa.run, rosa.token, f"wait={LONG}").come())
        await waiters(1)
        await asyncio.get_running_loop().run_in_executor(None, goes_on)
        return await coming

    assert on_a_loop(scene, 60).status == WAYS["event stream"][2 + LOSSES.index(loss)]
