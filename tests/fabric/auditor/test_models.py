"""Which model is asked instead, derived again (docs/specification/derivation.md): every number that a journal may say falsely is found, one a test."""

from __future__ import annotations

import dataclasses

import pytest

from fabric.auditor import derive_all
from fabric.auditor.models import CHANGES, HOLDS, UNFIT
from fabric.core import events as ev
from fabric.core.mechanisms import ORDER
from fabric.core.values.cost import Price
from fabric.core.values.taxonomy import Cause, Tier
from tests.fabric.core.harness import World, ran
from tests.fabric.core.ladders.test_fallback_model import DOWN, NEAR, OTHER, PRICES, THIRD, by_model, fabric
from tests.fabric.core.ladders.test_ladder import cell
from tests.fabric.core.scripts import say, summary
from tests.fabric.core.spenders import CHEAP, spender

replace = dataclasses.replace


def derived(world, events=None, compiled=None):
    return derive_all(events or world.events, world.tier, lambda topology, version, policy: compiled or world.compiled)


def fields(found):
    return {one.field for each in found for one in each.differences}


def said_otherwise(world, kind, change):
    """The run's events with the first fact of a kind that weighed models recorded otherwise."""
    at = next(n for n, e in enumerate(world.events) if e.fact.kind == kind and e.fact.weighed is not None)
    wrong = replace(world.events[at], fact=change(world.events[at].fact))
    return [*world.events[:at], wrong, *world.events[at + 1 :]]


def weighing(**fields):
    return lambda fact: replace(fact, weighed=replace(fact.weighed, **fields))


def candidate(n, **fields):
    def change(fact):
        each = list(fact.weighed.candidates)
        each[n] = replace(each[n], **fields)
        return replace(fact, weighed=replace(fact.weighed, candidates=tuple(each)))

    return change


def without(n):
    def change(fact):
        each = [one for m, one in enumerate(fact.weighed.candidates) if m != n]
        return replace(fact, weighed=replace(fact.weighed, candidates=tuple(each)))

    return change


def evidence(n, details=None, **fields):
    def change(fact):
        trip = fact.weighed.candidates[n].trip
        more = {"details": {**trip.evidence.details, **details}} if details else {}
        return candidate(n, trip=replace(trip, evidence=replace(trip.evidence, **fields, **more)))(fact)

    return change


def of_change(**fields):
    return lambda fact: replace(fact, **fields)


def own_cost():
    return ran(fabric(), by_model(small=DOWN, other=summary()), prices=PRICES).of(ev.CallIssued)[0].reserved_usd_micros


def swapped():
    """Of two fallbacks the first is too dear for one call, and the second takes it."""
    spec = fabric(OTHER, THIRD, fallbacks=("other", "third"), budget={"call_usd_micros": own_cost() + 1})
    return ran(spec, by_model(small=DOWN, third=summary()), prices={**PRICES, "third": PRICES["small"]})


def too_dear(tier=Tier.INTERACTIVE):
    spec = fabric(budget={"call_usd_micros": own_cost() + 1})
    return ran(spec, by_model(small=DOWN, other=summary()), prices=PRICES, tier=tier)


def tokenless():
    return ran(fabric(NEAR, retry={"bucket": 1, "earn": 0.0}), by_model(small=DOWN, other=summary()), prices=PRICES)


def thrifty(**more):
    return ran(*spender(cheaper="thrifty"), tier=Tier.BATCH, prices={**CHEAP, **more})


def test_the_tables_are_total():
    assert set(UNFIT) == set(CHANGES)
    assert set(HOLDS) <= {module.NAME for module in ORDER}


@pytest.mark.parametrize("make", [swapped, too_dear, tokenless, thrifty])
def test_runs_as_they_were_are_equal_and_say_what_was_judged(make):
    found = derived(make())
    assert {one.verdict for one in found} == {"equal"}
    decided = [one for one in found if one.fact.reaction in CHANGES]
    assert all("candidates" in one.judged for one in decided)


