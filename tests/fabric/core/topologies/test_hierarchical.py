"""Hierarchical: a supervisor whose workers lead teams, each a run of its own within its parent's budget (docs/specification/topologies.md)."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from fabric.core import events as ev
from fabric.core.mechanisms import find_state, hop_limit
from fabric.core.spec.fabric import FabricSpec
from fabric.core.values.flow import RunState
from fabric.core.values.taxonomy import Cause, FailureType, Tier
from tests.fabric.core.families import Household
from tests.fabric.core.family_scenes import whole
from tests.fabric.core.scripts import fails, planned, summary
from tests.fabric.core.topologies.fabrics import briefs, duty, hierarchy, under

SAYS = {
    "reader": summary("A reader's work."),
    "counter": summary("A counter's work."),
    "analyst": summary("The market, in all."),
    "chief": summary("All of it."),
}


def research(**fields):
    """A chief over an analyst, who leads two, and over a reader."""
    outer = under("analyst", "reader", aggregator="chief")
    return hierarchy(outer, {"analyst": under("reader", "counter", aggregator="analyst")}, **fields)


def lived(spec, script=None, tier=Tier.INTERACTIVE):
    family = Household(spec, {**SAYS, **(script or {})}, tier=tier).start().go()
    whole(family)
    return family


def asked(family):
    return sorted((family.runs[run_id].run.topology, request.agent) for run_id, request in family.requests)


def test_a_lead_is_a_run_of_its_team_and_every_other_worker_works_itself():
    family = lived(research())
    assert family.end.state is RunState.COMPLETED
    assert asked(family) == [
        ("", "chief"),
        ("", "reader"),
        ("analyst", "analyst"),
        ("analyst", "counter"),
        ("analyst", "reader"),
    ]
    merged = next(one for run_id, one in family.requests if one.agent == "chief")
    assert "## Part 1 (analyst)\nThe market, in all." in merged.messages[1].text
    assert family.root.outcome["text"] == "All of it."


def test_a_team_is_given_its_brief_and_the_request_above_it():
    family = lived(research())
    told = next(one for run_id, one in family.requests if run_id != "root" and one.agent == "reader")
    assert "What is it?\n\nYour part: Part 1\nDo part 1." in told.messages[1].text


def test_a_lead_may_be_the_planner_of_its_team():
    def analyst(command):
        if command.output != "plan":
            return SAYS["analyst"]
        plan = briefs("counter", "reader")
        return planned(briefs=plan["briefs"], exit_criteria=plan["exit_criteria"])

    inner = under("reader", "counter", planner="analyst", aggregator="analyst")
    spec = hierarchy(under("analyst", "reader", aggregator="chief"), {"analyst": inner})
    family = lived(spec, {"analyst": analyst})
    assert family.end.state is RunState.COMPLETED
    asked_to_plan = next(one for _, one in family.requests if one.output == "plan")
    assert "- reader: Work as reader.\n- counter: Work as counter." in asked_to_plan.messages[1].text


def test_teams_lead_to_teams_by_name_down_to_any_depth():
    inner = {"a": under("b"), "b": under("c"), "c": under("reader")}
    family = lived(hierarchy(under("a"), inner))
    assert family.end.state is RunState.COMPLETED
    assert sorted((child.run.depth, child.run.topology) for child in family.children) == [(2, "a"), (3, "b"), (4, "c")]


def test_a_team_may_be_a_procedure():
    steps = {"kind": "sop", "workers": ["reader", "counter"]}
    steps["procedure"] = [duty("reader", "Read"), duty("counter", "Count"), duty("reader", "Write")]
    family = lived(hierarchy(under("analyst"), {"analyst": steps}))
    assert family.end.state is RunState.COMPLETED
    [child] = family.children
    assert [fact.agent for fact in child.of(ev.TurnOpened)] == ["reader", "counter", "reader"]


# -- money -----------------------------------------------------------------------------------------------------------


def reserved(family):
    return {family.runs[fact.child_id].run.topology: fact for fact in family.root.of(ev.ChildSpawned)}


def test_a_team_has_a_share_of_what_is_left_above_it_or_its_own_cap_where_that_is_less():
    # Of 10,000,000 the two briefs' shares are three quarters of each half of it, by what is left.
    two = {"analyst": under("reader"), "counter": under("reader")}
    family = lived(hierarchy(under("analyst", "counter"), two, caps={"counter": {"run_usd_micros": 5_000}}))
    held = reserved(family)
    assert held["analyst"].reserved_usd_micros == 3_750_000
    assert held["counter"].reserved_usd_micros == 5_000


def test_a_team_is_stopped_at_its_own_cap_and_says_so():
    # A request is 50 tokens at one micro-dollar, an answer at most 100 at two: the second does not fit into 400.
    spec = hierarchy(
        under("analyst"),
        {"analyst": under("reader", "reader", plan=("reader", "reader", "reader"))},
        caps={"analyst": {"run_usd_micros": 1_500}},
    )
    family = lived(spec, tier=Tier.BATCH)
    [child] = family.children
    assert child.spent <= 1_500
    tripped = [fact.cause.cause for fact in child.of(ev.ReactionDecided)]
    assert Cause.BUDGET_GATE in tripped
    above = [fact for fact in family.root.of(ev.ReactionDecided) if fact.failure_type is FailureType.COST_OVERRUN]
    assert above, "its parent decides about it by its own table"
    assert family.root.run.state is not RunState.COMPLETED


def test_a_team_has_its_own_cap_of_tokens():
    spec = hierarchy(under("analyst"), {"analyst": under("reader")}, caps={"analyst": {"run_tokens": 10}})
    family = lived(spec)
    [child] = family.children
    assert (child.spent, family.requests) == (0, [])
    assert "tokens" in child.run.reason


# -- agents ----------------------------------------------------------------------------------------------------------


def endless(depth, wide=2):
    """Supervisors of supervisors, each of whom plans for the next one, ``wide`` times."""
    leads = [f"lead{n}" for n in range(depth)]
    below = [*leads[1:], "reader"]
    teams = {lead: under(worker, planner=lead) for lead, worker in zip(leads, below, strict=True)}
    script = {lead: planned(wide, agent=worker) for lead, worker in zip(leads, below, strict=True)}
    return hierarchy(under(leads[0], planner="chief"), teams), {**script, "chief": planned(wide, agent=leads[0])}


@pytest.mark.parametrize("depth", [5, 6, 7])
@pytest.mark.parametrize("wide", [2, 3, 8, 16])
def test_supervisors_that_plan_for_supervisors_are_stopped_within_ten_requests(depth, wide):
    """misbehaviour.md, row "sub-agents spawning", with the default caps."""
    family = lived(*endless(depth, wide))
    assert len(family.requests) <= 10
    assert {one.output for _, one in family.requests} == {"plan"}, "no worker was spawned"
    trips = [fact.cause for member in family.runs.values() for fact in member.of(ev.ReactionDecided)]
    assert {trip.cause for trip in trips} <= {Cause.SUB_AGENT_CAP, Cause.PLAN_GATE, Cause.PARTIAL_FAN_IN}
    assert family.root.run.state is not RunState.COMPLETED
    refusals = [trip for trip in trips if trip.mechanism == hop_limit.NAME]
    assert all(
        trip.evidence.details["root" if trip.evidence.scope == "family" else "run"] == "root" for trip in refusals
    )


@pytest.mark.parametrize("depth", [1, 2, 3, 7])
def test_no_more_teams_are_planned_than_can_have_two_agents_at_work(depth):
    family = lived(*endless(depth, 16))
    assert len(family.requests) == 3, "the same plan, twice corrected"
    [decided] = family.root.of(ev.ReactionDecided)
    assert decided.failure_type == "plan_malformed"
    assert (
        "briefs: 16 of them leave the team of lead0 a single agent at work (16 agents may work at once, limits.sub_agents_alive); hand out fewer"
    ) in family.root.run.reason


@pytest.mark.parametrize("wide", [8, 16])
def test_a_whole_tree_that_plans_too_much_leaves_one_follow_up(wide):
    family = lived(*endless(2, wide), tier=Tier.HIGH_STAKES)
    asked = [(member.run_id, fact.item) for member in family.runs.values() for fact in member.of(ev.ReviewOpened)]
    assert asked == [("root", "follow_up")]


@pytest.mark.parametrize(("spawned", "begins"), [(8, True), (7, False)])
def test_a_plan_is_not_handed_out_where_a_team_could_not_start_whom_it_needs(spawned, begins):
    # Of eight, two are the plan's; three quarters of the other six are for two briefs, two each, and the analyst's team needs two.
    family = lived(research(limits={"sub_agents_spawned": spawned}))
    assert (family.end.state is RunState.COMPLETED) is begins
    assert bool(family.requests) is begins
    assert [fact.cause.evidence.observed for fact in family.root.of(ev.ReactionDecided)] == ([] if begins else [2])


def test_those_who_were_started_below_are_counted_above():
    family = lived(research())
    assert find_state(family.root.run.guards, hop_limit).spawned == 4


# -- failures --------------------------------------------------------------------------------------------------------


def test_a_team_that_fails_meets_the_table_above_it_under_its_own_cause():
    family = lived(research(), {"counter": fails(Cause.AUTH, "the key was refused")})
    assert family.end.state is RunState.FAILED
    up = family.root.of(ev.ReactionDecided)[0]
    assert up.failure_type is FailureType.SCHEMA_GROUNDING, "its last decision was about what was missing in its fan-in"
    assert "the key was refused" in up.cause.message


def test_a_goal_is_its_own_teams_where_one_of_its_workers_is_the_goal():
    policy = {"fan_in": {"mode": "best_effort"}, "goal_gates": {"nodes": ["counter"]}}
    family = lived(research(**policy), {"counter": fails(Cause.BAD_REQUEST, "no")})
    [child] = family.children
    assert child.run.state is not RunState.COMPLETED
    assert "a goal was not reached: counter brought no result" in child.run.reason
    assert not any(
        "goal gate" in fact.cause.message and "given no part" in fact.cause.message
        for fact in family.root.of(ev.ReactionDecided)
    )


def test_the_finished_outcome_is_the_fabrics_and_no_team_is_asked_about_it():
    family = lived(
        research(
            gates={
                "oracle": [{"name": "long", "expression": "size(outcome.text) > 100", "message": "It is too short."}]
            }
        )
    )
    [child] = family.children
    assert child.run.state is RunState.COMPLETED
    assert "It is too short." in family.end.reason


# -- refused ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("outer", "teams", "sentence"),
    [
        (("a",), {"a": under("b"), "b": under("a")}, r"topology.teams.a: the team leads back to itself \(a -> b -> a\)"),
        (("a",), {"a": under("a", "b")}, r"topology.teams.a: the team leads back to itself \(a -> a\)"),
        (("a",), {"b": under("c")}, "topology.teams.b: 'b' is a worker of neither the fabric nor a team"),
        (
            ("a",),
            {"a": under("b", plan=("c",))},
            "topology.teams.a.topology.plan.briefs.0.agent: 'c' is not one of the workers",
        ),
        (
            ("a",),
            {"a": {"kind": "sop", "workers": ["b"], "procedure": [duty("b", "It")]}, "b": under("c")},
            "topology.teams.a.topology.workers.0: 'b' leads a team, and a team hears nothing of the turns before it",
        ),
    ],
)  # fmt: skip
def test_teams_that_cannot_be_led_are_refused_with_their_path(outer, teams, sentence):
    with pytest.raises(ValidationError, match=sentence):
        hierarchy(under(*outer), teams)


def test_unknown_names_are_told_with_their_path():
    spec = research().model_dump(mode="json", by_alias=True)
    spec["topology"]["teams"]["analyst"]["topology"]["workers"] = ["reader", "ghost", "counter"]
    with pytest.raises(ValidationError, match=r"topology.teams.analyst.topology.workers.1: no agent is named 'ghost'"):
        FabricSpec.model_validate(spec)


def test_a_team_without_members_is_no_team():
    with pytest.raises(ValidationError, match="teams"):
        hierarchy(under("a"), {})
