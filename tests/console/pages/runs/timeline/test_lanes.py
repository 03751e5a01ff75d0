"""The timeline: where instants stand, what is folded, what is drawn, and how much of it."""

from __future__ import annotations

import re
from itertools import pairwise

import pytest

from console.pages.runs.timeline.axis import LEFT, PLEAT, RIGHT, Axis, build_axis, clock
from console.pages.runs.timeline.lanes import GOES_ON, KEPT, OUT, ROWS_MAX, timeline
from console.pages.runs.timeline.shapes import BARS_MAX
from console.topologies.runs import topology
from fabric.core import events as ev
from fabric.core.schema.topology import SupervisorTopology
from fabric.core.values.branches import UNMET
from fabric.core.values.flow import RunState, Stage, StageOutcome
from fabric.core.values.taxonomy import Cause
from fabric.core.values.units import US
from fabric.selectors.runs.story.fold import RunStory
from tests.fabric.selectors.journals import REFUSED, T0, Teller

WORKER = "fan_out.0.e0.r0"


def drawn(teller: Teller, *, fold: bool = True):
    story = RunStory("r")
    for event in teller.events:
        story.add(event)
    return timeline(story, T0, fold=fold)


def row(picture, name):
    return next(one for one in picture.rows if one.name == name)


# -- the axis --------------------------------------------------------------------------------------------------------


def test_an_axis_without_gaps_is_a_straight_line():
    axis = build_axis(0, 100 * US, [(0, 100 * US)])
    assert (axis.x(0), axis.x(100 * US), axis.pleats) == (LEFT, pytest.approx(RIGHT), ())
    assert axis.x(50 * US) == pytest.approx((LEFT + RIGHT) / 2)


def test_what_lies_outside_stands_at_the_edge():
    axis = build_axis(10, 20, [(10, 20)])
    assert (axis.x(0), axis.x(99)) == (LEFT, pytest.approx(RIGHT))


def test_a_long_gap_becomes_a_pleat_that_says_how_much_it_folded():
    axis = build_axis(0, 1_000 * US, [(0, 10 * US), (990 * US, 1_000 * US)])
    (pleat,) = axis.pleats
    assert (pleat.micros, axis.folded_us, axis.drawn_us) == (980 * US, 980 * US, 20 * US)
    assert axis.x(990 * US) - axis.x(10 * US) == pytest.approx(PLEAT)
    assert axis.x(10 * US) - axis.x(0) == pytest.approx(axis.x(1_000 * US) - axis.x(990 * US))


def test_folding_can_be_turned_off():
    assert build_axis(0, 1_000 * US, [(0, 1)], fold=False) == Axis(0, 1_000 * US)


@pytest.mark.parametrize(("work", "gap"), [(10, 5), (50, 8)])
def test_a_gap_that_is_not_worth_a_break_is_left(work, gap):
    """Five seconds in a short picture, a share of a long one; a microsecond more is folded."""
    for more in (0, 1):
        again = (work + gap) * US + more
        axis = build_axis(0, again + work * US, [(0, work * US), (again, again + work * US)])
        assert len(axis.pleats) == more


def test_only_the_longest_gaps_are_folded():
    busy = [(n * 100 * US, n * 100 * US + US) for n in range(20)]
    assert len(build_axis(0, 1_901 * US, busy).pleats) == 5


def test_instants_stay_in_order_whatever_is_folded():
    axis = build_axis(0, 3_000 * US, [(5 * US, 9 * US), (700 * US, 720 * US), (2_000 * US, 2_001 * US)])
    places = [axis.x(at * US) for at in range(0, 3_001, 7)]
    assert places == sorted(places)
    assert places[0] == LEFT


def test_ticks_are_round_and_few():
    axis = build_axis(0, 400 * US, [(0, 400 * US)])
    assert [clock(tick.elapsed, whole=axis.drawn_us) for tick in axis.ticks()] == [
        "0:00",
        "1:00",
        "2:00",
        "3:00",
        "4:00",
        "5:00",
        "6:00",
    ]
    assert [clock(tick.elapsed, 200_000, whole=US) for tick in build_axis(0, US, [(0, US)]).ticks()][:2] == [
        "0.0 s",
        "0.2 s",
    ]
    least = build_axis(0, 84_000, [(0, 84_000)])
    assert [clock(tick.elapsed, 20_000, whole=84_000) for tick in least.ticks()][:2] == ["0 ms", "20 ms"]


