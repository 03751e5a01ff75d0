"""A run's story, fact by fact."""

from __future__ import annotations

from itertools import pairwise

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from fabric.core import events as ev
from fabric.core.values.flow import RunState, Stage
from fabric.core.values.units import US
from fabric.models import Event as EventRow
from fabric.selectors.errors import Refused
from fabric.selectors.runs.story.figures import waited_us
from fabric.selectors.runs.story.fold import RunStory, run_story
from fabric.selectors.runs.story.state import POINTS_MAX
from tests.fabric.selectors.journals import T0, Teller, write
from tests.fabric.services.world import ran
from tests.servers.unguarded import unguarded

WORKER = "fan_out.0.e0.r0"


def told(teller: Teller) -> RunStory:
    story = RunStory("r")
    for event in teller.events:
        story.add(event)
    return story


def begun() -> Teller:
    return Teller().start().planned().enter(Stage.FAN_OUT, "reader", "reader")


def test_a_call_is_a_bar_from_its_intent_to_its_answer():
    teller = begun().ask(WORKER, 1, "reader").wait(2).answer(WORKER, 1, cost=300, tokens=40)
    lane = told(teller).lanes[WORKER]
    (bar,) = lane.bars
    assert (bar.call, bar.end - bar.start, bar.became, bar.cost_usd_micros) == ("model", 2 * US, "done", 300)
    assert (lane.state, lane.tally.calls, lane.tally.tokens) == ("done", 1, 40)


def test_what_is_out_has_no_end():
    lane = told(begun().ask(WORKER, 1, "reader").wait(9).tell(ev.OwnershipTaken(fence=2, incarnation="w"))).lanes[
        WORKER
    ]
    assert (lane.bars[0].end, lane.bars[0].became, lane.state) == (None, "open", "active")


def test_a_failed_attempt_its_back_off_and_the_next():
    teller = begun().ask(WORKER, 1, "reader").wait(1).fail(WORKER, 1)
    teller.react("retry", "retry_budget", step=WORKER, command=f"{WORKER}.t1").back_off(WORKER, 1, 5)
    waits = told(teller).lanes[WORKER]
    assert (waits.bars[0].became, waits.backoffs[0].end - waits.backoffs[0].start) == ("failed", 5 * US)
    teller.wait(6).ask(WORKER, 1, "reader", attempt=2).wait(1).answer(WORKER, 1, attempt=2)
    story = told(teller)
    lane = story.lanes[WORKER]
    assert [bar.became for bar in lane.bars] == ["failed", "done"]
    assert lane.backoffs[0].end == lane.bars[1].start  # It began when it began, not when it might have.
    assert [(trip.mechanism, trip.reaction) for trip in lane.trips] == [("retry_budget", "retry")]
    assert (story.failed_attempts, story.fired["retry_budget"]) == (1, 1)


def test_a_wait_for_a_person_is_not_work():
    teller = begun().ask(WORKER, 1, "reader").wait(1).answer(WORKER, 1).put_to("reviewer", Stage.FAN_OUT, WORKER)
    story = told(teller)
    assert (story.lanes[WORKER].state, story.waiting_since) == ("waiting", teller.at)
    story = told(teller.wait(3_600).decided())
    assert (story.lanes[WORKER].state, story.waiting_since) == ("done", None)
    assert waited_us(story) == 3_600 * US


def test_a_wait_beside_work_is_no_wait_of_the_run():
    other = "fan_out.1.e0.r0"
    teller = begun().ask(WORKER, 1, "reader").answer(WORKER, 1).ask(other, 1, "reader")
    teller.put_to("reviewer", Stage.FAN_OUT, WORKER).wait(10).answer(other, 1).wait(5).decided()
    assert waited_us(told(teller)) == 5 * US


def test_a_replan_lets_the_old_epoch_go():
    teller = begun().ask(WORKER, 1, "reader").wait(1).replan(Stage.FAN_OUT, 1).planned(1)
    story = told(teller)
    assert [(epoch, stage) for _, epoch, stage, _ in story.epochs] == [(1, "fan_out")]
    assert story.lanes[WORKER].state == "void"
    assert [(one.stage, one.epoch, one.outcome) for one in story.stages] == [
        ("plan", 0, "passed"), ("fan_out", 0, "replan"), ("plan", 1, "passed"),
    ]  # fmt: skip


def test_a_handover_shows_who_took_over():
    teller = begun().ask(WORKER, 1, "reader").wait(1).react("handover", "progress", step=WORKER)
    again = ev.StepOpened(step_id="fan_out.0.e0.r1", stage=Stage.FAN_OUT, branch=0, agent="lead", round=1)
    story = told(teller.tell(again))
    assert [(trip.mechanism, trip.reaction) for trip in story.lanes[WORKER].trips] == [("progress", "handover")]
    assert (story.lanes[WORKER].end, story.lanes["fan_out.0.e0.r1"].agent) == (teller.at, "lead")
    replanned = ev.Replanned(stage=Stage.FAN_OUT, epoch=1, reason="brief_repeated", planner="lead")
    assert told(teller.tell(replanned)).epochs[-1][3] == "brief_repeated, handed over to lead"


