"""The retry rung on one call: backoff with full jitter, Retry-After, the bucket, and what is never tried again."""

from __future__ import annotations

import pytest

from fabric.core import events as ev
from fabric.core.values.command_ids import unit
from fabric.core.values.flow import RunState
from fabric.core.values.taxonomy import CLASSIFY, Cause, FailureType, Tier
from fabric.core.values.words import words
from tests.fabric.core.fabrics import lone
from tests.fabric.core.harness import T0, US, ran
from tests.fabric.core.scripts import HANGS, asks, fails, gives, summary

TRANSIENT = [cause for cause, row in CLASSIFY.items() if row.retried]
CONFIGURATION = [Cause.AUTH, Cause.BAD_REQUEST, Cause.BAD_CONFIGURATION, Cause.UNKNOWN_MODEL]


@pytest.mark.parametrize("cause", TRANSIENT)
def test_a_transient_error_is_tried_again_under_the_same_key(cause):
    world = ran(lone(), {"worker": [fails(cause), summary()]})
    assert world.end.state is RunState.COMPLETED
    first, second = world.of(ev.CallIssued)
    assert (first.command_id, first.attempt, second.attempt) == (second.command_id, 1, 2)
    assert first.key == second.key
    assert second.deadline_at > first.deadline_at
    assert world.end.recovered
    assert world.reactions == ["retry"]


def test_interactive_tries_twice_more_and_then_surfaces():
    world = ran(lone(), {"worker": fails(Cause.SERVER_ERROR, "the provider answered 503")})
    assert len(world.requests) == 3
    assert world.end.state is RunState.FAILED
    assert world.end.reaction == "surface"
    assert "the provider answered 503" in world.end.reason
    assert world.reactions[:3] == ["retry", "retry", "surface"]


def test_a_rung_that_is_not_wired_is_skipped_with_its_reason():
    world = ran(lone(), {"worker": fails(Cause.SERVER_ERROR)})
    skipped = world.of(ev.RungSkipped)[0]
    assert (skipped.failure_type, skipped.tier, skipped.rung) == (FailureType.PROVIDER, Tier.INTERACTIVE, 1)
    assert (skipped.reaction, skipped.reason) == ("fallback_model", "no fallback model is configured")


def test_batch_tries_five_times_more_and_then_asks_a_person():
    world = ran(lone(), {"worker": fails(Cause.RATE_LIMIT)}, tier=Tier.BATCH)
    assert len(world.requests) == 6
    assert world.reactions == ["retry"] * 5 + ["escalate"]
    assert [fact.reaction for fact in world.of(ev.RungSkipped)] == ["wait_for_breaker"]
    assert world.review.fact.required_role == "reviewer"


def test_high_stakes_tries_twice_more_and_never_falls_back():
    world = ran(lone(), {"worker": fails(Cause.RATE_LIMIT)}, tier=Tier.HIGH_STAKES)
    assert (len(world.requests), world.reactions) == (3, ["retry", "retry", "escalate"])
    assert world.of(ev.RungSkipped) == []


def test_the_backoff_is_the_keyed_draw_under_a_doubling_ceiling():
    world = ran(lone(), {"worker": fails(Cause.SERVER_ERROR)}, tier=Tier.BATCH, seed=11)
    waits = [fact.delay_s for fact in world.of(ev.RetryScheduled)]
    command = world.of(ev.CallIssued)[0].command_id
    assert waits == [unit(11, "backoff", f"{command}#{n + 1}") * 2**n for n in range(5)]
    assert all(0 <= wait < 2**n for n, wait in enumerate(waits))
    assert {fact.source for fact in world.of(ev.RetryScheduled)} == {"backoff"}
    other = ran(lone(), {"worker": fails(Cause.SERVER_ERROR)}, tier=Tier.BATCH, seed=12)
    assert [fact.delay_s for fact in other.of(ev.RetryScheduled)] != waits


def test_the_cap_is_applied_after_the_jitter():
    retry = {"base_s": 100.0, "factor": 10.0, "cap_s": 3.0}
    world = ran(lone(retry=retry), {"worker": fails(Cause.SERVER_ERROR)}, tier=Tier.BATCH)
    waits = [fact.delay_s for fact in world.of(ev.RetryScheduled)]
    assert max(waits) == 3.0
    assert all(wait <= 3.0 for wait in waits)


def test_retry_after_beats_the_backoff_and_nothing_goes_out_before_it():
    world = ran(lone(), {"worker": [fails(Cause.RATE_LIMIT, retry_after_s=7.5), summary()]})
    scheduled = world.of(ev.RetryScheduled)[0]
    assert (scheduled.delay_s, scheduled.source) == (7.5, "retry_after")
    again = next(event for event in world.events if event.fact.kind == "call_issued" and event.fact.attempt == 2)
    assert again.at == scheduled.not_before == T0 + int(1 * US) + int(7.5 * US)


