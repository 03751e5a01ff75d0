"""A caller's requests are counted exactly, by who it is, and given back by the minute."""

from __future__ import annotations

import sys
import time

import pytest
from django.core.cache import cache

from console.site.requests.throttle import API, MODEL_TESTS, WINDOW_S, count_request
from tests.fabric.services.at_once import at_once

MOST = 5
NOON = 43_200.0


@pytest.fixture(autouse=True)
def _few(settings):
    cache.clear()
    settings.FABRIC_API_PER_MINUTE = MOST
    yield
    cache.clear()


def in_one_minute(scene):
    """Return what a scene gave that did not lie across the turn of a minute, when all are counted anew."""
    while True:
        cache.clear()
        began = int(time.time() // WINDOW_S)
        told = scene()
        if int(time.time() // WINDOW_S) == began:
            return told


def counted(who="ana", rate=API, at=NOON):
    return count_request(rate, who, lambda: at)


def test_so_many_and_no_more():
    assert [counted() for _ in range(MOST + 2)] == [0] * MOST + [WINDOW_S] * 2


def test_each_is_counted_alone():
    assert [counted(who) for who in ("ana", "ben") for _ in range(MOST)] == [0] * MOST * 2
    assert counted(rate=MODEL_TESTS) == 0


def test_the_next_minute_begins_anew_and_says_when():
    for _ in range(MOST):
        counted()
    assert counted(at=NOON + WINDOW_S - 0.5) == 1
    assert counted(at=NOON + 20) == WINDOW_S - 20
    assert counted(at=NOON + WINDOW_S) == 0


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
