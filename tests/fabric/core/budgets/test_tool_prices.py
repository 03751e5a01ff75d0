"""Tools with a price: reserved by the gate that reserves model calls, charged when the call went out, whatever came back (docs/specification/budgets.md)."""

from __future__ import annotations

import pytest

from fabric.core import events as ev
from fabric.core.mechanisms import budget, cost_velocity, find_state
from fabric.core.values.flow import RunState
from fabric.core.values.saga import Outcome
from fabric.core.values.taxonomy import Cause, Tier
from tests.fabric.core.bookings import Desk, at_the_desk, booking, go, travel
from tests.fabric.core.fabrics import lone
from tests.fabric.core.harness import World, ran
from tests.fabric.core.reviews.test_requested_input import wants
from tests.fabric.core.scripts import asks, call, fails, gives, streams, summary
from tests.fabric.core.tills import Till

PRICE = 5_000
PRICED = {"usd_per_call": "0.005"}
ONCE = [asks(), summary()]


def spent(world: World) -> int:
    return find_state(world.run.guards, budget).spent_usd_micros


def of_models(world: World) -> int:
    return sum(fact.cost_usd_micros for fact in world.of(ev.ModelAnswered))


def tool_calls(world: World) -> list[ev.CallIssued]:
    return [fact for fact in world.of(ev.CallIssued) if fact.call == "tool"]


def priced(script, **fields) -> World:
    return ran(lone(tool=PRICED, **fields), {"worker": ONCE, **script})


@pytest.mark.parametrize(
    ("answer", "cost"),
    [
        (gives(), PRICE),
        (gives(error="no such order"), PRICE),
        (fails(Cause.BAD_REQUEST, status=400, outcome=Outcome.REJECTED), PRICE),
        (fails(Cause.BAD_CONFIGURATION, outcome=Outcome.REJECTED), 0),
    ],
    ids=["a result", "an error", "a refusal of its server", "never sent"],
)
def test_a_call_costs_its_price_whatever_came_back_where_it_went_out(answer, cost):
    world = priced({"look": answer})
    assert [fact.reserved_usd_micros for fact in tool_calls(world)] == [PRICE]
    assert spent(world) - of_models(world) == cost


def test_each_attempt_costs_again():
    world = priced({"look": [fails(Cause.TIMEOUT), gives()]}, retry={"base_s": 0.1})
    assert [fact.attempt for fact in tool_calls(world)] == [1, 2]
    assert spent(world) - of_models(world) == 2 * PRICE


def test_a_result_that_stands_for_the_call_of_a_later_activation_costs_nothing_again_though_the_budget_has_no_room():
    desk = Desk()
    again = asks(call("book", "again", room=1))
    script = [asks(booking(1)), fails(Cause.AUTH), again, summary()]
    fabric = travel(book={"usd_per_call": 3}, budget={"call_usd_micros": 3_000_000, "run_usd_micros": 5_000_000})
    world = go(at_the_desk(fabric, desk, script, tier=Tier.BATCH), desk)
    world.decide("respond", message="Book room 1.")
    go(world, desk)
    assert world.end.state is RunState.COMPLETED
    assert [fact.call_id for fact in world.of(ev.CallDeduplicated)] == ["again"]
    assert spent(world) - of_models(world) == 3_000_000


def test_a_call_that_is_made_anew_after_its_answer_broke_off_costs_each_time():
    one = call("look", "one", q="x")
    dropped = fails(Cause.DROPPED_STREAM, partial=True, billed=True)
    script = {"worker": [streams(dropped.after(5), (1.0, one)), asks(call("look", "other", q="x")), summary()]}
    world = ran(lone(tool=PRICED), script)
    assert len(world.executed) == 2
    assert [fact.cost_usd_micros for fact in world.of(ev.ToolAnswered)] == [PRICE, PRICE]


