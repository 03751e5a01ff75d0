"""Runs whose call an open breaker refused: ``on_open`` says which fallback exists, the cell whether it is used (docs/specification/breakers.md)."""

from __future__ import annotations

import json

import pytest

from fabric.core import events as ev
from fabric.core.breaker.table import BreakerHappening, Standing, apply_happening, encode_standing
from fabric.core.values.flow import RunState
from fabric.core.values.taxonomy import Cause
from fabric.core.values.units import JSON
from simulator.stores.memory.guards import MemoryGuards
from simulator.world.breakers import VirtualBreakers
from tests.fabric.core.harness import World
from tests.fabric.core.ladders.test_fallback_model import DOWN, OTHER, PRICES, THIRD, asked, by_model, fabric
from tests.fabric.core.ladders.test_ladder import cell, skips
from tests.fabric.core.scripts import fails, summary


def opened(on_open: str, *others: JSON, scope: str = "provider", **fields: JSON) -> World:
    """A run whose first call meets a circuit breaker that a person opened."""
    breaker = {"preset": "endpoint", "scope": scope, "on_open": on_open}
    spec = fabric(*others, breakers=[breaker], **fields)
    clock = Clock()
    store = MemoryGuards(clock)
    script = by_model(small=summary("Own."), other=summary("Here."), third=summary("There."))
    world = World(spec, script, prices=PRICES, breakers=VirtualBreakers(store))
    clock.world = world
    (policy,) = spec.policy.breakers
    row = {"provider": "provider:scripted", "agent": "agent:fabric-1:worker"}[scope]
    standing = apply_happening(policy, Standing(), BreakerHappening.FORCED_OPEN, by="dana", reason="maintenance")
    assert store.change(row, policy.kind, generation=0, state=encode_standing(standing))
    return world.start().go()


class Clock:
    """The world's."""

    world: World

    def now(self) -> int:
        return self.world.now


ONCE = cell("provider_failure", ("fallback_model", 1), "surface")


@pytest.mark.parametrize("scope", ["provider", "agent"])
def test_an_open_breaker_whose_fallback_is_a_model_lets_the_cell_use_it(scope):
    world = opened("model", scope=scope, table=ONCE)
    assert (world.reactions, asked(world)) == (["fallback_model"], ["small", "other"])
    assert world.end.state is RunState.COMPLETED
    [refused] = world.of(ev.AttemptFailed)
    assert refused.trip is not None
    assert world.of(ev.ModelChanged)[0].cause == refused.trip.cause == Cause.SERVER_ERROR
    assert json.loads(world.content_of(ev.AttemptFailed)[0]["raw"])["fallback_available"] is True


def test_the_cell_decides_an_open_breaker_s_fallback_is_not_used_where_no_rung_says_so():
    world = opened("model", table=cell("provider_failure", "surface"))
    assert world.of(ev.ModelChanged) == []
    assert world.end.state is RunState.FAILED


@pytest.mark.parametrize("on_open", ["none", "static_answer"])
def test_an_open_breaker_without_a_model_as_its_fallback_changes_to_none(on_open):
    world = opened(on_open, table=ONCE, safe_fallback="Ask again later.")
    assert skips(world)[0] == ("fallback_model", "its circuit breaker names no model as its fallback (on_open)")
    assert world.of(ev.ModelChanged) == []


def test_a_model_whose_provider_s_breaker_is_known_to_be_open_is_not_asked():
    near = {"name": "other", "provider": "scripted"}
    world = opened("model", near, table=ONCE)
    assert "other: the circuit breaker of its provider is open" in skips(world)[0][1]
    world = opened("model", near | {"base_url": "https://other.example.org"}, table=ONCE)
    assert asked(world) == ["small", "other"]
    third = {"name": "third", "provider": "far"}
    world = opened("model", near, third, fallbacks=("other", "third"), table=ONCE)
    assert asked(world) == ["small", "third"]


def test_a_static_answer_is_used_where_the_breaker_and_the_cell_say_so():
    table = cell("provider_failure", ("safe_fallback", 1), "abort")
    world = opened("static_answer", table=table, safe_fallback="Ask again later.")
    assert world.end.state is RunState.COMPLETED
    assert world.end.reason.startswith("the fabric's static answer was given, because the circuit breaker of provider")
    assert world.requests == []
    for on_open in ("none", "model"):
        world = opened(on_open, table=table, safe_fallback="Ask again later.")
        said = "its circuit breaker names no static answer as its fallback (on_open)"
        assert (skips(world), world.end.state) == ([("safe_fallback", said)], RunState.ABORTED)