def test_nothing_at_all_still_has_an_axis():
    assert build_axis(5, 5, []).x(5) == LEFT


# -- the picture -----------------------------------------------------------------------------------------------------


def test_a_lane_is_drawn_like_this():
    """Golden: the whole of one row, so that nothing changes by accident."""
    teller = Teller().start().enter(Stage.FAN_OUT, "reader").ask(WORKER, 1, "reader").wait(4).answer(WORKER, 1, calls=1)
    teller.use(WORKER, 1, 0, "reader").wait(4).result(WORKER, 1, 0).ask(WORKER, 2, "reader").wait(2).answer(WORKER, 2)
    teller.leave(Stage.FAN_OUT).end(RunState.COMPLETED)
    assert row(drawn(teller), "reader 1").svg == (
        '<svg class="lane" aria-hidden="true"><use href="#tl-grid"/>'
        '<a href="?event=3" tabindex="-1"><rect class="g-model" x="1.20%" width="39.04%" y="7" height="12" rx="2"><title>script: answered, 4.0 s, $0.0001 · event 3</title></rect></a>'
        '<a href="?event=5" tabindex="-1"><rect class="g-tool" x="40.24%" width="39.04%" y="7" height="12" rx="2"><title>read_document: answered, 4.0 s · event 5</title></rect></a>'
        '<a href="?event=7" tabindex="-1"><rect class="g-model" x="79.28%" width="19.52%" y="7" height="12" rx="2"><title>script: answered, 2.0 s, $0.0001 · event 7</title></rect></a>'
        "</svg>"
    )


def test_five_stages_whatever_has_happened():
    names = [one.name for one in drawn(Teller()).rows]
    assert names == ["plan", "fan-out", "fan-in", "validate", "finalize"]
    assert [one.told for one in drawn(Teller()).rows] == ["not reached"] * 5


def test_a_row_for_each_branch_and_round_and_epoch():
    teller = Teller().start().planned().working(2, 1)
    teller.enter(Stage.FAN_IN).leave(Stage.FAN_IN, outcome=StageOutcome.REPLAN, gate=REFUSED).replan(Stage.FAN_IN, 1)
    teller.planned(1).working(1, 1, epoch=1)
    picture = drawn(teller)
    assert [(one.name, one.note) for one in picture.rows if one.css == "worker"] == [
        ("reader 1", ""), ("reader 2", ""), ("reader 1", "plan 2"),
    ]  # fmt: skip
    assert 'class="gate fail"' in row(picture, "fan-in").svg
    assert picture.head.count('class="g-epoch"') == 1


def test_a_branch_that_a_fork_keeps_says_so_and_leads_to_where_it_is_told():
    teller = Teller().start().planned().enter(Stage.FAN_OUT, "reader", "reader")
    teller.tell(ev.OutputKept(step_id="fan_out.1.e0.r0", answer_ref="0" * 32))
    picture = drawn(teller)
    kept = row(picture, "reader 2")
    assert (kept.note, kept.event) == ("kept", teller.events[-1].seq)
    assert row(picture, "reader 1").note == ""


def test_stages_that_a_fork_keeps_are_not_told_as_not_reached():
    kept = tuple(ev.KeptStage(stage=stage, output_ref="0" * 32) for stage in (Stage.PLAN, Stage.FAN_OUT))
    forked = ev.RunForked(origin_run_id="o", origin_seq=9, origin_hash="00", stages=kept)
    teller = Teller().start().tell(forked).enter(Stage.FAN_IN)
    picture = drawn(teller)
    assert [(one.note, one.told) for one in picture.rows[:2]] == [("kept", KEPT)] * 2
    assert row(picture, "validate").told == "not reached"
    story = RunStory("r")
    for event in teller.events:
        story.add(event)
    found = topology(story, SupervisorTopology(workers=("reader",), planner="planner", aggregator="aggregator"))
    states = {node.name: node.word for node in found.nodes}
    assert (states["planner"], states["reader"], states["aggregator"]) == ("kept", "kept", "not reached")
    assert "kept" in found.svg
    teller.tell(ev.Replanned(stage=Stage.FAN_IN, epoch=1, reason="no"))
    assert row(drawn(teller), "plan").told == "not reached"