@pytest.mark.parametrize("told_s", [0.0, 0.001, 0.5])
def test_the_wait_is_the_greater_of_backoff_and_retry_after(told_s):
    failed = fails(Cause.RATE_LIMIT, retry_after_s=told_s)
    world = ran(lone(breakers=[]), {"worker": failed}, tier=Tier.BATCH, seed=11)
    command = world.of(ev.CallIssued)[0].command_id
    drawn = [unit(11, "backoff", f"{command}#{n + 1}") * 2**n for n in range(5)]
    scheduled = [fact for fact in world.of(ev.RetryScheduled) if fact.source != "named"]
    assert [fact.delay_s for fact in scheduled] == [max(told_s, wait) for wait in drawn]
    assert [fact.source for fact in scheduled] == ["backoff" if wait > told_s else "retry_after" for wait in drawn]
    assert told_s < max(drawn), "or the backoff would never be seen"


def test_a_retry_after_over_the_cap_is_no_retry_and_is_waited_for_while_the_stage_has_the_time():
    world = ran(lone(), {"worker": [fails(Cause.RATE_LIMIT, retry_after_s=61.0), summary()]})
    assert world.of(ev.RungSkipped)[0].reason == "Retry-After of 61 s is over the cap of 60 s"
    assert (world.reactions, world.of(ev.RetryScheduled)[0].source) == (["wait_for_breaker"], "named")
    assert (len(world.requests), world.end.state) == (2, RunState.COMPLETED)
    hours = ran(lone(), {"worker": fails(Cause.RATE_LIMIT, retry_after_s=3_600.0)})
    assert (len(hours.requests), hours.end.state) == (1, RunState.FAILED)
    assert (
        "deadline_near" in next(fact for fact in hours.of(ev.RungSkipped) if fact.reaction == "wait_for_breaker").reason
    )


def test_a_wait_that_the_endpoint_names_is_waited_for_however_often():
    """No breaker, so that the clock alone bounds it: it takes no token, and the waits grow where the endpoint names next to nothing."""
    down = [fails(Cause.RATE_LIMIT, retry_after_s=1.0)] * 6
    world = ran(lone(breakers=[]), {"worker": [*down, summary()]})
    assert world.reactions == ["retry"] * 2 + ["wait_for_breaker"] * 4
    assert (len(world.requests), world.end.state) == (7, RunState.COMPLETED)
    left = [fact.tokens_left for fact in world.of(ev.RetryScheduled) if fact.source == "named"]
    assert len(set(left)) == 1
    nothing = ran(lone(breakers=[]), {"worker": fails(Cause.RATE_LIMIT, retry_after_s=0.0)})
    assert nothing.end.state is RunState.FAILED
    assert len(nothing.requests) <= 10
    assert nothing.events[-1].at - T0 <= 120 * US


def test_there_is_no_sleep_after_the_last_attempt():
    world = ran(lone(), {"worker": fails(Cause.SERVER_ERROR)})
    last = [event.at for event in world.events if event.fact.kind == "attempt_failed"][-1]
    assert world.events[-1].at == last


@pytest.mark.parametrize("cause", CONFIGURATION)
@pytest.mark.parametrize(("tier", "state"), [(Tier.INTERACTIVE, RunState.FAILED), (Tier.HIGH_STAKES, None)])
def test_what_does_not_go_away_by_itself_enters_at_the_last_rung(cause, tier, state):
    world = ran(lone(), {"worker": fails(cause)}, tier=tier)
    assert len(world.requests) == 1
    assert {fact.reason for fact in world.of(ev.RungSkipped)[:2]} == {f"{words(cause)} does not go away by itself"}
    assert world.run.state is (state or RunState.RUNNING)
    assert bool(world.run.reviews) is (tier is Tier.HIGH_STAKES)


def test_a_malformed_answer_of_an_endpoint_is_tried_once_more():
    world = ran(lone(), {"worker": fails(Cause.MALFORMED_ANSWER, raw="<html>")})
    assert len(world.requests) == 2
    assert world.end.state is RunState.FAILED
    assert world.content_of(ev.AttemptFailed)[0] == {"raw": "<html>"}


def test_retries_count_per_call_and_start_anew_for_the_next():
    flaky = [fails(), fails(), asks(), fails(), fails(), summary()]
    world = ran(lone(), {"worker": flaky})
    assert world.end.state is RunState.COMPLETED
    assert [fact.spent for fact in world.of(ev.ReactionDecided)] == [0, 1, 0, 1]
    assert world.run.recovered


