"""The frame of every page: navigation with its counts, workers, the live badge's two halves."""

from __future__ import annotations

import json
import os
import re
import time

from django.conf import settings
from django.contrib.auth.models import User
from django.test import Client, RequestFactory
from django.urls import ResolverMatch, reverse

from console.launch.processes.data_directory import hold, prepare
from console.pages.shell.frame import DRILL_TABS, FOUND, MORE, NAV, STAFF, Frame, build_address, places
from console.site.access.policies import ROUTES, Policy
from console.templatetags.marks import LIVE_LOOKS, live_badge
from fabric.composition import engine as wiring
from fabric.core.values.units import US
from fabric.models import Incarnation
from fabric.services.runs.start import run_start
from fabric.worker.nudges.listener import NullNudge
from tests.console.outage import table_away
from tests.fabric.services.world import ran
from tests.people import member, signed_in


def queued(actor, fabric):
    return run_start(store=wiring.store(), nudge=NullNudge(), actor=actor, fabric=fabric, text="later").run_id


def navigation(page: str) -> list[tuple[str, bool, str]]:
    """Label, whether it is where one is, and count of each row."""
    rows = re.search(r'<ul id="nav-links">(.*?)</ul>', page, flags=re.DOTALL)
    assert rows
    return [
        (label, "aria-current" in attributes, count)
        for attributes, label, count in re.findall(
            r"<a ([^>]*)>.*?<span>([^<]*)</span>\s*(?:<span class=\"count\"[^>]*>([^<]*))?", rows[1], flags=re.DOTALL
        )
    ]


def test_every_row_of_the_navigation_is_there():
    assert [place.route for place in NAV if not build_address(place.route)] == []


def test_it_counts_what_lives_and_what_waits(browser, actor, small, doubtful):
    ran(actor, doubtful)
    queued(actor, small)
    assert navigation(browser.get("/runs").content.decode()) == [
        ("Overview", False, ""),
        ("Runs", True, "2"),
        ("Dashboards", False, ""),
        ("Reviews", False, "1"),
        ("Drills", False, ""),
        ("Fabrics", False, ""),
        ("Breakers", False, ""),
        ("Shared budgets", False, ""),
        ("New run", False, ""),
    ]


def test_a_count_that_fails_takes_nothing_else_with_it(browser, actor, small):
    queued(actor, small)
    with table_away("fabric_review"), table_away("fabric_incarnation"):
        answer = browser.get("/search")
    page = answer.content.decode()
    assert answer.status_code == 200
    assert [count for _, _, count in navigation(page)] == ["", "1", "", "", "", "", "", "", ""]
    assert 'class="workers"' not in page
    assert "No worker is alive" not in page


def test_each_page_lies_under_one_row_at_most():
    for route, policy in ROUTES.items():
        request = RequestFactory().get("/")
        request.resolver_match = ResolverMatch(lambda: None, (), {}, url_name=route)
        frame = Frame(request)
        under = [place.label for place in (*NAV, *MORE, *STAFF) if frame._lies_under(place)]
        assert len(under) <= 1, route
        inside = policy is Policy.SIGNED_IN and route.split("-")[0] not in ("logout", "search", "frame")
        assert under or not inside, f"{route} lies under no row of the navigation"


def test_the_drills_pages_stand_under_a_bar_of_those_that_there_are(browser, small):
    page = browser.get("/drills").content.decode()
    bar = re.search(r'<nav class="tabs" aria-label="Parts of drills">(.*?)</nav>', page, flags=re.DOTALL)
    assert bar
    shown = re.findall(r'<a id="tab-([a-z-]+)" href="([^"]+)"( aria-current="page")?>([^<]+)</a>', bar[1])
    there = [(tab.route, build_address(tab.route), tab.label) for tab in DRILL_TABS if build_address(tab.route)]
    assert [(route, to, label) for route, to, _, label in shown] == there
    assert [route for route, _, here, _ in shown if here] == ["drills"]


def test_each_page_of_drills_lies_under_one_tab_at_most():
    under = [route for tab in DRILL_TABS for route in (tab.route, *tab.under)]
    assert len(under) == len(set(under))


def test_a_page_that_is_not_there_is_not_offered():
    rows = (*NAV, *MORE, *FOUND)
    assert [row.label for row in places()] == [row.label for row in rows]
    assert places(rows=(NAV[0]._replace(route="nowhere"), *rows)) == places()


def test_the_style_guide_is_offered_to_staff_alone_and_asks_nothing_for_it(browser, owner, django_assert_num_queries):
    page = browser.get("/runs").content.decode()
    assert not re.search(r"<li><a href=\"/styleguide\">", page), "the palette finds it"
    assert re.search(r'<a role="option" [^>]*href="/styleguide"', page)
    assert b'href="/styleguide"' in browser.get("/search?q=style", headers={"HX-Request": "true"}).content
    someone = signed_in(member("ana"))
    assert b"/styleguide" not in someone.get("/runs").content
    assert b"/styleguide" not in someone.get("/search?q=style", headers={"HX-Request": "true"}).content
    request = RequestFactory().get("/")
    request.user, request.resolver_match = owner, ResolverMatch(lambda: None, (), {}, url_name="runs")
    frame = Frame(request)
    assert frame.actor
    with django_assert_num_queries(0):
        assert frame.staff


