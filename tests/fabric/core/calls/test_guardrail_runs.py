"""A guardrail's hit blocks the payload, and its bytes leave the run nowhere (docs/specification/decision-table.md)."""

from __future__ import annotations

import pytest

from fabric.core import events as ev
from fabric.core.state.context import compile_spec
from fabric.core.values.flow import RunState, Stage
from fabric.core.values.taxonomy import Cause, FailureType, Tier
from tests.fabric.core.bookings import Desk, at_the_desk, go, one_by_one, travel
from tests.fabric.core.fabrics import lone, spec
from tests.fabric.core.harness import ran
from tests.fabric.core.scripts import asks, call, fails, gives, planned, summary

SECRET = "ghp_" + "k7Qw9Zr2" * 4 + "Tt5m"
LEAKS = summary(f"The token is {SECRET}.")


def guarded(*places, rules=("credentials",)):
    return {"gates": {"guardrails": [{"rules": list(rules), **({"places": places} if places else {})}]}}


def said(world):
    """Everything that facts, and what leaves with the end, say of the run."""
    facts = [event.fact for event in world.events]
    return f"{facts} {world.outcome} {world.end.reason}"


@pytest.mark.parametrize(
    ("tier", "state", "reaction"),
    [
        (Tier.INTERACTIVE, RunState.FAILED, "safe_fallback"),
        (Tier.BATCH, RunState.ABORTED, "halt"),
    ],
)
@pytest.mark.parametrize("agent", ["planner", "aggregator", "finalizer"])
def test_an_output_with_a_secret_is_blocked_and_leaves_the_run_nowhere(agent, tier, state, reaction):
    script = {agent: planned(goal=f"Use {SECRET}.") if agent == "planner" else LEAKS}
    world = ran(spec(**guarded()), script, tier=tier)
    decided = world.of(ev.ReactionDecided)[0]
    assert (world.end.state, decided.reaction) == (state, reaction)
    assert decided.failure_type is FailureType.UNSAFE_OUTPUT
    assert decided.cause.cause is Cause.POLICY_DENIED
    assert decided.accompanies == ("block",)
    assert "credentials.github_token (ghp_…, 40 characters)" in decided.cause.message
    assert SECRET not in said(world)


def test_the_static_answer_stands_in_for_what_was_blocked():
    fabric = spec(**guarded()).model_copy(update={"safe_fallback": "Please call us."})
    world = ran(fabric, {"finalizer": LEAKS})
    assert (world.end.state, world.end.reaction) == (RunState.COMPLETED, "safe_fallback")
    assert world.outcome["text"] == "Please call us."
    assert SECRET not in said(world)


def test_in_high_stakes_a_person_is_asked_and_not_shown_the_bytes():
    world = ran(spec(**guarded()), {"finalizer": LEAKS}, tier=Tier.HIGH_STAKES)
    assert world.reactions == ["escalate"]
    review = world.review.fact
    assert SECRET not in str(review)
    world.decide("reject").go()
    assert world.end.state is RunState.ABORTED
    assert SECRET not in said(world)


def test_a_branch_that_leaks_is_the_branch_that_fails():
    fabric = lone(workers=3, fan_in={"mode": "best_effort"}, **guarded("fan_out"))
    world = ran(fabric, {"worker": [summary("One."), LEAKS, summary("Three.")]})
    assert world.end.state is RunState.COMPLETED
    assert [(f.step_id, f.cause) for f in world.of(ev.StepFailed)] == [("fan_out.1.e0.r0", Cause.POLICY_DENIED)]
    assert "Part 2 (worker): " in world.outcome["gaps"][0]
    assert SECRET not in said(world)


def test_two_branches_that_leak_both_stay_inside_when_the_run_is_halted():
    world = ran(lone(workers=3, **guarded("fan_out")), {"worker": [LEAKS, LEAKS, summary("Three.")]}, tier=Tier.BATCH)
    assert world.end.state is RunState.ABORTED
    assert SECRET not in said(world)


def test_what_no_gate_has_met_yet_is_no_partial_result_either():
    """The aggregate passed, for only finalize is guarded; the run ends for another reason before that."""
    fabric = spec(**guarded("finalize"))
    world = ran(fabric, {"aggregator": LEAKS, "finalizer": summary("Fine.")}, tier=Tier.HIGH_STAKES)
    assert world.end.state is RunState.COMPLETED, "no guardrail is at the fan-in"
    stopped = ran(fabric, {"aggregator": LEAKS, "finalizer": LEAKS})
    assert stopped.end.state is RunState.FAILED
    assert stopped.outcome is None


