"""Handover: a stronger agent above the stuck ones gets the transcript and the observed cycle (docs/specification/decision-table.md)."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest
from pydantic import ValidationError

from fabric.core import events as ev
from fabric.core.reactions.react import TRANSCRIPT_CHARS
from fabric.core.spec.fabric import FabricSpec
from fabric.core.values.flow import RunState
from fabric.core.values.taxonomy import Cause, Tier
from tests.fabric.core.fabrics import agent, plan, tree
from tests.fabric.core.harness import ran
from tests.fabric.core.scripts import HANGS, Answer, asks, call, gives, planned, scored, summary

TEXT = "Look into the booking of the customer and say whether it can be moved to another day."
TWICE = [{"agent": "worker", "title": "Part", "instructions": TEXT}] * 2
RUNGS = {"rungs": [{"reaction": "handover", "times": 1}, {"reaction": "abort"}]}


def fabric(**fields):
    """A fabric with a lead above its agents."""
    topology = {"handover": "lead", **fields.pop("topology", {})}
    made = tree(topology=topology, table={"semantic_no_progress": {str(tier): RUNGS for tier in Tier}}, **fields)

    made["agents"].append(agent("lead"))
    return FabricSpec.model_validate(made)


def questions():
    numbers = itertools.count()
    return lambda command: asks(call(q=f"question {next(numbers)}"))


def test_a_plan_that_is_stuck_is_planned_by_the_lead():
    world = ran(fabric(), {"planner": planned(briefs=TWICE), "lead": planned(1)}, tier=Tier.BATCH)
    assert world.reactions == ["handover"]
    assert (world.end.state, world.end.recovered) == (RunState.COMPLETED, True)
    [replanned] = world.of(ev.Replanned)
    assert (replanned.planner, replanned.epoch, world.run.planner) == ("lead", 1, "lead")
    assert (world.asked("planner"), world.asked("lead")) == (1, 1)
    told = next(request for request in world.requests if request.agent == "lead").messages[-1].text
    assert "the same brief twice" in told
    assert "The cycle that was seen: planner -> worker." in told
    assert f"planner to worker: Part: {TEXT}" in told


def test_two_calls_that_no_money_is_left_for_are_handed_over_as_one_and_derive():
    """Both speak against the same move: what the journal says of the first holds for the second."""
    table = {
        "cost_overrun": {
            "batch": {"rungs": [*RUNGS["rungs"][:1], {"reaction": "cheaper_model", "times": 1}, {"reaction": "abort"}]}
        }
    }
    made = tree(topology={"handover": "lead"}, table=table)
    made["agents"].append(agent("lead"))
    dear = Answer(lambda c: replace(asks(call(q="a"), call(q="b")).make(c), cost_usd_micros=30_000_000))
    world = ran(FabricSpec.model_validate(made), {"worker": dear}, tier=Tier.BATCH)
    assert world.reactions == ["handover", "abort"]
    assert len(world.of(ev.ReactionDecided)[0].causes) == 1


def test_a_lead_that_does_the_same_ends_the_run():
    world = ran(fabric(), {"planner": planned(briefs=TWICE), "lead": planned(briefs=TWICE)}, tier=Tier.BATCH)
    assert world.reactions == ["handover", "abort"]
    assert (world.end.state, world.end.reaction) == (RunState.ABORTED, "abort")


@pytest.mark.parametrize("tier", [Tier.INTERACTIVE, Tier.HIGH_STAKES])
def test_the_other_tiers_hand_nothing_over_by_default(tier):
    world = ran(fabric(), {"planner": planned(briefs=TWICE), "lead": planned(1)}, tier=tier)
    assert world.reactions == ["abort" if tier is Tier.INTERACTIVE else "escalate"]
    assert world.asked("lead") == 0


def test_a_step_that_is_stuck_is_done_by_the_lead_with_the_transcript():
    script = {"worker": questions(), "look": gives("nothing found"), "lead": summary("Found it.")}
    world = ran(fabric(), script, tier=Tier.BATCH)
    assert world.reactions == ["handover"]
    [opened] = world.of(ev.StepOpened)
    assert (opened.step_id, opened.agent) == ("fan_out.0.e0.r1", "lead")
    told = next(request for request in world.requests if request.agent == "lead").messages[-1].text
    assert "This was handed over to you, for it was stuck: agent" in told
    assert 'worker calls look: {"q":"question 0"}' in told
    assert 'look: {"result":"nothing found"}' in told
    assert (world.end.state, world.end.recovered) == (RunState.COMPLETED, True)
    part = next(c["output"] for c in world.content_of(ev.StageLeft) if isinstance(c["output"], list))[0]
    assert part["agent"] == "worker", "whose part it was, not whose work"


def test_a_long_transcript_is_cut_at_its_beginning():
    script = {"worker": questions(), "look": gives("nothing found " + "x" * TRANSCRIPT_CHARS), "lead": summary()}
    world = ran(fabric(), script, tier=Tier.BATCH)
    told = next(request for request in world.requests if request.agent == "lead").messages[-1].text
    assert "(the beginning is left out)" in told
    assert len(told) < TRANSCRIPT_CHARS + 1_000


def test_where_the_lead_itself_is_stuck_no_agent_is_above_it():
    lead = {"tools": ["look"]}
    made = fabric().model_dump(mode="json")
    made["agents"][-1] |= lead

    rungs = {"rungs": [{"reaction": "handover", "times": 3}, {"reaction": "abort"}]}
    made["decision_table"] = {"semantic_no_progress": {"batch": rungs}}
    world = ran(
        FabricSpec.model_validate(made),
        {"worker": questions(), "lead": questions(), "look": gives("nothing found")},
        tier=Tier.BATCH,
    )
    assert world.reactions == ["handover", "abort"]
    assert [fact.reason for fact in world.of(ev.RungSkipped)] == ["lead does it already"]


def test_a_fixed_plan_and_a_run_out_of_time_are_not_handed_over():
    made = fabric().model_dump(mode="json")
    made["topology"] |= {"planner": None, "plan": plan(1)}
    made["decision_table"] = {
        "cost_overrun": {"batch": RUNGS},
        "schema_grounding_fail": {"batch": RUNGS},
    }
    made["gates"] = {"citations": "exist"}

    made["topology"] |= {"finalizer": None, "aggregator": None}
    world = ran(
        FabricSpec.model_validate(made),
        {"worker": summary("It is.", citations=("missing.md",)), "critic": scored(0.9)},
        tier=Tier.BATCH,
    )
    assert [fact.reason for fact in world.of(ev.RungSkipped)] == ["the plan is fixed, so there is nothing to replan"]
    made["policy"]["deadlines"] = {"batch": {"call_s": 120, "stage_s": 60, "run_s": 600}}
    made["policy"]["stall_watchdog"] = {"after_s": 0}
    hanging = ran(FabricSpec.model_validate(made), {"worker": HANGS}, tier=Tier.BATCH)
    assert "no time is left for another agent" in {fact.reason for fact in hanging.of(ev.RungSkipped)}
    causes = {fact.cause.cause for fact in hanging.of(ev.ReactionDecided)}
    assert causes & {Cause.STAGE_DEADLINE, Cause.DEADLINE_NEAR}


def test_the_lead_is_an_agent_that_answers_in_json():
    made = tree(topology={"handover": "lead"})

    with pytest.raises(ValidationError, match=r"topology.handover: no agent is named 'lead'"):
        FabricSpec.model_validate(made)
    made["agents"].append(agent("lead", answers="text"))
    with pytest.raises(ValidationError, match="topology.handover: 'lead' answers in text"):
        FabricSpec.model_validate(made)
