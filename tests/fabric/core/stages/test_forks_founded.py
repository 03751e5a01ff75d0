"""Forks of runs whose answers are compared with what tools answered: that is taken over with what rests on it (docs/specification/gates.md)."""

from __future__ import annotations

import pytest

from fabric.core import events as ev
from fabric.core.state.kept_work import answer_name, answer_named
from fabric.core.values.flow import RunState, Stage
from tests.fabric.core.fabrics import spec
from tests.fabric.core.harness import World
from tests.fabric.core.scripts import asks, call, gives, planned, summary
from tests.fabric.core.stages.test_forks import entered_at, forked, forks_at
from tests.fabric.core.stages.test_judge_runs import ACCEPTS, GROUNDED, judged, prompts_of

LOOKS = {
    "planner": [planned(2), planned(2)],
    "worker": [asks(), asks(), summary("It was 4711."), summary("It was 4711.")],
    "look": gives({"total": 4711}),
    "aggregator": summary("All in all 4711."),
    "finalizer": summary("4711."),
}


def ended(gates, script, **fields):
    world = World(spec(gates=gates, **fields), script).start().go()
    assert world.end.state is RunState.COMPLETED
    return world


def kept(world):
    return [one.what for one in world.of(ev.ContentKept) if answer_named(one.what)]


def test_from_any_event_an_answer_rests_on_what_it_rested_on_in_the_origin():
    first = ended({"grounding": "numbers"}, LOOKS)
    for seq in forks_at(first):
        world = forked(first, seq, LOOKS).go()
        assert (world.end.state, world.outcome) == (first.end.state, first.outcome), f"from event {seq}"


def test_unanswered_calls_are_founded_in_nothing_in_a_fork_either():
    first = ended({"grounding": "numbers"}, LOOKS)
    script = LOOKS | {"aggregator": summary("All in all 4712.")}
    world = forked(first, entered_at(first, Stage.FAN_IN), script).go()
    assert world.end.state is RunState.FAILED
    assert "4712 is in no source" in world.end.reason


def test_a_calculation_is_its_value_in_a_fork_too():
    answer = gives({"expression": "1250 * 12", "value": "15000", "exact": True})
    script = LOOKS | {
        "planner": planned(1),
        "worker": [asks(), asks(call("calculator", expression="1250 * 12")), summary("Much.")],
        "look": gives({"a month": 1250}),
        "calculator": answer,
        "aggregator": summary("15,000 a year."),
        "finalizer": summary("15,000 a year."),
    }
    first = ended({"grounding": "numbers"}, script, tools=("look", "calculator"))
    at = entered_at(first, Stage.FAN_IN)
    assert forked(first, at, script).go().outcome == first.outcome
    made_up = script | {"aggregator": summary("It was 12.")}
    assert forked(first, at, made_up).go().end.state is RunState.FAILED, "what was asked to be calculated is no source"


def test_a_fork_of_a_fork_takes_over_what_that_took_over():
    first = ended({"grounding": "numbers"}, LOOKS)
    second = forked(first, entered_at(first, Stage.FAN_IN), LOOKS).go()
    third = forked(second, entered_at(second, Stage.FINALIZE), LOOKS).go()
    assert third.end.state is RunState.COMPLETED
    assert kept(third) == kept(second) != []


def test_a_branch_that_is_not_kept_leaves_nothing():
    first = ended({"grounding": "numbers"}, LOOKS)
    told = [one.seq for one in first.events if isinstance(one.fact, ev.ToolAnswered)]
    assert kept(forked(first, told[-1], LOOKS).go()) == []


def test_what_was_answered_before_it_planned_anew_founds_nothing():
    rungs = {"rungs": [{"reaction": "replan", "times": 1}, {"reaction": "surface"}]}
    first = ended({"grounding": "numbers"}, LOOKS, table={"schema_grounding_fail": {"interactive": rungs}})
    again = {
        **LOOKS,
        "planner": planned(1),
        "worker": summary("I did not look."),
        "aggregator": [summary("It was 4712."), summary("All in all 4711.")],
    }
    world = forked(first, entered_at(first, Stage.FAN_IN), again).go()
    assert (world.run.epoch, world.end.state) == (1, RunState.FAILED)
    assert "4711 is in no source" in world.end.reason


def test_a_judge_of_grounding_reads_what_tools_had_answered():
    script = {"worker": [asks(), summary("It was 4711.")], "look": gives({"total": 4711}), "judge": ACCEPTS}
    first = World(judged(gates=GROUNDED), script).start().go()
    assert first.end.state is RunState.COMPLETED
    world = forked(first, entered_at(first, Stage.FINALIZE), script).go()
    assert '{"total":4711}' in prompts_of(world, "judge")[-1]


@pytest.mark.parametrize("gates", [{}, {"citations": "exist"}])
def test_where_nothing_is_held_against_them_nothing_is_taken_over(gates):
    first = ended(gates, LOOKS)
    assert kept(forked(first, entered_at(first, Stage.FAN_IN), LOOKS).go()) == []


def test_a_kept_answer_is_called_by_where_it_stood():
    assert answer_named(answer_name(Stage.FAN_OUT, "look", "0123456789abcdef")) == (Stage.FAN_OUT, "look")
    for other in ("fan_out", "branch 1", "branch 1, part 2"):
        assert answer_named(other) is None
