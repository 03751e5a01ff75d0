"""Reviews to people: what opens them, what they park, their clocks, and what each answer does (docs/specification/stages.md, 4 "Human waits")."""

from __future__ import annotations

import pytest

from fabric.core import events as ev
from fabric.core.events.inputs import DecisionMade
from fabric.core.reviews.consequences import left_words
from fabric.core.state.living import visible_state
from fabric.core.values.flow import RunState
from fabric.core.values.taxonomy import Cause, FailureType, Tier
from tests.fabric.core.fabrics import lone, spec
from tests.fabric.core.harness import T0, US, World, ran
from tests.fabric.core.scripts import HANGS, asks, call, fails, planned, say, scored, summary

HIGH = Tier.HIGH_STAKES
BROKEN = {"worker": [say("no")] * 4 + [summary("Better.")]}
DUE_S = {Tier.INTERACTIVE: 300, Tier.BATCH: 86_400, Tier.HIGH_STAKES: 28_800}


def parked(script=BROKEN, fabric=None, tier=HIGH, **fields) -> World:
    world = ran(fabric or lone(), script, tier=tier, **fields)
    assert world.run.reviews
    return world


def test_a_review_parks_the_run_and_holds_nothing():
    world = parked()
    assert world.driver is None
    assert visible_state(world.run) is RunState.WAITING
    assert world.run.pending == {}
    fact = world.review.fact
    assert (fact.item, fact.failure_type, fact.step_id) == ("failure", FailureType.SCHEMA_GROUNDING, "fan_out.0.e0.r0")
    assert (fact.verbs, fact.on_expiry, fact.round) == (("approve", "edit", "respond", "reject"), "reject", 1)


@pytest.mark.parametrize("tier", list(Tier))
def test_below_tau_asks_at_once_in_every_tier_and_never_replans(tier):
    world = parked({"critic": scored(0.69)}, spec(), tier)
    decided = world.of(ev.ReactionDecided)
    assert [(f.failure_type, f.reaction, f.cause.cause) for f in decided] == [(None, "escalate", Cause.BELOW_TAU)]
    assert (world.review.fact.item, world.review.fact.stage) == ("post_stage", "validate")
    assert world.of(ev.RungSkipped) == []
    due = world.review.fact
    opened = next(event.at for event in world.events if event.fact is due)
    waits = [round((at - opened) / US) for at in (due.remind_at, due.onward_at, due.due_at)]
    # An interactive run's clock runs on: its review is due when the run is, and not later.
    due_s = DUE_S[tier] if tier is not Tier.INTERACTIVE else (T0 + 300 * US - opened) / US
    assert waits == [round(due_s * 0.5), round(due_s * 0.75), round(due_s)]


def test_at_tau_no_person_is_asked_and_the_score_stands_in_the_gate():
    world = ran(spec(), {"critic": scored(0.7)})
    assert world.end.state is RunState.COMPLETED
    left = world.of(ev.StageLeft)[3]
    assert (left.gate.score, left.gate.tau) == (0.7, 0.7)


def test_approving_a_low_score_goes_on_with_the_result_as_it_is():
    world = parked({"critic": scored(0.2)}, spec()).decide("approve").go()
    assert (world.end.state, world.end.recovered) == (RunState.COMPLETED, True)
    assert world.asked("critic") == 1
    (decided,) = world.of(ev.ReactionDecided)
    assert (decided.gate.checks[-1].name, decided.gate.checks[-1].result) == ("confidence", "failed")
    left = next(fact for fact in world.of(ev.StageLeft) if fact.stage == "validate")
    assert (left.gate.checks[-1].name, left.gate.checks[-1].result) == ("confidence", "accepted")
    assert [fact.stage for fact in world.of(ev.StageEntered)][-2:] == ["validate", "finalize"]


def test_a_low_score_is_asked_about_after_every_replan():
    # Confidence has no rounds: three epochs, three reviews, none of them turned into an abort.
    table = {"schema_grounding_fail": {"batch": {"rungs": [{"reaction": "replan", "times": 2}, {"reaction": "abort"}]}}}
    script = {"critic": scored(0.2), "finalizer": [say("no")] * 8 + [summary()]}
    world = parked(script, spec(table=table), Tier.BATCH)
    for _ in range(3):
        assert world.review.fact.item == "post_stage"
        world.decide("approve").go()
    assert world.end.state is RunState.COMPLETED
    assert world.run.epoch == 2


