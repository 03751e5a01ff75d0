"""Limits allow N and refuse N+1 (docs/specification/README.md)."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from fabric.core import events as ev
from fabric.core.mechanisms import hop_limit
from fabric.core.spec.policies.limits import Limits
from fabric.core.state.run import Run, Step, StepStatus
from fabric.core.values.flow import RunState, Stage
from fabric.core.values.taxonomy import PASS, Cause, Tier
from tests.fabric.core.fabrics import proposal, spec, view
from tests.fabric.core.harness import ran
from tests.fabric.core.mechanisms.facts import at, entered
from tests.fabric.core.scripts import summary

LIMITS = Limits()


def check(state=None, *, run=None, **fields):
    return hop_limit.check(LIMITS, state or hop_limit.State(), proposal(**fields), view(run))


def test_the_defaults_are_those_of_the_document():
    assert (LIMITS.hops, LIMITS.recursion, LIMITS.turns, LIMITS.calls_per_turn) == (5, 8, 25, 16)
    assert (LIMITS.sub_agents_alive, LIMITS.sub_agents_spawned, LIMITS.plan_branches) == (16, 64, 16)
    assert (LIMITS.replans_per_stage, LIMITS.corrections_per_step) == (2, 3)


@pytest.mark.parametrize("limit", [1, 5, 7])
def test_the_sixth_handoff_trips_and_the_fifth_does_not(limit):
    state = hop_limit.State()
    for hop in range(1, limit + 2):
        verdict = hop_limit.check(Limits(hops=limit), state, proposal(kind="handoff"), view())
        if hop <= limit:
            assert verdict is PASS
            state = hop_limit.observe(state, at(ev.HandedOff(step_id="s", from_agent="a", to_agent="b")))
    assert (verdict.cause, verdict.evidence.limit, verdict.evidence.observed) == (Cause.HOP_LIMIT, limit, limit + 1)


@pytest.mark.parametrize("kind", ["nest", "spawn"])
def test_the_ninth_level_trips_and_the_eighth_does_not(kind):
    assert check(kind=kind, depth=8) is PASS
    verdict = check(kind=kind, depth=9)
    assert (verdict.cause, verdict.evidence.limit, verdict.evidence.observed) == (Cause.RECURSION_LIMIT, 8, 9)
    assert verdict.message == "teams may reach level 8, and this one would be on level 9"


def test_the_26th_turn_trips_and_the_25th_does_not():
    assert check(kind="model", turn=25) is PASS
    verdict = check(kind="model", turn=26)
    assert (verdict.cause, verdict.evidence.observed, verdict.advice) == (Cause.TURN_LIMIT, 26, hop_limit.STEERING)


def test_the_one_last_answer_passes_the_turn_limit():
    assert check(kind="model", turn=26, final=True) is PASS


def working(count: int, status: StepStatus = "active", stage: Stage = Stage.FAN_OUT) -> Run:
    steps = {f"{stage}.{n}": Step(f"{stage}.{n}", stage, n, 0, 0, "worker", status=status) for n in range(count)}
    return Run("run", steps=steps)


def test_the_17th_agent_at_once_trips_and_the_16th_does_not():
    assert check(kind="spawn", branches=16) is PASS
    assert check(kind="spawn", branches=17).cause is Cause.SUB_AGENT_CAP
    assert check(kind="spawn", branches=1, run=working(15)) is PASS
    verdict = check(kind="spawn", branches=1, run=working(16))
    assert (verdict.evidence.unit, verdict.evidence.observed) == ("agents alive", 17)


def test_only_agents_at_work_in_the_fan_out_count_as_alive():
    assert check(kind="spawn", branches=16, run=working(9, "done")) is PASS
    assert check(kind="spawn", branches=16, run=working(9, stage=Stage.PLAN)) is PASS


def test_the_65th_agent_of_a_run_trips_and_the_64th_does_not():
    state = hop_limit.State()
    for _ in range(3):
        state = hop_limit.observe(state, at(entered(Stage.FAN_OUT, agents=("worker",) * 16)))
    assert state.spawned == 48
    assert check(state, kind="spawn", branches=16) is PASS
    state = hop_limit.observe(state, at(entered(Stage.FAN_OUT, agents=("worker",))))
    verdict = check(state, kind="spawn", branches=16)
    assert (verdict.evidence.unit, verdict.evidence.observed, verdict.evidence.limit) == ("agents spawned", 65, 64)
    assert verdict.evidence.details["branches"] == 16


def test_an_agent_that_is_run_once_more_counts_and_other_stages_do_not():
    again = ev.StepOpened(step_id="fan_out.0.e0.r1", stage=Stage.FAN_OUT, branch=0, agent="worker", round=1)
    state = hop_limit.observe(hop_limit.State(), at(again))
    assert state.spawned == 1
    assert hop_limit.observe(state, at(entered(Stage.PLAN, agents=("planner",)))).spawned == 1


@pytest.mark.parametrize(("promised", "trips"), [(0, False), (2, False), (3, True)])
def test_agents_that_were_let_start_and_have_no_run_yet_count(promised, trips):
    verdict = check(hop_limit.State(spawned=60), kind="spawn", branches=2, promised=promised)
    assert (verdict is not PASS) is trips
    alive = check(kind="spawn", branches=2, promised=promised, run=working(12))
    assert (alive is not PASS) is trips


# -- visits ----------------------------------------------------------------------------------------------------------


def visited(times: int, limits: Limits, stage: Stage = Stage.PLAN, **fields):
    state = hop_limit.State()
    for _ in range(times):
        state = hop_limit.observe(state, at(entered(stage)))
    return hop_limit.check(limits, state, proposal(kind="visit", stage=stage, step_id="", **fields), view())


@pytest.mark.parametrize(
    ("limits", "dry_run", "allowed"),
    [
        ({}, False, None),
        ({}, True, 10),
        ({"max_node_visits": 4}, False, 4),
        ({"max_node_visits": 4}, True, 4),
        ({"max_node_visits": 20, "max_visits": {"plan": 3}}, False, 3),
        ({"max_visits": {"plan": 12}}, True, 12),
        ({"max_visits": {"fan_out": 1}}, False, None),
        ({"max_node_visits": 4, "visits_preset": "fabro"}, False, 3),
    ],
    ids=[
        "off",
        "dry run",
        "graph",
        "graph beats dry run",
        "node beats graph",
        "node beats dry run",
        "another",
        "fabro",
    ],
)
def test_a_node_beats_its_graph_which_beats_a_dry_run(limits, dry_run, allowed):
    config = Limits.model_validate(limits)
    assert hop_limit.visits_allowed(config, "plan", dry_run=dry_run) == allowed
    if allowed is None:
        assert visited(1_000, config, dry_run=dry_run) is PASS
        return
    assert visited(allowed - 1, config, dry_run=dry_run) is PASS
    verdict = visited(allowed, config, dry_run=dry_run)
    assert (verdict.cause, verdict.evidence.limit, verdict.evidence.observed) == (
        Cause.VISIT_LIMIT,
        allowed,
        allowed + 1,
    )
    assert verdict.message == f"stage plan has been reached as often as it may be in one run (limit {allowed})"


def test_a_limit_for_what_is_no_stage_is_refused():
    with pytest.raises(ValidationError, match=r"max_visits.teleport"):
        Limits.model_validate({"max_visits": {"teleport": 1}})


def bad_then_good(tier: Tier, **limits):
    """A finalizer whose answer cites what is not there, three times: the run comes back to its stages."""
    fabric = spec(gates={"citations": "exist"}, limits=limits)
    wrong = summary("It is.", citations=("missing.md",))
    return ran(fabric, {"finalizer": [wrong, wrong, summary()]}, tier=tier)


def test_a_stage_that_is_entered_too_often_takes_the_row_of_the_loop():
    assert bad_then_good(Tier.BATCH).end.state is RunState.COMPLETED
    world = bad_then_good(Tier.BATCH, max_node_visits=1)
    decided = world.of(ev.ReactionDecided)
    assert [fact.reaction for fact in decided] == ["replan", "replan", "abort"]
    assert [fact.cause.cause for fact in decided[1:]] == [Cause.VISIT_LIMIT, Cause.VISIT_LIMIT]
    assert {fact.reason for fact in world.of(ev.RungSkipped)} == {
        "a limit is reached, and telling the agent does not raise it",
        "there is no call that a person could allow",
    }
    assert world.end.state is RunState.ABORTED
    assert world.asked("planner") == 1, "nothing was asked in a stage that may not be entered"


def test_in_high_stakes_a_person_is_asked():
    table = {"schema_grounding_fail": {"high_stakes": {"rungs": [{"reaction": "replan", "times": 1}, {"reaction": "escalate"}]}}}  # fmt: skip
    fabric = spec(gates={"citations": "exist"}, limits={"max_visits": {"fan_in": 1}}, table=table)
    world = ran(fabric, {"finalizer": summary("It is.", citations=("missing.md",))}, tier=Tier.HIGH_STAKES)
    assert world.reactions == ["replan", "escalate"]
    assert world.review.fact.stage is Stage.FAN_IN
    world.decide("reject").go()
    assert world.end.state is RunState.ABORTED