def test_the_end_closes_everything():
    teller = begun().ask(WORKER, 1, "reader").put_to("owner", Stage.FAN_OUT, "fan_out.1.e0.r0").wait(3)
    story = told(teller.end(RunState.CANCELLED))
    assert story.ended_at == teller.at
    assert all(lane.end is not None for lane in story.lanes.values())
    assert all(bar.end == teller.at for lane in story.lanes.values() for bar in lane.bars if bar.became == "let_go")
    assert story.waiting_since is None


def test_money_by_stage_agent_and_model():
    teller = begun().ask(WORKER, 1, "reader", model="big").wait(1).answer(WORKER, 1, cost=700, tokens=9)
    story = told(teller)
    assert story.by_stage["fan_out"].cost_usd_micros == story.by_agent["reader"].cost_usd_micros == 700
    assert {name: tally.cost_usd_micros for name, tally in story.by_model.items()} == {"script": 100, "big": 700}
    assert story.points == [(T0 + US, 100), (T0 + 2 * US, 800)]


def test_the_spend_rate_looks_back_a_minute():
    teller = begun()
    for turn in range(1, 31):
        teller.ask(WORKER, turn, "reader").wait(10).answer(WORKER, turn, calls=1, cost=1_000)
        teller.use(WORKER, turn, 0, "reader").result(WORKER, turn, 0)
    assert told(teller).rate_usd_micros_per_min() == 7_000  # Both ends of the minute count.
    assert told(teller.wait(61).tell(ev.OwnershipTaken(fence=2, incarnation="w"))).rate_usd_micros_per_min() == 0


def test_a_young_run_has_no_absurd_rate():
    teller = begun().ask(WORKER, 1, "reader").answer(WORKER, 1, cost=1_000)
    assert told(teller).rate_usd_micros_per_min() == 1_100 * 6  # As if it had been ten seconds.


def test_the_curve_stays_small_and_even():
    teller = begun()
    for turn in range(1, 2_001):
        teller.ask(WORKER, turn, "reader").wait(1).answer(WORKER, turn, calls=1, cost=10)
        teller.use(WORKER, turn, 0, "reader").result(WORKER, turn, 0)
    points = told(teller).points
    assert POINTS_MAX // 4 < len(points) <= POINTS_MAX
    assert points[-1][1] == 100 + 20_000
    gaps = sorted(b[0] - a[0] for a, b in pairwise(points[:-1]))
    assert gaps[-1] <= 3 * gaps[0]


def test_the_same_journal_in_steps_is_the_same_story(actor, small):
    run = ran(actor, small)
    whole = run_story(actor, run.id)
    halves = RunStory(run.id)
    half = EventRow.objects.filter(run_id=run.id).order_by("seq")[2]
    with unguarded():
        EventRow.objects.filter(run_id=run.id, seq__gt=half.seq).update(run_id="elsewhere")
    run_story(actor, run.id, halves)
    assert halves.seq == half.seq + half.more
    with unguarded():
        EventRow.objects.filter(run_id="elsewhere").update(run_id=run.id)
    run_story(actor, run.id, halves)
    assert halves.seq == whole.seq == run.last_seq
    assert (halves.run, halves.lanes, halves.points, halves.stages) == (
        whole.run,
        whole.lanes,
        whole.points,
        whole.stages,
    )


def test_what_is_known_is_not_read_again(actor, small):
    run = ran(actor, small)
    story = run_story(actor, run.id)
    with CaptureQueriesContext(
        connection,
    ) as asked:
        run_story(actor, run.id, story)
    assert len(asked) == 2
    assert f'"seq" >= ({run.last_seq + 1} - ' in asked[1]["sql"]


def test_an_event_of_a_newer_version_is_passed_over_and_named(actor, small):
    run = ran(actor, small)
    teller = begun().ask(WORKER, 1, "reader").wait(1).answer(WORKER, 1)
    with unguarded():
        EventRow.objects.filter(run_id=run.id).delete()
    write(run.id, teller.events, extra=(("thought_recorded", 1, b'{"e":[1,"","",0],"d":{}}'),))
    story = run_story(actor, run.id)
    assert story.seq == len(teller.events) + 1
    assert story.run is None
    assert story.lanes[WORKER].state == "done"
    assert "thought_recorded" in story.unreadable[story.seq]


def test_a_fact_that_does_not_fit_costs_the_margins_and_not_the_picture():
    story = told(begun().answer("fan_out.7.e0.r0", 1).ask(WORKER, 1, "reader"))
    assert story.run is None
    assert story.unreadable_count == 1
    assert story.lanes[WORKER].bars[0].became == "open"


def test_a_run_of_another_workspace_has_no_story(actor, small, stranger):
    run = ran(actor, small)
    with pytest.raises(Refused):
        run_story(stranger, run.id)
