"""Which rung is taken: rungs that cannot apply are passed over with a reason, the gravest of several trips wins (docs/specification/decision-table.md)."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from fabric.core import events as ev
from fabric.core.decision import guard
from fabric.core.ladders import cheaper_model as cheaper
from fabric.core.ladders import fallback_model, ladder, routing, waits
from fabric.core.mechanisms import ORDER
from fabric.core.spec.fabric import FabricSpec
from fabric.core.state import let_pass
from fabric.core.texts.reasons import why_no_sentence
from fabric.core.values.flow import RunState
from fabric.core.values.taxonomy import Cause, Evidence, Tier, Trip
from fabric.runtime.ports.journal import Document
from tests.fabric.core.fabrics import lone, proposal, spec, tree, view
from tests.fabric.core.harness import ran
from tests.fabric.core.scripts import HANGS, asks, call, fails, planned, say, summary


def cell(row: str, *rungs, tier: str = "interactive"):
    made = [{"reaction": rung} if isinstance(rung, str) else {"reaction": rung[0], "times": rung[1]} for rung in rungs]
    return {row: {tier: {"rungs": made}}}


def skips(world):
    return [(fact.reaction, fact.reason) for fact in world.of(ev.RungSkipped)]


# -- rungs that cannot apply -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rung", "reason"),
    [
        ("handover", "no stronger agent or supervisor above the stalled pair is configured"),
        ("fallback_model", "no fallback model is configured"),
        ("cheaper_model", "small names no cheaper model"),
        ("wait_for_breaker", "no circuit breaker refused the call"),
        ("inject", "no blocked call exists to tell the agent about"),
        ("replan", "the plan is fixed, so there is nothing to replan"),
    ],
)
def test_each_says_why_it_was_passed_over(rung, reason):
    table = cell("provider_failure", (rung, 1), "surface")
    world = ran(lone(table=table), {"worker": fails(Cause.SERVER_ERROR)})
    assert skips(world)[0] == (rung, reason)
    assert world.end.state is RunState.FAILED


def reasons_in(module):
    """The texts that a module's functions return, whatever stands in their braces."""
    for node in ast.walk(ast.parse(Path(module.__file__).read_text())):
        if isinstance(node, ast.Return) and node.value is not None:
            for part in ast.walk(node.value):
                if isinstance(part, ast.Constant) and isinstance(part.value, str) and " " in part.value:
                    yield part.value


@pytest.mark.parametrize("module", [ladder, cheaper, fallback_model, routing, waits, let_pass])
def test_no_reason_is_in_words_of_the_engine_alone(module):
    found = list(reasons_in(module))
    assert found, module
    assert {reason: why for reason in found if (why := why_no_sentence(reason))} == {}


def test_a_cause_is_told_in_words():
    table = cell("provider_failure", ("cheaper_model", 1), "surface")
    fabric = tree(roles=(), table=table)
    fabric["models"][0]["cheaper"] = "thrifty"
    fabric["models"].append({"name": "thrifty", "provider": "scripted"})
    world = ran(FabricSpec.model_validate(fabric), {"worker": fails(Cause.SERVER_ERROR)})
    assert skips(world)[0] == ("cheaper_model", "server error would not go away with a cheaper model")


def test_what_is_not_retried_is_not():
    world = ran(lone(table=cell("cost_overrun", ("retry", 3), "abort")), {"worker": fails(Cause.QUOTA)})
    assert skips(world) == [("retry", "quota is not retried")]
    assert (len(world.requests), world.end.state) == (1, RunState.ABORTED)


def test_a_stage_that_failed_without_a_failed_step_has_nothing_to_run_again():
    gates = {"citations": "required"}
    world = ran(lone(gates=gates), documents=(Document("a.md", "x"),))
    assert skips(world) == [("retry", "there is nothing to run again")]


def test_a_rung_that_was_spent_is_no_skip():
    world = ran(lone(), {"worker": fails(Cause.SERVER_ERROR)})
    # Two retries were spent before the fallback was looked at; the second "retry" is the fan-in's, which never was one.
    assert [reaction for reaction, _ in skips(world)] == ["fallback_model", "wait_for_breaker", "retry"]
    assert world.reactions == ["retry", "retry", "surface", "surface"]


def test_an_alert_tells_people_and_asks_no_one():
    table = {"cost_overrun": {"interactive": {"rungs": [{"reaction": "abort", "with": ["alert"]}]}}}
    world = ran(lone(table=table), {"worker": fails(Cause.QUOTA)})
    [alert] = world.of(ev.AlertRaised)
    assert (alert.mechanism, alert.cause, alert.reaction) == ("provider", Cause.QUOTA, "abort")
    assert (skips(world), world.of(ev.ReviewOpened)) == ([], [])


