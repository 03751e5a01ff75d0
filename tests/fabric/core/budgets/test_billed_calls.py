"""A run books calls whose endpoint bills otherwise than was reserved, and at some point asks such an endpoint no more."""

from __future__ import annotations

import json
from typing import Any

import pytest

from fabric.core import events as ev
from fabric.core.budgets.charges import Charge, charge
from fabric.core.events.inputs import CallFailed, ModelReplied
from fabric.core.mechanisms import budget, find_state
from fabric.core.spec.fabric import FabricSpec
from fabric.core.values.cost import Price, TokenParts
from fabric.core.values.taxonomy import Cause, ErrorClass, Tier
from fabric.runtime.spending.overruns import LATELY_US, Surprises
from fabric.runtime.spending.shares import SETTLES
from tests.fabric.core.fabrics import lone, tree
from tests.fabric.core.harness import World, ran
from tests.fabric.core.mechanisms.test_run_caps import capped
from tests.fabric.core.scripts import asks, call, fails, gives, say, streams, summary
from tests.fabric.core.spenders import DAY

SPIKE = 270_000


def spiky(tier: Tier = Tier.INTERACTIVE, surprises: Surprises | None = None, **caps: Any) -> World:
    """A worker under a dollar whose endpoint bills $0.27 a call, whatever was reserved."""
    money = {"run_usd_micros": 1_000_000, **caps}
    fabric = FabricSpec.model_validate(tree(roles=(), budget=money, deadlines=DAY, cost_velocity={"factor": 0}))
    answers = [say("", call(q=f"question {n}"), cost_usd_micros=SPIKE) for n in range(9)]
    script = {"worker": answers, "look": [gives(f"found {n}") for n in range(9)]}
    return World(fabric, script, tier=tier, surprises=surprises or Surprises()).start().go()


def model_calls(world: World) -> list[ev.CallIssued]:
    return [fact for fact in world.of(ev.CallIssued) if fact.call == "model"]


def spent(world: World) -> int:
    spent: int = find_state(world.run.guards, budget).spent_usd_micros
    return spent


@pytest.mark.parametrize("tier", Tier)
def test_an_endpoint_that_bills_many_times_what_was_reserved_is_not_asked_where_that_could_pass_the_cap(tier):
    world = spiky(tier)
    assert [fact.reserved_usd_micros for fact in model_calls(world)][1:] == [SPIKE, SPIKE]
    assert spent(world) == 3 * SPIKE
    said = world.of(ev.ReactionDecided)[0].cause.message
    assert said.startswith("run budget: spent $0.81 of $1.00, and the next call may take $0.27: the endpoint billed")
    assert said.endswith("had been reserved; raise the cap or set call_usd_micros")


def test_the_first_surprise_may_pass_a_cap_and_is_the_last():
    world = spiky(run_usd_micros=100_000)
    assert len(model_calls(world)) == 1
    assert spent(world) == SPIKE
    assert world.of(ev.ReactionDecided)[0].cause.message.startswith(
        "run budget: spent $0.27 of $0.10: the endpoint billed"
    )


def test_another_run_of_the_same_process_knows_it_from_the_first_call_on():
    surprises = Surprises()
    spiky(surprises=surprises)
    later = spiky(surprises=surprises, run_usd_micros=1_000_001)  # Another revision: its models may be others.
    assert model_calls(later)[0].reserved_usd_micros < SPIKE
    again = spiky(surprises=surprises)
    assert {fact.reserved_usd_micros for fact in model_calls(again)} == {SPIKE}


def test_a_bill_is_forgotten_after_an_hour():
    surprises, key = Surprises(), ("fabric revision", "small")
    surprises.add(key, budget.billed_above(10, 10, 500, 5), 0)
    assert surprises.dearest(key, LATELY_US - 1).usd_micros == 500
    assert surprises.dearest(key, LATELY_US).usd_micros == 0
    surprises.add(key, budget.billed_above(10, 10, 100, 5), LATELY_US)
    assert surprises.dearest(key, LATELY_US).usd_micros == 100


def told_of():
    """Two processes and the row that they share."""
    rows = {}

    def tell(scope, merged):
        rows[scope] = merged(rows.get(scope, ""))

    return rows, Surprises(tell), Surprises(tell)


def test_what_one_process_was_billed_another_learns_from_the_row_they_share_and_forgets_by_the_same_hour():
    rows, mine, theirs = told_of()
    mine.add(("fabric revision", "small"), budget.billed_above(10, 10, 500, 5), 7)
    theirs.add(("fabric revision", "large"), budget.billed_above(10, 10, 5, 500), 7)
    theirs.add(("fabric revision", "small"), budget.billed_above(10, 10, 400, 50), 8)
    fresh = Surprises()
    fresh.learn("fabric revision", rows["fabric revision"])
    assert fresh.dearest(("fabric revision", "small"), 9) == budget.BilledAbove(500, 50, 10, 10)
    assert fresh.dearest(("fabric revision", "large"), 9) == budget.BilledAbove(0, 500, 0, 10)
    assert fresh.dearest(("fabric revision", "small"), LATELY_US + 8).usd_micros == 0
    mine.add(("fabric revision", "small"), budget.billed_above(10, 10, 100, 5), 2 * LATELY_US)
    assert list(json.loads(rows["fabric revision"])) == ["small"]
    fresh.learn("fabric revision", rows["fabric revision"])
    assert fresh.dearest(("fabric revision", "small"), 2 * LATELY_US).usd_micros == 100


