"""Where a run's page leads: from bars and names to their events, from a decision to its cell, to another run like it; and what it waits for."""

from __future__ import annotations

import re
import time

import pytest
from django.utils.safestring import SafeString

from console.live.stories import stories
from console.pages.runs.event_line import EventLine
from console.pages.runs.events import LANDMARKS_MAX, landmarks
from console.pages.runs.panels import DRAWN
from console.pages.shell.keys import KEYS
from fabric.composition import engine as wiring
from fabric.core.values.flow import RunState, Stage
from fabric.core.values.units import US
from fabric.models import Event, Incarnation, Run
from fabric.selectors.runs.lookup import run_get
from fabric.selectors.stored_events import read_events
from fabric.services.fabrics.revisions import fabric_publish
from fabric.services.runs.start import run_start
from fabric.worker.nudges.listener import NullNudge
from tests.console.pages.runs.journals import tight
from tests.fabric.selectors.journals import REFUSED, Teller, write
from tests.fabric.services.world import SMALL, ran

WORKER = "fan_out.0.e0.r0"


@pytest.fixture
def queued(actor, small):
    def make(text="Later", **given) -> str:
        return run_start(store=wiring.store(), nudge=NullNudge(), actor=actor, fabric=small, text=text, **given).run_id

    return make


@pytest.fixture
def told(queued):
    """Gives a run the journal that a test tells."""

    def make(teller: Teller) -> str:
        run_id = queued()
        write(run_id, teller.events)
        return run_id

    return make


@pytest.fixture
def looping(actor):
    """A run that ended with a loop, about which its fabric asks no person."""
    source = SMALL.replace("name: small", "name: looping").replace(
        "    provider: scripted\n", "    provider: scripted\n    options: {script: tool_loop}\n"
    )
    rungs = "[{reaction: inject, times: 1}, {reaction: replan, times: 1}, {reaction: abort}]"
    cell = f"decision_table:\n  infinite_tool_loop:\n    batch: {{rungs: {rungs}}}\n"
    return ran(actor, fabric_publish(actor=actor, source=f"{source}tiers: {{default: batch}}\n{cell}").name)


def page(browser, address: str) -> str:
    answer = browser.get(address)
    assert answer.status_code == 200
    return tight(answer.content.decode())


def busy() -> Teller:
    """A fan-out with a failed attempt, a back-off, a review and a refused gate."""
    teller = Teller().start().planned().enter(Stage.FAN_OUT, "reader").ask(WORKER, 1, "reader").wait(2).fail(WORKER, 1)
    teller.react("retry", "retry_budget", step=WORKER).back_off(WORKER, 1, 4).wait(4)
    teller.ask(WORKER, 1, "reader", attempt=2).wait(1).answer(WORKER, 1, attempt=2)
    return teller.put_to("owner", Stage.FAN_OUT, WORKER).wait(900).decided().leave(Stage.FAN_OUT, gate=REFUSED)


# -- from the picture ------------------------------------------------------------------------------------------------


def test_everything_in_the_timeline_leads_to_its_event(browser, told):
    run_id = told(busy().end(RunState.FAILED))
    shown = page(browser, f"/runs/{run_id}")
    kinds = dict(Event.objects.filter(run_id=run_id).values_list("seq", "kind"))
    found = {
        (re.search(r'class="([\w -]+)"', mark)[1], kinds[int(seq)])
        for seq, mark in re.findall(r'<a href="\?event=(\d+)" tabindex="-1">(<.*?)</a>', shown)
    }
    assert found == {
        ("g-stage", "stage_entered"),
        ("gate pass", "stage_entered"),
        ("gate pass", "stage_left"),
        ("gate fail", "stage_left"),
        ("g-model", "call_issued"),
        ("g-fail", "call_issued"),
        ("g-retry", "retry_scheduled"),
        ("g-human", "review_opened"),
        ("knot", "reaction_decided"),
    }
    names = re.findall(r'<th scope="row"><a href="\?event=(\d+)">([^<]+)</a>', shown)
    assert [(kinds[int(seq)], name) for seq, name in names] == [
        ("stage_entered", "plan"),
        ("stage_entered", "fan-out"),
        ("call_issued", "reader 1"),
    ]
    # An event that is led to stands beside the list, with a script and without.
    assert f'data-shown="{names[-1][0]}"' in page(browser, f"/runs/{run_id}?event={names[-1][0]}")


