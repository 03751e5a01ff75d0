"""A circuit breaker that counts outputs which do not keep the fabric's invariants: told by gates, by all runs together (docs/specification/protections.md)."""

from __future__ import annotations

import json

import pytest

from fabric.core import events as ev
from fabric.core.breaker.gates import row_scope
from fabric.core.spec.policies.breakers import BreakerScope
from fabric.core.values.taxonomy import Tier
from simulator.stores.memory.guards import MemoryGuards
from simulator.world.breakers import VirtualBreakers
from tests.fabric.core.fabrics import lone, spec
from tests.fabric.core.harness import World
from tests.fabric.core.ladders.test_ladder import cell
from tests.fabric.core.scripts import summary

KEPT, VIOLATED = summary("The answer is 42."), summary("It depends.")


class Site:
    """Runs of one fabric, one after the other, and the store of their breakers."""

    def __init__(self, fabric):
        self.fabric, self.world = fabric, None
        self.guards = MemoryGuards(self)

    def now(self):
        return self.world.now if self.world else 0

    def ran(self, answer, agent="aggregator", tier=Tier.INTERACTIVE):
        self.world = World(self.fabric, {agent: answer}, tier=tier, breakers=VirtualBreakers(self.guards))
        return self.world.start().go()

    def standing(self, name="aggregator"):
        (breaker,) = self.fabric.policy.breakers
        (row,) = self.guards.guards([(row_scope(BreakerScope.AGENT, "fabric-1", name), breaker.kind)])
        return json.loads(row.state) if row.state else {}


NO_RETRY = cell("schema_grounding_fail", "surface")


def site(*, stage="fan_in", mode="consecutive", threshold=2, table=NO_RETRY) -> Site:
    expression = "payload.text.contains('42')" if stage != "fan_out" else "size(payload.parts) > 5"
    one = {"stage": stage, "name": "numbered", "message": "There is no number.", "expression": expression}
    signal = {"names": ["invariant"], "mode": mode, "threshold": threshold}
    breakers = [{"scope": "agent", "signals": [signal]}]
    return Site(spec(gates={"invariants": [one]}, breakers=breakers, table=table))


def test_it_opens_at_the_nth_violation_of_an_agent_whatever_runs_they_were_in_and_says_what_was_counted():
    made = site()
    made.ran(VIOLATED)
    assert made.standing() == {}
    made.ran(VIOLATED)
    found = made.standing()
    assert (found["state"], found["signal"], found["failures"]) == ("open", "invariant", 2)
    refused = made.ran(KEPT)
    trip = next(fact.trip for fact in refused.of(ev.AttemptFailed) if fact.trip)
    assert (trip.mechanism, trip.cause) == ("circuit_breaker", "invariant")
    assert "2 times invariant" in trip.message
    assert refused.of(ev.ReactionDecided)[-1].failure_type == "schema_grounding_fail"


def test_a_retry_that_violates_again_counts_in_the_same_run():
    made = site(table=None)
    made.ran(VIOLATED)
    assert made.standing()["failures"] == 2


def test_a_streak_is_broken_by_an_output_that_keeps_them_and_a_sum_is_not():
    for mode, state in (("consecutive", None), ("cumulative", "open")):
        made = site(mode=mode)
        for answer in (VIOLATED, KEPT, VIOLATED):
            made.ran(answer)
        assert made.standing().get("state") == state


def test_a_rate_counts_the_outputs_that_keep_them_too():
    made = site(mode="rate", threshold=0.5)
    (signal,) = made.fabric.policy.breakers[0].signals
    for answer in (VIOLATED, KEPT) * 5:
        made.ran(answer)
    assert made.standing() == {}
    assert signal.min_calls == 10
    made.ran(VIOLATED)
    assert made.standing()["state"] == "open"


def test_the_agent_whose_output_is_judged_is_counted_and_no_other():
    made = site(threshold=1)
    made.ran(VIOLATED)
    assert made.standing()["signal"] == "invariant"
    assert [made.standing(name) for name in ("worker", "planner", "critic", "finalizer")] == [{}] * 4


def test_what_a_fan_out_holds_is_no_agents_output():
    made = site(stage="fan_out", threshold=1)
    made.ran(KEPT)
    assert made.world.of(ev.ReactionDecided)[0].cause.cause == "invariant"
    assert made.standing("worker") == {}


@pytest.mark.parametrize("given", [{}, {"gates": {}}])
def test_a_gate_without_invariants_tells_nothing(given):
    fabric = lone(
        breakers=[{"scope": "agent", "signals": [{"names": ["invariant"], "mode": "cumulative", "threshold": 1}]}],
        **given,
    )
    made = Site(fabric)
    made.ran(VIOLATED)
    assert made.standing() == {}
