"""Preset ``fabro``: what becomes of a node that has no attempt left: a partial success, an edge, a retry target, the run's failure (docs/specification/retries.md; S1)."""

from __future__ import annotations

from typing import Any

import pytest

from fabric.core import events as ev
from fabric.core.spec.fabric import FabricSpec
from fabric.core.values.flow import RunState, Stage
from fabric.core.values.taxonomy import Cause, Tier
from fabric.core.values.units import JSON
from tests.fabric.core.fabrics import lone, spec
from tests.fabric.core.family_scenes import household, whole
from tests.fabric.core.harness import ran
from tests.fabric.core.ladders.test_ladder import skips
from tests.fabric.core.scripts import HANGS, fails, planned, summary
from tests.fabric.core.spec.test_retry_layers import CALLS, DOWN, FREE, acted, layers, one

# -- allow_partial -----------------------------------------------------------------------------------------------------


def partial(**fields: JSON) -> FabricSpec:
    return one({"retry_policy": "none", "allow_partial": True}, workers=2, **fields)


def test_exhausted_retries_become_a_gap_and_the_run_a_partial_success():
    world = ran(partial(), {"worker": [DOWN, summary("Two."), DOWN, DOWN, DOWN]})
    assert world.end.state is RunState.COMPLETED
    assert (world.end.partial, world.end.reason) == (
        True,
        "finished as a partial success, with 1 of the branches missing",
    )
    assert acted(world) == [*CALLS, ("node_retries", "accept_partial")]
    assert [(fact.step_id, fact.partial) for fact in world.of(ev.StepFailed)] == [("fan_out.0.e0.r0", True)]
    assert "503" in world.outcome["gaps"][0]


def test_a_fan_out_of_which_nothing_came_back_is_no_success():
    world = ran(partial(), {"worker": DOWN})
    assert world.end.state is RunState.FAILED
    assert [fact.partial for fact in world.of(ev.StepFailed)] == [True, True]
    assert world.of(ev.ReactionDecided)[-1].cause.cause is Cause.PARTIAL_FAN_IN


def test_a_branch_that_failed_for_good_is_no_exhausted_retry():
    world = ran(partial(), {"worker": [fails(Cause.AUTH), summary()]})
    assert world.end.state is RunState.FAILED
    assert not any(fact.partial for fact in world.of(ev.StepFailed))


def test_an_accepted_gap_beside_a_branch_that_failed_for_good_does_not_make_up_for_it():
    world = ran(
        one({"retry_policy": "none", "allow_partial": True}, workers=3),
        {"worker": [DOWN, fails(Cause.AUTH), summary(), DOWN, DOWN, DOWN]},
    )
    assert world.end.state is RunState.FAILED


def test_a_goal_is_met_by_a_stage_that_is_a_partial_success():
    world = ran(partial(goal_gates={"nodes": ["fan_out"]}), {"worker": [DOWN, summary(), DOWN, DOWN, DOWN]})
    assert world.end.state is RunState.COMPLETED


# -- 4. edge routing ---------------------------------------------------------------------------------------------------


ABOVE = {"roles": ("planner", "handover"), "agents": {"handover": {}}}


def routed(edges: JSON, **fields: JSON) -> FabricSpec:
    said = {"retry_policy": "none", "edges": edges}
    return spec(**ABOVE, retry=FREE, retry_layers=layers({"fan_out": said}, **fields.pop("fabric", {})), **fields)


def test_an_edge_for_its_class_hands_the_node_to_the_agent_above():
    world = ran(
        routed([{"failure_class": "transient_infra", "to": "handover"}]),
        {"planner": planned(), "worker": DOWN, "handover": summary()},
    )
    assert world.end.state is RunState.COMPLETED
    assert acted(world) == [*CALLS, ("edge_routing", "handover")]
    assert world.of(ev.StepOpened)[0].agent == "handover"


def test_an_edge_for_another_class_is_passed_over_with_its_reason():
    world = ran(
        routed([{"failure_class": "deterministic", "to": "handover"}]),
        {"planner": planned(), "worker": DOWN, "handover": summary()},
    )
    assert skips(world) == [
        ("wait_for_breaker", "no circuit breaker refused the call"),
        ("handover", "the edge is for deterministic, and this is transient_infra"),
    ]
    # The branch is over; that its stage lacks it is a failure of that class, and planning is what goes up.
    assert acted(world)[3:5] == [("run_failure", "surface"), ("edge_routing", "handover")]
    assert world.of(ev.Replanned)[0].planner == "handover"


def test_a_failure_that_does_not_go_away_by_itself_may_be_routed_elsewhere():
    world = ran(
        routed([{"failure_class": "deterministic", "to": "handover"}]),
        {"planner": planned(), "worker": fails(Cause.AUTH), "handover": summary()},
    )
    assert (world.end.state, acted(world)) == (RunState.COMPLETED, [("edge_routing", "handover")])


def test_a_stage_s_edges_come_before_the_fabric_s():
    world = ran(
        routed([{"to": "handover"}], fabric={"edges": [{"to": "replan"}]}),
        {"planner": planned(), "worker": DOWN, "handover": DOWN},
    )
    found = [one for one in acted(world) if one[0] == "edge_routing"]
    assert found[:2] == [("edge_routing", "handover"), ("edge_routing", "replan")]


