"""A run's page: its header, its views, its parts that fail alone, and how it stays small."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from console.live.frames import Panel
from console.live.reader import RunKey
from console.live.stories import AT_ONCE, Stories, stories
from console.pages.runs import panels as run_parts
from console.pages.runs.live_source import DatabaseSource, panels
from console.pages.runs.page import VIEWS
from console.pages.runs.panels import SettingLine
from fabric.composition import engine as wiring
from fabric.core import events as ev
from fabric.core.events.envelope import from_row, to_row
from fabric.core.spec.policies.budgets import AgentBudget
from fabric.core.values.fingerprint import ZERO_HASH
from fabric.core.values.flow import RunState, Stage
from fabric.core.values.taxonomy import Cause, Evidence, Tier
from fabric.models import Event as EventRow
from fabric.models import Run
from fabric.runtime.ports.journal import Document
from fabric.selectors.runs.lookup import run_get
from fabric.selectors.runs.margins.protections import Setting
from fabric.selectors.runs.margins.table import MARGINS
from fabric.services.runs.start import run_start
from fabric.worker.nudges.listener import NullNudge
from tests.console.pages.runs.journals import tight
from tests.fabric.selectors.journals import Teller, write
from tests.fabric.services.world import ran
from tests.servers.unguarded import unguarded

HOSTILE = "<script>alert(1)</script><img src=x onerror=alert(2)> [x](javascript:alert(3)) \u202eevil"
WORKER = "fan_out.0.e0.r0"


def fanned_out() -> Teller:
    return Teller().start().planned().enter(Stage.FAN_OUT, "reader")


def shown(browser, run_id: str, query: str = "") -> str:
    answer = browser.get(f"/runs/{run_id}{query}")
    assert answer.status_code == 200
    return tight(answer.content.decode())


# -- the header ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spent", "tells"),
    [
        (250_000, "spent · $0.0005 reserved · $0.7495 left of $1.0000 · 25 %</p>"),
        (
            1_502_961,
            '$1.502961</b> spent · $0.000500 reserved · <b class="over">over by $0.502961</b> of $1.000000 · 150 %',
        ),
    ],
)
def test_the_header_says_how_much_is_left_or_by_how_much_the_cap_is_passed(browser, journaled, spent, tells):
    run_id = journaled(fanned_out().ask(WORKER, 1, "reader"))
    Run.objects.filter(id=run_id).update(cost_usd_micros=spent)
    head = shown(browser, run_id).partition('id="panel-ask"')[0]
    assert tells in head


def test_money_whose_bill_is_not_known_is_an_upper_bound(browser, journaled):
    """The engine charges a call that it gave up at its worst case."""
    teller = fanned_out().ask(WORKER, 1, "reader").tell(
        ev.CallAborted(command_id=f"{WORKER}.t1", attempt=1, reason="quorum", charged_usd_micros=23_332)
    )  # fmt: skip
    head = shown(browser, journaled(teller)).partition('id="panel-ask"')[0]
    line = 'at most <b class="big">$0.023432</b> spent, of it $0.023332 not confirmed · $0.976568 left of $1.000000'
    assert line in head
    billed = fanned_out().ask(WORKER, 1, "reader").answer(WORKER, 1)
    assert "not confirmed" not in shown(browser, journaled(billed))


def test_tabs_stand_between_the_header_and_everything_else(browser, actor, small):
    page = shown(browser, ran(actor, small).id)
    places = [
        page.index(f'id="{name}"')
        for name in ("panel-head", "n-events", "panel-ask", "panel-outcome", "panel-timeline")
    ]
    assert places == sorted(places)


def test_the_header_says_what_it_is_and_where_it_stands(browser, journaled):
    run_id = journaled(fanned_out().ask(WORKER, 1, "reader").wait(30).tell(ev.OwnershipTaken(fence=2, incarnation="w")))
    head = shown(browser, run_id).partition('id="panel-ask"')[0]
    assert 'href="/fabrics/small/r1"' in head
    assert 'href="/runs?q=session:october"' in head
    for told in ("low-latency interactive", "fan-out", "plan 1 of at most 3 for each stage", "31 s", "Cancel…"):
        assert told in head, told


def test_who_is_waited_for_and_until_when(browser, journaled):
    teller = fanned_out().ask(WORKER, 1, "reader").answer(WORKER, 1).put_to("reviewer", Stage.FAN_OUT, WORKER)
    run_id = journaled(teller.tell(ev.DeadlinesSuspended(run_remaining_us=250_000_000, stage_remaining_us=1)))
    page = shown(browser, run_id)
    assert "Waiting for a person" in page
    assert re.search(r"Waits for <b>reviewer</b> until <time[^>]*>\d\d:\d\d</time>", page)
    assert "paused <small>4 m 10 s left after it resumes" in page
    assert "waiting began" in page


def test_completed_after_recovery_is_not_completed(browser, journaled):
    teller = fanned_out().react("retry", "retry_budget", step=WORKER)
    recovered = shown(browser, journaled(teller.end(RunState.COMPLETED, recovered=True)))
    clean = shown(browser, journaled(fanned_out().end(RunState.COMPLETED)))
    assert "Completed after recovery" in recovered
    assert "recovered" in re.search(r'<span class="badge[^"]*" data-tone="ok">', recovered)[0]
    assert "after recovery" not in clean
    assert 'class="badge recovered"' not in clean


def test_replans_and_truncation_are_badges(browser, journaled):
    teller = fanned_out().replan(Stage.FAN_OUT, 1).replan(Stage.FAN_OUT, 2).planned(2)
    teller.tell(ev.ToolsStripped(step_id="plan.0.e2.r0", reason="loop"))
    page = shown(browser, journaled(teller))
    assert "After 2 new plans" in page
    assert "Agent stopped early" in page


def test_cost_rate_and_the_way_to_the_ceiling(browser, journaled):
    teller = fanned_out().ask(WORKER, 1, "reader").wait(59).answer(WORKER, 1, calls=1, cost=499_900)
    run_id = journaled(teller.use(WORKER, 1, 0, "reader"))
    page, cost = shown(browser, run_id), shown(browser, run_id, "?view=cost")
    assert "$0.5000/min" in cost
    assert "1 m to the limit" in cost  # Half of a dollar is left.
    assert "At this rate the limit is reached <b>in 1 m</b>" in page
    assert re.search(
        r'<span class="rung last" data-tone="warn"><svg [^>]*><use [^>]*i-block"/></svg>abort</span>', page
    )
    ended = shown(
        browser,
        journaled(fanned_out().ask(WORKER, 1, "reader").wait(59).answer(WORKER, 1, cost=499_900).end(RunState.FAILED)),
    )
    assert "to the limit" not in ended


def test_margins_stand_in_the_header_the_nearest_first(browser, journaled):
    teller = fanned_out()
    for turn in (1, 2):
        teller.ask(WORKER, turn, "reader").answer(WORKER, turn, calls=1)
        teller.use(WORKER, turn, 0, "reader", args="same").result(WORKER, turn, 0, args="same")
    head = shown(browser, journaled(teller)).partition('id="panel-ask"')[0]
    first = re.search(r'<div class="margin"(?: data-tone="(\w+)")?><dt><span>([^<]+)</span>.*?</b>', head)
    assert first
    assert (first[1], first[2]) == ("warn", "Identical calls")
    assert "2<small> / 3</small>" in first[0]


def test_what_tripped_stands_first_and_is_marked(browser, journaled):
    seen = Evidence(100, 7_485, "usd_micros", "run", details={"worst_case": 7_485})
    decided = ev.ReactionDecided(
        failure_type=None, tier=Tier.INTERACTIVE, table="t", rung=0, reaction="abort", scope="stage:fan_out", spent=0, bound=None,
        cause=ev.TripRecord(mechanism="budget", cause=Cause.BUDGET_GATE, message="it does not fit", evidence=seen),
    )  # fmt: skip
    page = shown(browser, journaled(fanned_out().tell(decided).end(RunState.ABORTED)))
    head = page.partition('id="panel-ask"')[0]
    first = re.search(r'<div class="margin"(?: data-tone="(\w+)")?><dt><span>([^<]+)</span><b>.*?</dd>', head)
    assert first
    assert (first[1], first[2]) == ("danger", "Money of a run")
    assert re.search(r"i-flag.*?tripped\s*</b>", first[0])
    assert "refused: $0.007485 needed, $0.0001 left" in first[0]
    assert "Tripped limits first: all" in head
    assert 'data-tone="danger"' in shown(browser, run_id_of(page), "?view=protections")


def run_id_of(page: str) -> str:
    found = re.search(r'id="run-id">([^<]+)<', page)
    assert found
    return found[1]


def test_an_ended_run_without_cost_says_so_as_a_fact(browser, journaled):
    going = fanned_out().ask(WORKER, 1, "reader")
    free = (
        Teller()
        .start()
        .enter(Stage.PLAN, "planner")
        .ask("plan.0.e0.r0", 1, "planner")
        .answer("plan.0.e0.r0", 1, cost=0)
    )
    ended = shown(browser, journaled(free.end(RunState.FAILED)), "?view=cost")
    assert "No call cost anything." in ended
    assert "yet" not in re.search(r'<p class="calm">No call[^<]*', ended)[0]
    assert "No call was sent." in shown(browser, journaled(Teller().start().end(RunState.CANCELLED)), "?view=cost")
    going = Teller().start().enter(Stage.PLAN, "planner").ask("plan.0.e0.r0", 1, "planner")
    assert "No call has cost anything yet." in shown(browser, journaled(going), "?view=cost")


def test_a_wait_that_lasts_is_told_by_its_beginning_alone(browser, journaled):
    """The server knows of it up to the last event; the script counts on from its beginning, so the two must not stand side by side."""
    teller = fanned_out().ask(WORKER, 1, "reader").wait(2).answer(WORKER, 1).put_to("owner", Stage.FAN_OUT, WORKER)
    teller.wait(226).tell(ev.ReviewReminded(review_id="esc-1", step="reminder"))
    page = shown(browser, journaled(teller))
    assert "3 m 46 s waiting" not in page
    assert "<small>waiting began <time" in page
    teller.decided().ask(WORKER, 2, "reader").wait(1).answer(WORKER, 2)
    again = shown(browser, journaled(teller.put_to("owner", Stage.FAN_OUT, WORKER, "esc-2").wait(90).tell(
        ev.ReviewReminded(review_id="esc-2", step="reminder")
    )))  # fmt: skip
    assert "+ 3 m 46 s waiting before, waiting began <time" in again


# -- the views -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("view", [name for name, _ in VIEWS])
def test_each_view_of_a_queued_a_waiting_and_a_finished_run(browser, actor, small, doubtful, view):
    queued = run_start(store=wiring.store(), nudge=NullNudge(), actor=actor, fabric=small, text="Later").run_id
    for run_id in (queued, ran(actor, doubtful).id, ran(actor, small).id):
        page = shown(browser, run_id, f"?view={view}")
        assert page.count('aria-current="page"') >= 2  # The breadcrumb and the tab.
        assert "data-part-failed" not in page
        ids = re.findall(r'\bid="([^"]+)"', page)
        assert len(ids) == len(set(ids)), [one for one in ids if ids.count(one) > 1]
        # Every part that a live frame brings has a place.
        for target in ("panel-head", "panel-ask", "panel-outcome", "panel-timeline", "events-rows", "live"):
            assert f'id="{target}"' in page, target


@pytest.mark.parametrize("query", ["?view=nonsense", "?view=%3Cscript%3E", "?part=head", "?part=x&view=cost"])
def test_a_view_that_there_is_none_of(browser, actor, small, query):
    answer = browser.get(f"/runs/{ran(actor, small).id}{query}")
    assert answer.status_code in (404, 422)
    assert b"<script>" not in answer.content


def test_the_timeline_folds_unless_asked_not_to(browser, journaled):
    teller = fanned_out().ask(WORKER, 1, "reader").wait(1).answer(WORKER, 1).put_to("owner", Stage.FAN_OUT, WORKER)
    run_id = journaled(teller.wait(900).decided().end(RunState.COMPLETED))
    assert "without 15 m of idle time" in shown(browser, run_id)
    unfolded = shown(browser, run_id, "?fold=off")
    assert "real time, nothing folded" in unfolded
    assert 'id="panel-unfolded"' in unfolded


def test_protections_have_their_configuration_and_what_fired(browser, journaled):
    run_id = journaled(fanned_out().react("inject", "loop_detector", step=WORKER))
    page = shown(browser, run_id, "?view=protections")
    assert "loop_detector said no" in page
    assert "fired 1 ×" in page
    assert "S0: " not in page  # Where a default comes from stands in the documents.
    assert ">Source<" not in page
    cap = re.search(r"Money of a run <code>run_usd_micros</code><span class=.two.>.*?</tr>", page)
    assert cap
    assert re.search(r"<td class=\"num\">\$1.0000</td><td>.*?this fabric", cap[0])
    quiet = shown(browser, journaled(fanned_out()), "?view=protections")
    due = re.search(r"Answer within <code>due_s</code><span class=.two.>.*?</tr>", quiet)
    assert due
    assert '<td class="num">5 m</td><td><span class="muted">default of the tier' in due[0]
    assert ">off<" not in quiet.partition('id="p-escalation"')[2].partition("</table>")[0]
    assert "Nothing fired. Nearest: " in quiet


def test_protections_that_fired_or_are_near_stand_first_and_open(browser, journaled):
    quiet = fanned_out().react("inject", "loop_detector", step=WORKER).wait(110).ask(WORKER, 1, "reader")
    page = shown(browser, journaled(quiet), "?view=protections")
    rows = re.findall(r'<details class="protection" id="p-(\w+)"( open)?>', page)
    assert len(rows) == len(MARGINS)
    assert (
        [name for name, is_open in rows if is_open] == [name for name, _ in rows[:2]] == ["loop_detector", "deadline"]
    )
    assert '<b>Loop detector</b><span class="sec">stops an agent that repeats its calls.</span>' in page
    folded = re.findall(r'<details class="raw-event" id="set-\w+">', page)
    assert len(folded) == page.count('class="table settings"') > 10


def test_what_has_no_price_is_not_free(browser, actor, journaled, monkeypatch):
    run_id = journaled(
        fanned_out().ask(WORKER, 1, "reader", model="mystery").wait(1).answer(WORKER, 1, cost=0, tokens=99)
    )
    page = shown(browser, run_id, "?view=cost")
    row = re.search(r'<th scope="row">mystery</th>.*?</tr>', page)
    assert row
    assert "unpriced" in row[0]
    assert "$0" not in row[0]
    assert re.search(r'<th scope="row">validate</th>.*?–', page)
    assert page.count('<th scope="col" class="num">Calls</th>') == 2
    assert page.count('<th scope="col" class="num">Model calls</th>') == 1


def test_input_and_output_are_inert(browser, actor, small):
    run = ran(actor, small, text=HOSTILE, documents=(Document("<b>notes.md", HOSTILE),))
    for view, _ in VIEWS:
        page = shown(browser, run.id, f"?view={view}")
        assert "<script>alert" not in page
        assert "<img" not in page
        assert 'href="javascript:' not in page
        assert "\u202e" not in page
    page = shown(browser, run.id, "?view=io")
    assert "&lt;script&gt;alert(1)" in page
    assert "⟨U+202E⟩evil" in page


def as_partial(run_id: str, state: RunState) -> None:
    """The run's end, told as one whose fan-out went on without a branch."""
    row = EventRow.objects.get(run_id=run_id, kind=ev.RunEnded.kind)
    told: Any = from_row(row.seq, row.kind, row.version, bytes(row.header))
    row.header = to_row(replace(told, fact=replace(told.fact, partial=True, state=state)), None, ZERO_HASH).header
    with unguarded():
        row.save()
        Run.objects.filter(id=run_id).update(state=state)


