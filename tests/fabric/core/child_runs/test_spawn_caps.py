"""Sub-agents: 16 alive, 64 spawned a run, 16 a plan (docs/specification/protections.md), over the whole tree of runs; a refusal names the run that it is of."""

from __future__ import annotations

from typing import Any

import pytest

from fabric.core import events as ev
from fabric.core.decision.slices import is_slice
from fabric.core.mechanisms import find_state, hop_limit
from fabric.core.schema.payloads import Plan
from fabric.core.values.flow import RunState, Stage
from fabric.core.values.taxonomy import Cause
from tests.fabric.core.fabrics import plan, spec
from tests.fabric.core.families import Household
from tests.fabric.core.family_member import Member
from tests.fabric.core.family_scenes import ABORTED, household, whole
from tests.fabric.core.harness import ran
from tests.fabric.core.mechanisms.facts import at
from tests.fabric.core.scripts import planned, summary


def tree(inner: int, *, leads: int = 2, asks: bool = False, **limits: int) -> Household:
    """A root with briefs for that many leads, each a run of its own for ``inner`` workers. ``asks``: it asks a planner for so many."""
    made = spec(
        roles=("critic", "finalizer"),
        tools=(),
        limits=limits,
        topology={"plan": plan(leads, "critic"), "workers": ["worker", "critic"], "critic": None, "finalizer": None},
        table={"cost_overrun": ABORTED},
    )
    fixed = {"plan": Plan.model_validate(plan(inner, "worker"))}
    within = made.topology.model_copy(update={"planner": "finalizer", "plan": None} if asks else fixed)
    nested = {"critic": made.model_copy(update={"topology": within})}
    script = {"worker": summary("Found."), "finalizer": planned(inner, agent="worker")}
    return Household(made, script, nested=nested).start()


def started(member: Member) -> int:
    """Agents of fan-outs that a run's journal opened; a slice is none, its briefs have theirs."""
    opened = [agent for fact in member.of(ev.StageEntered) if fact.stage == Stage.FAN_OUT for agent in fact.agents]
    opened += [fact.agent for fact in member.of(ev.StepOpened) if fact.stage == Stage.FAN_OUT]
    return sum(not is_slice(agent) for agent in opened)


def refusals(family: Household) -> list[Any]:
    trips = [fact.cause for child in family.children for fact in child.of(ev.ReactionDecided)]
    return [trip for trip in trips if trip.cause is Cause.SUB_AGENT_CAP]


def test_the_tree_has_room_for_as_many_as_the_root_may_start() -> None:
    # Two leads of eight: three quarters of the other six are theirs, two each.
    family = tree(2, sub_agents_spawned=8).go()
    whole(family)
    assert family.end.state is RunState.COMPLETED
    assert [fact.agents_spawned for fact in family.root.of(ev.ChildSpawned)] == [2, 2]
    assert sum(map(started, family.runs.values())) == 6


def test_no_child_starts_more_than_its_part_whatever_its_own_policy_says() -> None:
    family = tree(3, asks=True, sub_agents_spawned=8).go()
    whole(family)
    assert sum(map(started, family.runs.values())) == 2, "the leads, and none of theirs"
    [refused] = [fact for child in family.children for fact in child.of(ev.ReactionDecided)]
    assert (refused.failure_type, refused.cause.cause) == ("plan_malformed", Cause.PLAN_GATE)
    assert (
        "briefs: 3 of them, and this team, by its part of the whole run's agents, may start 2 more agents "
        "(limits.sub_agents_alive and limits.sub_agents_spawned); hand out fewer"
    ) in refused.cause.message
    assert {request.output for _, request in family.requests} == {"plan"}, "no worker begins"


def test_teams_that_need_more_than_their_part_are_not_begun() -> None:
    family = tree(3, sub_agents_spawned=8).go()
    assert (family.children, family.requests) == ([], [])
    [told] = [fact.cause for fact in family.root.of(ev.ReactionDecided)]
    assert told.cause is Cause.SUB_AGENT_CAP
    assert (told.evidence.limit, told.evidence.observed, told.evidence.unit) == (2, 3, "agents spawned")
    assert "the team of critic starts at least 3 agents" in told.message


def test_agents_at_work_are_counted_over_the_tree_too() -> None:
    assert tree(2, sub_agents_alive=4).go().end.state is RunState.COMPLETED
    family = tree(3, sub_agents_alive=4).go()
    assert {(trip.evidence.limit, trip.evidence.unit) for trip in refusals(family)} == {(2, "agents alive")}


