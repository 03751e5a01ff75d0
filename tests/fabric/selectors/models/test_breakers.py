"""Circuit breakers as people see them: which there are, how near each is to opening, and what became of it."""

import time

import pytest

from fabric.composition import engine as wiring
from fabric.core.breaker.table import FORCED, BreakerState, Standing
from fabric.core.spec.policies.breakers import BreakerScope, outage
from fabric.core.values.units import US
from fabric.models import GuardChange, Workspace
from fabric.selectors.models.breakers import DAY_US, breaker_find, breakers_open, list_breaker_views
from fabric.services.fabrics.revisions import fabric_publish
from tests.fabric.selectors.models.breaker_rows import HALF_OPEN, STOPPED, TRIPPED, change, guarded, tell, tell_to_wait
from tests.fabric.services.world import SMALL


def the(actor, over, name=None):
    (found,) = [one for one in list_breaker_views(actor) if one.over == over and name in (None, one.name)]
    return found


def test_a_fabric_that_names_none_has_one_in_front_of_each_provider(actor, small):
    (one,) = list_breaker_views(actor)
    own = outage().model_copy(update={"on_open": "model"})
    assert (one.over, one.published, one.breaker) == (BreakerScope.PROVIDER, True, own)


def test_without_breakers_there_are_none(actor):
    guarded(actor, "\n  breakers: []\n  breakers_deviation: One worker alone asks this endpoint.\n")
    assert list_breaker_views(actor) == []
    assert breakers_open(actor, now=0) == []


def test_every_breaker_of_the_published_policy_is_there_and_closed(actor):
    fabric_id = guarded(actor)
    found = list_breaker_views(actor)
    assert {one.scope for one in found} == {
        "provider:scripted",
        *(f"agent:{fabric_id}:{name}" for name in ("planner", "reader")),
        f"tool:{fabric_id}:read_document",
    }
    assert {one.standing.state for one in found} == {BreakerState.CLOSED}
    assert all(one.published and one.fabrics == ("small",) and not one.changes for one in found)
    assert {one.words for one in found} == {
        "provider scripted", "agent planner of small", "agent reader of small", "tool read_document of small"
    }  # fmt: skip


@pytest.mark.parametrize(("over", "count"), [("stage", 5), ("fabric", 1)])
def test_a_stage_and_a_fabric_have_theirs(actor, over, count):
    guarded(actor, f"\n  breakers: [{{preset: endpoint, scope: {over}}}]\n")
    assert len(list_breaker_views(actor)) == count


def test_a_named_one_has_the_rows_of_what_it_names_and_two_of_one_policy_share_theirs_out(actor):
    guarded(
        actor,
        "\n  breakers: [{preset: endpoint, scope: agent, only: [reader]}, {preset: endpoint, scope: agent, only: [planner]}, "
        "{preset: semantic, scope: stage, only: [plan, fan_in]}]\n",
    )
    found = list_breaker_views(actor)
    assert {(one.over, one.name) for one in found} == {
        ("agent", "planner"), ("agent", "reader"), ("stage", "plan"), ("stage", "fan_in"),
    }  # fmt: skip
    assert {one.name: one.breaker.only for one in found if one.over == "agent"} == {
        "planner": ("planner",), "reader": ("reader",),
    }  # fmt: skip


def test_a_row_goes_on_when_a_revision_names_what_it_stands_in_front_of_and_ends_with_the_name(actor):
    guarded(actor, "\n  breakers: [{preset: endpoint, scope: agent}]\n")
    change(the(actor, BreakerScope.AGENT, "reader"), TRIPPED)
    guarded(actor, "\n  breakers: [{preset: endpoint, scope: agent, only: [reader]}]\n")
    (seen,) = list_breaker_views(actor)
    assert (seen.name, seen.published, seen.standing) == ("reader", True, TRIPPED)
    guarded(actor, "\n  breakers: [{preset: endpoint, scope: agent, only: [planner]}]\n")
    assert {(one.name, one.published) for one in list_breaker_views(actor)} == {("planner", True), ("reader", False)}


def test_an_address_that_an_oracle_asks_has_a_row_like_any_tool(actor):
    guarded(
        actor,
        "\n  breakers: [{preset: endpoint, scope: tool, only: ['oracle:site']}]\n"
        "gates: {oracle: [{name: site, message: It is down., http: {url: 'https://eu.host/health'}}]}\n",
    )
    assert [(one.name, one.words) for one in list_breaker_views(actor)] == [
        ("oracle:site", "tool oracle:site of small")
    ]


def test_counts_are_those_of_the_generation_beside_their_thresholds(actor):
    guarded(actor)
    tell(the(actor, BreakerScope.PROVIDER), s0=4)
    tool = the(actor, BreakerScope.TOOL)
    tell(tool, s0=4, all0=10)
    first, rate = the(actor, BreakerScope.PROVIDER).signals[0], the(actor, BreakerScope.TOOL).signals[0]
    assert (first.count, first.share, first.words, first.threshold_words) == (
        4,
        80,
        "timeout or server error",
        "opens at 5 in a row",
    )
    assert (rate.count, rate.calls, rate.share) == (4, 10, 80)
    assert rate.threshold_words == "opens above 50% of at least 10 calls in 60 s"
    change(tool, Standing(state=BreakerState.OPEN, trips=1, signal="timeout", failures=6, threshold=0.5))
    assert the(actor, BreakerScope.TOOL).signals[0].count == 0
    assert list_breaker_views(actor)[0].over == BreakerScope.TOOL


