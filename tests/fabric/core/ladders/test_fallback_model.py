"""Runs whose model fails: the rung *fallback model*, which call it re-issues to whom, and what a person may approve in high-stakes (docs/specification/retries.md)."""

from __future__ import annotations

from typing import Any

import pytest

from fabric.core import events as ev
from fabric.core.events.inputs import ToolCall
from fabric.core.spec.fabric import FabricSpec
from fabric.core.values.cost import Price
from fabric.core.values.flow import RunState
from fabric.core.values.taxonomy import Cause, Tier
from fabric.core.values.units import JSON
from fabric.runtime.journal.snapshots import build_snapshot, restore_run
from tests.fabric.core.fabrics import tree
from tests.fabric.core.harness import World, ran
from tests.fabric.core.ladders.test_ladder import cell, skips
from tests.fabric.core.scripts import HANGS, Script, asks, call, fails, gives, say, summary

OTHER, THIRD = {"name": "other", "provider": "elsewhere"}, {"name": "third", "provider": "far"}
PRICES = {
    "small": Price(1_000_000, 2_000_000),
    "other": Price(2_000_000, 4_000_000),
    "third": Price(9_000_000, 9_000_000),
}
FALLS_BACK = (Cause.RATE_LIMIT, Cause.SERVER_ERROR, Cause.TIMEOUT, Cause.NETWORK, Cause.DROPPED_STREAM)
"""docs/specification/failures.md, column failover, of what enters the provider row."""
NEVER = (
    Cause.AUTH,
    Cause.BAD_REQUEST,
    Cause.BAD_CONFIGURATION,
    Cause.UNKNOWN_MODEL,
    Cause.CONTEXT_LENGTH,
    Cause.CONTENT_FILTER,
)


def fabric(
    *others: JSON, fallbacks: tuple[str, ...] = ("other",), safe_fallback: str = "", **fields: JSON
) -> FabricSpec:
    given = tree(roles=(), **fields)
    given["models"][0]["fallbacks"] = list(fallbacks)
    given["models"] += others or (OTHER,)
    if safe_fallback:
        given["safe_fallback"] = safe_fallback
    return FabricSpec.model_validate(given)


def by_model(**answers: Script) -> dict[str, Script]:
    """Return what each model answers, one after the other; the last one for good."""
    queues = {name: list(given) if isinstance(given, (list, tuple)) else [given] for name, given in answers.items()}

    def answer(command: Any) -> Any:
        queue = queues[command.model]
        return queue.pop(0) if len(queue) > 1 else queue[0]

    return {"worker": answer}


def asked(world: World) -> list[str]:
    """Return whom each model call went to, in order."""
    return [fact.target for fact in world.of(ev.CallIssued) if fact.call == "model"]


DOWN = fails(Cause.SERVER_ERROR, "overloaded")


def test_a_model_that_stands_in_is_put_in_place_with_the_last_events_that_a_run_may_hold():
    """The engine carries out what the ladder found to apply, at any cap of the run, and the run ends as a run does."""
    whole = ran(fabric(), by_model(small=DOWN, other=summary()), prices=PRICES)
    [swapped] = [event.seq for event in whole.events if event.fact.kind == "model_changed"]
    ends = set()
    for most in range(swapped - 3, 2 * len(whole.events)):
        world = ran(fabric(limits={"run_events": most}), by_model(small=DOWN, other=summary()), prices=PRICES)
        ends.add((world.end.state, bool(world.of(ev.ModelChanged))))
    failed, aborted, completed = RunState.FAILED, RunState.ABORTED, RunState.COMPLETED
    assert ends == {(failed, False), (aborted, False), (aborted, True), (completed, True)}


# -- the rung --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("cause", FALLS_BACK)
def test_interactive_retries_twice_then_asks_the_fallback_once(cause):
    world = ran(fabric(), by_model(small=fails(cause), other=summary("Here.")), prices=PRICES)
    assert world.reactions == ["retry", "retry", "fallback_model"]
    assert asked(world) == ["small", "small", "small", "other"]
    assert (world.end.state, world.end.recovered) == (RunState.COMPLETED, True)
    [swapped] = world.of(ev.ModelChanged)
    assert (swapped.before, swapped.model, swapped.reason, swapped.cause) == ("small", "other", "fallback_model", cause)
    assert swapped.needs == ("tool_use",)
    issued = world.of(ev.CallIssued)
    assert {fact.command_id for fact in issued} == {swapped.command_id}
    assert [fact.attempt for fact in issued] == [1, 2, 3, 4]


