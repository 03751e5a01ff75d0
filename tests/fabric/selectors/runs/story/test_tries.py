"""A run's page says what was tried before it failed, and what was not and why."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fabric.core import events as ev
from fabric.core.spec.policies.decision_table import Reaction
from fabric.core.values.flow import Stage
from fabric.core.values.taxonomy import Cause, Evidence, FailureType, Tier
from fabric.selectors.runs.story.tries import NOT_DONE, find_decision, tried_words
from tests.fabric.selectors.journals import Teller
from tests.fabric.selectors.runs.story.test_fold import told

WORKER = "fan_out.0.e0.r0"
COMMAND = f"{WORKER}.t1"


def shared(bucket: str = "fabric:0123") -> ev.TripRecord:
    seen = Evidence(10, 0, "retry tokens", bucket.partition(":")[0], details={"bucket": bucket, "asked_at": 1})
    said = "the fabric's retry budget, which its runs share, is empty"
    return ev.TripRecord(mechanism="retry_budget", cause=Cause.RETRY_BUDGET_EMPTY, message=said, evidence=seen)


def skipped(reaction: str = "retry", reason: str = "", trip: ev.TripRecord | None = None) -> ev.RungSkipped:
    return ev.RungSkipped(
        failure_type=FailureType.PROVIDER, tier=Tier.INTERACTIVE, rung=0, reaction=reaction, reason=reason, trip=trip
    )


def failed(attempts: int = 1, waits_s: float = 0.0) -> Teller:
    teller = Teller().start().planned().enter(Stage.FAN_OUT, "reader", "reader")
    for attempt in range(1, attempts + 1):
        teller.ask(WORKER, 1, "reader", attempt).fail(WORKER, 1, attempt)
        if attempt < attempts:
            teller.back_off(WORKER, 1, waits_s, attempt + 1).wait(waits_s)
    return teller


def decide(teller: Teller, *skips: ev.RungSkipped) -> str:
    story = told(teller.tell(*skips).react("surface", "provider", step=WORKER, command=COMMAND))
    found = find_decision(story.tries.decisions, "reader: provider said no (1 of 2 agents brought no result)")
    assert found is not None
    return tried_words(found, "claims-desk")


def test_an_empty_budget_that_runs_share_is_named_by_who_shares_it():
    said = decide(failed(), skipped(trip=shared()))
    assert said == "Tried once. Not retried: the retry budget that runs of claims-desk share is empty."
    said = decide(failed(), skipped(trip=shared("provider:http://llm.example.com/v1")))
    assert said.endswith("the retry budget that all calls to http://llm.example.com/v1 share is empty.")


def test_attempts_and_the_waits_between_them_are_counted():
    teller = failed(3, waits_s=6)
    assert decide(teller, skipped("fallback_model", "no fallback model is named")) == (
        "Tried 3 times, with 12 s of waits. No other model was asked: no fallback model is named."
    )


def test_a_call_that_was_never_sent_was_not_tried():
    teller = Teller().start().planned().enter(Stage.FAN_OUT, "reader")
    assert decide(teller, skipped("retry", "its breaker is open")) == "Not retried: its breaker is open."


def test_a_budget_that_could_not_be_read_keeps_its_own_words():
    unread = replace(shared(), message="it gives no token: no store", evidence=replace(shared().evidence, limit=0))
    assert decide(failed(), skipped(trip=unread)) == "Tried once. Not retried: it gives no token: no store."


def test_reactions_that_were_skipped_for_one_reason_share_a_sentence():
    why = "auth does not go away by itself"
    assert decide(
        failed(), skipped("retry", why), skipped("fallback_model", why), skipped("replan", "it is fixed")
    ) == (
        "Tried once. Not retried, no other model was asked: auth does not go away by itself. Not planned again: it is fixed."
    )


def test_a_skipped_rung_belongs_to_the_next_decision_alone():
    teller = failed().tell(skipped(reason="first")).react("retry", "provider", step=WORKER, command=COMMAND)
    assert decide(teller, skipped("replan", "the plan is fixed")) == (
        "Tried once. Not planned again: the plan is fixed."
    )


@pytest.mark.parametrize("reason", ["terminated by ana", ""])
def test_a_reason_that_names_no_decision_has_none(reason):
    story = told(failed().react("surface", "provider", step=WORKER, command=COMMAND))
    assert find_decision(story.tries.decisions, reason) is None


def test_the_words_of_what_failed_come_before_those_of_the_fan_in():
    teller = failed().react("surface", "provider", step=WORKER, command=COMMAND)
    late = ev.TripRecord(mechanism="fan_in", cause=Cause.PARTIAL_FAN_IN, message="reader: provider said no")
    decided = teller.events[-1].fact
    teller.tell(replace(decided, cause=late, step_id="", command_id=""))
    found = find_decision(told(teller).tries.decisions, "reader: provider said no")
    assert found is not None
    assert (found.cause, found.attempts) == (Cause.RATE_LIMIT, 1)


def test_every_reaction_has_words_for_being_skipped():
    assert set(NOT_DONE) == set(Reaction)