@pytest.mark.parametrize(
    ("change", "field"),
    [
        (weighing(before="third"), "model that was asked"),
        (weighing(input_tokens=7), "tokens"),
        (weighing(output_tokens=7), "tokens out"),
        (weighing(usd_micros=7), "its cost"),
        (candidate(0, usd_micros=7), "cost of other"),
        (candidate(1, usd_micros=7), "cost of third"),
        (candidate(1, usd_micros=None), "cost of third"),
        (candidate(0, ruled_out="needs"), "candidates"),
        (candidate(0, ruled_out="", trip=None), "candidates"),
        (without(0), "candidates"),
        (evidence(0, limit=10**9), "candidates"),
        (evidence(0, observed=1), "candidates"),
        (evidence(0, scope="run"), "candidates"),
        (evidence(0, {"worst_case": 1}), "candidates"),
        (evidence(0, {"target": "third"}), "candidates"),
        (of_change(model="other"), "model"),
        (of_change(before="third"), "before"),
        (of_change(cause=Cause.QUOTA), "cause"),
        (of_change(needs=()), "needs"),
        (of_change(more_usd_micros=1), "cost above"),
        (of_change(passed_over=()), "models passed over"),
    ],
)
def test_a_change_of_model_that_is_recorded_falsely_is_found(change, field):
    world = swapped()
    assert field in fields(derived(world, said_otherwise(world, "model_changed", change)))


@pytest.mark.parametrize(
    "change",
    [
        weighing(before="other"),
        weighing(input_tokens=7),
        weighing(usd_micros=7),
        candidate(0, usd_micros=7),
        candidate(0, ruled_out="tried"),
        candidate(0, ruled_out=""),
        evidence(0, limit=10**9),
        evidence(0, observed=1),
        evidence(0, scope="run"),
        evidence(0, unit="tokens"),
        evidence(0, {"worst_case": 1}),
        without(0),
    ],
)
def test_a_refusal_of_every_model_that_is_recorded_falsely_is_found(change):
    world = too_dear()
    found = derived(world)
    assert {one.verdict for one in found} == {"equal"}
    assert all(known for one in found for _, _, known in one.skipped), "nothing is taken as recorded"
    assert "passed over" in fields(derived(world, said_otherwise(world, "rung_skipped", change)))


@pytest.mark.parametrize(
    "change", [evidence(0, observed=0.5), evidence(0, limit=9), candidate(0, ruled_out="endpoint")]
)
def test_a_retry_token_that_was_refused_falsely_is_found(change):
    world = tokenless()
    assert "passed over" in fields(derived(world, said_otherwise(world, "rung_skipped", change)))


@pytest.mark.parametrize(
    ("change", "field"),
    [
        (weighing(usd_micros=7), "its cost"),
        (candidate(0, usd_micros=7), "cost of thrifty"),
        (candidate(0, ruled_out="dearer"), "candidates"),
        (of_change(model="small"), "model"),
        (of_change(before="thrifty"), "before"),
    ],
)
def test_a_cheaper_model_that_is_recorded_falsely_is_found(change, field):
    world = thrifty()
    assert field in fields(derived(world, said_otherwise(world, "model_changed", change)))


def test_the_prices_of_the_revision_say_what_is_cheaper():
    """The journal is true to the prices that it was written under, and false to others."""
    world = thrifty()
    compiled = replace(world.compiled, prices={**CHEAP, "thrifty": Price(10**9, 10**9)})
    assert {"cost of thrifty", "candidates", "model"} <= fields(derived(world, compiled=compiled))


ALIKE = ({"name": "other", "provider": "elsewhere"}, {"name": "third", "provider": "elsewhere"})


def test_of_one_endpoint_the_nearest_in_cost_is_the_right_one():
    """docs/specification/protections.md, Failover: capabilities, then the least difference in cost."""
    prices = {**PRICES, "third": Price(1_000_000, 2_500_000)}
    world = ran(fabric(*ALIKE, fallbacks=("other", "third")), by_model(small=DOWN, third=summary()), prices=prices)
    [changed] = world.of(ev.ModelChanged)
    assert changed.model == "third"
    farther = ev.Candidate(
        model="other", usd_micros=prices["other"].cost(changed.weighed.input_tokens, changed.weighed.output_tokens)
    )
    wrong = said_otherwise(
        world,
        "model_changed",
        lambda fact: replace(fact, model="other", weighed=replace(fact.weighed, candidates=(farther,))),
    )
    assert {"candidates", "model"} <= fields(derived(world, wrong))


def test_in_high_stakes_a_unapproved_change_is_found():
    world = swapped()
    started = world.events[0]
    events = [replace(started, fact=replace(started.fact, tier=Tier.HIGH_STAKES)), *world.events[1:]]
    assert "asked first" in fields(derived(world, events))


def test_a_breaker_that_was_not_its_provider_s_excludes_no_model():
    table = cell("provider_failure", ("fallback_model", 1), "surface")
    world = ran(fabric(table=table), by_model(small=DOWN, other=summary()), prices=PRICES)
    wrong = said_otherwise(world, "model_changed", candidate(0, ruled_out="breaker"))
    assert "candidates" in fields(derived(world, wrong))