def test_failures_back_offs_and_trips_are_seen_and_told():
    teller = Teller().start().enter(Stage.FAN_OUT, "reader").ask(WORKER, 1, "reader").wait(2).fail(WORKER, 1)
    teller.react("retry", "retry_budget", step=WORKER).back_off(WORKER, 1, 4).wait(4).ask(
        WORKER, 1, "reader", attempt=2
    )
    lane = row(drawn(teller.wait(1).answer(WORKER, 1, attempt=2)), "reader 1")
    assert lane.svg.count('class="g-fail"') == lane.svg.count('class="g-retry"') == lane.svg.count('class="knot"') == 1
    assert lane.told.startswith("2 model calls, 1 failed, 1 back-off, The engine chose retry (1 of 2): ")
    assert "retry_budget said no, done after" in lane.told


def test_a_wait_for_a_person_is_hatched_and_folded():
    teller = Teller().start().enter(Stage.FAN_OUT, "reader").ask(WORKER, 1, "reader").wait(9).answer(WORKER, 1)
    teller.put_to("reviewer", Stage.FAN_OUT, WORKER).wait(3_600).decided().end(RunState.COMPLETED)
    picture = drawn(teller)
    assert (picture.folded, picture.longest) == (3_600 * US, 3_600 * US)
    assert {"waits", "folded"} <= picture.marks
    assert 'class="fold-t"' in picture.head
    assert ">1 h<" in picture.head
    assert "waits for reviewer, 1 h" in row(picture, "reader 1").svg
    assert drawn(teller, fold=False).folded == 0


def test_what_goes_on_reaches_to_the_edge():
    going = (
        Teller().start().enter(Stage.FAN_OUT, "reader").ask(WORKER, 1, "reader").wait(40).put_to("owner", Stage.FAN_OUT)
    )
    picture = drawn(going)
    assert f'x1="{GOES_ON:.2f}%"' in picture.head
    bar = re.search(r'class="g-model" x="([\d.]+)%" width="([\d.]+)%"', row(picture, "reader 1").svg)
    assert bar
    assert float(bar[1]) + float(bar[2]) == pytest.approx(RIGHT, abs=0.02)
    assert "waits for owner" in row(picture, "fan-out").svg


def test_a_call_that_is_out_has_the_time_until_its_deadline_ahead():
    """The journal says nothing until it answers: the page's script fills what is dashed, by the server's instants."""
    teller = Teller().start().enter(Stage.FAN_OUT, "reader").ask(WORKER, 1, "reader").wait(6)
    picture = drawn(teller.tell(ev.OwnershipTaken(fence=2, incarnation="w")))
    svg = row(picture, "reader 1").svg
    assert "waits for script, 30 s at most</text>" in svg
    due = (T0 + 30 * US) // 1_000
    assert f'data-start="{T0 // 1_000}" data-due="{due}"' in svg
    solid, dashed = (re.search(rf'class="{css}" x="([\d.]+)%" width="([\d.]+)%"', svg) for css in ("g-model", "g-out"))
    assert solid
    assert dashed
    assert float(solid[1]) + float(solid[2]) == pytest.approx(OUT, abs=0.02)
    assert float(dashed[1]) + float(dashed[2]) == pytest.approx(RIGHT, abs=0.02)
    assert (
        f'data-left="{OUT:g}" data-right="{RIGHT:g}" data-from="{T0 // 1_000 + 6_000}" data-until="{due}"'
        in picture.head
    )
    answered = drawn(teller.answer(WORKER, 1))
    assert "data-until" not in answered.head
    assert "g-out" not in row(answered, "reader 1").svg


