"""A program that asks too often learns how long to wait; other programs go on."""

from __future__ import annotations

import pytest
from django.core.cache import cache
from django.db import OperationalError, connection

from console.site.requests.throttle import WINDOW_S
from fabric.core.people.scopes import Scope
from fabric.models import Run
from fabric.services.people.tokens import token_create
from tests.console.api.client import Program, check
from tests.console.site.requests.test_throttle import in_one_minute

FABRICS = "/api/v1/fabrics"
MOST = 3


@pytest.fixture(autouse=True)
def _few(settings):
    cache.clear()
    settings.FABRIC_API_PER_MINUTE = MOST
    yield
    cache.clear()


def test_it_is_told_to_wait_and_nothing_is_done(program, small):
    asked = {"fabric": "small", "text": "Why?"}
    *fine, refused = in_one_minute(
        lambda: [*(program.get(FABRICS) for _ in range(MOST)), program.post("/api/v1/runs", asked)]
    )
    assert [answer.status_code for answer in fine] == [200] * MOST
    assert refused.status_code == 429
    assert 0 < int(refused.headers["Retry-After"]) <= WINDOW_S
    assert refused.json()["type"].endswith("#problem-too-often")
    assert f"more than {MOST} times" in refused.json()["detail"]
    assert Run.objects.count() == 0


def test_another_token_goes_on(program, actor, browser):
    for _ in range(2 * MOST):
        program.get(FABRICS)
    other = Program(token_create(actor=actor, name="other", scopes=tuple(Scope)).secret)
    assert other.get(FABRICS).status_code == 200
    assert browser.get(FABRICS).status_code == 200


def test_a_browser_is_counted_by_its_user(browser):
    answers = in_one_minute(lambda: [browser.get(FABRICS) for _ in range(MOST + 1)])
    assert [answer.status_code for answer in answers] == [200] * MOST + [429]
    check("GET", FABRICS, answers[-1])


def test_where_it_comes_from_is_not_counted(program, actor):
    for _ in range(2 * MOST):
        assert Program("ff_nosuch").get(FABRICS).status_code == 401
    assert program.get(FABRICS).status_code == 200


def test_a_database_that_is_away_when_the_token_is_looked_up(program):
    def away(execute, sql, params, many, context):
        raise OperationalError("connection refused")

    with connection.execute_wrapper(away):
        answer = program.get(FABRICS)
    assert answer.status_code == 503
    assert answer.headers["Retry-After"]
