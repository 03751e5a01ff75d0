"""The drill stop in the console: STOP on every page, open review without a script, and the banners of what goes on."""

from __future__ import annotations

import re

import pytest

from fabric.core.values.taxonomy import FailureType, Tier
from fabric.models import AuditLine
from simulator.drills.batches.batch import drill_claim, drill_end
from simulator.drills.models.tables import Drill, Status
from simulator.drills.services.drill_stop import find_drill_stop, pull_drill_stop
from simulator.drills.services.drills import drill_ask, stop_drills
from tests.console.outage import table_away
from tests.console.pages.drills.test_views import text, vera

__all__ = ["vera"]
PAGE = "/drills/stop"
ONE = (FailureType.PROVIDER, Tier.BATCH)


def stop(page):
    """Return what stands at the end of the top bar: whether it looks pulled, and its words; None where it does not."""
    found = re.search(r'<a class="btn (\w+)" id="stop" href="/drills/stop".*?</svg><span>(.*?)</span></a>', page)
    return found and (found[1], re.sub("<[^>]+>", "", found[2]))


@pytest.mark.parametrize("address", ["/", "/runs", "/drills", "/fabrics", "/drills/stop", "/nothing"])
def test_stop_is_quiet_on_pages_of_drills_and_looks_pulled_on_every_page(browser, actor, small, address):
    quiet = ("ghost", "Stop drills") if address.startswith("/drills") else None
    assert stop(browser.get(address).content.decode()) == quiet
    pull_drill_stop(actor=actor, reason="The provider complains.")
    assert stop(browser.get(address).content.decode()) == ("pulled", "Drills stopped. Allow drills")


def test_the_frame_alone_tells_of_it_too(browser, actor, small):
    pull_drill_stop(actor=actor, reason="Enough.")
    again = browser.get("/shell/frame?at=drills").content.decode()
    assert stop(again)[0] == "pulled"
    assert "owner stopped drills" in " ".join(again.split())
    assert "stopped drills" not in browser.get("/shell/frame?at=runs").content.decode()


def test_a_drill_stop_that_cannot_be_read_takes_nothing_else_with_it(browser, actor, small):
    with table_away("drills_drill_stop"):
        answer = browser.get("/drills/schedules")
    assert answer.status_code == 200
    assert stop(answer.content.decode())[0] == "ghost"


def test_stop_is_quiet_unless_a_drill_waits_or_runs(browser, actor, small):
    batch = drill_ask(actor=actor, fabric=small, cells=[ONE]).batch
    for address in ("/", "/shell/frame?at=runs"):
        assert stop(browser.get(address).content.decode()) == ("danger", "Stop drills")
    stop_drills(actor=actor, batch=batch)
    assert stop(browser.get("/").content.decode()) is None


def test_it_is_pulled_and_released_with_a_reason(browser, actor, small):
    drill_ask(actor=actor, fabric=small, cells="all")
    page = text(browser.get(PAGE))
    assert "Drills enabled" in page
    assert "24 drills wait or run. Stopping ends them all" in page
    answer = browser.post(PAGE, {"act": "pull", "reason": "The provider complains."}, follow=True)
    assert answer.redirect_chain == [(PAGE, 302)]
    shown = text(answer)
    assert "Drills are stopped. 24 drills ended, and no new drill can start." in shown
    assert "Drills are stopped" in shown
    assert "The provider complains." in shown
    assert set(Drill.objects.values_list("status", flat=True)) == {Status.ABORTED}
    drills = browser.get("/drills/coverage")
    assert "Drills are stopped. owner stopped drills" in text(drills)
    assert re.search(r'id="run-all"[^>]* disabled', drills.content.decode())
    refused = browser.post("/drills/ask", {"fabric": small, "cells": "all"})
    assert refused.status_code == 409
    assert "no drill starts until the owner or an operator allows drills again" in text(refused)
    answer = browser.post(PAGE, {"act": "release", "reason": "It is content."}, follow=True)
    assert "Drills are allowed again." in text(answer)
    assert not re.search(r'id="run-all"[^>]* disabled', browser.get("/drills/coverage").content.decode())
    assert AuditLine.objects.filter(kind__startswith="drill_stop").count() == 2


