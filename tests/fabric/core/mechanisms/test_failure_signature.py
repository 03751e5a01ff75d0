"""The third failure with one signature ends the run, whatever succeeded in between (docs/specification/failures.md)."""

from __future__ import annotations

import pytest

from fabric.core import events as ev
from fabric.core.mechanisms import failure_signature
from fabric.core.spec.policies.limits import FailureSignature
from fabric.core.state.run import rung_key
from fabric.core.values.flow import RunState, Stage
from fabric.core.values.frozen import replace
from fabric.core.values.taxonomy import CLASSIFY, PASS, Cause, Direct, ErrorClass, Evidence, Tier
from tests.fabric.core.fabrics import lone, proposal, spec, view
from tests.fabric.core.harness import ran
from tests.fabric.core.mechanisms.facts import STEP, at
from tests.fabric.core.scripts import Script, asks, call, fails, gives, planned, summary

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
    """Each about another call: the tries of one call count once."""
    state = failure_signature.State()
    for number, fact in enumerate(facts):
        state = failure_signature.observe(state, at(replace(fact, command_id=f"{fact.step_id}.t{number}")))
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


# -- in the engine ---------------------------------------------------------------------------------------------------

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
    assert world.end.reason == "the same failure came 3 times in this run (limit 3): the index of shard 17 is broken"
    assert [name for name, _ in world.executed] == ["look"] * 5


def test_in_high_stakes_a_person_is_asked():
    world = shaky(tier=Tier.HIGH_STAKES)
    assert world.reactions == ["retry", "retry", "escalate"]
    assert world.review.fact.reason.startswith("the same failure came 3 times")
    world.decide("reject").go()
    assert world.end.state is RunState.ABORTED


def test_a_raised_limit_lets_it_go_on():
    world = shaky(failure_signature={"limit": 6})
    assert world.end.state is RunState.COMPLETED
    assert world.reactions == ["retry"] * 5


def test_where_the_table_does_the_same_its_row_holds_and_the_repetition_is_a_cause():
    aborts = {
        "schema_grounding_fail": {"batch": {"rungs": [{"reaction": "replan", "times": 2}, {"reaction": "abort"}]}}
    }
    script = {"planner": planned(), "worker": fails(Cause.UNKNOWN, "the index is broken")}
    world = ran(spec(table=aborts), script, tier=Tier.BATCH)
    last = world.of(ev.ReactionDecided)[-1]
    assert (last.reaction, last.failure_type, last.cause.cause) == ("abort", "schema_grounding_fail", Cause.UNKNOWN)
    assert [trip.cause for trip in last.causes] == [Cause.REPEATED_FAILURE]
    assert CLASSIFY[Cause.REPEATED_FAILURE].goes_to is Direct.ABORT


# -- errors that a tool gives its model ------------------------------------------------------------------------------


def looking(*answers, tier: Tier = Tier.INTERACTIVE, **fields):
    """An agent that looks for something else each time, whatever it is told."""
    pages = [asks(call(q=f"page {n}")) for n in range(len(answers))]
    limits = {"corrections_per_step": 20}
    return ran(lone(limits=limits, **fields), {"worker": [*pages, summary()], "look": list(answers)}, tier=tier)


def error(n: int = 0):
    return gives(error=f"no such file: line {n}")


@pytest.mark.parametrize("tier", [Tier.INTERACTIVE, Tier.BATCH])
def test_the_third_error_that_a_tool_gives_its_model_aborts(tier):
    world = looking(error(1), gives("text"), error(2), error(3), gives("text"), tier=tier)
    assert world.reactions == ["abort"]
    (decided_,) = world.of(ev.ReactionDecided)
    assert (decided_.cause.mechanism, decided_.cause.cause) == ("failure_signature", Cause.REPEATED_FAILURE)
    assert (decided_.cause.evidence.limit, decided_.cause.evidence.observed) == (3, 3)
    assert decided_.cause.evidence.details == {"signature": "fan_out.0/look|deterministic|no such file: line <n>"}
    assert len(world.executed) == 4
    assert world.end.reason == "look failed in the same way 3 times in this run (limit 3): no such file: line 3"


def test_an_error_that_repeats_what_was_asked_is_the_same_failure_each_time():
    names = ("harbour", "castle", "market")
    worker = [*(asks(call(q=name)) for name in names), summary()]
    said = [gives(error=f"nothing is known of {name}. Try again.") for name in names]
    world = ran(lone(limits={"corrections_per_step": 20}), {"worker": worker, "look": said})
    (decided_,) = world.of(ev.ReactionDecided)
    assert decided_.cause.evidence.details == {
        "signature": "fan_out.0/look|deterministic|nothing is known of <argument>."
    }
    assert (
        world.end.reason
        == "look failed in the same way 3 times in this run (limit 3): nothing is known of market. Try again."
    )


def test_two_of_them_and_errors_that_say_something_else_leave_the_run_alone():
    assert looking(error(1), error(2), gives("text")).end.state is RunState.COMPLETED
    others = [gives(error=f"no such {what}") for what in ("file", "row", "page", "key")]
    assert looking(*others).end.state is RunState.COMPLETED


def test_the_calls_of_one_answer_fail_together_and_count_once():
    waves = [asks(*[call(q=f"page {5 * wave + n}") for n in range(5)]) for wave in range(3)]
    world = ran(lone(), {"worker": [*waves[:2], summary()], "look": error()})
    assert (len(world.executed), world.end.state) == (10, RunState.COMPLETED)
    again = ran(lone(), {"worker": [*waves, summary()], "look": error()})
    assert again.reactions == ["abort"]


