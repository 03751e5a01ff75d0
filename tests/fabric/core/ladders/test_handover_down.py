"""The engine hands over what is stuck below: a team to the agent above its lead, a branch of a slice within it."""

from __future__ import annotations

from typing import Any

from fabric.core import events as ev
from fabric.core.schema.payloads import Plan
from fabric.core.spec.fabric import FabricSpec
from fabric.core.values.flow import RunState
from fabric.core.values.taxonomy import Tier
from tests.fabric.core.fabrics import plan, spec
from tests.fabric.core.families import Household
from tests.fabric.core.family_scenes import BLOCKED, ROOM, cut, once_bad, whole
from tests.fabric.core.harness import ran
from tests.fabric.core.scripts import HANGS, planned, summary

HANDED = {tier: {"rungs": [{"reaction": "handover", "times": 1}, {"reaction": "abort"}]} for tier in Tier}


def with_lead(**more: Any) -> tuple[FabricSpec, FabricSpec]:
    """Two levels with an agent above the root's leads, and none above their workers."""
    made = spec(
        roles=("aggregator", "critic"),
        tools=(),
        limits=ROOM,
        topology={"plan": plan(2, "critic"), "workers": ["worker", "critic"], "critic": None, "handover": "aggregator"},
        table={"unsafe_output": HANDED},
        **more,
    )
    below = {"plan": Plan.model_validate(plan(2, "worker")), "handover": None}
    return made, made.model_copy(update={"topology": made.topology.model_copy(update=below)})


def test_a_team_that_is_stuck_is_handed_over_to_the_agent_above_its_lead() -> None:
    outer, inner = with_lead()
    script = {"worker": once_bad(1, BLOCKED, summary("Found.")), "aggregator": summary("By the agent above.")}
    family = Household(outer, script, nested={"critic": inner}).start().go()
    whole(family)
    assert family.end.state is RunState.COMPLETED
    [decided] = family.root.of(ev.ReactionDecided)
    assert (decided.reaction, decided.cause.mechanism) == ("handover", "child")
    failed = next(child for child in family.children if child.run.state is not RunState.COMPLETED)
    assert [fact.reaction for fact in failed.of(ev.ReactionDecided)] == ["abort"], "no agent is above there"
    [step] = [fact for fact in family.root.of(ev.StepOpened) if fact.round == 1]
    [spawned] = [fact for fact in family.root.of(ev.ChildSpawned) if fact.child_id == failed.run_id]
    assert (step.agent, f"fan_out.{step.branch}.") == ("aggregator", spawned.step_id[: len("fan_out.0.")])
    told = next(request for run_id, request in family.requests if run_id == "root" and request.agent == "aggregator")
    assert any(failed.run_id in str(message) for message in told.messages)
    assert len(family.children) == 2, "no run of its own takes its place"


def test_it_is_handed_over_once_and_then_the_cell_goes_on() -> None:
    outer, inner = with_lead()
    family = Household(outer, {"worker": BLOCKED, "aggregator": BLOCKED}, nested={"critic": inner}).start().go()
    whole(family)
    assert [fact.reaction for fact in family.root.of(ev.ReactionDecided)][:2] == ["handover", "abort"]


def test_a_slice_hands_over_what_is_stuck_in_it_by_itself() -> None:
    made = cut(10, table={"unsafe_output": HANDED})
    made = made.model_copy(update={"topology": made.topology.model_copy(update={"handover": "aggregator"})})
    script = {"planner": planned(10), "worker": once_bad(1, BLOCKED, summary("Found.")), "aggregator": summary()}
    family = Household(made, script).start().go()
    whole(family)
    assert family.root.of(ev.ReactionDecided) == []
    assert [fact.reaction for child in family.children for fact in child.of(ev.ReactionDecided)] == ["handover"]


def test_who_starts_again_takes_the_place_of_who_was_at_work_and_is_no_more_at_once() -> None:
    """With as many at work as may be, one that failed is tried again beside the others that still are."""
    made = spec(
        roles=("planner",),
        tools=(),
        limits={"sub_agents_alive": 2},
        table={"unsafe_output": HANDED},
        topology={"handover": "planner"},
    )
    script = {"planner": [planned(2), summary("Found.")], "worker": [BLOCKED, HANGS]}
    world = ran(made, script)
    assert world.of(ev.ReactionDecided)[0].reaction == "handover"
    assert [fact.agent for fact in world.of(ev.StepOpened) if fact.stage == "fan_out"] == ["planner"]


def test_a_slice_that_failed_as_a_whole_is_taken_over_by_no_agent() -> None:
    made = cut(10, table={"unsafe_output": HANDED})
    made = made.model_copy(update={"topology": made.topology.model_copy(update={"handover": "aggregator"})})
    family = Household(made, {"planner": planned(10), "worker": BLOCKED, "aggregator": BLOCKED}).start().go()
    whole(family)
    assert [fact.reaction for fact in family.root.of(ev.ReactionDecided)] == ["abort"]
    assert family.root.of(ev.RungSkipped)[0].reason.startswith("a child run does it")


def test_the_agent_that_takes_over_hears_what_the_team_had_come_to() -> None:
    outer, inner = with_lead()
    inner = inner.model_copy(update={"topology": inner.topology.model_copy(update={"finalizer": "critic"})})
    script: dict[str, Any] = {
        "worker": summary("Found."),
        "critic": [BLOCKED, summary("Else.")],
        "aggregator": summary("Merged."),
    }
    family = Household(outer, script, nested={"critic": inner}).start().go()
    whole(family)
    told = [message for run, request in family.requests if run == "root" for message in request.messages]
    assert any("the team of critic: Merged." in str(message) for message in told)