def test_failures_and_low_scores_are_counted_apart():
    # The whole stage is what fails here, as it is what scores low.
    times = {"call_s": 60, "stage_s": 60, "run_s": 3600}
    unwatched = {"stall_watchdog": {"after_s": 0}}
    world = parked({"critic": [HANGS, HANGS, scored(0.2)]}, spec(deadlines={"high_stakes": times}, **unwatched))
    world.decide("approve").go().decide("approve").go()
    assert world.review.fact.item == "post_stage", "two failed rounds are no reason not to ask about a score"

    table = {
        "schema_grounding_fail": {"batch": {"rungs": [{"reaction": "replan", "times": 2}, {"reaction": "abort"}]}},
        "cost_overrun": {"batch": {"rungs": [{"reaction": "escalate"}]}},
    }
    script = {"critic": [scored(0.2), scored(0.2), HANGS, scored(0.9)], "finalizer": [say("no")] * 8 + [summary()]}
    world = parked(script, spec(table=table, deadlines={"batch": times}, **unwatched), Tier.BATCH)
    world.decide("approve").go().decide("approve").go()
    assert (world.review.fact.item, world.review.fact.round) == ("failure", 1)
    assert world.decide("approve").go().end.state is RunState.COMPLETED


def test_approving_a_failure_runs_the_failed_step_once_more():
    world = parked().decide("approve", message="Try with fewer words.").go()
    assert world.end.state is RunState.COMPLETED
    opened = world.of(ev.StepOpened)[0]
    assert (opened.step_id, opened.approved) == ("fan_out.0.e0.r1", True)
    assert world.requests[-1].messages[-1].text == "Try with fewer words."
    assert world.outcome["text"] == "Better."


def test_an_approved_step_that_fails_again_goes_to_the_last_rung():
    world = ran(lone(), {"worker": fails(Cause.RATE_LIMIT)}, tier=Tier.BATCH)
    assert len(world.requests) == 6
    world.decide("approve").go()
    assert len(world.requests) == 7
    assert world.reactions == ["retry"] * 5 + ["escalate", "escalate"]
    assert "a person approved one more try, and it was the last" in {fact.reason for fact in world.of(ev.RungSkipped)}


def test_after_two_rounds_a_third_failure_aborts():
    world = parked({"worker": say("no")})
    for number in (1, 2):
        assert world.review.fact.round == number
        world.decide("approve").go()
    assert (world.end.state, world.end.reaction) == (RunState.ABORTED, "abort")
    assert len(world.requests) == 12
    assert world.reactions == ["escalate", "escalate", "abort"]


def test_reject_aborts_and_says_who_and_why():
    world = parked().decide("reject", message="Not worth it").go()
    assert (world.end.state, world.end.reaction) == (RunState.ABORTED, "reject")
    assert world.end.reason.startswith("bob rejected it: Not worth it (")
    assert world.content_of(ev.ReviewDecided)[0] == {"message": "Not worth it"}


def test_silence_rejects_as_the_systems_decision():
    world = parked().wait(DUE_S[HIGH] + 1)
    decided = world.of(ev.ReviewDecided)[0]
    assert (decided.verb, decided.system, decided.actor) == ("reject", True, "system")
    assert world.end.state is RunState.ABORTED
    assert "no one answered in time" in world.end.reason
    opened = next(e.at for e in world.events if e.fact.kind == "review_opened")
    assert world.events[-1].at == opened + DUE_S[HIGH] * US


def test_it_is_reminded_of_at_half_of_the_time_and_passed_on_at_three_quarters():
    world = parked()
    due = world.review.fact
    world.wait(DUE_S[HIGH] * 0.8)
    reminded = [(event.at, event.fact.step) for event in world.events if event.fact.kind == "review_reminded"]
    assert reminded == [(due.remind_at, "reminder"), (due.onward_at, "onward")]
    assert world.run.reviews


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"digest": "0" * 32}, "the decision was about other content (its digest differs)"),
        (
            {"verb": "edit", "edited": "go on"},
            "the edited content does not fit: answer: Input should be a valid dictionary or instance of Brief",
        ),
        ({"verb": "respond"}, "a response is what is to be done otherwise, and this one is empty"),
    ],
)
def test_a_decision_that_cannot_count_changes_nothing_and_says_why(change, reason):
    world = parked()
    world.decide(**change).go()
    assert world.of(ev.InputIgnored)[0].reason == reason
    assert world.run.reviews
    assert world.driver is None