@pytest.mark.parametrize(
    ("state", "badges", "heading"), [(RunState.COMPLETED, 1, "Result"), (RunState.FAILED, 0, "Partial result")]
)
@pytest.mark.parametrize("view", ["", "?view=io"])
def test_a_partial_success_says_so_beside_its_outcome(browser, actor, small, state, badges, heading, view):
    """One that was stopped has a partial result, and is no success."""
    run = ran(actor, small)
    assert "partial success" not in shown(browser, run.id, view).lower()
    as_partial(run.id, state)
    page = shown(browser, run.id, view)
    assert f">{heading}</h2>" in page
    assert (page.count("partial success</span>"), page.count("A partial success: ")) == (badges, badges)


# -- what fails alone ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["head", "timeline", "outcome"])
def test_a_part_that_cannot_be_made_says_so_alone(browser, actor, small, monkeypatch, name):
    run = ran(actor, small)
    monkeypatch.setitem(run_parts.PARTS, name, lambda *given: 1 / 0)
    page = shown(browser, run.id)
    assert page.count("data-part-failed=") == 1
    assert f'id="panel-{name}"' in page
    assert 'id="events-rows"' in page
    assert "failed to load" in page


def test_an_event_of_a_newer_version_costs_the_margins_and_not_the_page(browser, journaled):
    teller = fanned_out().ask(WORKER, 1, "reader").wait(1).answer(WORKER, 1)
    run_id = journaled(teller, extra=(("thought_recorded", 1, b'{"e":[1,"","",0],"d":{}}'),))
    page = shown(browser, run_id)
    assert "data-part-failed" not in page
    assert "They cannot be worked out: event 9 could not be read" in page
    assert "1 event could not be read and is missing here" in page
    assert 'class="g-model"' in page