def test_a_branch_that_was_stopped_for_its_sister_did_not_fail():
    teller = Teller().start().enter(Stage.FAN_OUT, "reader", "reader").ask("fan_out.1.e0.r0", 1, "reader").wait(1)
    failed = ev.StepFailed(step_id="fan_out.0.e0.r0", cause=Cause.AUTH, message="the key was refused")
    stopped = ev.StepFailed(step_id="fan_out.1.e0.r0", cause=Cause.PARTIAL_FAN_IN, message=UNMET)
    picture = drawn(teller.tell(failed, stopped))
    assert "failed after" in row(picture, "reader 1").told
    assert row(picture, "reader 2").told.endswith("stopped after 1.0 s: its sister failed")
    assert ">stopped: its sister failed</text>" in row(picture, "reader 2").svg


def test_however_much_there_was_the_picture_stays_small():
    teller = Teller().start(36_000).planned().working(60, 40).end(RunState.COMPLETED)
    picture = drawn(teller)
    assert len(teller.events) > 20_000
    assert [one.name for one in picture.rows if one.css == "worker"][-1] == "25 more"
    assert len([one for one in picture.rows if one.css == "worker"]) == ROWS_MAX
    assert all(one.svg.count("<rect") <= BARS_MAX + 3 for one in picture.rows)
    assert picture.merged
    assert sum(len(one.svg) + len(one.told) for one in picture.rows) + len(picture.head) < 500_000
    calls = sum(
        int(n.replace(",", ""))
        for n in re.findall(r"<title>([\d,]+) (?:model|tool) calls", row(picture, "25 more").svg)
    )
    assert calls == 25 * (40 + 39 * 4)


def test_names_that_models_and_people_chose_are_inert():
    hostile = "<script>\u202e"
    teller = Teller().start().enter(Stage.FAN_OUT, "reader").ask(WORKER, 1, "reader", model=hostile).wait(1)
    lane = row(drawn(teller.answer(WORKER, 1)), "reader 1")
    assert "<script>" not in lane.svg
    assert "&lt;script&gt;⟨U+202E⟩" in lane.svg


def test_a_word_stands_behind_what_fired_where_there_is_room():
    teller = Teller().start().enter(Stage.FAN_OUT, "reader").ask(WORKER, 1, "reader").wait(2).fail(WORKER, 1)
    teller.react("retry", "retry_budget", step=WORKER).wait(1).react("surface", "retry_budget", step=WORKER)
    early = row(drawn(teller.wait(4).end(RunState.FAILED)), "reader 1").svg
    assert re.search(
        r'<svg x="[\d.]+%" overflow="visible"><text [^>]*>rate limit ×2 · surface</text></svg></svg>$', early
    )
    late = Teller().start().enter(Stage.FAN_OUT, "reader").ask(WORKER, 1, "reader").wait(9).fail(WORKER, 1)
    late = drawn(late.react("surface", "retry_budget", step=WORKER).end(RunState.FAILED))
    assert "<text" not in row(late, "reader 1").svg


def test_bars_that_are_merged_reach_from_the_first_to_the_end_of_the_longest():
    teller = Teller().start(36_000).enter(Stage.FAN_OUT, "reader")
    for turn in range(1, 101):
        teller.ask(WORKER, turn, "reader").wait(0.5).answer(WORKER, turn).wait(0.5)
    picture = drawn(teller.end(RunState.COMPLETED))
    bars = re.findall(
        r'event=(\d+)"[^>]*><rect class="g-model" x="([\d.]+)%" width="([\d.]+)%".*?<title>([^<]+)',
        row(picture, "reader 1").svg,
    )
    assert len(bars) <= BARS_MAX
    assert sum(int(told.split()[0]) if told[0].isdecimal() else 1 for *_, told in bars) == 100
    ends = [float(x) + float(width) for _, x, width, _ in bars]
    assert all(end <= float(after) + 0.02 for end, (_, after, *_) in zip(ends, bars[1:], strict=False))
    assert [int(seq) for seq, *_ in bars] == sorted(int(seq) for seq, *_ in bars)
    assert bars[0][:2] == ("3", "1.20")
    # Two that stand one after the other are as long as both with the pause between, and no longer than their slot.
    twice = [float(width) for _, _, width, told in bars if told.startswith("2 ")]
    assert twice
    assert max(twice) > 1.2