def test_whether_there_is_a_fallback_is_said_truly():
    for on_open, fallbacks, answer, there in (
        ("none", ("other",), "Later.", False),
        ("model", (), "Later.", False),
        ("static_answer", ("other",), "", False),
        ("static_answer", (), "Later.", True),
    ):
        world = opened(on_open, fallbacks=fallbacks, safe_fallback=answer)
        said = json.loads(world.content_of(ev.AttemptFailed)[0]["raw"])["fallback_available"]
        assert said is there, (on_open, fallbacks, answer)


OWN_BREAKER = [{"preset": "endpoint", "on_open": "model"}]


def behind(
    row: str,
    *others: JSON,
    breakers: JSON = OWN_BREAKER,
    trip: BreakerHappening = BreakerHappening.FORCED_OPEN,
    **fields: JSON,
):
    """A run whose own model is down, and a breaker's row that is open before it begins."""
    spec = fabric(*others, breakers=breakers, **fields)
    clock = Clock()
    store = MemoryGuards(clock)
    script = by_model(small=DOWN, other=summary("Here."), third=summary("There."))
    world = World(spec, script, prices=PRICES, breakers=VirtualBreakers(store))
    clock.world = world
    (policy,) = spec.policy.breakers
    said: JSON = (
        {"by": "dana", "reason": "maintenance"} if trip is BreakerHappening.FORCED_OPEN else {"signal": "server_error"}
    )
    assert store.change(
        row, policy.kind, generation=0, state=encode_standing(apply_happening(policy, Standing(), trip, **said))
    )
    return world.start().go()


def test_a_stand_in_whose_own_breaker_is_open_costs_the_rung_nothing():
    world = behind("provider:elsewhere", OTHER, THIRD, fallbacks=("other", "third"), table=ONCE)
    assert (world.reactions, asked(world)) == (["fallback_model"], ["small", "third"])
    [failed] = world.of(ev.AttemptFailed)
    assert failed.shut == ("other",)
    [changed] = world.of(ev.ModelChanged)
    assert changed.passed_over == (ev.PassedModel(model="other", reason="a circuit breaker in front of it is open"),)
    assert changed.weighed is not None
    assert [(one.model, one.ruled_out) for one in changed.weighed.candidates] == [("other", "breaker"), ("third", "")]


def test_where_every_stand_in_has_an_open_breaker_the_rung_is_skipped():
    world = behind("provider:elsewhere")
    assert world.reactions[:3] == ["retry", "retry", "surface"]
    assert "other: a circuit breaker in front of it is open" in dict(skips(world))["fallback_model"]
    assert len(world.requests) == 3


def test_a_breaker_of_the_agent_that_names_no_model_stands_before_stand_ins_too():
    """It lets no call of the agent pass; one that says *model* means them."""
    per_agent = {"preset": "endpoint", "scope": "agent"}
    for on_open, shut in (("none", ("other",)), ("model", ())):
        world = behind("agent:fabric-1:worker", breakers=[per_agent | {"on_open": on_open}], table=ONCE)
        assert world.of(ev.AttemptFailed)[0].shut == shut


def test_a_breaker_whose_cooldown_is_over_is_probed_by_the_fallback():
    brief = [{"preset": "endpoint", "on_open": "model", "cooldown_s": 0.000001}]
    world = behind("provider:elsewhere", breakers=brief, trip=BreakerHappening.TRIPPED, table=ONCE)
    assert asked(world) == ["small", "other"]


def test_what_is_no_cause_for_another_model_looks_at_no_breaker():
    spec, looked = fabric(breakers=OWN_BREAKER), []
    clock = Clock()
    store = MemoryGuards(clock)
    seen = store.guards
    store.guards = lambda keys: looked.extend(keys) or seen(keys)
    world = World(
        spec, by_model(small=fails(Cause.AUTH, "no"), other=summary()), prices=PRICES, breakers=VirtualBreakers(store)
    )
    clock.world = world
    world.start().go()
    assert {scope for scope, _ in looked} == {"provider:scripted"}