def test_money_is_reserved_at_the_stand_in_s_price_and_the_difference_is_said():
    world = ran(fabric(), by_model(small=DOWN, other=summary()), prices=PRICES)
    issued, [swapped] = world.of(ev.CallIssued), world.of(ev.ModelChanged)
    own, other = issued[0].reserved_usd_micros, issued[-1].reserved_usd_micros
    assert other == 2 * own
    assert swapped.more_usd_micros == other - own
    assert world.of(ev.ModelAnswered)[-1].cost_usd_micros == 50 * 2 + 20 * 4


def test_when_the_fallback_fails_too_the_run_surfaces():
    world = ran(fabric(), by_model(small=DOWN, other=DOWN), prices=PRICES)
    assert world.reactions[:4] == ["retry", "retry", "fallback_model", "surface"]  # Then its stage, without the branch.
    assert asked(world)[-2:] == ["small", "other"]
    assert world.end.state is RunState.FAILED


def test_a_rung_that_may_be_used_twice_goes_down_the_chain_and_asks_no_model_twice():
    table = cell("provider_failure", ("fallback_model", 3), "surface")
    world = ran(
        fabric(OTHER, THIRD, fallbacks=("other", "third"), table=table),
        by_model(small=DOWN, other=DOWN, third=DOWN),
        prices=PRICES,
    )
    assert asked(world) == ["small", "other", "third"]
    assert [(fact.before, fact.model) for fact in world.of(ev.ModelChanged)] == [("small", "other"), ("other", "third")]
    skipped = world.of(ev.RungSkipped)[0]
    assert "other: it was asked already" in skipped.reason


def test_who_was_asked_before_may_be_asked_by_a_later_call():
    table = cell("provider_failure", ("fallback_model", 2), "surface")
    script = by_model(small=DOWN, other=[DOWN, summary()], third=[asks(call(q="x")), DOWN])
    spec = fabric(OTHER, THIRD, fallbacks=("other", "third"), table=table)
    world = ran(spec, {**script, "look": gives()}, prices=PRICES)
    assert asked(world) == ["small", "other", "third", "third", "other"]


def thinks(text: str = "", *calls: Any) -> Any:
    return say(text, *calls, own={"protocol": "chat", "parts": {"reasoning_content": "Hm."}})


def test_each_takeover_says_how_many_answers_keep_their_reasoning_to_themselves():
    table = cell("provider_failure", ("fallback_model", 2), "surface")
    spec = fabric(OTHER, THIRD, fallbacks=("other", "third"), table=table)
    signed = ToolCall(call_id="signed", tool="look", args={"q": "y"}, own={"thought_signature": "s"})
    answers = [thinks("", call(q="x")), asks(signed), asks(call(q="z")), DOWN]
    script = by_model(small=answers, other=[thinks("", call(q="w")), DOWN], third=summary())
    world = ran(spec, {**script, "look": [gives(f"result {n}") for n in range(9)]}, prices=PRICES)
    assert [(one.model, one.left_out) for one in world.of(ev.ModelChanged)] == [("other", 2), ("third", 3)]
    script = by_model(small=DOWN, other=[thinks("", call(q="x")), DOWN, summary()], third=[asks(call(q="y")), DOWN])
    spec = fabric(
        OTHER, THIRD, fallbacks=("other", "third"), table=cell("provider_failure", ("fallback_model", 3), "surface")
    )
    back = ran(spec, {**script, "look": [gives(f"result {n}") for n in range(9)]}, prices=PRICES)
    assert [(one.model, one.left_out) for one in back.of(ev.ModelChanged)] == [("other", 0), ("third", 1), ("other", 0)]


@pytest.mark.parametrize("cause", NEVER)
def test_what_another_model_cannot_help_never_falls_back(cause):
    rows = ("provider_failure", "cost_overrun", "unsafe_output", "schema_grounding_fail")
    table = {
        row: {"interactive": {"rungs": [{"reaction": "fallback_model", "times": 1}, {"reaction": "surface"}]}}
        for row in rows
    }
    world = ran(fabric(table=table), by_model(small=fails(cause), other=summary()), prices=PRICES)
    assert (world.of(ev.ModelChanged), asked(world)) == ([], ["small"])
    assert skips(world)[0][0] == "fallback_model"


def test_a_quota_goes_to_another_endpoint_only():
    table = cell("cost_overrun", ("fallback_model", 1), "abort")
    near = {"name": "other", "provider": "scripted"}
    world = ran(fabric(near, table=table), by_model(small=fails(Cause.QUOTA), other=summary()), prices=PRICES)
    [(_, reason)] = skips(world)
    assert "other: it is at the same endpoint, and quota is the endpoint's" in reason
    away = ran(fabric(table=table), by_model(small=fails(Cause.QUOTA), other=summary()), prices=PRICES)
    assert (asked(away), away.end.state) == (["small", "other"], RunState.COMPLETED)