def test_a_second_decision_changes_nothing():
    world = parked({"critic": scored(0.2), "finalizer": HANGS}, spec())
    review = world.review.fact
    world.decide("approve", input_id="first")
    world.go(until_s=world.elapsed_s)
    second = DecisionMade(
        input_id="second", review_id=review.review_id, verb="reject", actor="eve", digest=review.digest
    )
    world.put(second)
    assert world.of(ev.InputIgnored)[0].reason == "the review was answered before, withdrawn, or never asked"
    assert [fact.actor for fact in world.of(ev.ReviewDecided)] == ["bob"]


def test_any_other_byte_asks_again():
    one, two = parked(), parked({"worker": say("not that either")})
    assert one.review.fact.digest != two.review.fact.digest


def test_the_person_sees_the_numbers_and_what_each_answer_does():
    shown = parked().content_of(ev.ReviewOpened)[0]
    assert (shown["mechanism"], shown["cause"], shown["limit"], shown["observed"]) == (
        "agent_loop",
        "corrections_spent",
        3,
        4,
    )
    assert (shown["agent"], shown["stage"], shown["cap_usd_micros"]) == ("worker", "fan_out", 10_000_000)
    assert shown["spent_usd_micros"] == 4 * (50 + 2 * 20)
    assert shown["approve"] == "the failed step runs once more: resumes at fan_out, $10.00 and 2 replans left"
    assert shown["left"] == {"usd_micros": 10_000_000 - shown["spent_usd_micros"], "replans": 2}
    assert shown["respond"] == "the failed step runs once more with your words, which costs one of 2 replans left"
    assert shown["reject"] == "the run is aborted"
    asked = parked({"critic": scored(0.2)}, spec()).content_of(ev.ReviewOpened)[0]
    assert asked["payload"] == {"text": "All of it.", "citations": []}


@pytest.mark.parametrize(
    ("script", "role"),
    [
        ({"worker": say("bad", finish="content_filter")}, "safety"),
        ({"worker": lambda command: asks(call(q="x"))}, "reviewer"),
        ({"worker": fails(Cause.QUOTA)}, "finance"),
    ],
)
def test_each_review_goes_to_the_role_of_its_cell(script, role):
    assert parked(script).review.fact.required_role == role


# -- branches --------------------------------------------------------------------------------------------------------


def two_branches(other):
    def worker(command):
        if command.step_id.startswith("fan_out.0"):
            return say("no") if ".r0" in command.step_id else summary("Mended.")
        return other

    return {"planner": planned(2), "worker": worker}


def test_a_review_parks_its_own_branch_alone():
    world = parked(two_branches(summary("Other.").after(30)), spec())
    assert world.run.steps["fan_out.1.e0.r0"].status == "done"
    assert world.run.steps["fan_out.0.e0.r0"].status == "parked"
    kinds = world.kinds
    assert kinds.index("review_opened") < kinds.index("model_answered", kinds.index("review_opened"))
    world.decide("approve").go()
    assert world.end.state is RunState.COMPLETED


def test_while_another_branch_is_live_the_clocks_run_on():
    world = parked(two_branches(summary("Other.").after(30)), spec())
    suspended = next(event.at for event in world.events if event.fact.kind == "deadlines_suspended")
    answered = next(event.at for event in reversed(world.events) if event.fact.kind == "model_answered")
    assert suspended == answered


def test_a_replan_withdraws_the_reviews_of_the_old_epoch():
    table = {
        "schema_grounding_fail": {"batch": {"rungs": [{"reaction": "escalate"}]}},
        "cost_overrun": {"batch": {"rungs": [{"reaction": "replan", "times": 1}, {"reaction": "abort"}]}},
    }

    def worker(command):
        if ".e1" in command.step_id:
            return summary()
        return say("no") if command.step_id.startswith("fan_out.0") else fails(Cause.QUOTA).after(30)

    world = ran(spec(table=table), {"planner": planned(2), "worker": worker}, tier=Tier.BATCH)
    assert world.end.state is RunState.COMPLETED
    assert world.of(ev.ReviewWithdrawn)[0].reason == "replanned"


