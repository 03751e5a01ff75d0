"""A scenario played live from its page, without a script: what it does said first, its caps, why it cannot be, and its verdicts by mode."""

from __future__ import annotations

import re
from html import unescape

import pytest

from fabric.models import Incarnation
from simulator.drills.batches.batch import drill_claim, drill_end
from simulator.drills.library.requests import scenario_ask
from simulator.drills.models.tables import Drill
from simulator.drills.services.drill_stop import pull_drill_stop
from tests.console.pages.scenarios.test_views import PAGE, text, vera

__all__ = ["vera"]

DOWN = f"{PAGE}/endpoint-down"
LIVE = {
    "fabric": "small",
    "tier": ["interactive", "batch"],
    "seed": "7",
    "p-role": "worker",
    "p-status": "503",
    "mode": "live",
    "do": "run",
}


@pytest.fixture
def worker():
    return Incarnation.objects.create(name="w", started_at=0, lease_until=2**53)


def hidden(page):
    """Return what the form that begins it would send."""
    html = page.content.decode()
    form = re.search(r'<form class="card" method="post" action="([^"]+)".*?</form>', html, flags=re.DOTALL)
    sent = {}
    for name, value in re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)"', form[0]):
        sent.setdefault(name, []).append(unescape(value))
    return form[1], {name: values for name, values in sent.items() if name != "csrfmiddlewaretoken"}


def live_choice(page):
    return re.search(r'<input type="radio" name="mode" value="live"[^>]*>', page.content.decode())[0]


def test_live_is_said_before_it_begins_and_asked_for_with_the_caps_that_were_given(browser, small, worker):
    page = browser.get(DOWN)
    assert "disabled" not in live_choice(page)
    asking = browser.post(f"{DOWN}/ask", LIVE)
    shown = text(asking)
    assert "Play endpoint-down live in 2 tiers?" in shown
    assert "The endpoint answers 503, or another error of its own: each model call of the first worker" in shown
    assert "6, one at a time, priority low" in shown
    assert "scenario run endpoint-down small --live --here" in shown
    assert "empty: $1.00" in shown
    assert not Drill.objects.exists(), "nothing begins before that was read"
    address, sent = hidden(asking)
    caps = {"cap_s": "30", "cap_usd": "0.25", "reason": "Before the release."}
    answer = browser.post(address, {**sent, **caps}, follow=True)
    assert answer.redirect_chain == [(f"{DOWN}?fabric=small#h-drills", 302)]
    assert "2 tiers are drilled on this installation." in text(answer)
    rows = Drill.objects.values_list(
        "mode", "scenario", "tier", "seed", "cap_s", "cap_usd_micros", "reason", "parameters"
    )
    assert set(rows) == {
        ("live", "endpoint-down", tier, 7, 30, 250_000, "Before the release.", '{"role": "worker"}')
        for tier in ("interactive", "batch")
    }


@pytest.mark.parametrize(("field", "given"), [("cap_s", "2"), ("cap_s", "soon"), ("cap_usd", "-1")])
def test_a_cap_that_is_none_is_told_beside_it_and_nothing_is_lost(browser, small, worker, field, given):
    address, sent = hidden(browser.post(f"{DOWN}/ask", LIVE))
    answer = browser.post(address, {**sent, field: given, "reason": "Why not."})
    html = answer.content.decode()
    assert answer.status_code == 422
    assert re.search(rf'id="{field}"[^>]*value="{given}" aria-invalid="true"', html)
    assert "Why not." in html
    assert hidden(answer) == (address, sent)
    assert not Drill.objects.exists()


def test_each_tier_says_its_verdict_by_mode(browser, actor, small, worker):
    scenario_ask(actor=actor, fabric="small", scenario="endpoint-down", tiers=["batch"], mode="live")
    lived = Drill.objects.get()
    drill_end(drill_claim(lived.batch, "h"), "h", status="completed", verdict="deviated")
    scenario_ask(actor=actor, fabric="small", scenario="endpoint-down", tiers=["batch"])
    page = browser.get(f"{DOWN}?fabric=small")
    part = re.search(r'<dl class="shown">(.*?)</dl>', page.content.decode(), flags=re.DOTALL)[1]
    found = [
        re.findall(r'</svg>([\w ]+)</span>(?:</a>)?<span class="two">(\w+)', one) for one in part.split("<dt>")[1:]
    ]
    never = [("Not run", "virtual"), ("Not run", "live")]
    assert found == [never, [("Queued", "virtual"), ("Deviated", "live")], never]
    assert (
        "live"
        not in re.search(
            r'<dl class="shown">(.*?)</dl>', browser.get(f"{PAGE}/tool-error").content.decode(), flags=re.DOTALL
        )[1]
    )