@pytest.mark.parametrize("gates", [{}, {"guardrails": []}, {"guardrails": [{"rules": ["personal_data"]}]}])
@pytest.mark.parametrize(
    ("tier", "end"), [(Tier.INTERACTIVE, RunState.FAILED), (Tier.BATCH, RunState.ABORTED), (Tier.HIGH_STAKES, None)]
)
def test_credentials_in_the_outcome_are_blocked_in_a_fabric_that_asks_for_nothing(gates, tier, end):
    world = ran(spec(gates=gates), {"finalizer": LEAKS}, tier=tier)
    if end is None:
        assert world.review.fact.failure_type is FailureType.UNSAFE_OUTPUT
        return
    assert world.end.state is end
    assert SECRET not in said(world)
    assert world.outcome["text"] == "All of it.", "what there was before it, which holds none"


def test_a_reason_against_it_lets_credentials_pass():
    world = ran(spec(gates={"unguarded": "Its users ask for their own keys."}), {"finalizer": LEAKS})
    assert world.end.state is RunState.COMPLETED
    assert world.outcome["text"] == f"The token is {SECRET}."


# -- arguments -------------------------------------------------------------------------------------------------------


def test_a_call_with_a_secret_is_denied_before_it_goes_out():
    world = ran(lone(**guarded("arguments")), {"worker": asks(call(q=f"who has {SECRET}"))})
    assert world.executed == []
    (refused,) = world.of(ev.CallRefused)
    assert (refused.mechanism, refused.cause) == ("policy", Cause.POLICY_DENIED)
    assert "q: looks like credentials.github_token" in refused.problem
    decided = world.of(ev.ReactionDecided)[0]
    assert (decided.failure_type, decided.accompanies) == (FailureType.UNSAFE_OUTPUT, ("block",))
    assert decided.cause.evidence.observed == 1
    assert SECRET not in said(world)


def test_a_call_without_one_goes_out_and_guards_of_outputs_do_not_judge_it():
    script = {"worker": [asks(call(q="who")), summary()]}
    assert len(ran(lone(**guarded("arguments")), script).executed) == 1
    leaky = {"worker": [asks(call(q=SECRET)), summary()]}
    assert len(ran(lone(**guarded("finalize")), leaky).executed) == 1


@pytest.mark.parametrize("command", ["rm -rf /", "DROP TABLE customers;"])
def test_a_destructive_command_is_denied(command):
    world = ran(lone(**guarded(rules=("destructive_commands",))), {"worker": asks(call(q=command))})
    assert world.executed == []


# -- compensations ---------------------------------------------------------------------------------------------------


def leaky_desk():
    """A tool's answer holds a secret, and what undoes the call would be called with it."""
    desk = Desk()
    world = at_the_desk(travel(**guarded("arguments")), desk, one_by_one(1, fails(Cause.AUTH, "401")), tier=Tier.BATCH)
    world.script = {**world.script, "book": gives({"id": "b-1", "token": SECRET})}
    go(world, desk)
    if world.review.fact.item == "failure":
        world.decide("reject", message="no")
        go(world, desk)
    return desk, world


def test_a_compensation_that_would_carry_a_secret_out_is_not_sent_and_a_person_is_asked():
    desk, world = leaky_desk()
    assert [tool for tool, _ in world.executed] == ["book"]
    (failed,) = world.of(ev.CompensationFailed)
    assert failed.cause is Cause.POLICY_DENIED
    assert "result.token: looks like credentials.github_token" in failed.message
    review = world.review.fact
    assert review.item == "compensation"
    shown = world.content_of(ev.ReviewOpened)[-1]
    assert "result" not in shown["payload"]
    assert SECRET not in str(shown) + str(world.facts)


@pytest.mark.parametrize(("answer", "sent"), [("approve", 1), ("respond", 0)])
def test_a_persons_word_sends_it_or_says_that_it_was_done_by_hand(answer, sent):
    desk, world = leaky_desk()
    world.decide(answer, message="I phoned the hotel.")
    go(world, desk)
    assert [tool for tool, _ in world.executed].count("cancel") == sent
    assert world.run.terminal
    assert "1 of its changes was undone" in world.end.reason


def test_a_compensation_without_one_goes_out():
    desk = Desk()
    world = at_the_desk(travel(**guarded("arguments")), desk, one_by_one(1, fails(Cause.AUTH, "401")), tier=Tier.BATCH)
    go(world, desk)
    if world.run.reviews:
        world.decide("reject", message="no")
        go(world, desk)
    assert desk.cancelled == desk.booked != []


# -- compiled or refused ---------------------------------------------------------------------------------------------


def test_gates_that_were_not_compiled_never_pass():
    with pytest.raises(ValueError, match=r"gates\.guardrails is not compiled"):
        compile_spec(spec(**guarded()), prices={})


def test_guardrails_are_part_of_the_digest():
    assert spec(**guarded()).digest() != spec().digest()
    assert Stage.PLAN in spec(**guarded()).gates.guardrails[0].places
