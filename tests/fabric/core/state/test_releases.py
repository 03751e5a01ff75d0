"""An approval of an unsafe output lets exactly the shown bytes pass (docs/specification/reviews.md): nothing else, once more judged by nothing, and never for another role."""

from __future__ import annotations

import json

import pytest

from fabric.core import events as ev
from fabric.core.state import let_pass
from fabric.core.values.flow import RunState, Stage
from fabric.core.values.taxonomy import Tier
from tests.fabric.core.fabrics import spec
from tests.fabric.core.family_scenes import household, once_bad, whole
from tests.fabric.core.harness import ran
from tests.fabric.core.scripts import planned, say, summary

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
    shown = world.content_of(ev.ReviewOpened)[0]
    assert shown["payload"]["text"] == f"The key is {KEY}."
    assert world.review.fact.required_role == "safety"
    world.decide("approve").go()
    assert (world.end.state, world.outcome["text"], world.asked("finalizer")) == (
        RunState.COMPLETED,
        shown["payload"]["text"],
        1,
    )


@pytest.mark.parametrize("role", ["reviewer", "finance"])
def test_it_needs_the_safety_role_whomever_the_cell_names(role):
    world = asked_about(guarded(role=role), {"finalizer": LEAK})
    assert world.review.fact.required_role == "safety"


def test_nothing_leaves_without_approval():
    world = asked_about(guarded(), {"finalizer": LEAK}).decide("reject", message="No.").go()
    assert world.end.state is RunState.ABORTED
    assert KEY not in str(world.outcome)


def test_the_same_bytes_are_let_pass_at_a_later_gate_that_finds_the_same_in_them():
    world = asked_about(
        guarded("fan_in", "validate", "finalize", roles=("planner", "aggregator")), {"aggregator": LEAK}
    )
    world.decide("approve").go()
    assert (world.end.state, len(world.of(ev.ReviewOpened))) == (RunState.COMPLETED, 1)


def test_any_other_byte_asks_again():
    leaks = {"aggregator": LEAK, "finalizer": summary(f"The key is {KEY}!")}
    world = asked_about(guarded("fan_in", "finalize"), leaks).decide("approve").go()
    assert [one.stage for one in world.of(ev.ReviewOpened)] == [Stage.FAN_IN, Stage.FINALIZE]
    assert world.run.terminal is False


def test_what_else_is_found_in_the_same_bytes_asks_again():
    groups = [
        {"places": ["fan_in"], "rules": ["credentials"]},
        {"places": ["finalize"], "rules": ["credentials"], "patterns": [{"name": "own", "pattern": "key"}]},
    ]
    fabric = spec(gates={"guardrails": groups}, roles=("planner", "aggregator"))
    world = asked_about(fabric, {"aggregator": LEAK}).decide("approve").go()
    assert [one.stage for one in world.of(ev.ReviewOpened)] == [Stage.FAN_IN, Stage.FINALIZE]


def test_of_a_fan_out_each_branch_is_let_pass_by_itself():
    script = {"planner": planned(2), "worker": LEAK}
    world = asked_about(guarded("fan_out"), script)
    assert world.content_of(ev.ReviewOpened)[0]["payload"]["text"] == f"The key is {KEY}."
    world.decide("approve").go()
    assert (world.end.state, world.asked("worker")) == (RunState.COMPLETED, 2)


def test_branches_that_say_different_things_are_each_asked_about():
    script = {"planner": planned(2), "worker": [LEAK, summary(f"Another: {KEY}.")]}
    world = asked_about(guarded("fan_out"), script).decide("approve").go()
    assert len(world.of(ev.ReviewOpened)) == 2
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


