"""The page of all fabrics without a script: strips, counts, drills of all stale cells, and the fabric that is used last."""

from __future__ import annotations

import re
from html import unescape

import pytest

from console.pages.drills import fleet
from console.pages.drills.remembered import LAST
from fabric.services.fabrics.revisions import fabric_publish
from simulator.drills.models.tables import Drill
from simulator.drills.selectors.drill_views import State
from simulator.drills.services.drill_stop import pull_drill_stop
from simulator.drills.services.drills import DrillsAsked
from simulator.drills.services.fleet import FleetAsked
from tests.console.pages.drills.test_views import ONE, OTHER, drilled, text
from tests.people import member, signed_in
from tests.simulator.drills.selectors.test_standings import named

PAGE = "/drills"


def row(page, name):
    return re.search(rf'<tr id="f-{name}">(.*?)</tr>', page.content.decode(), flags=re.DOTALL)[1]


def test_each_state_has_a_mark_of_its_own():
    assert set(fleet.SHAPES) == set(State) - {State.QUEUED, State.RUNNING}
    for bare in (State.PASS, State.STALE, State.NEVER, State.DEVIATED):
        same = [state for state in fleet.SHAPES if fleet.SHAPES[state] == fleet.SHAPES[bare]]
        assert set(same) - {State.ERROR, State.UNKNOWN} == {bare}


def test_without_a_fabric_it_says_what_would_give_one(browser, actor):
    assert "There is nothing to drill: no fabric is published yet" in text(browser.get(PAGE))


def test_each_fabric_is_a_row_with_24_marks_in_words_too(browser, actor, small):
    fabric_publish(actor=actor, source=named("another"))
    drilled(actor)
    drilled(actor, "deviated", [ONE])
    page = browser.get(PAGE)
    assert "2 fabrics, 23 of 48 cells verified" in text(page)
    assert row(page, small).count("<rect") == 24
    assert 'aria-label="24 cells: 23 pass, 1 deviated"' in row(page, small)
    assert "<title>provider failure, long-running batch: deviated</title>" in row(page, small)
    assert 'aria-label="passed in the last 2 batches: 24 of 24, 0 of 1"' in row(page, small)
    assert 'aria-label="24 cells: 24 not run"' in row(page, "another")
    assert re.search(r'id="stale-small"[^>]* disabled', row(page, small))
    assert re.search(r'id="stale-another"(?![^>]*disabled)', row(page, "another"))
    assert 'href="/drills/coverage?fabric=another"' in row(page, "another")


def test_the_stale_cells_of_one_fabric_are_started_from_its_row(browser, actor, small):
    drilled(actor)
    fabric_publish(actor=actor, source=OTHER)
    page = browser.get(PAGE).content.decode()
    fields = dict(re.findall(r'name="(cells|back)" value="(\w+)"', page))
    answer = browser.post("/drills/ask", fields | {"fabric": small}, follow=True)
    assert answer.redirect_chain == [(PAGE, 302)]
    assert "One cell is being drilled in simulated time" in text(answer)
    assert "1 of them waits or runs" in text(answer)
    assert Drill.objects.filter(status="queued").count() == 1


def test_all_stale_cells_are_started_by_one_button(browser, actor, small):
    fabric_publish(actor=actor, source=named("another"))
    answer = browser.post(f"{PAGE}/stale", follow=True)
    assert "48 cells of 2 fabrics are queued in simulated time." in text(answer)
    assert Drill.objects.count() == 48
    again = browser.post(f"{PAGE}/stale")
    assert again.status_code == 409
    assert "No cell of any fabric is stale" in text(again)
    assert re.search(r'id="run-all-stale"[^>]* disabled', again.content.decode())


def test_what_is_left_for_the_next_time_is_said():
    many = {f"fabric-{n}": DrillsAsked("", ("",) * 24, 0) for n in range(20)}
    said = fleet.describe_request(FleetAsked(many, 3))
    assert said.startswith("480 cells of 20 fabrics are queued in simulated time. 3 more fabrics have stale cells")
    assert (
        fleet.describe_request(FleetAsked({"small": DrillsAsked("", ("",), 0)}, 0))
        == "1 cell of 1 fabric is queued in simulated time."
    )


def test_while_drills_are_stopped_it_refuses_with_the_reason(browser, actor, small):
    pull_drill_stop(actor=actor, reason="The provider complains.")
    page = browser.get(PAGE).content.decode()
    assert re.search(r'id="run-all-stale"[^>]* disabled', page)
    answer = browser.post(f"{PAGE}/stale")
    assert answer.status_code == 409
    assert "The provider complains; no drill starts until" in text(answer)