def test_the_reference_of_the_api_is_reached_from_every_page(browser):
    page = browser.get("/runs").content.decode()
    address = reverse("api-docs")
    assert re.search(rf'<li><a href="{address}">.*<span>API reference</span>', page)
    assert re.search(rf'<a role="option" [^>]*href="{address}"', page)
    assert re.search(rf'<footer class="phone-foot" id="more">.*<a href="{address}">', page, flags=re.DOTALL)
    assert f'<a href="{address}" aria-current="page">' in browser.get(address).content.decode()


def test_where_up_runs_the_banner_says_that_its_worker_does_not_answer(browser, actor, small, settings, tmp_path):
    settings.FABRIC_DATA = prepare(tmp_path / "data")
    queued(actor, small)
    with hold(settings.FABRIC_DATA, "http://127.0.0.1:8420"):
        page = browser.get("/runs").content.decode()
    said = (
        f"<code>up</code> runs as process {os.getpid()}, but its worker does not answer: end it with Ctrl-C, and start"
    )
    assert said in page
    assert "manage.py up" not in page
    assert "manage.py up" in browser.get("/runs").content.decode()


def test_no_worker_and_runs_that_wait_is_said_with_the_command(browser, actor, small):
    assert b"No worker is alive" not in browser.get("/runs").content
    queued(actor, small)
    page = browser.get("/runs").content.decode()
    assert "<b>No worker is alive.</b> 1 run waits. Start one: <code>python3 manage.py up</code>" in page
    now = time.time_ns() // 1_000
    Incarnation.objects.create(name="alive", lease_until=now + 60 * US, started_at=now)
    page = browser.get("/runs").content.decode()
    assert "No worker is alive" not in page
    assert "1 worker alive" in page


def test_it_says_which_workspace_and_which_installation(browser):
    page = browser.get("/runs").content.decode()
    assert "<b>default</b><small>127.0.0.1:8420</small>" in page


def test_the_frame_alone_counts_again_and_knows_where_it_stands(browser, actor, small):
    page = browser.get("/runs").content.decode()
    assert 'hx-get="/shell/frame?at=runs" hx-trigger="every 15s, changed"' in page
    queued(actor, small)
    again = browser.get("/shell/frame?at=runs").content.decode()
    assert "<html" not in again
    for target in re.findall(r'hx-target="#([\w-]+)"', again):
        assert page.count(f'id="{target}"') == 1, target
    rows = again.partition('"#nav-links"')[2].partition("</hx-partial>")[0]
    assert navigation(f'<ul id="nav-links">{rows}</ul>')[1] == ("Runs", True, "1")
    assert "No worker is alive" in again
    for odd in ("", "nowhere", "x" * 5000, "%00"):
        assert 'aria-current="page"' not in browser.get(f"/shell/frame?at={odd}").content.decode()


def test_a_stranger_sees_no_frame(db):
    page = Client(HTTP_HOST="127.0.0.1").get("/login").content.decode()
    assert "nav-links" not in page
    assert 'id="palette"' not in page


def test_the_frame_costs_few_queries(browser, actor, small, django_assert_max_num_queries):
    """One query each: the viewer, their groups, their workspace; the counts, the drill stop, the workspace's name, workers, runs that wait."""
    queued(actor, small)
    frame = Frame(RequestFactory().get("/"))
    frame.request.user = User.objects.get()
    frame.request.resolver_match = None
    with django_assert_max_num_queries(11):
        assert frame.drills.drill_stop is None
        assert len(frame.links) == len(NAV)
        assert frame.workspace == "default"
        assert frame.workers == 0
        assert frame.ready == "1"


# -- the live badge --------------------------------------------------------------------------------------------------


def test_the_badge_has_the_same_looks_on_both_sides():
    script = (settings.BASE_DIR / "static" / "shell" / "badge.js").read_text()
    looks = re.search(r"const LOOKS = (\{.*?\});", script, flags=re.DOTALL)
    assert looks
    as_json = re.sub(r"(\w+):", r'"\1":', looks[1]).replace(",\n}", "\n}")
    assert {name: tuple(look) for name, look in json.loads(as_json).items()} == dict(LIVE_LOOKS)


def test_the_badge_is_a_link_that_loads_the_page_again():
    shown = live_badge("stale", 1_790_000_000_000, note="<i>")
    assert shown.startswith(
        '<a id="live" class="live" href="" data-live="stale" data-tone="warn" data-at="1790000000000">Stale '
    )
    assert "&lt;i&gt;" in shown
