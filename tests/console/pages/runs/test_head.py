"""A run's header and its cost speak of child runs and of reviews without an answer."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from console.pages.runs.page import Meter
from fabric.core import events as ev
from fabric.core.schema.limits import Unit
from fabric.core.values.flow import RunState, Stage
from fabric.core.values.taxonomy import Cause, Evidence, FailureType, Tier
from fabric.models import Event as EventRow
from fabric.models import Run
from fabric.selectors.runs.margins.margin import Margin
from tests.console.pages.runs.journals import tight
from tests.console.pages.runs.test_page import WORKER, fanned_out, shown

SPAWNED = ev.ChildSpawned(
    command_id=f"{WORKER}.child", step_id=WORKER, child_id="c", purpose="slice", briefs=(0,), depth=2, deadline_at=1,
    reserved_usd_micros=9_000,
)  # fmt: skip
ANSWERED = ev.ChildAnswered(
    command_id=f"{WORKER}.child", step_id=WORKER, child_id="c", state=RunState.COMPLETED, reason="finished",
    cost_usd_micros=500, tokens=33,
)  # fmt: skip


def test_what_child_runs_cost_is_in_every_table_of_their_parent(browser, journaled):
    teller = fanned_out().tell(SPAWNED)
    assert "Child runs are billed" not in shown(browser, journaled(teller)), "its plan has cost something"
    assert "3 tokens" not in shown(browser, journaled(teller))
    run_id = journaled(teller.wait(2).tell(ANSWERED).end(RunState.COMPLETED))
    page = tight(shown(browser, run_id))
    assert "43 tokens · 1 call · 1 child run<" in page
    assert "$0.0006" in page
    assert '<rect class="g-child"' in page
    assert "</svg>child run</li>" in page
    cost = tight(shown(browser, run_id, "?view=cost"))
    line = '<td class="num">1 child run</td><td class="num">33</td><td class="num">$0.000500</td><td class="num">83&nbsp;%</td>'
    for name in ("fan-out", "reader", "child runs"):
        assert f'<th scope="row">{name}</th>{line}' in cost


def test_what_becomes_of_a_review_in_time_is_what_it_declared(browser, journaled):
    asked = fanned_out().put_to("owner", Stage.FAN_OUT).events[-1].fact
    assert "else it is rejected: it failed" in shown(browser, journaled(fanned_out().tell(asked)))
    page = shown(browser, journaled(fanned_out().tell(replace(asked, on_expiry="nothing"))))
    assert "longer without an answer: it failed" in page
    assert "else it is rejected" not in page


def test_a_review_waits_for_those_whom_the_fabric_lists(browser, journaled):
    asked = fanned_out().ask(WORKER, 1, "reader").answer(WORKER, 1)
    page = shown(browser, journaled(asked.put_to("reviewer", Stage.FAN_OUT, WORKER, reviewers=("ann", "legal"))))
    assert "Waits for <b>ann or legal</b> until" in page
    assert "waits for ann or legal" in page, "on the timeline too"


def test_a_run_that_waits_for_its_provider_says_so_and_asks_no_person(browser, journaled):
    """The page and the API read the same row; another running run is marked as running."""
    teller = fanned_out().ask(WORKER, 1, "reader").fail(WORKER, 1)
    waits = ev.RetryScheduled(
        command_id=f"{WORKER}.t1",
        attempt=2,
        not_before=teller.at + 30_000_000,
        delay_s=30.0,
        source="breaker",
        tokens_left=9_000,
    )
    run_id = journaled(teller.tell(waits))
    page = shown(browser, run_id)
    assert "Waiting for the provider" in page
    assert "Waits for the provider until" in page
    assert ": 429. It resumes automatically." in page
    told = browser.get(f"/api/v1/runs/{run_id}").json()
    assert (told["state"], told["waits_for"]) == ("running", "provider")
    at_work = journaled(fanned_out().ask(WORKER, 1, "reader"))
    assert "Waiting for the provider" not in shown(browser, at_work)
    everywhere(browser, run_id, at_work)


def everywhere(browser, away, at_work):
    """Every list says of both what their own pages say, and finds each."""
    Run.objects.filter(id=away).update(parent_run_id=None)
    listed = browser.get("/runs?q=waits:provider").content.decode()
    assert (away in listed, at_work in listed) == (True, False)
    whole = browser.get("/runs").content.decode()
    assert whole.count("Waiting for the provider") == 1
    assert at_work in whole
    found = browser.get("/api/v1/runs?waits_for=provider").json()["runs"]
    assert [one["id"] for one in found] == [away]
    asked = browser.get("/api/v1/runs?waits_for=person").json()["runs"]
    assert asked == []
    assert "Waiting for the provider" in browser.get(f"/search?q={away[-12:]}").content.decode()
    assert "Waiting for the provider" not in browser.get(f"/search?q={at_work[-12:]}").content.decode()
    Run.objects.filter(id=away).update(parent_run_id=at_work)
    assert "Waiting for the provider" in shown(browser, at_work)


def refused_retry():
    """A call failed, and the retry budget that runs share was empty."""
    seen = Evidence(10, 0, "retry tokens", "fabric", details={"bucket": "fabric:1", "asked_at": 1})
    trip = ev.TripRecord(
        mechanism="retry_budget", cause=Cause.RETRY_BUDGET_EMPTY, message="the fabric's retry budget is empty", evidence=seen
    )  # fmt: skip
    skipped = ev.RungSkipped(
        failure_type=FailureType.PROVIDER, tier=Tier.INTERACTIVE, rung=0, reaction="retry", reason="x", trip=trip
    )
    teller = fanned_out().ask(WORKER, 1, "reader").fail(WORKER, 1).tell(skipped)
    teller.react("surface", "provider", step=WORKER, command=f"{WORKER}.t1")
    return teller.tell(ev.RunEnded(state=RunState.FAILED, reason="reader: provider said no", reaction="surface"))


def test_a_failed_run_says_what_was_tried_and_what_was_not(browser, journaled):
    run_id = journaled(refused_retry())
    head = shown(browser, run_id).partition('id="panel-ask"')[0]
    assert "Tried once. Not retried: the retry budget that runs of small share is empty." in head
    seq = EventRow.objects.get(run_id=run_id, kind="reaction_decided").seq
    assert f'href="/runs/{run_id}/events/{seq}">See the decision' in head
    assert "q=fabric%3Asmall+why%3A%22reader%3A+provider+said+no%22" in head
    found = browser.get("/runs", {"q": 'fabric:small why:"reader: provider said no"'}).content.decode()
    assert run_id in found


def test_the_retry_margin_is_that_of_the_lowest_budget(browser, journaled):
    head = shown(browser, journaled(refused_retry())).partition('id="panel-ask"')[0]
    margin = re.search(r'<a href="/models/budgets#retries"[^>]*>Retry budget</a></span><b>.*?</dd>', head)
    assert margin
    assert "it is now 0 of 10 left" in margin[0]
    assert "all runs of the fabric: no retry was left in the budget that runs share" in margin[0]
    own = shown(browser, journaled(fanned_out().ask(WORKER, 1, "reader")))
    assert "10<small> of 10 left</small>" in own


# -- a margin's words: what would happen at its limit is never read as what has happened ------------------------------


def says(**changed):
    given = {
        "key": "limits.hops",
        "name": "Handoffs",
        "observed": 0,
        "limit": 5,
        "unit": Unit.HANDOFFS,
        "at_limit": "the next handoff is refused",
    }
    return Meter(Margin(**{**given, **changed})).says


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({}, "at 5 the next handoff is refused"),
        ({"where": "clerk", "observed": 2}, "clerk: at 5 the next handoff is refused"),
        ({"unit": Unit.RETRY_TOKENS, "limit": 10, "at_limit": "it fails"}, "at 0 it fails"),
        ({"shared": ("provider:x", "failures"), "at_limit": "timeout, opens at 5 in a row"}, "timeout, opens at 5 in a row"),
        ({"unit": Unit.SECONDS, "observed": 30, "limit": 60, "at_limit": "it ends"}, "30 s of 1 m; it ends"),
    ],
)  # fmt: skip
def test_a_count_says_at_which_number_that_happens(changed, said):
    assert says(**changed) == said