def test_nor_does_one_that_dies_before_it_whatever_order_the_model_wrote_in():
    """Findings stand in the order of what was looked at: that of the bytes, not of the answer."""
    written = json.dumps({"text": f"The key is {KEY}.", "citations": [f"{KEY}.md"]})
    world = asked_about(guarded("fan_in", roles=("planner", "aggregator")), {"aggregator": say(written)})
    assert len(world.of(ev.ReviewOpened)[0].reason.split(";")) > 1, "there is an order"
    world.crash().go()
    world.decide("approve").go()
    assert (world.end.state, len(world.of(ev.ReviewOpened))) == (RunState.COMPLETED, 1)


# -- what a child's person let pass ----------------------------------------------------------------------------------

ASK = {"unsafe_output": {"high_stakes": {"rungs": [{"reaction": "escalate", "with": ["block"], "role": "safety"}]}}}


def sliced(worker, **gates):
    group = {"places": ["fan_out"], "rules": ["credentials"]}
    family = household(10, {"worker": worker}, gates={"guardrails": [group], **gates}, table=ASK, tier=Tier.HIGH_STAKES)
    return family.go(until=asking)


def asking(family):
    return [one.run_id for one in family.runs.values() if one.run.reviews]


def test_one_decision_about_what_a_child_said_holds_in_its_parent_too():
    family = sliced(once_bad(1, LEAK, summary("Found.")))
    [child] = asking(family)
    assert child != "root"
    family.decide(child, "approve")
    whole(family)
    assert family.end.state is RunState.COMPLETED
    assert sum(len(one.of(ev.ReviewOpened)) for one in family.runs.values()) == 1
    [review] = family.runs[child].of(ev.ReviewOpened)
    told = {fact.child_id: fact.released for fact in family.root.of(ev.ChildAnswered)}
    assert told == {one.run_id: ((review.releases,) if one.run_id == child else ()) for one in family.children}
    assert family.root.run.released == (review.releases,)


def in_turn(*said):
    """Return what the whole family's workers say, one after another; then that something was found."""
    left = list(said)
    return lambda command: left.pop(0) if left else summary("Found.")


def test_other_bytes_of_another_child_are_asked_about_all_the_same():
    found = summary("Found.")
    family = sliced(in_turn(LEAK, found, found, found, summary(f"The key is {KEY}!")))
    asked = []
    while not family.root.run.terminal:
        asked += (child := asking(family)[0],)
        family.decide(child, "approve", until=lambda it, child=child: any(one != child for one in asking(it)))
    assert (len(asked), len(set(asked)), "root" in asked) == (2, 2, False)
    assert family.end.state is RunState.COMPLETED
    assert len(family.root.run.released) == 2


AT_THE_TOP = (
    {"name": "all", "text": "permit(principal, action, resource);"},
    {
        "name": "not_here",
        "text": 'forbid(principal, action == Action::"output", resource == Stage::"fan_out") when {context.depth == 1};',
    },
)


def test_what_a_parent_finds_in_them_besides_is_asked_about():
    """A policy that looks at where it is asked denies there what was let pass below."""
    family = sliced(in_turn(LEAK), policies=list(AT_THE_TOP))
    [child] = asking(family)
    family.decide(child, "approve", until=lambda it: asking(it) == ["root"])
    assert (asking(family), len(family.root.run.released)) == (["root"], 1)


def test_a_rejection_lets_nothing_pass_above():
    family = sliced(once_bad(1, LEAK, summary("Found.")))
    [child] = asking(family)
    family.decide(child, "reject")
    assert all(fact.released == () for fact in family.root.of(ev.ChildAnswered))
    assert family.root.run.released == ()


def test_a_child_s_outcome_is_the_same_bytes_whether_or_not_it_says_that_nothing_is_missing():
    said = {"text": "The key.", "citations": []}
    assert let_pass.key({**said, "gaps": []}, ["x"]) == let_pass.key(said, ["x"])
    assert let_pass.key({**said, "gaps": ["one"]}, ["x"]) != let_pass.key(said, ["x"])
    assert let_pass.key(said, ["y"]) != let_pass.key(said, ["x"])
