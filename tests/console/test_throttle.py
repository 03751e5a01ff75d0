"""How often somebody may ask: counted exactly, by who it is, and given back by the minute."""

from __future__ import annotations

import sys
import time
from functools import partial

import pytest
from django.core.cache import cache
from django.test import Client

from console.throttle import API, LOGIN, WINDOW_S, count, give_back
from fabric.models import LoginLink
from fabric.services.workspaces import login_link_create
from tests.fabric.services.at_once import at_once

MOST = 5
NOON = 43_200.0


@pytest.fixture(autouse=True)
def _few(settings):
    cache.clear()
    settings.FABRIC_LOGIN_PER_MINUTE = settings.FABRIC_API_PER_MINUTE = MOST
    yield
    cache.clear()


def in_one_minute(scene):
    """What a scene gave that did not lie across the turn of a minute, when all are counted anew."""
    while True:
        cache.clear()
        began = int(time.time() // WINDOW_S)
        told = scene()
        if int(time.time() // WINDOW_S) == began:
            return told


def counted(who="ana", rate=API, at=NOON):
    return count(rate, who, lambda: at)


def test_so_many_and_no_more():
    assert [counted() for _ in range(MOST + 2)] == [0] * MOST + [WINDOW_S] * 2


def test_each_is_counted_alone():
    assert [counted(who) for who in ("ana", "ben") for _ in range(MOST)] == [0] * MOST * 2
    assert counted(rate=LOGIN) == 0


def test_the_next_minute_begins_anew_and_says_when():
    for _ in range(MOST):
        counted()
    assert counted(at=NOON + WINDOW_S - 0.5) == 1
    assert counted(at=NOON + 20) == WINDOW_S - 20
    assert counted(at=NOON + WINDOW_S) == 0


def test_what_is_given_back_does_not_count():
    for _ in range(3 * MOST):
        assert counted() == 0
        give_back(API, "ana", lambda: NOON)
    give_back(API, "nobody", lambda: NOON)


def test_zero_is_no_bound(settings):
    settings.FABRIC_API_PER_MINUTE = 0
    assert [counted() for _ in range(3 * MOST)] == [0] * 3 * MOST


def test_any_name_will_do():
    for who in ("", "\ud800", "x" * 10_000, "two words\n"):
        assert counted(who) == 0


def test_without_a_setting_it_is_generous(settings):
    del settings.FABRIC_API_PER_MINUTE
    assert API.most >= 6_000


def test_of_many_at_once_no_more_get_through(transactional_db, settings):
    """Threads that take turns as often as they can: a count that is read and written in two steps would lose some."""
    settings.FABRIC_API_PER_MINUTE = most = 1_000
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        told = at_once([lambda: [counted() for _ in range(300)]] * 8)
    finally:
        sys.setswitchinterval(before)
    assert sum(answers.count(0) for answers in told) == most
    assert {wait for answers in told for wait in answers} == {0, WINDOW_S}


class TestLoginLinks:
    def tried(self, token="nosuch", **headers):
        return Client(HTTP_HOST="127.0.0.1").post(f"/login/{token}", headers=headers)

    def test_after_some_that_are_no_good_none_is_looked_at(self, owner):
        link = login_link_create(owner)
        *tried, refused = in_one_minute(lambda: [*(self.tried() for _ in range(MOST + 1)), self.tried(link)])
        assert [answer.status_code for answer in tried] == [410] * MOST + [429]
        assert refused.status_code == 429
        assert 0 < int(refused.headers["Retry-After"]) <= WINDOW_S
        assert b"Too many links were tried from your address" in refused.content
        assert LoginLink.objects.get().used_at is None

    def test_a_header_that_anybody_can_write_changes_nothing(self, owner):
        told = in_one_minute(lambda: [self.tried(**{"X-Forwarded-For": f"10.0.0.{n}"}).status_code for n in range(100)])
        assert told == [410] * MOST + [429] * (100 - MOST)

    def test_those_that_are_good_are_not_counted(self, owner):
        assert {self.tried(login_link_create(owner)).status_code for _ in range(2 * MOST)} == {302}

    def test_looking_at_the_page_is_not_counted(self, owner):
        client = Client(HTTP_HOST="127.0.0.1")
        assert {client.get("/login/nosuch").status_code for _ in range(3 * MOST)} == {200}

    def test_of_two_browsers_with_one_link_one_gets_in(self, owner):
        link = login_link_create(owner)
        told = at_once([partial(self.tried, link)] * 4)
        assert sorted(answer.status_code for answer in told) == [302, 410, 410, 410]
