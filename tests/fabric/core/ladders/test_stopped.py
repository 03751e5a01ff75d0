"""Honest ends: what hands over the work of a stopped agent ends as stopped, and nothing else does (docs/specification/decision-table.md)."""

from __future__ import annotations

from fabric.core import events as ev
from fabric.core.values.flow import ANSWERED, TERMINAL, RunState
from tests.fabric.core.fabrics import lone
from tests.fabric.core.families import Household
from tests.fabric.core.family_scenes import whole
from tests.fabric.core.harness import World, ran
from tests.fabric.core.scripts import asks, call, summary
from tests.fabric.core.stages.test_forks import forked
from tests.fabric.core.topologies.fabrics import hierarchy, under

LOOPS = [asks(call(q="x")) for _ in range(4)]
TEAM = hierarchy(
    under("analyst", "reader", aggregator="chief"),
    {"analyst": under("reader", "counter", aggregator="analyst")},
    limits={"turns": 1},
)


def stopped() -> World:
    """No person answers whether the call may go on, so that the agent answers with what it has."""
    return ran(lone(), {"worker": [*LOOPS, summary("What I have.")]}).wait(300)


def test_a_stopped_agents_answer_is_an_outcome_and_no_success():
    end = stopped().end
    assert (end.state, end.truncated, end.recovered, end.partial) == (RunState.STOPPED, True, False, False)
    assert end.state in ANSWERED
    assert end.state in TERMINAL


def test_the_reason_names_the_call_the_count_the_limit_and_what_was_kept():
    reason = stopped().end.reason
    for part in ("worker", "look", 'look({"q":"x"})', "3 times", "limit", "answered with the 2 results that it had"):
        assert part in reason, reason


def test_one_result_is_no_plural_and_none_is_said():
    one = ran(lone(limits={"turns": 1}), {"worker": [asks(call(q="x")), summary("Late.")]})
    assert one.end.reason.endswith("answered with the 1 result that it had")
    none = ran(lone(limits={"turns": 1}), {"worker": [asks(call("nothing", q="x")), summary("Late.")]})
    assert none.end.reason.endswith("answered with what it had, without any result of a tool")


def test_two_stopped_agents_are_counted():
    turns: dict[str, int] = {}

    def worker(command):
        turn = turns[command.step_id] = turns.get(command.step_id, 0) + 1
        return summary(command.step_id) if turn == 5 else asks(call(q="x"))

    end = ran(lone(workers=2), {"worker": worker}).wait(300).end
    assert end.state is RunState.STOPPED
    assert end.reason.endswith("; 1 other agent was stopped too")


def test_a_teams_stopped_run_is_seen_in_its_parent():
    script = {
        "analyst": summary("The market."),
        "chief": summary("All of it."),
    }
    many = asks(call("nothing"))
    family = (
        Household(TEAM, {**script, "reader": summary("Read."), "counter": [many, summary("Counted.")]}).start().go()
    )
    whole(family)
    assert {member.run.state for member in family.runs.values()} == {RunState.STOPPED}
    [told] = family.root.of(ev.ChildAnswered)
    assert (told.state, told.missing, told.cause) == (RunState.STOPPED, (), None)
    assert "was stopped early" in family.end.reason
    assert "agent counter has used up its turns" in family.end.reason


def test_a_fork_that_keeps_a_stopped_agents_work_is_stopped_too():
    origin = stopped()
    seq = next(one.seq for one in origin.events if isinstance(one.fact, ev.StageLeft) and one.fact.stage == "fan_out")
    world = forked(origin, seq).go()
    assert (world.end.state, world.end.reason) == (RunState.STOPPED, origin.end.reason)


def test_a_fork_that_does_the_work_anew_completes():
    origin = stopped()
    seq = next(one.seq for one in origin.events if isinstance(one.fact, ev.ToolsStripped))
    world = forked(origin, seq, script={"worker": summary("At once.")}).go()
    assert world.end.state is RunState.COMPLETED