# -- clocks ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("tier", [Tier.BATCH, HIGH])
def test_the_clocks_stop_while_only_a_person_can_move_the_run(tier):
    world = parked({"critic": scored(0.2)}, spec(), tier)
    stopped = world.of(ev.DeadlinesSuspended)[0]
    at = world.events[-1].at
    assert stopped.run_remaining_us == world.run.deadline_at - at
    world.wait(3_600).decide("approve").go()
    assert world.end.state is RunState.COMPLETED
    issued = world.of(ev.DeadlinesReissued)[0]
    resumed = next(event.at for event in world.events if event.fact.kind == "deadlines_reissued")
    assert issued.run_deadline_at == resumed + stopped.run_remaining_us
    assert issued.stage_deadline_at == resumed + stopped.stage_remaining_us


def test_interactive_runs_on_the_clock_while_it_waits():
    world = parked({"critic": scored(0.2)}, spec(), Tier.INTERACTIVE)
    assert world.of(ev.DeadlinesSuspended) == []
    world.wait(301)
    assert world.end.state is RunState.ABORTED
    assert world.events[-1].at == world.of(ev.ReviewOpened)[0].due_at == T0 + 300 * US
    assert world.end.reason.startswith("no one answered in time (the score is 0.20")
    assert [fact.system for fact in world.of(ev.ReviewDecided)] == [True]


def test_an_interactive_review_about_a_step_is_due_with_its_stage():
    table = {"schema_grounding_fail": {"interactive": {"rungs": [{"reaction": "escalate"}]}}}
    world = parked(fabric=lone(table=table), tier=Tier.INTERACTIVE)
    stage = world.run.stages[world.run.stage]
    assert world.review.fact.step_id
    assert world.review.fact.due_at == stage.deadline_at < world.run.deadline_at
    world.wait(301)
    assert world.end.reason.startswith("no one answered in time (")
    assert world.events[-1].at == stage.deadline_at


def test_an_interactive_answer_never_moves_the_run_deadline():
    world = parked({"critic": scored(0.2), "finalizer": HANGS}, spec(), Tier.INTERACTIVE)
    # The stage's two minutes are over, which no person could help: it gets new ones, within the run's five.
    world.wait(260).decide("approve")
    world.go(until_s=world.elapsed_s)
    reissued = world.of(ev.DeadlinesReissued)[0]
    assert reissued.run_deadline_at == reissued.stage_deadline_at == T0 + 300 * US


def test_a_person_may_give_a_stage_its_time_once_more():
    fabric = lone(deadlines={"high_stakes": {"call_s": 60, "stage_s": 100, "run_s": 3600}})
    slow = [asks(call(n=n)).after(50) for n in range(2)]
    world = parked({"worker": [*slow, summary("In time.")]}, fabric)
    assert world.review.fact.failure_type is FailureType.COST_OVERRUN
    world.wait(600).decide("approve").go()
    assert world.end.state is RunState.COMPLETED
    reissued = world.of(ev.DeadlinesReissued)[0]
    at = next(event.at for event in world.events if event.fact.kind == "deadlines_reissued")
    assert reissued.stage_deadline_at == at + 100 * US


def test_a_stage_without_time_for_one_more_attempt_gets_its_full_time_too():
    fabric = lone(deadlines={"high_stakes": {"call_s": 60, "stage_s": 100, "run_s": 3600}})
    slow = [asks(call(n=n)).after(47.5) for n in range(2)]
    world = parked({"worker": [*slow, summary("In time.").after(50)]}, fabric)
    assert world.of(ev.ReactionDecided)[0].cause.cause is Cause.DEADLINE_NEAR
    world.wait(600).decide("approve").go()
    assert world.end.state is RunState.COMPLETED


def test_money_that_is_left_is_never_below_nothing():
    assert [left_words(amount) for amount in (310_000, 0, -600_000)] == ["$0.31", "$0.00", "no money"]
