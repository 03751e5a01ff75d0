"""Cedar policies in runs: asked before each call, spawn, stage and output; what none permits, and what cannot be evaluated, is denied (docs/specification/stages.md)."""

from __future__ import annotations

import pytest

from fabric.core import events as ev
from fabric.core.state.context import compile_spec
from fabric.core.values.flow import RunState, Stage
from fabric.core.values.taxonomy import Cause, FailureType, Tier
from tests.fabric.core.fabrics import lone, spec
from tests.fabric.core.harness import ran
from tests.fabric.core.scripts import asks, call, fails, gives, scored, summary

PERMIT = {"name": "everything", "text": "permit(principal, action, resource);"}


def under(*texts, permit=True):
    """Gates with those policies, named one by one."""
    named = [{"name": f"own-{n}", "text": text} for n, text in enumerate(texts)]
    return {"gates": {"policies": [*([PERMIT] if permit else []), *named]}}


def forbidding(action, when="true", resource="resource"):
    return under(f'forbid(principal, action == Action::"{action}", {resource}) when {{ {when} }};')


def cause_of(world):
    decided = world.of(ev.ReactionDecided)
    return decided[0].cause if decided else None


ONE_CALL = {"worker": [asks(call(q="who", n=4)), summary()]}


# -- calls -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("when", "denied"),
    [
        ("context.args.n > 3", True),
        ("context.args.n > 4", False),
        ('context.args.q == "who"', True),
        ("context.args has secret", False),
        ('principal == Agent::"worker" && resource == Tool::"look"', True),
        ('principal.model == "small" && resource.effect == "read_only"', True),
        (
            'context.tier == "interactive" && context.stage == "fan_out" && context.epoch == 0 && context.depth == 1',
            True,
        ),
        ('context.fabric == "sample" && context.workspace == "workspace-1"', True),
        ('context.workspace == "other"', False),
    ],
)
def test_a_call_is_judged_by_who_what_and_the_facts_of_the_run(when, denied):
    world = ran(lone(**forbidding("tool", when)), ONE_CALL)
    assert len(world.executed) == (not denied)
    assert [one.mechanism for one in world.of(ev.CallRefused)] == ["policy"] * denied


def test_a_denial_takes_the_unsafe_row_and_names_the_policies_that_decided():
    world = ran(lone(**forbidding("tool")), ONE_CALL)
    (decided,) = world.of(ev.ReactionDecided)[:1]
    assert (decided.failure_type, decided.accompanies) == (FailureType.UNSAFE_OUTPUT, ("block",))
    assert decided.cause.cause is Cause.POLICY_DENIED
    assert decided.cause.evidence.details == {"action": "tool", "policies": ["own-0"]}
    assert decided.cause.message == "calling look was denied: own-0 forbids it"
    assert world.end.state is RunState.FAILED


@pytest.mark.parametrize(
    ("tier", "reaction"), [(Tier.INTERACTIVE, "safe_fallback"), (Tier.BATCH, "halt"), (Tier.HIGH_STAKES, "escalate")]
)
def test_each_tiers_cell_decides_what_follows(tier, reaction):
    assert ran(lone(**forbidding("tool")), ONE_CALL, tier=tier).reactions[0] == reaction


def test_what_no_policy_permits_is_denied():
    fabric = under('permit(principal, action, resource) unless { action == Action::"tool" };', permit=False)
    world = ran(lone(**fabric), ONE_CALL)
    assert world.executed == []
    assert cause_of(world).message == "calling look was denied: no policy permits it"
    assert cause_of(world).evidence.details["policies"] == []


def test_an_error_in_evaluation_denies_though_another_policy_permits():
    """Cedar itself passes over a forbid that fails; here it denies."""
    world = ran(lone(**forbidding("tool", "context.args.missing == 1")), ONE_CALL)
    assert world.executed == []
    assert cause_of(world).message == (
        "calling look was denied: own-0 could not be evaluated: record does not have the attribute missing"
    )
    assert cause_of(world).evidence.details["policies"] == ["own-0"]


@pytest.mark.parametrize("args", [{"q": {"__entity": {"type": "Agent", "id": "boss"}}}, {"__extn": 1}])
def test_arguments_that_policies_cannot_be_asked_about_are_denied(args):
    world = ran(lone(**under()), {"worker": [asks(call(**args)), summary()]})
    assert world.executed == []
    assert cause_of(world).cause is Cause.POLICY_DENIED


def test_a_policy_says_nothing_of_what_the_arguments_held():
    world = ran(
        lone(**forbidding("tool", "ip(context.args.q).isLoopback()")), {"worker": [asks(call(q="hunter2")), summary()]}
    )
    assert world.executed == []
    assert "hunter2" not in str(world.facts)


