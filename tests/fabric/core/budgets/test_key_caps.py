"""Caps of keys as a run meets them: asked for with each model call, for the day and the month of the call, with a cause of their own."""

from datetime import datetime

import pytest

from fabric.core import events as ev
from fabric.core.budgets.key_caps import ENVIRONMENT, KeyCap, ahead, begins_with
from fabric.core.values.taxonomy import Cause, Tier
from fabric.runtime.spending.shares import find_cap
from tests.fabric.core.fabrics import lone
from tests.fabric.core.harness import T0, ran
from tests.fabric.core.scripts import asks, call, gives, summary
from tests.fabric.core.tills import Till

ORIGIN = "https://llm.example.com:443"
BOTH = KeyCap("w-1", ORIGIN, day_usd_micros=5_000, month_usd_micros=9_000)
DAY, MONTH = BOTH.scopes(T0)


def test_each_period_has_a_budget_of_its_own():
    noon, later = 1_795_867_200_000_000, 1_795_867_200_000_000 + 3 * 86_400_000_000
    assert BOTH.scopes(noon) == (f"key_day:w-1:{ORIGIN}:2026-11-28", f"key_month:w-1:{ORIGIN}:2026-11")
    assert BOTH.scopes(later) == (f"key_day:w-1:{ORIGIN}:2026-12-01", f"key_month:w-1:{ORIGIN}:2026-12")
    assert KeyCap("w-1", ORIGIN, day_usd_micros=1).scopes(noon) == BOTH.scopes(noon)[:1]


@pytest.mark.parametrize(
    ("today", "tomorrow", "month"),
    [
        ("2026-11-28", "2026-11-29", "2026-12"),
        ("2027-01-30", "2027-01-31", "2027-02"),
        ("2027-01-31", "2027-02-01", "2027-02"),
        ("2028-02-29", "2028-03-01", "2028-03"),
        ("2026-12-31", "2027-01-01", "2027-01"),
    ],
)
def test_the_next_periods_are_tomorrow_and_the_next_month(today, tomorrow, month):
    cap = KeyCap(owner="w", origin="o", day_usd_micros=1, month_usd_micros=2)
    for hour in (0, 23):
        later, first = ahead(round(datetime.fromisoformat(f"{today}T{hour:02}:59:00+00:00").timestamp() * 1_000_000))
        assert cap.scopes(later)[0] == f"key_day:w:o:{tomorrow}"
        assert cap.scopes(first)[1] == f"key_month:w:o:{month}"


def test_a_budget_begins_with_the_cap_of_its_period_and_of_its_own_key_alone():
    caps = {"small": (KeyCap(ENVIRONMENT, ORIGIN, day_usd_micros=7), BOTH)}
    assert (begins_with(caps, DAY), begins_with(caps, MONTH)) == (5_000, 9_000)
    assert begins_with(caps, DAY.replace("w-1", ENVIRONMENT)) == 7
    assert begins_with(caps, DAY.replace("w-1", "w-2")) is None
    claimed = type("Claimed", (), {"workspace_id": "w-1"})()
    assert find_cap(DAY, claimed, lone().policy, caps).usd_micros == 5_000


def test_every_model_call_is_reserved_from_the_day_and_the_month_and_no_tool_is():
    till = Till(caps={DAY: 1_000_000, MONTH: 1_000_000})
    script = {"worker": [asks(call(q="x")), summary()], "look": gives({"ok": True})}
    world = ran(lone(tool={"usd_per_call": 0.001}), script, till=till, key_caps={"small": (BOTH,)})
    issued = world.of(ev.CallIssued)
    models = [fact for fact in issued if fact.call == "model"]
    assert [[use.scope for use in fact.grants] for fact in models] == [[DAY, MONTH]] * len(models)
    assert all(use.usd_micros == fact.reserved_usd_micros for fact in models for use in fact.grants)
    assert [fact.grants for fact in issued if fact.call == "tool"] == [()]
    spent = sum(fact.cost_usd_micros for fact in world.of(ev.ModelAnswered))
    assert till.spent == {DAY: spent, MONTH: spent}


@pytest.mark.parametrize(("scope", "words"), [(DAY, "day"), (MONTH, "month")])
def test_a_spent_key_refuses_with_a_cause_of_its_own_and_a_person_may_say_go_on(scope, words):
    caps = {DAY: 1_000_000, MONTH: 1_000_000, scope: 10}
    till = Till(caps=caps)
    world = ran(lone(), till=till, key_caps={"small": (BOTH,)}, tier=Tier.HIGH_STAKES)
    trip = world.of(ev.ReactionDecided)[0].cause
    assert trip.cause is Cause.KEY_CAP
    assert trip.message.startswith(f"the key's budget for a {words} of {ORIGIN}:")
    assert world.of(ev.CallIssued) == []
    assert world.review.fact.required_role == "finance"
    till.caps[scope] = 1_000_000
    world.decide("approve").go()
    assert world.end.state == "completed"


def test_a_model_whose_key_has_no_cap_asks_for_nothing():
    till = Till()
    ran(lone(), till=till, key_caps={"other": (BOTH,)})
    assert till.asked == []