def test_who_may_not_start_drills_sees_the_page_alone(small):
    looking = signed_in(member("viola", "viewer"))
    page = looking.get(PAGE).content.decode()
    assert re.search(r'id="run-all-stale"[^>]* disabled', page)
    assert re.search(r'id="stale-small"[^>]* disabled', page)
    assert looking.post(f"{PAGE}/stale").status_code == 403
    assert looking.post("/drills/ask", {"fabric": small, "cells": "stale"}).status_code == 403


def test_those_that_were_never_drilled_are_reached_from_the_overview(browser, actor, small):
    for name in ("another", "third"):
        fabric_publish(actor=actor, source=named(name))
    drilled(actor, cells=[ONE])
    address = re.search(r'id="undrilled" href="([^"]+)">2 fabrics', browser.get("/").content.decode())[1]
    page = browser.get(address)
    assert re.findall(r'<tr id="f-(\w+)">', page.content.decode()) == ["another", "third"]
    assert 'id="only-never" href="/drills?only=never" aria-current="true"' in page.content.decode()


def test_a_long_fleet_has_pages(browser, actor, small, monkeypatch):
    monkeypatch.setattr("simulator.drills.selectors.fleet.FABRICS_MAX", 1)
    monkeypatch.setattr(fleet.fleet_page, "__kwdefaults__", {"after": "", "never": False, "limit": 1})
    fabric_publish(actor=actor, source=named("another"))
    page = browser.get(PAGE)
    assert "on this page: 1 fabric, 0 of 24 cells verified" in text(page)
    address = unescape(re.search(r'id="fleet-next" href="([^"]+)"', page.content.decode())[1])
    second = browser.get(address).content.decode()
    assert re.findall(r'<tr id="f-(\w+)">', second) == [small]
    assert 'id="fleet-first"' in second
    assert 'id="fleet-next"' not in second


def test_the_part_that_changes_is_the_same_while_nothing_does(browser, small):
    (address,) = re.findall(r'hx-get="(/drills[^"]*)"', browser.get(PAGE).content.decode())
    first = browser.get(unescape(address), HTTP_HX_REQUEST="true")
    assert "csrfmiddlewaretoken" not in first.content.decode()
    assert "<html" not in first.content.decode()
    again = browser.get(unescape(address), HTTP_HX_REQUEST="true", HTTP_IF_NONE_MATCH=first.headers["ETag"])
    assert again.status_code == 304


def test_the_statements_of_the_page_do_not_grow(browser, actor, small, django_assert_max_num_queries):
    for n in range(4):
        fabric_publish(actor=actor, source=named(f"another{n}"))
        drilled(actor, cells=[ONE])
    browser.get(PAGE)
    with django_assert_max_num_queries(22):
        assert browser.get(PAGE).status_code == 200


def test_the_fabric_that_was_used_last_is_the_default(browser, actor, small):
    fabric_publish(actor=actor, source=named("another"))
    assert browser.get(f"{PAGE}?fabric=small").headers["Location"] == "/drills/coverage?fabric=small"
    drilled(actor, cells=[ONE])
    assert "Drill coverage of small" in text(browser.get(f"{PAGE}/coverage")), "it was drilled last"
    browser.get(f"{PAGE}/coverage?fabric=another")
    assert browser.cookies[LAST].value == "another"
    assert "Drill coverage of another" in text(browser.get(f"{PAGE}/coverage"))
    assert "with the last verdicts for another@r1" in text(browser.get("/scenarios"))
    browser.cookies[LAST] = "nosuch"
    assert "Drill coverage of small" in text(browser.get(f"{PAGE}/coverage"))


@pytest.mark.parametrize("query", ["", "?never=true"])
def test_the_api_says_the_same_counts(browser, actor, small, query):
    fabric_publish(actor=actor, source=named("another"))
    drilled(actor, cells=[ONE])
    told = {one["fabric"]: one for one in browser.get(f"/api/v1/drills{query}").json()["fabrics"]}
    assert told["another"]["counts"] == {"never": 24}
    assert told["another"]["last_at"] is None
    assert ("small" in told) is (not query)
    if not query:
        assert told["small"]["counts"] == {"never": 23, "pass": 1}
        assert (told["small"]["proven"], told["small"]["open"]) == (1, 0)