def test_batch_skips_the_cheaper_model_and_aborts():
    world = ran(lone(), {"worker": fails(Cause.QUOTA)}, tier=Tier.BATCH)
    assert skips(world) == [("cheaper_model", "small names no cheaper model")]
    assert world.end.state is RunState.ABORTED


def test_the_last_rung_always_applies_if_need_be_as_its_plainest_form():
    # Terminate needs an agent that can still answer; a stage that is over time has none.
    times = {"interactive": {"call_s": 30, "stage_s": 30, "run_s": 300}}
    fabric = lone(table=cell("cost_overrun", "terminate"), deadlines=times, stall_watchdog={"after_s": 0})
    world = ran(fabric, {"worker": HANGS})
    assert (world.reactions, world.end.state, world.end.reaction) == (["terminate"], RunState.FAILED, "surface")


# -- several rungs, several scopes -----------------------------------------------------------------------------------


def test_injections_are_counted_per_branch():
    turns = {}

    def worker(command):
        turn = turns[command.step_id] = turns.get(command.step_id, 0) + 1
        return summary() if turn == 4 else asks(call(q="x"))

    world = ran(lone(workers=3), {"worker": worker})
    assert world.reactions == ["inject"] * 3
    assert {fact.scope for fact in world.of(ev.ReactionDecided)} == {f"step:fan_out.{n}" for n in range(3)}


def test_replans_are_charged_to_the_stage_that_failed():
    script = {"worker": [*[say("no")] * 4, summary()], "critic": [*[say("no")] * 4, say('{"score": 0.9}')]}
    world = ran(spec(), script, tier=Tier.BATCH)
    assert world.end.state is RunState.COMPLETED
    assert world.run.replans == {"fan_out": 1, "validate": 1}


# -- approvals that cannot simply run a step again -------------------------------------------------------------------


SAME = {"agent": "worker", "title": "Part", "instructions": "Look into the booking and say whether it can be moved."}


def test_approving_a_stage_without_a_failed_step_plans_again():
    world = ran(spec(), {"planner": [planned(briefs=[SAME, SAME]), planned(2)]}, tier=Tier.HIGH_STAKES)
    assert world.of(ev.ReactionDecided)[-1].cause.cause is Cause.BRIEF_REPEATED
    world.decide("approve").go()
    assert (world.end.state, world.run.epoch) == (RunState.COMPLETED, 1)


def test_an_approval_cannot_replan_past_the_limit():
    fabric = spec(limits={"replans_per_stage": 1})
    world = ran(fabric, {"planner": planned(briefs=[SAME, SAME])}, tier=Tier.HIGH_STAKES)
    world.decide("approve").go().decide("approve").go()
    assert world.end.state is RunState.ABORTED
    assert "approved once more, but stage fan-out has used all its replans (limit 1)" in world.end.reason


def test_an_approval_cannot_start_more_agents_than_a_run_may_have():
    fabric = lone(limits={"sub_agents_spawned": 1})
    world = ran(fabric, {"worker": say("no")}, tier=Tier.HIGH_STAKES)
    world.decide("approve").go()
    assert len(world.requests) == 4
    assert world.of(ev.ReactionDecided)[-1].cause.cause is Cause.SUB_AGENT_CAP


# -- the guard -------------------------------------------------------------------------------------------------------


def test_trips_of_several_proposals_are_put_in_guard_order():
    names = [module.NAME for module in ORDER]
    trips = [Trip(name, Cause.UNKNOWN, Evidence(), "") for name in ("provider", *reversed(names))]
    assert [trip.mechanism for trip in guard.in_order(trips)] == [*names, "provider"]


def test_every_protection_is_asked_and_answers_in_guard_order():
    policy = spec(budget={"run_usd_micros": 0}, limits={"turns": 1}).policy
    judged = proposal(kind="model", turn=2, worst_usd_micros=1, timeout_s=30.0)
    trips = guard.judge(judged, view(), policy)
    assert [trip.mechanism for trip in trips] == ["budget", "deadline", "hop_limit"]


def test_equally_grave_trips_go_to_the_mechanism_that_stands_earlier():
    # Call one trips the loop detector, call two the saga, which stands later; both rows are told to abort.
    table = cell("infinite_tool_loop", "abort") | cell("unsafe_output", "abort")
    fabric = lone(tools=("look", "write"), table=table)
    tools = [one.model_copy(update={"effect": "mutating"}) if one.name == "write" else one for one in fabric.tools]
    fabric = fabric.model_copy(update={"tools": tuple(tools)})
    wave = asks(call("write", to="y"), call(q="x"))
    world = ran(fabric, {"worker": [asks(call(q="x")), asks(call(q="x")), wave]})
    decided = world.of(ev.ReactionDecided)[0]
    assert (decided.cause.mechanism, [trip.mechanism for trip in decided.causes]) == ("loop_detector", ["saga"])