# -- large runs ------------------------------------------------------------------------------------------------------


def large() -> Teller:
    return Teller().start(36_000, Tier.INTERACTIVE).planned().working(30, 22).end(RunState.COMPLETED)


def test_a_large_run_is_shown_at_once_and_drawn_when_the_reader_has_it(browser, actor, journaled):
    run_id = journaled(large())
    view = run_get(actor, run_id)
    assert view.last_seq > AT_ONCE
    first = browser.get(f"/runs/{run_id}").content.decode()
    assert "appears in a moment" in first
    assert "hx-ws:connect" in first  # It has ended, and still there is something to come.
    stale = re.search(r"panels=([\w.]+)", first)
    batch = DatabaseSource().read(RunKey(actor.workspace_id, run_id), view.last_seq, 100)
    assert batch.rows == ()
    assert (
        dict(zip(("head", "ask", "talk", "outcome", "timeline"), batch.head.versions, strict=True))["timeline"]
        not in stale[1]
    )
    second = browser.get(f"/runs/{run_id}").content.decode()
    assert "appears in a moment" not in second
    assert "hx-ws:connect" not in second
    assert len(second) < 1_000_000


def test_a_large_run_can_be_waited_for_without_a_script(browser, journaled):
    run_id = journaled(large())
    assert f'href="/runs/{run_id}?whole=1"' in shown(browser, run_id)
    assert "appears in a moment" not in shown(browser, run_id, "?whole=1")