def test_a_retry_of_a_call_is_the_call_that_was_permitted():

    script = {"worker": [asks(call(q="who")), summary()], "look": [fails(), gives()]}
    world = ran(lone(**under()), script)
    assert (world.end.state, len(world.executed)) == (RunState.COMPLETED, 2)


# -- spawns and stages -------------------------------------------------------------------------------------------------


def test_a_spawn_is_the_planners_and_judged_for_each_agent():
    fabric = spec(**forbidding("spawn", 'principal == Agent::"planner"', 'resource == Agent::"worker"'))
    world = ran(fabric)
    assert world.asked("worker") == 0
    assert cause_of(world).message == "starting its agents was denied: own-0 forbids it"
    assert cause_of(world).evidence.details == {"action": "spawn", "policies": ["own-0"]}


def test_under_a_fixed_plan_the_engine_spawns():
    fabric = lone(**forbidding("spawn", 'principal == Engine::"engine" && context.branches > 2'), workers=3)
    assert ran(fabric).asked("worker") == 0
    two = lone(**forbidding("spawn", 'principal == Engine::"engine" && context.branches > 2'), workers=2)
    assert ran(two).end.state is RunState.COMPLETED


@pytest.mark.parametrize("stage", list(Stage))
def test_a_stage_that_may_not_be_entered_fails_its_pre_gate_in_its_place(stage):
    world = ran(spec(**forbidding("enter", resource=f'resource == Stage::"{stage}"')))
    (gate,) = [one.gate for one in world.of(ev.StageEntered) if one.stage is stage][:1]
    assert [(check.name, check.result) for check in gate.checks][:3] == [
        ("schema", "passed"),
        ("policy", "failed"),
        ("budget", "not_reached"),
    ]
    assert (gate.cause, gate.checks[1].policies) == (Cause.POLICY_DENIED, ("own-0",))
    assert cause_of(world).evidence.details["policies"] == ["own-0"]
    assert world.end.state is RunState.FAILED


# -- outputs -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("stage", "who"),
    [("plan", "planner"), ("fan_in", "aggregator"), ("finalize", "finalizer")],
)
def test_an_output_is_its_agents_and_judged_after_the_schema(stage, who):
    when = "context.payload has goal" if stage == "plan" else "context.payload has text"
    fabric = spec(**forbidding("output", f'principal == Agent::"{who}" && {when}', f'resource == Stage::"{stage}"'))
    world = ran(fabric)
    assert cause_of(world).cause is Cause.POLICY_DENIED
    assert cause_of(world).evidence.details["check"] == "policy"
    assert cause_of(world).evidence.details["policies"] == ["own-0"]
    assert "own-0 forbids it" in cause_of(world).message


def test_what_is_validated_is_the_engines_and_not_its_critics():
    when = 'principal == Agent::"critic"'
    assert ran(spec(**forbidding("output", when)), {"critic": scored(0.9)}).end.state is RunState.COMPLETED
    engine = forbidding("output", 'principal == Engine::"engine"', 'resource == Stage::"validate"')
    assert cause_of(ran(spec(**engine))).cause is Cause.POLICY_DENIED


def test_of_a_fan_out_the_branch_fails_whose_output_is_denied():
    fabric = lone(
        workers=3,
        fan_in={"mode": "best_effort"},
        **forbidding("output", 'context.payload.text like "Two*"', 'resource == Stage::"fan_out"'),
    )
    world = ran(fabric, {"worker": [summary("One."), summary("Two."), summary("Three.")]})
    assert world.end.state is RunState.COMPLETED
    assert [(f.step_id, f.cause) for f in world.of(ev.StepFailed)] == [("fan_out.1.e0.r0", Cause.POLICY_DENIED)]
    assert "Two." not in str(world.outcome)


def test_a_gate_that_passes_names_who_permitted_it():
    world = ran(spec(**under()))
    assert world.end.state is RunState.COMPLETED
    entered, left = world.of(ev.StageEntered), world.of(ev.StageLeft)
    assert {check.policies for one in entered for check in one.gate.checks if check.name == "policy"} == {
        ("everything",)
    }
    permitted = {one.stage: check.policies for one in left for check in one.gate.checks if check.name == "policy"}
    assert permitted.pop(Stage.FAN_OUT) == (), "its branches are judged one by one"
    assert set(permitted.values()) == {("everything",)}


def test_what_may_not_be_passed_on_is_no_partial_result_either():
    fabric = spec(**forbidding("output", "context.payload has text", 'resource == Stage::"finalize"'))
    world = ran(fabric)
    assert (world.end.state, world.outcome) == (RunState.FAILED, None)


# -- compiled or refused -----------------------------------------------------------------------------------------------


def test_policies_that_were_not_compiled_never_pass():
    with pytest.raises(ValueError, match=r"gates\.policies is not compiled"):
        compile_spec(lone(**under()), prices={})


def test_policies_are_part_of_the_digest():
    assert spec(**under()).digest() != spec().digest()