def test_branches_that_fail_alike_are_no_repetition():
    script = {
        "worker": lambda c: summary() if c.command_id.endswith("t2") else asks(call(q=c.command_id)),
        "look": error(),
    }
    assert ran(lone(workers=4), script).end.state is RunState.COMPLETED


def test_in_high_stakes_a_person_is_asked_and_their_word_lets_one_more_pass():
    world = looking(*[error(n) for n in range(6)], tier=Tier.HIGH_STAKES)
    assert world.reactions == ["escalate"]
    assert len(world.executed) == 3
    world.decide("approve").go()
    assert len(world.executed) == 5, "the fourth passed, the fifth did not"
    assert world.reactions == ["escalate", "escalate"]


def test_an_agent_that_was_stopped_has_its_last_word_whatever_its_tool_still_says():
    slow = error().after(20)
    worker = [
        asks(call("look", q="a")),
        asks(call("look", q="b")),
        asks(call("slow", q="c"), call(q="a"), call(q="b")),
        summary(),
    ]
    # The third answer's slow call is out when two equal calls are blocked and the tools are stripped.
    table = {"infinite_tool_loop": {"interactive": {"rungs": [{"reaction": "terminate"}]}}}
    fabric = lone(
        tools=("look", "slow"), table=table, loop_detector={"identical_threshold": 2}, failure_signature={"limit": 1}
    )
    world = ran(fabric, {"worker": worker, "look": gives("text"), "slow": slow})
    assert (world.end.state, world.end.truncated) == (RunState.STOPPED, True)


def test_nothing_of_what_the_tool_said_stands_in_the_fact():
    world = looking(gives(error="the key is sk-abcdef123"))
    (fact,) = world.of(ev.ToolAnswered)
    assert fact.failure.startswith("fan_out.0/look|")
    assert "sk-" not in fact.failure
    assert world.run.guards["failure_signature"].counts == {fact.failure: 1}


def test_the_tool_s_own_code_beats_what_it_says():
    texts = ("it is locked", "another agent has it", "not now")
    world = looking(*(gives(error=text, code="E-LOCKED") for text in texts), gives("text"))
    (decided_,) = world.of(ev.ReactionDecided)
    assert decided_.cause.evidence.details == {"signature": "fan_out.0/look|deterministic|code_e_locked"}
    assert world.end.state is RunState.ABORTED
    assert len(world.executed) == 3


def test_one_text_under_three_codes_is_three_failures():
    world = looking(*(gives(error="it failed", code=code) for code in ("1", "2", "12345678")), gives("text"))
    assert (world.reactions, world.end.state) == ([], RunState.COMPLETED)


def test_two_of_a_code_and_one_without_leave_the_run_alone():
    errors = (gives(error="no", code="7"), gives(error="no"), gives(error="no", code=" "), gives(error="no", code="7"))
    world = looking(*errors, gives("text"), loop_detector={"detectors": ["identical_calls"]})
    assert (world.reactions, world.end.state) == ([], RunState.COMPLETED)


def test_its_model_is_told_the_code_beside_the_error_and_nothing_where_there_is_none():
    world = looking(gives(error="it is locked", code="E-LOCKED"), gives(error="it is locked"))
    assert [content["error"] for content in world.content_of(ev.ToolAnswered)] == [
        {"cause": "tool_error", "message": "it is locked", "code": "E-LOCKED"},
        {"cause": "tool_error", "message": "it is locked"},
    ]


# -- the examples of docs/specification/failures.md, through the engine ----------------------------------------------


def verified(*said: str):
    """Work succeeds, verify fails, again and again, whatever the work was."""
    tests = [asks(call("verify", q=f"round {n}")) for n in range(len(said))]
    work = [asks(call("work", q=f"round {n}")) for n in range(len(said))]
    turns = [one for pair in zip(work, tests, strict=True) for one in pair]
    script: dict[str, Script] = {
        "worker": [*turns, summary()],
        "work": gives("done"),
        "verify": [gives(error=text) for text in said],
    }
    return ran(lone(tools=("work", "verify"), limits={"corrections_per_step": 20}), script)


EXAMPLES = {
    "test failed": "verify|deterministic|test failed",
    "commit abc123def0": "verify|deterministic|commit <hex>",
    "abcdef": "verify|deterministic|abcdef",
    "line 42": "verify|deterministic|line <n>",
}


@pytest.mark.parametrize(("said", "signature"), EXAMPLES.items(), ids=EXAMPLES)
def test_work_succeeds_verify_fails_again_and_again_aborts_at_the_third_verify_failure(said, signature):
    world = verified(*[said] * 5)
    assert world.end.state is RunState.ABORTED
    assert [name for name, _ in world.executed] == ["work", "verify"] * 3
    (decided_,) = world.of(ev.ReactionDecided)
    assert decided_.cause.evidence.details["signature"] == f"fan_out.0/{signature}"


def test_what_differs_each_time_in_the_examples_does_not_make_another_failure():
    assert verified("commit abc123def0", "commit 0fedcba9", "commit aaaaaaa").end.state is RunState.ABORTED
    assert verified("line 42", "line 43", "line 44").end.state is RunState.ABORTED
    assert verified("abcdef", "abcdee", "abcded").end.state is RunState.COMPLETED