def test_without_a_fallback_the_rung_is_skipped_with_its_reason():
    world = ran(fabric(fallbacks=()), by_model(small=DOWN, other=summary()), prices=PRICES)
    assert skips(world)[0] == ("fallback_model", "no fallback model is configured")
    assert world.end.state is RunState.FAILED


def test_what_does_not_fit_the_budget_is_no_candidate():
    own = ran(fabric(), by_model(small=DOWN, other=summary()), prices=PRICES).of(ev.CallIssued)[0].reserved_usd_micros
    tight = fabric(budget={"call_usd_micros": own + 1})
    world = ran(tight, by_model(small=DOWN, other=summary()), prices=PRICES)
    reason = skips(world)[0][1]
    assert "other: call budget" in reason
    assert set(asked(world)) == {"small"}
    third = {"name": "third", "provider": "far"}
    spec = fabric(OTHER, third, fallbacks=("other", "third"), budget={"call_usd_micros": own + 1})
    world = ran(spec, by_model(small=DOWN, third=summary()), prices={**PRICES, "third": PRICES["small"]})
    assert (asked(world)[-1], world.end.state) == ("third", RunState.COMPLETED)
    [swapped] = world.of(ev.ModelChanged)
    assert [one.model for one in swapped.passed_over] == ["other"]


def test_one_that_lacks_what_the_call_needs_is_passed_over():
    words = {"name": "other", "provider": "elsewhere", "tool_calls": False}
    world = ran(fabric(words), by_model(small=DOWN, other=summary()), prices=PRICES)
    assert "other: the call needs tool_use" in skips(world)[0][1]
    blind = fabric(agents={"worker": {"needs": ["vision"]}})
    assert (
        "other: the call needs vision" in skips(ran(blind, by_model(small=DOWN, other=summary()), prices=PRICES))[0][1]
    )


NEAR = {"name": "other", "provider": "scripted"}


def test_another_model_of_the_same_endpoint_is_a_retry_of_it_and_takes_a_token():
    retry, script = {"bucket": 3, "earn": 0.0}, by_model(small=DOWN, other=summary())
    world = ran(fabric(NEAR, retry=retry), script, prices=PRICES)
    assert [fact.tokens_left for fact in world.of(ev.RetryScheduled)] == [2_000, 1_000, 0]
    assert [fact.source for fact in world.of(ev.RetryScheduled)] == ["backoff", "backoff", "failover"]
    empty = ran(fabric(NEAR, retry={"bucket": 1, "earn": 0.0}), by_model(small=DOWN, other=summary()), prices=PRICES)
    assert empty.reactions[:2] == ["retry", "surface"]
    assert "other: the run has no retry left (limit 1)" in skips(empty)[1][1]


def test_another_endpoint_is_asked_although_the_retry_budget_is_empty():
    world = ran(fabric(retry={"bucket": 1, "earn": 0.0}), by_model(small=DOWN, other=summary()), prices=PRICES)
    assert world.reactions == ["retry", "fallback_model"]
    assert skips(world) == [("retry", "retry_budget_empty: the run has no retry left (limit 1)")]
    assert (len(world.of(ev.RetryScheduled)), world.end.state) == (1, RunState.COMPLETED)


def test_the_stand_in_answers_for_the_rest_of_its_step_and_the_next_call_counts_anew():
    script = by_model(small=DOWN, other=[asks(call(q="x")), summary()])
    world = ran(fabric(), {**script, "look": gives()}, prices=PRICES)
    assert asked(world) == ["small", "small", "small", "other", "other"]
    spec = fabric(OTHER, THIRD, fallbacks=("other", "third"))
    script = by_model(small=DOWN, other=[asks(call(q="x")), DOWN], third=summary())
    world = ran(spec, {**script, "look": gives()}, prices=PRICES)
    assert world.reactions == ["retry", "retry", "fallback_model"] * 2
    assert asked(world)[-2:] == ["other", "third"]


def test_a_tool_that_fails_has_no_fallback_model():
    script = {"worker": [asks(call(q="x")), summary()], "look": fails(Cause.SERVER_ERROR)}
    world = ran(fabric(), script, prices=PRICES)
    assert ("fallback_model", "no model call is at fault") in skips(world)
    assert world.of(ev.ModelChanged) == []


def test_an_endpoint_that_hangs_falls_back_after_its_deadline():
    world = ran(fabric(), by_model(small=HANGS, other=summary()), prices=PRICES)
    assert (asked(world)[-1], world.end.state) == ("other", RunState.COMPLETED)


