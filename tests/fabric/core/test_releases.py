"""An approval of an unsafe output lets exactly the shown bytes pass (semantics.md 4 "Human waits"): nothing else, once more judged by nothing, and never for another role."""

from __future__ import annotations

import pytest

from fabric.core import events as ev
from fabric.core.flow import RunState, Stage
from fabric.core.taxonomy import Tier
from tests.fabric.core.fabrics import spec
from tests.fabric.core.harness import ran
from tests.fabric.core.scripts import planned, summary

KEY = "ghp_" + "k7Qw9Zr2" * 4 + "Tt5m"
LEAK = summary(f"The key is {KEY}.")


def guarded(*places, role=None, **fields):
    group = {"places": list(places or ("finalize",)), "rules": ["credentials"]}
    if role:
        rungs = [{"reaction": "escalate", "with": ["block"], "role": role}]
        fields["table"] = {"unsafe_output": {"high_stakes": {"rungs": rungs}}}
    return spec(gates={"guardrails": [group]}, **fields)


def asked_about(fabric, script):
    return ran(fabric, script, tier=Tier.HIGH_STAKES)


def test_what_is_shown_is_what_goes_on_and_no_model_is_asked_again():
    world = asked_about(guarded(), {"finalizer": LEAK})
    shown = world.content_of(ev.EscalationOpened)[0]
    assert shown["payload"]["text"] == f"The key is {KEY}."
    assert world.question.fact.required_role == "safety"
    world.decide("approve").go()
    assert (world.end.state, world.outcome["text"], world.asked("finalizer")) == (
        RunState.COMPLETED,
        shown["payload"]["text"],
        1,
    )


@pytest.mark.parametrize("role", ["reviewer", "finance"])
def test_it_needs_the_safety_role_whomever_the_cell_names(role):
    world = asked_about(guarded(role=role), {"finalizer": LEAK})
    assert world.question.fact.required_role == "safety"


def test_nothing_leaves_where_nobody_approves():
    world = asked_about(guarded(), {"finalizer": LEAK}).decide("reject", message="No.").go()
    assert world.end.state is RunState.ABORTED
    assert KEY not in str(world.outcome)


def test_the_same_bytes_are_let_pass_at_a_later_gate_that_finds_the_same_in_them():
    world = asked_about(
        guarded("fan_in", "validate", "finalize", roles=("planner", "aggregator")), {"aggregator": LEAK}
    )
    world.decide("approve").go()
    assert (world.end.state, len(world.of(ev.EscalationOpened))) == (RunState.COMPLETED, 1)


def test_any_other_byte_asks_again():
    leaks = {"aggregator": LEAK, "finalizer": summary(f"The key is {KEY}!")}
    world = asked_about(guarded("fan_in", "finalize"), leaks).decide("approve").go()
    assert [one.stage for one in world.of(ev.EscalationOpened)] == [Stage.FAN_IN, Stage.FINALIZE]
    assert world.run.terminal is False


def test_what_else_is_found_in_the_same_bytes_asks_again():
    groups = [
        {"places": ["fan_in"], "rules": ["credentials"]},
        {"places": ["finalize"], "rules": ["credentials"], "patterns": [{"name": "own", "pattern": "key"}]},
    ]
    fabric = spec(gates={"guardrails": groups}, roles=("planner", "aggregator"))
    world = asked_about(fabric, {"aggregator": LEAK}).decide("approve").go()
    assert [one.stage for one in world.of(ev.EscalationOpened)] == [Stage.FAN_IN, Stage.FINALIZE]


def test_of_a_fan_out_each_branch_is_let_pass_by_itself():
    script = {"planner": planned(2), "worker": LEAK}
    world = asked_about(guarded("fan_out"), script)
    assert world.content_of(ev.EscalationOpened)[0]["payload"]["text"] == f"The key is {KEY}."
    world.decide("approve").go()
    assert (world.end.state, world.asked("worker")) == (RunState.COMPLETED, 2)


def test_branches_that_say_different_things_are_each_asked_about():
    script = {"planner": planned(2), "worker": [LEAK, summary(f"Another: {KEY}.")]}
    world = asked_about(guarded("fan_out"), script).decide("approve").go()
    assert len(world.of(ev.EscalationOpened)) == 2
    world.decide("approve").go()
    assert world.end.state is RunState.COMPLETED


def test_an_answer_about_other_bytes_lets_nothing_pass():
    world = asked_about(guarded(), {"finalizer": LEAK}).decide("approve", digest="0" * 32).go()
    assert [one.kind for one in world.facts][-1] != "run_ended"
    assert not world.run.released


def test_a_process_that_dies_after_the_approval_changes_nothing():
    world = asked_about(guarded(), {"finalizer": LEAK})
    world.decide("approve").crash().go()
    assert world.end.state is RunState.COMPLETED