def test_a_tool_that_could_not_be_reached_is_tried_again():
    world = ran(lone(), {"worker": [asks(), summary()], "look": [fails(Cause.NETWORK), gives()]})
    assert world.end.state is RunState.COMPLETED
    assert len(world.executed) == 2
    first, second = (fact for fact in world.of(ev.CallIssued) if fact.call == "tool")
    assert (first.key, first.attempt, second.attempt) == (second.key, 1, 2)


def test_a_hang_ends_at_the_calls_deadline_and_is_charged_at_worst_case():
    world = ran(lone(), {"worker": [HANGS, summary()]})
    failed = world.of(ev.AttemptFailed)[0]
    issued = world.of(ev.CallIssued)[0]
    assert failed.cause is Cause.TIMEOUT
    assert (failed.charged_usd_micros, failed.charged_tokens) == (issued.reserved_usd_micros, issued.reserved_tokens)
    assert issued.deadline_at == T0 + 30 * US


def test_an_attempt_that_was_not_billed_costs_nothing():
    world = ran(lone(), {"worker": [fails(Cause.RATE_LIMIT, billed=False), summary()]})
    assert world.of(ev.AttemptFailed)[0].charged_usd_micros == 0


def test_a_retry_that_could_not_finish_is_not_started():
    # The call's 30 s leave no room for one more attempt in a stage of 32 s: it is refused, with the numbers.
    fabric = lone(deadlines={"interactive": {"call_s": 30, "stage_s": 32, "run_s": 300}}, stall_watchdog={"after_s": 0})
    world = ran(fabric, {"worker": HANGS})
    assert len(world.requests) == 1
    assert "deadline_near" in world.of(ev.RungSkipped)[0].reason
    assert world.end.state is RunState.FAILED


def test_an_empty_bucket_denies_the_retry_and_names_it():
    fabric = lone(retry={"bucket": 1, "earn": 0.0}, workers=3)
    world = ran(fabric, {"worker": fails(Cause.SERVER_ERROR)}, tier=Tier.BATCH)
    assert len(world.of(ev.RetryScheduled)) == 1
    reasons = [fact.reason for fact in world.of(ev.RungSkipped) if fact.reaction == "retry"]
    assert reasons[0] == "retry_budget_empty: the run has no retry left (limit 1)"


def test_every_attempt_is_an_event():
    world = ran(lone(), {"worker": fails(Cause.SERVER_ERROR)}, tier=Tier.BATCH)
    assert len(world.of(ev.CallIssued)) == len(world.of(ev.AttemptFailed)) == len(world.requests) == 6
    assert [fact.attempt for fact in world.of(ev.AttemptFailed)] == [1, 2, 3, 4, 5, 6]


def test_each_retry_waits_for_its_own_instant():
    first = {0: fails(Cause.RATE_LIMIT, retry_after_s=3), 1: fails(Cause.RATE_LIMIT, retry_after_s=20)}

    def worker(command):
        return first[int(command.step_id.split(".")[1])] if command.attempt == 1 else summary()

    world = ran(lone(workers=2), {"worker": worker})
    again = {e.fact.command_id: e.at for e in world.events if e.fact.kind == "call_issued" and e.fact.attempt == 2}
    assert again == {fact.command_id: fact.not_before for fact in world.of(ev.RetryScheduled)}
    assert sorted(again.values()) == [T0 + 4 * US, T0 + 21 * US]


@pytest.mark.parametrize(("tier", "call_s"), [(Tier.INTERACTIVE, 30), (Tier.BATCH, 120), (Tier.HIGH_STAKES, 60)])
def test_an_endpoint_that_hangs_costs_one_calls_time(tier, call_s):
    """All attempts of a call share a time: 1.4 times what one may take."""
    world = ran(lone(), {"worker": HANGS}, tier=tier)
    first, second = world.of(ev.CallIssued)
    failures = [event for event in world.events if event.fact.kind == "attempt_failed"]
    assert len(failures) == 2
    assert failures[-1].at - T0 <= (1.4 * call_s + 1) * US
    assert first.deadline_at - T0 == call_s * US
    skipped = next(fact for fact in world.of(ev.RungSkipped) if fact.reaction == "retry")
    took = f"{1.4 * call_s:.1f} s, and one call has {1.4 * call_s:g} s"
    assert skipped.reason == f"its attempts took {took} for all of them"
    assert "(attempt 2)" in world.of(ev.ReactionDecided)[-1].cause.message