def test_an_attempt_whose_server_asks_a_person_costs_too():
    world = priced({"look": wants()})
    assert [fact.cost_usd_micros for fact in world.of(ev.InputRequested)] == [PRICE]
    assert spent(world) - of_models(world) == PRICE


def test_a_call_that_is_lost_with_its_process_costs_its_price():
    world = World(lone(tool=PRICED), {"worker": ONCE, "look": gives().after(5.0)}).start().go(until_s=3.0)
    assert len(tool_calls(world)) == 1
    world.crash().go()
    assert world.end.state == "completed"
    assert spent(world) - of_models(world) == 2 * PRICE


DEAR = {"usd_per_call": 2}
CAPS = {
    "run_usd_micros": "run budget: the next call may take $2.00, but $0.99991 of $1.00 is left",
    "call_usd_micros": "call budget: the next call may take $2.00, but $1.00 of $1.00 is left",
    "stage_usd_micros": "stage:fan_out budget: the next call may take $2.00, but $0.99991 of $1.00 is left",
    "agent_usd_micros": "agent:worker budget: the next call may take $2.00, but $0.99991 of $1.00 is left",
}


@pytest.mark.parametrize("name", CAPS)
def test_a_call_over_a_cap_is_refused_in_the_words_of_a_model_call_and_takes_the_cost_row(name):
    world = ran(lone(tool=DEAR, budget={name: 1_000_000}), {"worker": ONCE})
    (decided,) = world.of(ev.ReactionDecided)
    assert (decided.failure_type, decided.cause.mechanism) == ("cost_overrun", "budget")
    assert decided.cause.message == CAPS[name]
    assert (tool_calls(world), world.executed) == ([], [])
    assert world.end.state is RunState.ABORTED
    assert spent(world) == of_models(world)


def test_two_calls_of_one_answer_do_not_share_the_room_for_one():
    both = [asks(call(q="x"), call(q="y")), summary()]
    world = ran(lone(tool=PRICED, budget={"stage_usd_micros": 2_500 + PRICE}), {"worker": both})
    assert len(tool_calls(world)) == 1
    assert [fact.cause for fact in world.of(ev.CallRefused)] == [Cause.BUDGET_GATE]


def test_it_is_reserved_from_what_runs_share_and_settled_at_its_price():
    till = Till(caps={"fabric:fabric-1": 1_000_000})
    fabric = lone(tool=PRICED, budget={"fabric_hour_usd_micros": 1_000_000})
    world = World(fabric, {"worker": ONCE, "look": [fails(Cause.TIMEOUT), gives()]}, till=till).start().go()
    assert [[use.usd_micros for use in fact.grants] for fact in tool_calls(world)] == [[PRICE], [PRICE]]
    assert till.spent["fabric:fabric-1"] == spent(world)


def test_a_shared_budget_refuses_it_too():
    till = Till(caps={"fabric:fabric-1": 4_000})
    fabric = lone(tool=PRICED, budget={"fabric_hour_usd_micros": 1_000_000})
    world = World(fabric, {"worker": ONCE}, till=till).start().go()
    (decided,) = world.of(ev.ReactionDecided)
    assert decided.cause.message.startswith("the fabric's budget for an hour: the next call may take $0.005")
    assert tool_calls(world) == []


def test_its_money_counts_in_the_rate_of_the_run():
    rate = {"usd_micros_per_minute": 4_000}
    world = ran(lone(tool=PRICED, cost_velocity=rate), {"worker": ONCE}, tier=Tier.INTERACTIVE)
    (decided,) = world.of(ev.ReactionDecided)
    assert decided.cause.mechanism == "cost_velocity"
    assert find_state(world.run.guards, cost_velocity).run.usd_micros == spent(world)


def test_a_price_that_is_none_is_refused_with_its_place():
    with pytest.raises(ValueError, match=r"'free' is not a price; write dollars for one call, such as 0\.005"):
        lone(tool={"usd_per_call": "free"})
    assert lone(tool={"usd_per_call": 0.0000001}).tools[0].price_usd_micros == 1