def test_the_same_after_a_takeover_and_from_a_snapshot():
    spec = fabric(OTHER, THIRD, fallbacks=("other", "third"))
    world = World(spec, by_model(small=DOWN, other=DOWN, third=summary()), prices=PRICES).start()
    while not world.of(ev.ModelChanged):
        world.go(steps=1)
    [step] = world.run.steps.values()
    assert (step.model, step.stands_for, step.tried) == ("other", "small", ("small",))
    taken = build_snapshot(world.run, b"head", world.driver.contents)
    assert restore_run(taken)[0].steps == world.run.steps
    world.crash().go()
    assert set(asked(world)) <= {"small", "other", "third"}
    assert "small" not in asked(world)[3:]


# -- Retry-After -----------------------------------------------------------------------------------------------------


def test_retry_after_beats_backoff_and_over_the_cap_there_is_no_retry_but_a_fallback():
    script = by_model(small=[fails(retry_after_s=7.0), summary()], other=summary())
    [waited] = ran(fabric(), script, prices=PRICES).of(ev.RetryScheduled)
    assert (waited.delay_s, waited.source) == (7.0, "retry_after")
    world = ran(fabric(), by_model(small=fails(retry_after_s=61.0), other=summary()), prices=PRICES)
    assert skips(world) == [("retry", "Retry-After of 61 s is over the cap of 60 s")]
    assert (asked(world), world.reactions) == (["small", "other"], ["fallback_model"])


# -- by tier ---------------------------------------------------------------------------------------------------------


def test_batch_has_no_such_rung():
    world = ran(fabric(), by_model(small=DOWN, other=summary()), prices=PRICES, tier=Tier.BATCH)
    assert world.of(ev.ModelChanged) == []
    assert set(asked(world)) == {"small"}


def test_in_high_stakes_not_even_a_cell_that_says_so_falls_back_without_a_person():
    table = cell("provider_failure", ("fallback_model", 1), "escalate", tier="high_stakes")
    world = ran(fabric(table=table), by_model(small=DOWN, other=summary()), prices=PRICES, tier=Tier.HIGH_STAKES)
    assert skips(world) == [
        ("fallback_model", "in high stakes a person must approve another model before it is called")
    ]
    assert (set(asked(world)), world.of(ev.ModelChanged)) == ({"small"}, [])


def high_stakes(**answers: Script) -> World:
    world = ran(fabric(), by_model(**answers), prices=PRICES, tier=Tier.HIGH_STAKES)
    assert world.reactions == ["retry", "retry", "escalate"]
    return world


def test_in_high_stakes_a_person_who_approves_may_name_the_other_model():
    world = high_stakes(small=DOWN, other=summary("Here."))
    fact = world.review.fact
    assert fact.model == "other"
    shown = world.content_of(ev.ReviewOpened)[-1]["takes_model"]
    assert (shown["model"], shown["before"], shown["needs"]) == ("other", "small", ["tool_use"])
    assert shown["more_usd_micros"] == world.of(ev.CallIssued)[0].reserved_usd_micros
    world.decide("approve", model="other").go()
    [swapped] = world.of(ev.ModelChanged)
    assert (swapped.before, swapped.model, swapped.actor) == ("small", "other", "bob")
    assert (asked(world)[-1], world.end.state) == ("other", RunState.COMPLETED)


def test_an_approval_that_names_none_asks_the_agent_s_own_again():
    world = high_stakes(small=[DOWN, DOWN, DOWN, summary()], other=summary())
    world.decide("approve").go()
    assert (asked(world), world.of(ev.ModelChanged)) == (["small"] * 4, [])
    assert world.end.state is RunState.COMPLETED


@pytest.mark.parametrize(("verb", "model"), [("approve", "third"), ("reject", "other")])
def test_an_answer_that_names_another_model_than_the_review_changes_nothing(verb, model):
    world = high_stakes(small=DOWN, other=summary())
    world.decide(verb, model=model).go()
    assert world.of(ev.InputIgnored)[-1].input_kind == "decision_made"
    assert world.review.fact.model == "other"


def test_a_review_about_something_else_offers_no_model():
    world = ran(fabric(), by_model(small=fails(Cause.AUTH), other=summary()), prices=PRICES, tier=Tier.HIGH_STAKES)
    assert world.review.fact.model == ""
    assert "takes_model" not in world.content_of(ev.ReviewOpened)[-1]


# -- safe fallback ---------------------------------------------------------------------------------------------------


def test_a_static_answer_before_the_last_rung_is_skipped_where_there_is_none():
    table = cell("provider_failure", ("safe_fallback", 1), "abort")
    world = ran(fabric(table=table), by_model(small=DOWN))
    assert skips(world) == [("safe_fallback", "no static answer is configured")]
    given = ran(fabric(table=table, safe_fallback="Ask again later."), by_model(small=DOWN))
    assert (given.end.state, given.end.reason) == (
        RunState.COMPLETED,
        "the fabric's static answer was given, because overloaded",
    )