# -- answers that are refused ------------------------------------------------------------------------------------------


def test_an_answer_over_the_cap_of_bytes_is_booked_as_it_was_billed():
    text = f'{{"text": "{"x" * 500}"}}'
    world = ran(capped(content_bytes=400), {"worker": say(text, input_tokens=40, output_tokens=1_250_000)})
    fact = world.of(ev.AttemptFailed)[0]
    assert fact.cause is Cause.PAYLOAD_CAP
    assert (fact.charged_usd_micros, fact.charged_tokens, fact.billed) == (40 + 2_500_000, 1_250_040, True)
    planned = world.of(ev.ModelAnswered)[0].cost_usd_micros
    assert spent(world) == planned + 2_500_040


def test_an_answer_that_contradicts_what_it_streamed_is_booked_as_it_was_billed():
    one = call("look", "a", q="x")
    lies = streams(asks(call("look", "a", q="else")).after(5), (1.0, one))
    world = ran(lone(), {"worker": [lies, asks(one), summary()]})
    fact = world.of(ev.AttemptFailed)[0]
    assert (fact.partial, fact.charged_usd_micros, fact.billed) == (True, 50 + 2 * 20, True)


def test_a_failed_attempt_whose_usage_is_known_is_booked_at_its_price_and_says_what_was_not_believed():
    how = {"input_tokens": 7, "output_tokens": 9, "billed": True, "usage_problem": "the endpoint reports none"}
    world = ran(lone(), {"worker": [fails(Cause.MALFORMED_ANSWER, **how), summary()]})
    fact = world.of(ev.AttemptFailed)[0]
    assert (fact.charged_usd_micros, fact.input_tokens, fact.output_tokens) == (7 + 18, 7, 9)
    assert fact.usage_problem == "the endpoint reports none"


RESERVED = Charge(1_000, 600)
PRICE = Price(1_000_000, 2_000_000)


def failed(**fields: Any) -> CallFailed:
    return CallFailed(command_id="c", attempt=1, cause=Cause.TIMEOUT, message="no", **fields)


@pytest.mark.parametrize(
    ("given", "comes_to"),
    [
        (failed(), Charge(0, 0)),
        (failed(billed=True), RESERVED),
        # All of it is known: it is that, above the reservation and below.
        (failed(billed=True, input_tokens=10, output_tokens=10), Charge(30, 20, True)),
        (failed(billed=True, input_tokens=5_000, output_tokens=10), Charge(5_020, 5_010, True)),
        (failed(input_tokens=10, output_tokens=10), Charge(30, 20, True)),
        # One side is not: it may be anything up to the reservation.
        (failed(billed=True, input_tokens=10), Charge(1_000, 600)),
        (failed(billed=True, input_tokens=5_000), Charge(5_000, 5_000, True)),
        (failed(input_tokens=10), Charge(10, 10, True)),
        # The endpoint names its price.
        (failed(billed=True, input_tokens=1, output_tokens=1, cost_usd_micros=77), Charge(77, 2, True)),
        (failed(billed=True, cost_usd_micros=77), Charge(77, 0, True)),
    ],
)
def test_an_attempt_is_charged_as_it_was_billed_and_else_as_it_was_reserved(given, comes_to):
    assert charge(PRICE, RESERVED, given) == comes_to


def test_an_attempt_of_a_model_without_a_price_is_charged_as_it_was_reserved():
    assert charge(None, RESERVED, failed(billed=True, input_tokens=1, output_tokens=1)) == RESERVED
    replied = ModelReplied(command_id="c", attempt=1, text="", input_tokens=1, output_tokens=1)
    assert charge(None, RESERVED, replied).usd_micros == RESERVED.usd_micros


def test_parts_of_an_answer_are_charged_at_their_own_prices():
    price = Price(1_000_000, 2_000_000, cached_usd_micros_per_mtok=100_000)
    given = {"input_tokens": 1_000, "output_tokens": 10, "parts": TokenParts(cached=900)}
    replied = ModelReplied(command_id="c", attempt=1, text="", **given)
    assert charge(price, RESERVED, replied).usd_micros == 100 + 90 + 20
    assert charge(price, RESERVED, failed(**given)).usd_micros == 100 + 90 + 20


@pytest.mark.parametrize(("charged", "billed", "settled"), [(9, True, 9), (9, False, None), (0, False, 0)])
@pytest.mark.parametrize("unit", ["usd_micros", "tokens"])
def test_shared_budgets_are_settled_at_the_bill_of_a_refused_answer(unit, charged, billed, settled):
    usd, tokens = (charged, 7) if unit == "usd_micros" else (7, charged)
    fact = ev.AttemptFailed(
        command_id="c",
        attempt=1,
        step_id="s",
        error_class=ErrorClass.TRANSIENT_INFRA,
        cause=Cause.UNKNOWN,
        message="",
        charged_usd_micros=usd,
        charged_tokens=tokens,
        billed=billed,
    )
    assert SETTLES["attempt_failed"](fact, unit)[0] == settled
