"""How all fabrics stand with their drills: what is stale, deviated, in error or was never drilled, at a cost that does not grow with them."""

from __future__ import annotations

from fabric.core.values.taxonomy import FailureType, Tier
from fabric.services.fabrics.revisions import fabric_publish
from simulator.drills.batches.batch import drill_claim, drill_end
from simulator.drills.models.tables import Drill, Status
from simulator.drills.selectors.drill_views import State
from simulator.drills.selectors.drills import coverage
from simulator.drills.selectors.standings import FABRICS_MAX, drills_standing
from simulator.drills.services.drills import drill_ask
from tests.fabric.services.world import SMALL

ONE = (FailureType.PROVIDER, Tier.BATCH)
OTHER = SMALL + "decision_table:\n  provider_failure:\n    batch: {rungs: [{reaction: abort}]}\n"


def named(name):
    return SMALL.replace("name: small", f"name: {name}")


def drilled(actor, fabric, cells="all", verdict="pass"):
    asked = drill_ask(actor=actor, fabric=fabric, cells=cells)
    while (one := drill_claim(asked.batch, "h")) is not None:
        drill_end(one, "h", status=Status.COMPLETED, verdict=verdict)


def test_nothing_is_published(actor):
    found = drills_standing(actor)
    assert (found.wrong, found.undrilled, found.whole, found.unseen) == ((), (), 0, 0)


def test_each_fabric_is_told_as_its_coverage_tells_it_the_worst_first(actor, small, stranger):
    for name in ("stale", "deviated", "whole", "partly"):
        fabric_publish(actor=actor, source=named(name))
    fabric_publish(actor=stranger, source=named("theirs"))
    for name in ("stale", "deviated", "whole"):
        drilled(actor, name)
    drilled(actor, "partly", [ONE])
    drilled(actor, "deviated", [ONE], "deviated")
    fabric_publish(actor=actor, source=OTHER.replace("name: small", "name: stale"))
    found = drills_standing(actor)
    assert [one.fabric for one in found.wrong] == ["deviated", "stale", "partly"]
    assert found.undrilled == (small,)
    assert (found.whole, found.unseen) == (1, 0)
    for one in found.wrong:
        seen = coverage(actor, one.fabric)
        assert {state: count for state, count in one.counts.items() if count} == dict(seen.counts)
        assert one.proven == seen.proven
    assert found.wrong[0].counts[State.DEVIATED] == 1
    assert found.wrong[1].counts[State.STALE] == 1
    assert found.wrong[2].counts[State.NEVER] == 23


def test_scenarios_and_live_drills_are_no_verdicts_about_a_cell(actor, small):
    drilled(actor, small)
    Drill.objects.filter(tier="batch").update(scenario="provider-down")
    Drill.objects.filter(tier="interactive").update(mode="live")
    (one,) = drills_standing(actor).wrong
    assert one.counts == {State.PASS: 8, State.NEVER: 16}


def test_its_cost_does_not_grow_with_the_fabrics(actor, small, django_assert_num_queries):
    drilled(actor, small)
    drills_standing(actor)  # The digests of a revision are reckoned once in a process.
    with django_assert_num_queries(5):
        drills_standing(actor)
    for n in range(5):
        fabric_publish(actor=actor, source=named(f"another{n}"))
        drilled(actor, f"another{n}", [ONE])
    drills_standing(actor)
    with django_assert_num_queries(5):
        assert len(drills_standing(actor).wrong) == 5


def test_so_many_are_looked_at_and_the_rest_is_said(actor, small, monkeypatch):
    assert FABRICS_MAX == 40
    monkeypatch.setattr("simulator.drills.selectors.standings.FABRICS_MAX", 1)
    fabric_publish(actor=actor, source=named("another"))
    found = drills_standing(actor)
    assert (found.undrilled, found.unseen) == (("another",), 1)