def test_the_unfolded_picture_leads_back_to_itself(browser, told):
    shown = page(browser, f"/runs/{told(busy().end(RunState.FAILED))}?fold=off")
    unfolded = shown.partition('id="panel-unfolded"')[2].partition('id="panel-timeline"')[0]
    assert unfolded.count('href="?fold=off&amp;event=') > 5
    assert 'href="?event=' not in unfolded


def test_the_legend_has_what_is_in_the_picture(browser, told):
    legend = r'<ul class="legend">(.*?)</ul>'
    calm = re.search(legend, page(browser, f"/runs/{told(Teller().start().planned().end(RunState.COMPLETED))}"))
    assert re.findall(r"</svg>([^<]+)", calm[1]) == ["model call", "check passed"]
    much = re.search(legend, page(browser, f"/runs/{told(busy().replan(Stage.FAN_OUT, 1))}"))
    assert re.findall(r"</svg>([^<]+)", much[1]) == [
        *("model call", "failed attempt", "back-off", "waits for a person", "check passed", "check failed"),
        *("protection fired", "new plan", "folded time"),
    ]


# -- from an event ---------------------------------------------------------------------------------------------------


def test_a_decision_leads_to_its_cell_of_the_table_that_it_was_taken_under(browser, looping):
    seq = (
        Event.objects.filter(run_id=looping.id, kind="reaction_decided")
        .order_by("seq")
        .values_list("seq", flat=True)[0]
    )
    link = re.search(r'href="([^"#]+)#(cell-[\w-]+)"', page(browser, f"/runs/{looping.id}/events/{seq}"))
    assert link[1] == "/fabrics/looping/r1?tab=table"
    assert link[2] == "cell-infinite_tool_loop-batch"
    assert f'id="{link[2]}"' in page(browser, link[1])


def test_from_stage_to_stage(browser, actor, small):
    run = ran(actor, small)
    begun = [one.seq for one in read_events(Event.objects.filter(run_id=run.id), kinds=("stage_entered",))]
    assert len(begun) == 5

    def ways(seq: int) -> dict[str, int]:
        shown = page(browser, f"/runs/{run.id}/events/{seq}")
        return {
            way: int(to)
            for to, way in re.findall(r'href="/runs/[\w-]+/events/(\d+)"[^>]*data-press="stage-(previous|next)"', shown)
        }

    assert ways(1) == {"next": begun[0]}
    assert ways(begun[1]) == {"previous": begun[0], "next": begun[2]}
    assert ways(begun[1] + 1) == {"previous": begun[1], "next": begun[2]}
    assert ways(run.last_seq) == {"previous": begun[4]}


def test_a_call_leads_to_what_came_of_it(browser, told):
    run_id = told(busy())
    issued = read_events(Event.objects.filter(run_id=run_id), kinds=("call_issued",))
    first, second = (one for one in issued if WORKER.encode() in one.header)
    failed = Event.objects.get(run_id=run_id, kind="attempt_failed")
    answered = Event.objects.filter(run_id=run_id, kind="model_answered").order_by("-seq")[0]
    for issued, ended, after in (
        (first, failed, "attempt failed after 2.0 s"),
        (second, answered, "model answered after 1.0 s"),
    ):
        shown = page(browser, f"/runs/{run_id}/events/{issued.seq}")
        assert re.search(
            rf"<dt>result</dt><dd><a href=\"[^\"]*/events/{ended.seq}\"[^>]*>event {ended.seq}</a><small>{after}", shown
        )
    out = told(Teller().start().planned().enter(Stage.FAN_OUT, "reader").ask(WORKER, 1, "reader"))
    last = run_get_last(out)
    assert re.search(
        r"<dt>result</dt><dd><span class=\"wrap\">still out</span>", page(browser, f"/runs/{out}/events/{last}")
    )