def test_a_rate_of_few_calls_is_no_nearer_than_the_calls_it_lacks(actor):
    guarded(actor)
    tell(the(actor, BreakerScope.TOOL), s0=3, all0=3)
    assert the(actor, BreakerScope.TOOL).signals[0].share == 30


def test_an_open_one_says_what_is_left_of_its_cooldown(actor):
    guarded(actor)
    change(the(actor, BreakerScope.PROVIDER), TRIPPED)
    seen = the(actor, BreakerScope.PROVIDER)
    assert seen.cools_at == seen.changed_at + 60 * US
    assert 0 < seen.cooldown_left_us <= 60 * US
    later = breaker_find(actor, seen.scope, seen.kind, now=seen.cools_at + US)
    assert later.cooldown_left_us == 0
    assert [one.scope for one in breakers_open(actor, now=seen.changed_at)] == [seen.scope]


def test_one_whose_endpoint_wants_to_wait_longer_says_so(actor):
    guarded(actor)
    tell_to_wait(the(actor, BreakerScope.PROVIDER), 900)
    closed = the(actor, BreakerScope.PROVIDER)
    assert (closed.cools_at, closed.asked_longer, closed.signals[0].count) == (None, False, 0)
    change(closed, TRIPPED)
    seen = the(actor, BreakerScope.PROVIDER)
    assert seen.asked_longer
    assert seen.cools_at == seen.retry_at
    assert 899 * US < seen.cooldown_left_us <= 900 * US
    change(seen, HALF_OPEN)
    half = the(actor, BreakerScope.PROVIDER)
    assert half.cools_at == seen.retry_at
    assert breaker_find(actor, seen.scope, seen.kind, now=seen.retry_at).cools_at is None
    (row,) = wiring.guards().guards([(seen.scope, seen.kind)])
    assert row.counts["retry_at"] == seen.retry_at


def test_one_whose_endpoint_wants_to_wait_less_than_the_cooldown_says_so(actor):
    guarded(actor)
    tell_to_wait(the(actor, BreakerScope.PROVIDER), 5)
    change(the(actor, BreakerScope.PROVIDER), TRIPPED)
    seen = the(actor, BreakerScope.PROVIDER)
    assert (seen.cools_at, seen.as_asked, seen.asked_longer) == (seen.retry_at, True, False)
    assert seen.changed_at < seen.cools_at <= seen.changed_at + 5 * US


@pytest.mark.parametrize("held", [STOPPED, Standing(state=BreakerState.OPEN, signal=FORCED, by="ana", reason="x")])
def test_one_that_only_a_person_closes_has_no_cooldown(actor, held):
    guarded(actor)
    change(the(actor, BreakerScope.PROVIDER), held)
    assert the(actor, BreakerScope.PROVIDER).cools_at is None


def test_whose_calls_are_probes_is_told_until_their_permits_expire(actor):
    guarded(actor)
    change(the(actor, BreakerScope.PROVIDER), TRIPPED, HALF_OPEN)
    seen = the(actor, BreakerScope.PROVIDER)
    for run, for_s in (("run2", 60), ("run1", 30)):
        asked = {"generation": 2, "holder": f"{run}/plan.0#1", "for_s": for_s, "most": 2}
        assert wiring.guards().permit(seen.scope, seen.kind, **asked)
    first, second = the(actor, BreakerScope.PROVIDER).probes
    assert [(one.holder, one.run) for one in (first, second)] == [("run1/plan.0#1", "run1"), ("run2/plan.0#1", "run2")]
    assert breaker_find(actor, seen.scope, seen.kind, now=first.until).probes == (second,)
    assert breaker_find(actor, seen.scope, seen.kind, now=second.until).probes == ()


def test_trips_of_a_day_and_the_last_changes_come_from_the_log(actor):
    guarded(actor)
    forced = Standing(state=BreakerState.OPEN, signal=FORCED, by="ana", reason="maintenance")
    change(the(actor, BreakerScope.PROVIDER), TRIPPED, HALF_OPEN, TRIPPED, HALF_OPEN, Standing(), forced, Standing())
    GuardChange.objects.filter(generation=1).update(at=time.time_ns() // 1_000 - DAY_US - US)
    seen = the(actor, BreakerScope.PROVIDER)
    assert seen.trips == 1
    assert [one.generation for one in seen.changes] == [7, 6, 5, 4, 3]
    assert (seen.changes[1].standing.by, seen.changes[1].trip, seen.changes[4].trip) == ("ana", False, True)


def test_a_row_of_an_earlier_revision_stays_until_nothing_of_it_is_left(actor):
    guarded(actor)
    before = the(actor, BreakerScope.PROVIDER)
    change(before, TRIPPED)
    fabric_publish(actor=actor, source=SMALL)
    (seen,) = [one for one in list_breaker_views(actor) if not one.published]
    assert (seen.scope, seen.published, seen.standing) == (before.scope, False, TRIPPED)


def test_a_providers_row_is_shown_to_every_workspace_that_uses_it_and_nothing_else_of_others(actor, stranger):
    guarded(actor)
    change(the(actor, BreakerScope.PROVIDER), TRIPPED)
    change(the(actor, BreakerScope.TOOL), TRIPPED)
    assert list_breaker_views(stranger) == []
    assert breakers_open(stranger, now=0) == []
    assert Workspace.objects.count() == 2
    guarded(stranger, "\n  breakers: [{preset: endpoint, cooldown_s: 60}]\n")
    (seen,) = list_breaker_views(stranger)
    assert (seen.scope, seen.standing) == ("provider:scripted", TRIPPED)
