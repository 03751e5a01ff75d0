"""The page of what runs share: nothing yet, room, used up; who draws, when it fills again, and the ways to it."""

from __future__ import annotations

import re
import time
from html import unescape

import pytest

from fabric.core import events as ev
from fabric.core.budgets.grants import PROVIDER_BUCKET
from fabric.core.values.flow import RunState
from fabric.core.values.taxonomy import Cause, Evidence
from fabric.models import BudgetWindow, Fabric, GrantReservation, RetryBucket, SharedBudget, SharedGrant
from fabric.services.budgets.caps import budget_set
from fabric.services.fabrics.revisions import fabric_publish
from tests.console.pages.runs.test_page import WORKER, fanned_out
from tests.fabric.services.world import SMALL
from tests.people import member, signed_in

HOURLY = SMALL.replace("name: small", "name: hourly").replace(
    "budget: {run_usd_micros: 1000000}", "budget: {run_usd_micros: 1000000, fabric_hour_usd_micros: 1000}"
)


def text(browser, address="/models/budgets"):
    answer = browser.get(address)
    assert answer.status_code == 200
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", answer.content.decode().partition('id="main"')[2])).split())


@pytest.fixture
def hourly(actor, small):
    """A fabric whose runs share a thousandth of a dollar an hour."""
    name = fabric_publish(actor=actor, source=HOURLY).name
    return Fabric.objects.get(name=name)


def test_without_a_fabric_nothing_is_shared(browser):
    said = text(browser)
    assert "Runs share no budget" in said
    assert "No budget of money or tokens is shared." in said
    assert "No published fabric shares its retries." in said


def test_money_is_said_once_as_spent_reserved_and_left(browser, actor, hourly):
    SharedBudget.objects.filter(scope=f"fabric:{hourly.id}").update(spent=250, granted=500)
    BudgetWindow.objects.create(scope=f"fabric:{hourly.id}", window_at=time.time_ns() // 1_000 - 60_000_000, spent=250)
    said = text(browser)
    assert "hourly Fabric, an hour" in said
    assert "$0.000250 spent · $0.0005 reserved" in said
    assert "$0.000250 left" in said
    assert "1 is near the end" in said
    assert "$0.000250 " in said.partition("no run")[2], "what comes back, and when"


def test_one_that_is_used_up_stands_first_and_says_by_how_much(browser, actor, hourly):
    budget_set(actor=actor, amount=5_000_000)
    SharedBudget.objects.filter(scope=f"fabric:{hourly.id}").update(spent=1_200, cap=1_200)
    said = text(browser)
    assert "1 budget refuses calls" in said
    assert "over by $0.0002" in said
    assert said.index("hourly Fabric, an hour") < said.index("All runs Workspace")
    assert "$5.0000 left" in said


def test_it_names_the_runs_that_draw(browser, actor, hourly, journaled):
    scope, runs = f"fabric:{hourly.id}", [journaled(fanned_out()) for _ in range(7)]
    SharedGrant.objects.create(id="g", incarnation="i", scope=scope, amount=1_000, opened_at=1)
    for number, run_id in enumerate(runs):
        GrantReservation.objects.create(
            run_id=run_id, command_id="c", attempt=1, grant_id="g", amount=100 + number, reserved_at=1
        )
    GrantReservation.objects.filter(run_id=runs[0]).update(settled=5)
    page = browser.get("/models/budgets").content.decode()
    assert re.findall(r'class="drawer" href="/runs/([0-9a-f-]+)"', page) == runs[:1:-1]
    assert "of 6 runs" in page


def test_a_retry_budget_is_full_until_a_retry_takes_from_it(browser, actor, small):
    said = text(browser)
    assert "All have room" in said
    assert "small all runs of the fabric retries pass 10 left" in said
    fabric = Fabric.objects.get(name=small)
    RetryBucket.objects.create(scope=f"fabric:{fabric.id}", level=-500)
    said = text(browser)
    assert "1 retry budget is empty" in said
    assert "small all runs of the fabric retries are refused -0.5 left" in said
    assert f"scripted all calls to this provider retries pass {PROVIDER_BUCKET} left" in said


def test_runs_that_were_refused_are_a_click_away(browser, actor, hourly):
    page = browser.get("/models/budgets").content.decode()
    assert 'href="/runs?q=fabric%3Ahourly+fired%3Abudget"' in page
    assert 'href="/runs?q=fabric%3Ahourly+fired%3Aretry_budget"' in page
    for address in set(re.findall(r'href="(/runs\?q=[^"]+)"', page)):
        assert browser.get(unescape(address)).status_code == 200


def test_a_member_who_sees_some_fabrics_gets_theirs_alone(browser, actor, hourly):
    narrow = signed_in(member("nina", "viewer@small"))
    said = text(narrow)
    assert "Budgets of the workspace are shown to members who see all its fabrics." in said
    assert "hourly" not in said


def test_a_page_without_end_is_bounded(browser, actor, small, django_assert_max_num_queries):
    fabric = Fabric.objects.get(name=small)
    rows = [
        SharedBudget(scope=f"session:{fabric.id}:k{n}", workspace_id=actor.workspace_id, cap=100, cap_wanted=100, spent=n % 90)
        for n in range(230)
    ]  # fmt: skip
    SharedBudget.objects.bulk_create(rows)
    text(browser)
    with django_assert_max_num_queries(40):
        said = text(browser)
    assert "30 more have more room." in said


def test_a_run_whose_retry_was_refused_by_what_runs_share_leads_to_it(browser, actor, small, journaled):
    fabric = Fabric.objects.get(name=small)
    evidence = Evidence(10, 0, "retry tokens", "fabric", details={"bucket": f"fabric:{fabric.id}", "asked_at": 1})
    trip = ev.TripRecord(
        mechanism="retry_budget", cause=Cause.RETRY_BUDGET_EMPTY, message="is empty", evidence=evidence
    )
    teller = fanned_out().ask(WORKER, 1, "reader").fail(WORKER, 1)
    decided = teller.react("surface", "provider", step=WORKER).events.pop().fact
    skipped = ev.RungSkipped(failure_type=decided.failure_type, tier=decided.tier, rung=0, reaction="retry", reason="is empty", trip=trip)  # fmt: skip
    run_id = journaled(teller.tell(skipped, decided).tell(
        ev.RunEnded(state=RunState.FAILED, reason="provider said no", reaction="surface")
    ))  # fmt: skip
    page = browser.get(f"/runs/{run_id}").content.decode()
    assert "the retry budget that runs of small share is empty" in page
    assert 'href="/models/budgets#retries">Shared budgets</a>' in page


def test_the_navigation_and_the_breakers_lead_to_it(browser, small):
    assert browser.get("/models/breakers").content.decode().count('href="/models/budgets"') >= 2
