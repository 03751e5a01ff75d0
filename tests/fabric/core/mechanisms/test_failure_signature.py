"""The third failure with one signature ends the run, whatever succeeded in between (semantics.md 4 "Failure signature")."""

from __future__ import annotations

import pytest

from fabric.core import events as ev
from fabric.core.flow import RunState, Stage
from fabric.core.mechanisms import failure_signature
from fabric.core.policy import FailureSignature
from fabric.core.run import rung_key
from fabric.core.taxonomy import CLASSIFY, Cause, Direct, ErrorClass, Tier
from fabric.core.verdict import PASS, Evidence
from tests.fabric.core.fabrics import lone, proposal, view
from tests.fabric.core.harness import ran
from tests.fabric.core.mechanisms.facts import STEP, at
from tests.fabric.core.scripts import asks, call, fails, gives, summary

COUNTED = [cause for cause, row in CLASSIFY.items() if row.signature_counted]


def record(cause: Cause = Cause.UNKNOWN, message: str = "test failed") -> ev.TripRecord:
    return ev.TripRecord(mechanism="tool", cause=cause, message=message, evidence=Evidence())


def decided(*trips: ev.TripRecord, step_id: str = STEP, scope: str = "stage:fan_out") -> ev.ReactionDecided:
    cause, *causes = trips or (record(),)
    return ev.ReactionDecided(
        failure_type=None,
        tier=Tier.INTERACTIVE,
        table="t",
        rung=0,
        reaction="retry",
        scope=scope,
        spent=0,
        bound=1,
        cause=cause,
        causes=tuple(causes),
        step_id=step_id,
    )


def after(*facts: ev.ReactionDecided) -> failure_signature.State:
    state = failure_signature.State()
    for fact in facts:
        state = failure_signature.observe(state, at(fact))
    return state


def check(state, *, limit=3, cause=Cause.UNKNOWN, message="test failed", **fields):
    judged = proposal(kind="failure", cause=cause, message=message, **fields)
    return failure_signature.check(FailureSignature(limit=limit), state, judged, view())


@pytest.mark.parametrize(("limit", "at_which"), [(1, 1), (3, 3), (5, 5), (0, 3), (-2, 3)])
def test_it_acts_at_the_nth_failure_and_at_none_before(limit, at_which):
    for failures in range(1, at_which + 1):
        verdict = check(after(*[decided()] * (failures - 1)), limit=limit)
        assert (verdict is PASS) == (failures < at_which)
    assert (verdict.cause, verdict.evidence.limit, verdict.evidence.observed) == (
        Cause.REPEATED_FAILURE,
        at_which,
        at_which,
    )
    assert verdict.evidence.details == {"signature": "fan_out.0|deterministic|test failed"}


def test_the_same_failure_says_the_same_but_for_numbers_and_hashes():
    state = after(decided(record(message="line 42 of abc123def0")), decided(record(message="Line 7 of  0fedcba9")))
    assert check(state, message="line 1 of aaaaaaa").cause is Cause.REPEATED_FAILURE
    assert check(state, message="column 1 of aaaaaaa") is PASS


def test_a_node_is_the_branch_whatever_its_epoch_and_round():
    state = after(decided(step_id="fan_out.0.e0.r0"), decided(step_id="fan_out.0.e1.r2"))
    assert check(state, step_id="fan_out.0.e2.r0").cause is Cause.REPEATED_FAILURE
    assert check(state, step_id="fan_out.1.e2.r0") is PASS


def test_a_failure_of_no_step_is_its_stages():
    state = after(*[decided(step_id="", scope="stage:validate")] * 2)
    assert check(state, step_id="", stage=Stage.VALIDATE).cause is Cause.REPEATED_FAILURE
    assert check(state, step_id="", stage=Stage.FAN_IN) is PASS