def test_a_budget_trip_is_never_routed_by_edge_in_high_stakes():
    edges = [{"failure_class": "budget_exhausted", "to": "replan"}]
    for tier, layer in ((Tier.BATCH, "edge_routing"), (Tier.HIGH_STAKES, "run_failure")):
        world = ran(routed(edges), {"planner": planned(), "worker": fails(Cause.CONTEXT_LENGTH)}, tier=tier)
        assert acted(world)[0][0] == layer


# -- 5. retry target, 6. run failure -----------------------------------------------------------------------------------


def test_the_retry_target_is_taken_when_no_edge_took_it_and_recovers():
    fabric = {"retry_target": "replan"}
    world = ran(
        routed([{"failure_class": "deterministic", "to": "handover"}], fabric=fabric),
        {"planner": planned(), "worker": [DOWN] * 4 + [summary()], "handover": summary()},
    )
    assert (world.end.state, acted(world)) == (RunState.COMPLETED, [*CALLS, ("retry_target", "replan")])
    assert world.run.epoch == 1


def test_node_target_then_node_fallback_then_the_fabric_s_then_its_fallback():
    both = {"retry_target": "handover", "fallback_retry_target": "replan"}
    told = one({}).policy.retry_layers
    assert told.targets_of(Stage.PLAN) == ()
    said = spec(
        **ABOVE, retry_layers=layers({"fan_out": {"fallback_retry_target": "handover"}}, retry_target="replan")
    ).policy.retry_layers
    assert said.targets_of(Stage.FAN_OUT) == ("handover", "replan")
    assert said.targets_of(Stage.PLAN) == ("replan",)
    world = ran(
        spec(**ABOVE, retry=FREE, retry_layers=layers({"fan_out": {"retry_policy": "none", **both}})),
        {"planner": planned(), "worker": DOWN, "handover": DOWN},
    )
    found = [reaction for layer, reaction in acted(world) if layer == "retry_target"]
    assert found == ["handover", "replan", "replan"]
    assert acted(world)[-1] == ("run_failure", "surface")


@pytest.mark.parametrize(
    ("tier", "reaction"), [(Tier.INTERACTIVE, "surface"), (Tier.BATCH, "escalate"), (Tier.HIGH_STAKES, "escalate")]
)
def test_the_run_s_failure_is_what_its_cell_ends_with(tier, reaction):
    world = ran(one({"retry_policy": "none"}), {"worker": DOWN}, tier=tier)
    assert ("run_failure", reaction) in acted(world)


def test_what_has_no_layers_is_the_cell_s_alone():
    world = ran(one(), {"worker": HANGS}, tier=Tier.BATCH)
    assert {layer for layer, _ in acted(world)} <= {"call_retries", "node_retries", "run_failure"}


def test_a_rung_of_no_layer_names_none():
    assert {fact.layer for fact in ran(lone(), {"worker": DOWN}).of(ev.ReactionDecided)} == {""}


# -- of a fan-out that is cut into slices --


def sliced(**fields: JSON) -> JSON:
    node = {"retry_policy": "none", "allow_partial": True}
    return {"retry_layers": layers({"fan_out": node}), "retry": FREE, **fields}


def by_part(**said: Any) -> Any:
    """Return what is said to the n-th brief, ``part_N``, in the order in which they go out; to all others that something was found."""
    keys: list[str] = []

    def answer(command: Any) -> Any:
        if command.idempotency_key not in keys:
            keys.append(command.idempotency_key)
        return said.get(f"part_{keys.index(command.idempotency_key) + 1}", summary())

    return answer


def test_a_slice_goes_on_without_what_may_be_missing_and_its_parent_says_so():
    family = household(10, {"worker": by_part(part_2=DOWN, part_9=DOWN)}, **sliced()).go()
    whole(family)
    assert family.end.state is RunState.COMPLETED
    assert (family.end.partial, family.end.reason) == (
        True,
        "finished as a partial success, with 2 of the branches missing",
    )
    assert len(family.children) == 3
    assert [len(one.of(ev.StepFailed)) for one in family.children] == [1, 0, 1]
    assert all(fact.partial for one in family.children for fact in one.of(ev.StepFailed))
    assert sorted(fact.missing for fact in family.root.of(ev.ChildAnswered)) == [(), (1,), (8,)]
    assert ["503" in gap for gap in family.root.outcome["gaps"]] == [True, True]
    passed = family.root.content(family.root.run.stages[Stage.FAN_OUT].output_ref)["output"]
    assert [part["branch"] for part in passed if part.get("accepted")] == [1, 8]


def test_what_failed_for_good_in_a_slice_is_missed_whatever_gap_is_accepted_beside_it():
    family = household(10, {"worker": by_part(part_2=DOWN, part_3=fails(Cause.AUTH))}, **sliced()).go()
    whole(family)
    assert family.end.state is not RunState.COMPLETED
    assert any(fact.cause.cause is Cause.PARTIAL_FAN_IN for fact in family.root.of(ev.ReactionDecided))


def test_slices_of_which_nothing_came_back_are_no_success():
    family = household(10, {"worker": DOWN}, **sliced()).go()
    whole(family)
    assert family.end.state is not RunState.COMPLETED
    assert family.root.of(ev.ReactionDecided)[-1].cause.cause is Cause.PARTIAL_FAN_IN


def test_without_the_word_a_gap_in_a_slice_is_one_too_many():
    family = household(
        10, {"worker": by_part(part_2=DOWN)}, retry_layers=layers({"fan_out": {"retry_policy": "none"}}), retry=FREE
    ).go()
    whole(family)
    assert family.end.state is not RunState.COMPLETED