# -- the model that a review offers ----------------------------------------------------------------------------------


def asked():
    """In high-stakes a person is asked, and may name the second of two fallbacks: the first is too dear for one call."""
    spec = fabric(OTHER, THIRD, fallbacks=("other", "third"), budget={"call_usd_micros": own_cost() + 1})
    prices = {**PRICES, "third": PRICES["small"]}
    return ran(spec, by_model(small=DOWN), prices=prices, tier=Tier.HIGH_STAKES)


def test_a_review_says_what_its_model_was_chosen_on():
    world = asked()
    [opened] = world.of(ev.ReviewOpened)
    assert opened.model == "third"
    assert [(one.model, one.ruled_out) for one in opened.weighed.candidates] == [("other", "guard"), ("third", "")]
    found = derived(world)[-1]
    assert (found.verdict, "model offered" in found.judged) == ("equal", True)


@pytest.mark.parametrize(
    ("change", "field"),
    [
        (of_change(model="other"), "model offered"),
        (of_change(model=""), "model offered"),
        (weighing(before="third"), "model that was asked"),
        (weighing(usd_micros=7), "its cost"),
        (candidate(0, ruled_out="needs"), "candidates"),
        (candidate(0, ruled_out="", trip=None), "candidates"),
        (evidence(0, observed=1), "candidates"),
        (candidate(1, usd_micros=7), "cost of third"),
    ],
)
def test_a_review_that_offers_a_model_falsely_is_found(change, field):
    world = asked()
    assert field in fields(derived(world, said_otherwise(world, "review_opened", change)))


def test_a_review_that_no_model_was_looked_at_for_has_no_numbers():
    world = ran(fabric(fallbacks=()), by_model(small=DOWN), tier=Tier.HIGH_STAKES)
    [opened] = world.of(ev.ReviewOpened)
    assert (opened.model, opened.weighed) == ("", None)
    assert derived(world)[-1].verdict == "equal"


# -- buckets that runs share -----------------------------------------------------------------------------------------


def retried():
    return ran(fabric(), by_model(small=[DOWN, summary()], other=summary()), prices=PRICES)


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"level": -11_000}, "a token of provider:scripted"),
        ({"level": 10_000}, "a token of provider:scripted"),
        ({"bucket": "provider:elsewhere"}, "buckets"),
    ],
)
def test_a_bucket_that_could_not_have_given_is_found(changes, field):
    world = retried()
    assert {one.verdict for one in derived(world)} == {"equal"}
    at = next(n for n, e in enumerate(world.events) if e.fact.kind == "retry_scheduled")
    fact = world.events[at].fact
    assert {one.bucket.partition(":")[0] for one in fact.buckets} == {"fabric", "provider"}
    buckets = tuple(replace(one, **changes) if one.bucket.startswith("provider") else one for one in fact.buckets)
    wrong = replace(world.events[at], fact=replace(fact, buckets=buckets))
    assert field in fields(derived(world, [*world.events[:at], wrong, *world.events[at + 1 :]]))


# -- a plan that a person wrote into meanwhile -----------------------------------------------------------------------


def test_a_call_that_was_out_while_a_person_wrote_into_the_plan_is_weighed_with_the_new_words():
    """Every branch is given the whole plan: the prompt that another model would get is not the one that the call reserved for."""
    table = cell("schema_grounding_fail", "escalate", tier="batch") | cell(
        "provider_failure", ("fallback_model", 1), "escalate", tier="batch"
    )
    spec = fabric(workers=2, table=table)

    def worker(command):
        if command.step_id == "fan_out.0.e0.r0":
            return say("no")
        return DOWN.after(20) if command.model == "small" and ".1." in command.step_id else summary()

    world = World(spec, {"worker": worker}, prices=PRICES, tier=Tier.BATCH).start().go(until_s=5)
    brief = {"agent": "worker", "title": "Part 1", "instructions": "Do part 1, " + "and mind the words, " * 20}
    world.decide("edit", edited=brief).go()
    (changed,) = world.of(ev.ModelChanged)
    issued = [fact for fact in world.of(ev.CallIssued) if fact.command_id == changed.command_id]
    assert changed.weighed.input_tokens + changed.weighed.output_tokens > issued[0].reserved_tokens
    assert changed.weighed.input_tokens + changed.weighed.output_tokens == issued[1].reserved_tokens
    assert fields(derived(world)) == set()