@pytest.mark.parametrize("cause", Cause)
def test_deterministic_and_structural_failures_count_and_no_others(cause):
    verdict = check(after(*[decided(record(cause))] * 9), cause=cause)
    assert (verdict is not PASS) == (cause in COUNTED)
    assert cause not in COUNTED or CLASSIFY[cause].error_class in (ErrorClass.DETERMINISTIC, ErrorClass.STRUCTURAL)


def test_what_tripped_beside_counts_too_and_each_signature_once_a_decision():
    both = decided(record(Cause.TIMEOUT, "late"), record(), record())
    assert after(both).counts == {"fan_out.0|deterministic|test failed": 1}


# -- in the engine -----------------------------------------------------------------------------------------------------

BREAKS = fails(Cause.UNKNOWN, "the index of shard 17 is broken")


def shaky(failures: int = 5, tier: Tier = Tier.BATCH, **fields):
    """An agent whose looks fail once each and then work: each success resets the ladder's rung of its call."""
    looks = [asks(call(q=f"page {n}")) for n in range(5)]
    answers = [one for n in range(5) for one in ((BREAKS,) if n < failures else ()) + (gives(f"text {n}"),)]
    return ran(lone(table=TABLE, **fields), {"worker": [*looks, summary()], "look": answers}, tier=tier)


RETRIES = {"rungs": [{"reaction": "retry", "times": 20}, {"reaction": "escalate"}]}
TABLE = {"schema_grounding_fail": {str(tier): RETRIES for tier in Tier}}


def test_two_failures_that_were_mended_leave_the_run_alone():
    world = shaky(2)
    assert world.end.state is RunState.COMPLETED
    assert world.reactions == ["retry", "retry"]
    assert world.run.guards["failure_signature"].counts == {
        "fan_out.0|deterministic|the index of shard <n> is broken": 2
    }


@pytest.mark.parametrize("tier", [Tier.INTERACTIVE, Tier.BATCH])
def test_the_third_aborts_although_each_was_mended_in_between(tier):
    world = shaky(tier=tier)
    assert world.reactions == ["retry", "retry", "abort"]
    last = world.of(ev.ReactionDecided)[-1]
    assert (last.cause.mechanism, last.cause.cause, last.failure_type) == (
        "failure_signature",
        Cause.REPEATED_FAILURE,
        None,
    )
    assert (last.cause.evidence.limit, last.cause.evidence.observed) == (3, 3)
    assert [(trip.mechanism, trip.cause) for trip in last.causes] == [("tool", Cause.UNKNOWN)]
    assert rung_key("direct", 0, last.scope) in world.run.spent_rungs
    assert world.end.state is RunState.ABORTED
    assert world.end.reason == "the same failure came 3 times in this run: the index of shard 17 is broken"
    assert [name for name, _ in world.executed] == ["look"] * 5


def test_in_high_stakes_a_person_is_asked():
    world = shaky(tier=Tier.HIGH_STAKES)
    assert world.reactions == ["retry", "retry", "escalate"]
    assert world.question.fact.reason.startswith("the same failure came 3 times")
    world.decide("reject").go()
    assert world.end.state is RunState.ABORTED


def test_a_raised_limit_lets_it_go_on():
    world = shaky(failure_signature={"limit": 6})
    assert world.end.state is RunState.COMPLETED
    assert world.reactions == ["retry"] * 5


def test_where_the_table_does_the_same_its_row_holds_and_the_repetition_is_a_cause():
    aborts = {"schema_grounding_fail": {"batch": {"rungs": [{"reaction": "retry", "times": 2}, {"reaction": "abort"}]}}}
    world = ran(lone(table=aborts), {"worker": asks(call(q="x")), "look": BREAKS}, tier=Tier.BATCH)
    last = world.of(ev.ReactionDecided)[-1]
    assert (last.reaction, last.failure_type, last.cause.cause) == ("abort", "schema_grounding_fail", Cause.UNKNOWN)
    assert [trip.cause for trip in last.causes] == [Cause.REPEATED_FAILURE]
    assert CLASSIFY[Cause.REPEATED_FAILURE].goes_to is Direct.ABORT