def test_a_refusal_in_a_child_names_its_lineage() -> None:
    family = tree(3, sub_agents_alive=4).go()
    child, told = next(
        (child, fact.cause.evidence) for child in family.children for fact in child.of(ev.ReactionDecided)
    )
    lineage = child.run.family.lineage
    assert lineage is not None
    named = {"run": child.run_id, "parent": "root", "spawned_by": lineage.parent_command, "root": "root"}
    assert {key: told.details[key] for key in named} == named
    assert (told.scope, told.details["depth"]) == ("family", 2)


def test_what_a_child_did_not_start_its_parent_may() -> None:
    family = tree(2, sub_agents_spawned=64).go()
    whole(family)
    given = [fact.agents_spawned for fact in family.root.of(ev.ChildSpawned)]
    back = [fact.agents_back for fact in family.root.of(ev.ChildAnswered)]
    assert back == [one - 2 for one in given]
    assert find_state(family.root.run.guards, hop_limit).spawned == 2 + 2 * 2


def test_slices_start_their_briefs_and_no_more_than_the_family_has() -> None:
    limits = {"plan_branches": 10, "sub_agents_alive": 10, "sub_agents_spawned": 10}
    family = household(10, limits=limits).go()
    whole(family)
    assert family.end.state is RunState.COMPLETED
    assert [fact.agents_spawned for fact in family.root.of(ev.ChildSpawned)] == [3, 3, 4]
    assert sum(map(started, family.runs.values())) == 10


def test_a_child_of_before_counts_as_its_briefs() -> None:
    fact = ev.ChildSpawned(
        command_id="c",
        step_id="s",
        child_id="child",
        purpose="slice",
        briefs=(0, 1, 2),
        depth=2,
        deadline_at=0,
        reserved_usd_micros=0,
    )
    assert hop_limit.observe(hop_limit.State(spawned=1), at(fact)).spawned == 3


@pytest.mark.parametrize("branches", [17, 64, 1_000])
def test_a_planner_that_wants_ever_more_sub_agents_is_stopped_within_ten_requests(branches: int) -> None:
    """misbehaviour.md, row "sub-agents spawning": at most 10 requests, with the defaults."""
    world = ran(spec(), {"planner": planned(branches), "worker": summary("Found.")})
    assert world.run.terminal or world.run.reviews
    assert len(world.requests) <= 10
    assert not any(request.agent == "worker" for request in world.requests)


# -- what a planner is told ------------------------------------------------------------------------------------------


def told(world: Any) -> str:
    return next(request.messages[1].text for request in world.requests if request.output == "plan")


@pytest.mark.parametrize(
    ("limits", "said"),
    [
        ({}, "at most 16 briefs, each for one of these workers by name. 16 agents may still be started."),
        ({"sub_agents_spawned": 5}, "at most 5 briefs, each for one of these workers by name. 5 agents may still"),
        ({"plan_branches": 3}, "at most 3 briefs, each for one of these workers by name. 16 agents may still"),
        ({"sub_agents_alive": 1}, "at most 1 brief, each for one of these workers by name. 1 agent may still"),
    ],
)
def test_a_planner_is_told_how_many_briefs_it_may_hand_out_and_how_many_agents_are_left(limits, said) -> None:
    assert said in told(ran(spec(limits=limits), {"planner": planned(1)}))


@pytest.mark.parametrize(
    ("limits", "said"),
    [
        ({"plan_branches": 2}, "briefs: 3 of them, at most 2 are allowed (limits.plan_branches)"),
        (
            {"sub_agents_alive": 2},
            "briefs: 3 of them, and this run may start 2 more agents (limits.sub_agents_alive and limits.sub_agents_spawned); hand out fewer",
        ),
    ],
)
def test_a_plan_with_too_many_briefs_costs_a_correction_and_is_then_a_malformed_plan(limits, said) -> None:
    world = ran(spec(limits=limits), {"planner": [planned(3), planned(2)]})
    assert (world.end.state, world.reactions, world.asked("planner")) == (RunState.COMPLETED, [], 2)
    assert world.of(ev.ModelAnswered)[0].problems == (said,)
    stubborn = ran(spec(limits=limits), {"planner": planned(3)})
    [decided] = stubborn.of(ev.ReactionDecided)
    assert (decided.failure_type, stubborn.asked("planner"), stubborn.asked("worker")) == ("plan_malformed", 3, 0)
    assert said in stubborn.end.reason


def test_a_hierarchy_of_exactly_the_allowed_depth_works() -> None:
    assert tree(2, recursion=2).go().end.state is RunState.COMPLETED
    family = tree(2, recursion=1).go()
    assert (family.children, family.requests) == ([], [])
    assert family.root.of(ev.ReactionDecided)[0].cause.cause is Cause.RECURSION_LIMIT
    assert ran(spec(limits={"recursion": 1})).end.state is RunState.COMPLETED