def test_a_page_asks_as_much_of_the_database_whatever_the_run(browser, actor, small, journaled):
    little, much = ran(actor, small).id, journaled(large())
    counted = []
    for run_id in (little, much):
        browser.get(f"/runs/{run_id}?whole=1")
        with CaptureQueriesContext(connection) as asked:
            browser.get(f"/runs/{run_id}")
        counted.append(len(asked))
    assert abs(counted[1] - counted[0]) <= 2
    assert max(counted) <= 31


# -- live ------------------------------------------------------------------------------------------------------------


def versions(made: tuple[Panel, ...]) -> dict[str, str]:
    return {panel.name: panel.version for panel in made}


def test_the_page_and_the_live_reader_make_the_same_parts(browser, actor, small):
    run = ran(actor, small)
    page = {panel.name: panel.version for panel in panels(actor, run_get(actor, run.id), [])}
    live = DatabaseSource().read(RunKey(actor.workspace_id, run.id), 0, 10).head
    assert page == versions(live.panels)


def test_news_change_what_they_concern(actor, journaled):
    teller = fanned_out().ask(WORKER, 1, "reader")
    run_id = journaled(teller)
    before = versions(panels(actor, run_get(actor, run_id), []))
    with unguarded():
        EventRow.objects.filter(run_id=run_id).delete()
    write(run_id, teller.wait(3).answer(WORKER, 1).events)
    after = versions(panels(actor, run_get(actor, run_id), []))
    # The story went on from where it was: only the last event was read, and both parts are new.
    assert {name for name in before if before[name] != after[name]} == {"head", "timeline"}


