"""Live drills in the pages, without a script: their own coverage, what they do said before they are asked for, and what was put back."""

from __future__ import annotations

import json
import re

import pytest

from console.pages.drills.live_impact import WHERE
from console.pages.drills.views import MODES
from fabric.models import AuditLine, Incarnation
from simulator.drills.batches.batch import drill_claim, drill_end
from simulator.drills.models import tables as models
from simulator.drills.models.tables import Drill, Status
from simulator.drills.services.drills import drill_ask
from tests.console.pages.drills.test_views import ONE, PAGE, cell, drilled, text
from tests.people import member, signed_in

LIVE = f"{PAGE}/coverage?fabric=small&mode=live"


@pytest.fixture
def worker():
    return Incarnation.objects.create(name="w", started_at=0, lease_until=2**53)


def fields(page):
    """Return what the form that begins live drills would send."""
    html = page.content.decode()
    form = re.search(r'<form class="card" method="post" action="/drills/ask".*?</form>', html, flags=re.DOTALL)[0]
    return dict(re.findall(r'<input[^>]* name="(\w+)"[^>]* value="([^"]*)"', form))


def test_each_mode_has_a_word():
    assert tuple(MODES) == models.MODES
    assert set(WHERE) == set(models.MODES)


def test_live_coverage_is_a_matrix_of_its_own(browser, actor, small, worker):
    drilled(actor, cells=[ONE])
    virtual, live = browser.get(f"{PAGE}/coverage?fabric=small"), browser.get(LIVE)
    assert cell(virtual.content.decode(), *ONE)[0] == "pass"
    assert cell(live.content.decode(), *ONE)[0] == "never"
    assert "No cell has a live drill yet." in text(live)
    assert re.search(r'id="mode-live" href="[^"]*" aria-current="true"', live.content.decode())
    assert re.search(r'id="mode-simulated" href="[^"]*" aria-current="true"', virtual.content.decode())
    assert "mode=live" in re.search(r'hx-get="([^"]+)"', live.content.decode())[1]


def test_its_buttons_ask_nothing_before_it_was_said_what_they_do(browser, small, worker):
    page = browser.get(LIVE).content.decode()
    form = re.search(r'<form id="drills-form" method="(\w+)"', page)[1]
    assert form == "get"
    offered = set(re.findall(r'form="drills-form" name="(\w+)"', page))
    assert offered == {"ask"}
    shown = text(browser.get(f"{LIVE}&ask=all"))
    assert "Drill 24 cells live?" in shown
    assert "No model is called and nothing is spent: answers are scripted." in shown
    assert "24 cells of 8 failure types" in shown
    assert "72, one at a time, priority low" in shown
    assert "72 min, at 180 s each" in shown
    assert "1 alive" in shown
    assert not Drill.objects.exists()


def test_one_cell_is_asked_for_with_the_caps_that_were_given(browser, small, worker):
    page = browser.get(f"{LIVE}&ask=provider_failure:batch")
    assert "provider failure × long-running batch" in text(page)
    given = {**fields(page), "cap_s": "30", "cap_usd": "0.25", "reason": "Before the release."}
    answer = browser.post(f"{PAGE}/ask", given, follow=True)
    assert answer.redirect_chain == [("/drills/coverage?fabric=small&mode=live", 302)]
    assert "One cell is being drilled on this installation." in text(answer)
    one = Drill.objects.get()
    assert (one.mode, one.cap_s, one.cap_usd_micros, one.reason) == ("live", 30, 250_000, "Before the release.")
    told = json.loads(AuditLine.objects.get(kind="drills_asked").body)
    assert told.items() >= {"mode": "live", "cap_s": 30, "cap_usd_micros": 250_000}.items()


SECONDS = "Give the time cap in whole seconds, 5 to 3,600."
DOLLARS = "Give the cost cap in dollars, above 0 and below 1,000,000, with six decimals at most."


@pytest.mark.parametrize(
    ("field", "given", "said"),
    [
        ("cap_s", "2", SECONDS),
        ("cap_s", "3601", SECONDS),
        ("cap_s", "soon", SECONDS),
        ("cap_usd", "-1", DOLLARS),
        ("cap_usd", "free", DOLLARS),
        ("cap_usd", "1.0000001", DOLLARS),
        ("cap_usd", "1000000", DOLLARS),
    ],
)
def test_a_cap_that_is_none_is_told_beside_it_and_what_was_given_stays(browser, small, worker, field, given, said):
    sent = {**fields(browser.get(f"{LIVE}&ask=all")), field: given, "reason": "Why not."}
    answer = browser.post(f"{PAGE}/ask", sent)
    page = answer.content.decode()
    assert answer.status_code == 422
    assert re.search(rf'id="{field}"[^>]*value="{given}" aria-invalid="true"', page)
    assert text(answer).count(said) == 1
    assert "Why not." in page
    assert not Drill.objects.exists()


def test_without_a_worker_the_command_that_starts_one_is_told(browser, small):
    page = browser.get(f"{LIVE}&ask=all")
    assert "No worker is alive, and a live drill needs one." in text(page)
    answer = browser.post(f"{PAGE}/ask", fields(page))
    assert answer.status_code == 503
    assert "python3 manage.py up" in text(answer)
    assert not Drill.objects.exists()


def test_who_is_no_operator_may_look_on(owner, small, worker):
    vera = signed_in(member("vera"))
    page = vera.get(LIVE).content.decode()
    assert "only owners and operators may start them" in page
    assert re.search(r'id="run-all"[^>]* disabled', page)
    asking = vera.get(f"{LIVE}&ask=all")
    assert 'id="begin-live"' not in asking.content.decode()
    answer = vera.post(f"{PAGE}/ask", {"fabric": "small", "cells": "all", "mode": "live"})
    assert answer.status_code == 403
    assert "live drills are for operator or owner" in text(answer)


def test_what_cannot_be_asked_for_is_told(browser, small, worker):
    answer = browser.get(f"{LIVE}&ask=nothing")
    assert answer.status_code == 422
    assert "is no cell" in text(answer)
    assert "There is nothing to drill live" in text(answer)
    assert 'id="cap_s"' not in answer.content.decode(), "nothing can be begun"
    assert browser.get(f"{PAGE}/coverage?fabric=none&mode=live&ask=all").status_code == 404


def test_a_live_drill_says_its_limits_and_what_was_put_back(browser, actor, small, worker):
    asked = drill_ask(actor=actor, fabric=small, cells=[ONE], mode="live")
    one = drill_claim(asked.batch, "h")
    body = json.dumps(
        {"aborted": "it has taken 181 s, and stops at 180 s", "rollback": {"done": True, "said": "run 7 was ended"}}
    )
    assert drill_end(one, "h", status=Status.ABORTED, why="it has taken 181 s, and stops at 180 s", body=body)
    page = browser.get(f"{PAGE}/{one.id}")
    shown = text(page)
    assert (
        "It met a limit of its own and was ended before it came to a verdict: It has taken 181 s, and stops at 180 s."
        in shown
    )
    assert "run 7 was ended" in shown
    assert re.search(r'<form id="drills-form" method="get"', page.content.decode())
    again = browser.get(f"{PAGE}/coverage?fabric=small&mode=live&ask=provider_failure:batch&number=1&seed={one.seed}")
    assert fields(again).items() >= {"number": "1", "seed": str(one.seed), "cells": "provider_failure:batch"}.items()
    browser.post(f"{PAGE}/ask", fields(again))
    assert Drill.objects.filter(mode="live", seed=one.seed).count() == 2