def test_what_cannot_be_live_is_disabled_with_why_and_refused(browser, small, worker):
    page = browser.get(f"{PAGE}/tool-error")
    assert "disabled" in live_choice(page)
    assert "Not live: tool_error cannot be injected live: a live drill stands in front of the model only" in text(page)
    answer = browser.post(f"{PAGE}/tool-error/ask", LIVE | {"p-role": "armed"})
    assert answer.status_code == 422
    assert not Drill.objects.exists()


def test_without_a_worker_live_is_disabled_with_the_command_and_refused(browser, small):
    page = browser.get(DOWN)
    assert "disabled" in live_choice(page)
    assert "No worker is alive, and a live drill needs one. Start one: python3 manage.py up" in text(page)
    answer = browser.post(*hidden(browser.post(f"{DOWN}/ask", LIVE)))
    assert answer.status_code == 503
    assert "no worker is alive" in text(answer).lower()
    assert not Drill.objects.exists()


def test_who_is_no_operator_may_play_in_virtual_time_only(vera, small, worker):
    page = vera.get(DOWN)
    assert "disabled" in live_choice(page)
    assert "only owners and operators may start them" in text(page)
    asking = vera.post(f"{DOWN}/ask", LIVE)
    assert 'id="begin-live"' not in asking.content.decode()
    assert vera.post(f"{DOWN}/ask", LIVE | {"sure": "1"}).status_code == 403
    assert not Drill.objects.exists()
    assert vera.post(f"{DOWN}/ask", LIVE | {"mode": "virtual"}).status_code == 302


def test_a_live_drill_is_asked_for_again_as_it_was_and_said_first(browser, actor, small, worker):
    asked = scenario_ask(
        actor=actor,
        fabric="small",
        scenario="endpoint-down",
        tiers=["batch"],
        mode="live",
        seed=7,
        parameters={"status": 500},
    )
    drill_end(drill_claim(asked.batch, "h"), "h", status="completed", verdict="pass")
    page = browser.get(f"/drills/{asked.drills[0]}").content.decode()
    assert "Drill it live again" in page
    form = page.split('id="drills-form"')[1].split("</form>")[0]
    fields = {name: unescape(value) for name, value in re.findall(r'name="(\w+)" value="([^"]*)"', form)}
    asking = browser.post(f"{DOWN}/ask", fields)
    assert "Play endpoint-down live in 1 tier?" in text(asking)
    browser.post(*hidden(asking))
    assert (
        list(Drill.objects.values_list("mode", "seed", "tier", "parameters"))
        == [("live", 7, "batch", '{"status": 500}')] * 2
    )


def test_while_the_drill_stop_is_pulled_nothing_is_offered_and_why(browser, actor, small, worker):
    asked = scenario_ask(actor=actor, fabric="small", scenario="endpoint-down", tiers=["batch"], mode="live")
    drill_end(drill_claim(asked.batch, "h"), "h", status="completed", verdict="pass")
    played = scenario_ask(actor=actor, fabric="small", scenario="endpoint-down", tiers=["batch"])
    drill_end(drill_claim(played.batch, "h"), "h", status="completed", verdict="pass")
    pages = {
        DOWN: ["Run"],
        f"/drills/{asked.drills[0]}": ["Drill it live again"],
        f"/drills/{played.drills[0]}": ["Another seed", "Rerun with the same seed"],
    }
    offered = r'<button type="submit"[^>]*?( disabled aria-describedby="drill-stop-off")?>(?:<svg.*?</svg>)%s</button>'
    for pulled in (False, True):
        if pulled:
            pull_drill_stop(actor=actor, reason="Enough of it")
        for address, buttons in pages.items():
            page = browser.get(address).content.decode()
            assert ('id="drill-stop-off"' in page) is pulled, address
            assert [bool(re.search(offered % one, page)[1]) for one in buttons] == [pulled] * len(buttons), address
    assert "Enough of it. No drill starts until drills are allowed again." in text(
        browser.get(f"/drills/{asked.drills[0]}")
    )