def test_kept_stories_are_bounded(actor, small):
    kept = Stories(events_max=50, stories_max=10)
    runs = [ran(actor, small) for _ in range(4)]
    for run in runs:
        with kept.read_story(actor, run_get(actor, run.id)) as story:
            assert story.seq == run.last_seq
    assert len(kept) == max(1, 50 // runs[0].last_seq)
    assert kept.count_behind(actor, run_get(actor, runs[-1].id)) == 0
    assert kept.count_behind(actor, run_get(actor, runs[0].id)) == runs[0].last_seq


def test_a_story_is_kept_for_the_workspace_that_may_see_it(actor, small, stranger):
    run = run_get(actor, ran(actor, small).id)
    with stories.read_story(actor, run) as story:
        assert story is not None
    assert stories.count_behind(stranger, run) == run.last_seq


def test_cancelling_says_what_it_does(browser, actor, small):
    run_id = run_start(store=wiring.store(), nudge=NullNudge(), actor=actor, fabric=small, text="x").run_id
    assert "Running calls are abandoned and billed at their maximum" in shown(browser, run_id)
    assert Run.objects.get(id=run_id).state == "queued"


def test_caps_of_single_agents_are_said_by_name() -> None:
    own = {"reader": AgentBudget(usd_micros=250_000, tokens=700), "writer": AgentBudget(tokens=9_000)}
    setting = Setting("agents", "Caps of single agents", None, "", own, {})
    assert SettingLine(setting).value_words == "reader: $0.25, 700 tokens; writer: 9,000 tokens"
    assert SettingLine(replace(setting, value={})).value_words == "none"