def run_get_last(run_id: str) -> int:
    return Run.objects.values_list("last_seq", flat=True).get(id=run_id)


def test_before_an_event_is_picked_its_place_has_landmarks(browser, looping):
    beside = page(browser, f"/runs/{looping.id}").partition('id="inspector"')[2].partition("</aside>")[0]
    kinds = {one.seq: one.kind for one in read_events(Event.objects.filter(run_id=looping.id))}
    offered = [kinds[int(seq)] for seq in re.findall(r'hx-get="/runs/[\w-]+/events/(\d+)"', beside)]
    assert {"stage_entered", "reaction_decided", "run_ended"} <= set(offered)
    assert len(offered) <= LANDMARKS_MAX
    assert "call_issued" not in offered


def test_of_many_landmarks_the_latest_are_kept(actor, told):
    from fabric.selectors.runs.events.windows import EventFilter, events_window

    teller = Teller().start().planned().enter(Stage.FAN_OUT, "reader")
    for _ in range(40):
        teller.react("retry", "retry_budget", step=WORKER)
    rows = events_window(actor, told(teller), EventFilter()).rows
    chosen = landmarks([EventLine(row) for row in rows])
    assert [line.row.seq for line in chosen] == list(
        range(len(teller.events) - LANDMARKS_MAX + 1, len(teller.events) + 1)
    )


# -- keys ------------------------------------------------------------------------------------------------------------


def test_every_key_of_a_run_has_something_to_press(browser, told):
    run_id = told(busy().enter(Stage.FAN_IN).end(RunState.FAILED))
    presses = {key.to for title, group in KEYS if title == "On a run" for key in group if key.do == "press"}
    assert len(presses) > 4
    shown = page(browser, f"/runs/{run_id}?event=8")
    # Who may say something is asked where workers take turns (test_run_say.py).
    assert presses - {"cancel", "say"} <= set(re.findall(r'data-press="([\w-]+)"', shown))
    assert 'data-press="cancel"' in page(browser, f"/runs/{told(busy())}")


# -- another one, and how it ended -----------------------------------------------------------------------------------


def test_another_run_is_started_like_this_one_from_each_of_its_views(browser, actor, small, queued):
    for run_id in (ran(actor, small, text="How much?").id, queued("How much?")):
        link = re.search(
            r'<a class="btn" href="(/runs/start\?from=[\w-]+)"', page(browser, f"/runs/{run_id}?view=cost")
        )
        assert link[1] == f"/runs/start?from={run_id}"
        assert "How much?" in page(browser, link[1])


@pytest.mark.parametrize("view", ["timeline", "events", "cost"])
def test_why_it_ended_stands_in_the_header_of_every_view(browser, looping, view):
    head = page(browser, f"/runs/{looping.id}?view={view}").partition('id="panel-ask"')[0]
    assert re.search(r'<p class="waits" data-tone="danger">.*?: <b>agent [a-z]+ asked for', head)


def test_a_deadline_that_was_kept_and_one_that_had_passed(browser, told):
    kept = page(browser, f"/runs/{told(Teller().start(300).planned().end(RunState.COMPLETED))}")
    assert "<dd>on time <small>4 m 59 s left</small>" in kept
    late = page(browser, f"/runs/{told(Teller().start(60).planned().wait(100).end(RunState.ABORTED))}")
    assert re.search(r'data-tone="danger"><svg.*?</svg>passed</span><small>41 s before the end', late)


# -- margins ---------------------------------------------------------------------------------------------------------