def test_its_command_is_one_line_to_copy(browser, small):
    line = 'python3 manage.py drill stop pull --reason "REASON"'
    assert re.search(rf'<pre class="code"[^>]*>{line}</pre>', browser.get(PAGE).content.decode())


@pytest.mark.parametrize(
    ("sent", "status", "said"),
    [
        ({"act": "pull", "reason": " "}, 422, "Stopping drills needs a reason"),
        ({"act": "pull", "reason": "x" * 3_000}, 422, "make it shorter"),
        ({"act": "push", "reason": "Why not."}, 422, "The form was incomplete"),
        ({"act": "release", "reason": "Why not."}, 409, "Drills are not stopped"),
    ],
)
def test_what_is_wrong_is_said_and_what_was_written_is_kept(browser, actor, small, sent, status, said):
    answer = browser.post(PAGE, sent)
    assert answer.status_code == status
    assert said in text(answer)
    assert f">{sent['reason'] if sent['reason'].strip() else ' '}</textarea>" in answer.content.decode()
    assert find_drill_stop(actor) is None


def test_who_is_no_operator_is_told_for_whom_it_is(vera, actor, small):
    page = vera.get(PAGE)
    assert "This is for operators and the owner of this installation." in text(page)
    assert 'id="drill-stop-pull"' not in page.content.decode()
    answer = vera.post(PAGE, {"act": "pull", "reason": "Why not."})
    assert answer.status_code == 403
    assert "may not do this: that is for operator or owner" in text(answer)


# -- what goes on ----------------------------------------------------------------------------------------------------


def banner(page):
    found = re.search(
        r'<div id="drills-go-on">(?:(?!</div>).)*?<form(.*?)</form>', page.content.decode(), flags=re.DOTALL
    )
    return " ".join(re.sub("<[^>]+>", " ", f"<form{found[1]}").split()) if found else ""


def test_a_live_drill_is_told_on_every_page_and_stopped_there(browser, actor, small):
    asked = drill_ask(actor=actor, fabric=small, cells=(ONE,), seed=7)
    Drill.objects.update(mode="live")
    drill_claim(asked.batch, "h")
    said = "A live drill is running. 1 of 1: provider failure × long-running batch on small@r1, on this installation's workers, seed 7."
    for address in ("/", "/runs", "/drills", "/nothing"):
        assert said in banner(browser.get(address)), address
    assert said in banner(browser.get("/drills/stop"))
    assert browser.post(f"/drills/batches/{asked.batch}/stop", {"fabric": small}).status_code == 302
    assert banner(browser.get("/runs")) == ""


def test_one_in_virtual_time_is_told_on_the_drills_pages_alone_and_there_once(browser, actor, small):
    asked = drill_ask(actor=actor, fabric=small, cells=(ONE,), seed=7)
    drill_claim(asked.batch, "h")
    assert "A drill is running. 1 of 1" in banner(browser.get("/drills/stop"))
    assert banner(browser.get("/runs")) == ""
    assert text(browser.get("/drills/coverage")).count("A drill is running.") == 1
    Drill.objects.update(scenario="provider-down")
    assert "A drill is running. 1 of 1: provider-down × long-running batch on small@r1" in banner(
        browser.get("/drills")
    )


# -- what was drilled last -------------------------------------------------------------------------------------------


def test_the_last_batches_stand_below_the_coverage_and_go_on(browser, actor, small):
    assert "No drill ran yet." in text(browser.get("/drills/coverage"))
    for _ in range(12):
        asked = drill_ask(actor=actor, fabric=small, cells=(ONE,), reason="Before the release.")
        drill_end(drill_claim(asked.batch, "h"), "h", status=Status.COMPLETED, verdict="pass")
    page = browser.get("/drills/coverage").content.decode()
    assert page.count('<tr id="b-') == 10
    (older,) = re.findall(r'id="last-older" href="([^"]+)"', page)
    assert re.search(
        r'<tr id="b-.*?1 cell<span class="two">virtual</span>.*?1 pass.*?owner.*?Before the release\.', page, re.DOTALL
    )
    rest = browser.get(older.replace("&amp;", "&")).content.decode()
    assert rest.count('<tr id="b-') == 2
    assert 'id="last-newest"' in rest
    assert 'id="last-older"' not in rest
    assert "There are no older ones." in text(browser.get("/drills/coverage?fabric=small&before=0"))
