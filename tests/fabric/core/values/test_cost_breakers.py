"""A circuit breaker that counts what is spent too fast: it opens at the trip, and does not stop runs that spend less (docs/specification/breakers.md)."""

from __future__ import annotations

import json

import pytest

from fabric.core import events as ev
from fabric.core.breaker.gates import list_gates, row_scope
from fabric.core.breaker.passing import BreakerRefusal, pass_breakers
from fabric.core.breaker.table import FORCED, BreakerState, Standing, encode_standing
from fabric.core.spec.policies.breakers import BreakerScope
from fabric.core.values.flow import RunState
from fabric.core.values.frozen import replace
from fabric.core.values.taxonomy import Cause, Tier
from fabric.runtime.ports.spending import GuardRow
from simulator.stores.memory.guards import MemoryGuards
from simulator.world.breakers import VirtualBreakers
from tests.fabric.core.breaker.test_passing import MODEL
from tests.fabric.core.harness import World
from tests.fabric.core.spenders import CHEAP, spender

NAMES = {"agent": "worker", "provider": "scripted", "stage": "fan_out", "fabric": ""}


class Clock:
    """The world's."""

    world: World

    def now(self):
        return self.world.now


class Guarded(World):
    """A world with the store of its breakers."""

    guards: MemoryGuards


def world(scope: str, tier: Tier, **how) -> Guarded:
    clock = Clock()
    store = MemoryGuards(clock)
    fabric, script = spender(breakers=[{"preset": "semantic", "scope": scope}], **how)
    made = Guarded(fabric, script, tier=tier, prices=CHEAP, breakers=VirtualBreakers(store))
    clock.world = made
    made.guards = store
    return made


def standing(made: Guarded, scope: str) -> dict:
    (breaker,) = made.spec.policy.breakers
    (row,) = made.guards.guards([(row_scope(BreakerScope(scope), "fabric-1", NAMES[scope]), breaker.kind)])
    return json.loads(row.state) if row.state else {}


@pytest.mark.parametrize("scope", NAMES)
def test_it_opens_at_the_trip_though_the_run_makes_no_further_call(scope):
    made = world(scope, Tier.INTERACTIVE).start().go()
    assert (made.reactions, made.end.state) == (["abort"], RunState.ABORTED)
    found = standing(made, scope)
    assert (found["state"], found["signal"], found["failures"]) == ("open", "cost_rate", 1)


@pytest.mark.parametrize("scope", NAMES)
def test_the_cheaper_model_that_the_cell_chose_is_not_refused(scope):
    made = world(scope, Tier.BATCH, cheaper="thrifty").start().go()
    assert standing(made, scope)["state"] == "open"
    assert (made.reactions, made.end.state) == (["cheaper_model"], RunState.COMPLETED)
    assert made.of(ev.AttemptFailed) == []


@pytest.mark.parametrize(("model", "passes"), [("small", False), ("thrifty", True)])
def test_a_breaker_that_a_person_opened_refuses_the_cheaper_model_too(model, passes):
    fabric, _ = spender(breakers=[{"preset": "semantic"}], cheaper="thrifty")
    (gate,) = list_gates(fabric.policy.breakers, "fabric-1", fabric, replace(MODEL, model=model), {})
    row = GuardRow(
        scope=gate.key.scope,
        kind=gate.key.kind,
        state="",
        generation=1,
        changed_at=0,
        permits={},
        counts={},
        asked_at=1,
    )
    for signal, goes_out in (("cost_rate", passes), (FORCED, False)):
        steps = pass_breakers([gate])
        next(steps)
        with pytest.raises(StopIteration) as found:
            steps.send(replace(row, state=encode_standing(Standing(state=BreakerState.OPEN, signal=signal))))
        assert isinstance(found.value.value, BreakerRefusal) is not goes_out


@pytest.mark.parametrize("scope", NAMES)
def test_a_run_that_finance_let_go_on_is_not_refused(scope):
    made = world(scope, Tier.HIGH_STAKES).start().go()
    assert (made.reactions, standing(made, scope)["state"]) == (["escalate"], "open")
    made.decide("approve", cap_usd_micros=10_000_000).go()
    assert (made.reactions, made.end.state) == (["escalate"], RunState.COMPLETED)


def test_the_next_run_meets_the_open_breaker():
    first = world("agent", Tier.INTERACTIVE).start().go()
    fabric, script = spender(breakers=[{"preset": "semantic"}])
    other = World(fabric, script, tier=Tier.INTERACTIVE, breakers=first.breakers)
    first.breakers._store._clock.world = other
    other.now = first.now
    other.start().go()
    (refused,) = other.of(ev.AttemptFailed)
    assert (refused.trip.mechanism, refused.cause) == ("circuit_breaker", Cause.COST_VELOCITY)
    assert other.requests == []
    assert refused.message == (
        "the circuit breaker of agent worker is open until 2027-01-15 08:01:07 UTC (the run spent $0.0063 in a minute, and the fabric allows $0.006 a minute)"
    )