def margins(shown: str) -> dict[str, str]:
    """Tone by name, in order."""
    head = shown.partition('id="panel-ask"')[0]
    found = re.findall(r'<div class="margin"(?: data-tone="(\w+)")?><dt><span>(?:<a [^>]*>)?([^<]+)', head)
    return {name: tone for tone, name in found}


def test_the_header_has_four_margins_and_whatever_is_near(browser, told):
    shown = page(browser, f"/runs/{told(Teller().start().planned().enter(Stage.FAN_OUT, 'reader'))}")
    names = margins(shown)
    assert set(names) == {"Handoffs", "Identical calls", "Replans of a stage", "Retry budget"}
    teller = Teller().start(60).planned().enter(Stage.FAN_OUT, "reader").wait(55).ask(WORKER, 1, "reader")
    assert margins(page(browser, f"/runs/{told(teller)}"))["Run deadline"] == "warn"


def test_a_limit_that_was_passed_is_red(browser, told):
    teller = Teller().start().enter(Stage.PLAN, "planner")
    for turn in (1, 2, 3, 4):
        teller.ask("plan.0.e0.r0", turn, "planner").answer("plan.0.e0.r0", turn, verdict="rejected")
    assert margins(page(browser, f"/runs/{told(teller)}"))["Corrections of a step"] == "danger"


def test_nothing_is_spent_while_a_person_is_asked_and_after_the_end(browser, told):
    asking = Teller().start().planned().enter(Stage.FAN_OUT, "reader").put_to("owner", Stage.FAN_OUT, WORKER)
    assert "Spend rate" not in margins(page(browser, f"/runs/{told(asking)}"))
    assert "Spend rate" not in margins(
        page(browser, f"/runs/{told(Teller().start().planned().end(RunState.COMPLETED))}")
    )


# -- what a queued run waits for -------------------------------------------------------------------------------------


def alive(name: str) -> None:
    now = time.time_ns() // 1_000
    Incarnation.objects.create(name=name, lease_until=now + 600 * US, started_at=now)


def test_a_queued_run_says_what_it_waits_for(browser, queued):
    queued(priority="critical")
    run_id = queued()
    queued(priority="low")
    assert "and <b>none is alive</b>. Start one: <code>python3 manage.py up</code>" in page(browser, f"/runs/{run_id}")
    alive("one")
    alive("two")
    shown = page(browser, f"/runs/{run_id}")
    assert "<b>2 alive</b>, 1 run is ahead" in shown
    part = re.search(r'id="panel-queue"[^>]*hx-get="([^"]+)"', shown)[1]
    Run.objects.exclude(id=run_id).delete()
    assert "<b>2 alive</b>, and it is next" in page(browser, part)
    Run.objects.filter(id=run_id).update(incarnation="one")
    assert "A worker has claimed it" in page(browser, part)


def test_once_it_has_begun_it_waits_for_no_worker(browser, told):
    run_id = told(Teller().start().planned())
    assert 'id="panel-queue"' not in page(browser, f"/runs/{run_id}")
    assert page(browser, f"/runs/{run_id}?part=queue").strip() == ""


# -- what is kept ----------------------------------------------------------------------------------------------------


def test_what_was_drawn_is_drawn_once_and_anew_after_news(browser, actor, told):
    run_id = told(busy())
    view = run_get(actor, run_id)
    first = page(browser, f"/runs/{run_id}")
    with stories.read_story(actor, view) as story:
        drawn = dict(story.made)
        assert set(drawn) == {"head", "timeline"} < DRAWN
        story.made["timeline"] = (drawn["timeline"][0], SafeString('<section id="panel-timeline">kept</section>'))
    assert '<section id="panel-timeline">kept</section>' in page(browser, f"/runs/{run_id}")
    Run.objects.filter(id=run_id).update(cost_usd_micros=77)
    again = page(browser, f"/runs/{run_id}")
    assert '<section id="panel-timeline">kept</section>' not in again
    assert "$0.000077" in again
    assert "$0.000077" not in first