def test_a_long_bar_that_is_merged_hides_none_of_those_after_it():
    teller = Teller().start(36_000).enter(Stage.FAN_OUT, "reader").ask(WORKER, 101, "reader")
    for turn in range(1, 101):
        teller.ask(WORKER, turn, "reader").wait(0.5).answer(WORKER, turn).wait(0.5)
    picture = drawn(teller.answer(WORKER, 101).end(RunState.COMPLETED))
    bars = re.findall(r'<rect class="g-model" x="([\d.]+)%" width="([\d.]+)%"', row(picture, "reader 1").svg)
    assert len(bars) <= BARS_MAX
    assert float(bars[0][0]) + float(bars[0][1]) <= float(bars[1][0]) + 0.02


def test_a_stage_that_did_not_pass_does_not_look_as_if_it_had():
    teller = Teller().start().planned().enter(Stage.FAN_OUT, "reader").wait(3).end(RunState.ABORTED)
    picture = drawn(teller)
    assert 'class="g-stage-bad"' in row(picture, "fan-out").svg
    assert 'class="g-stage-bad"' not in row(picture, "plan").svg


def labels_of(head: str) -> list[tuple[float, float, str]]:
    """Where the labels of an axis begin and end, percent of the narrowest picture, and what they say."""
    found = re.findall(r'<svg x="([\d.]+)%"[^>]*><text [^>]*text-anchor="(\w+)">([^<]+)</text>', head)
    room = [(float(x), 1.5 * len(text), anchor, text) for x, anchor, text in found]
    return sorted(
        (x, x + width, text) if anchor == "start" else (x - width, x, text) for x, width, anchor, text in room
    )


@pytest.mark.parametrize("waited", [0.0, 45.0, 226.0, 3_600.0, 90_000.0])
@pytest.mark.parametrize("worked", [0.01, 0.4, 5.0, 42.0, 400.0, 5_000.0])
@pytest.mark.parametrize("after", [None, 0.05, 30.0])
def test_labels_of_the_axis_never_lie_on_each_other(worked, waited, after):
    teller = Teller().start(36_000).enter(Stage.FAN_OUT, "reader").ask(WORKER, 1, "reader").wait(worked)
    teller.answer(WORKER, 1).put_to("reviewer", Stage.FAN_OUT, WORKER).wait(waited)
    teller.tell(ev.ReviewReminded(review_id="esc-1", step="reminder"))
    if after is not None:
        teller.decided().ask(WORKER, 2, "reader").wait(after).answer(WORKER, 2).end(RunState.COMPLETED)
    labels = labels_of(drawn(teller).head)
    assert labels
    assert all(left >= 0 and right <= 100 for left, right, _ in labels)
    assert all(one[1] <= other[0] for one, other in pairwise(labels)), labels


def test_a_fold_at_the_end_and_the_end_are_both_told():
    teller = Teller().start(36_000).enter(Stage.FAN_OUT, "reader").ask(WORKER, 1, "reader").wait(0.34)
    teller.answer(WORKER, 1).put_to("reviewer", Stage.FAN_OUT, WORKER).wait(226)
    teller.tell(ev.ReviewReminded(review_id="esc-1", step="reminder"))
    told = [text for _, _, text in labels_of(drawn(teller).head)]
    assert told[-1] == "3 m 46 s"
    assert told[-2] == "340 ms"
    assert "waits for reviewer, not answered yet" in row(drawn(teller), "reader 1").svg
    assert "waits for reviewer" in row(drawn(teller), "reader 1").told


@pytest.mark.parametrize(
    ("seconds", "last"), [(0.084, "84 ms"), (4.8, "4.8 s"), (42, "42.0 s"), (75, "1:15"), (4_000, "1:06:40")]
)
def test_the_axis_counts_in_what_its_length_asks_for(seconds, last):
    teller = Teller().start(36_000).enter(Stage.PLAN, "planner").ask("plan.0.e0.r0", 1, "planner").wait(seconds)
    head = drawn(teller.answer("plan.0.e0.r0", 1).end(RunState.COMPLETED)).head
    labels = re.findall(r"<text [^>]*>([^<]+)</text>", head)
    assert labels[-1] == last
    assert len(labels) == len(set(labels))
