"""All stale cells of all fabrics at once: a bounded number, where the actor may, and a refusal that says why."""

from __future__ import annotations

import pytest

from fabric.services.errors import Refused
from fabric.services.fabrics.revisions import fabric_publish
from simulator.drills.models.tables import Drill
from simulator.drills.services import fleet
from simulator.drills.services.drill_stop import pull_drill_stop
from simulator.drills.services.fleet import FleetAsked, stale_ask
from tests.people import fresh, member
from tests.simulator.drills.selectors.test_standings import ONE, drilled, named


def counted(asked: FleetAsked) -> tuple[int, int, int]:
    return asked.cells, asked.fabrics, asked.left


def test_every_stale_cell_is_started_once(actor, small):
    fabric_publish(actor=actor, source=named("partly"))
    drilled(actor, "partly", [ONE])
    woken = []
    assert counted(stale_ask(actor=actor, wake=lambda: woken.append(1))) == (47, 2, 0)
    assert woken == [1]
    with pytest.raises(Refused, match="no cell of any fabric is stale") as refused:
        stale_ask(actor=actor)
    assert refused.value.code == "conflict"
    assert Drill.objects.filter(status="queued").count() == 47


def test_so_many_fabrics_at_once_and_the_rest_is_said(actor, small, monkeypatch):
    assert fleet.FABRICS_AT_ONCE == 20
    monkeypatch.setattr(fleet, "FABRICS_AT_ONCE", 1)
    for name in ("another", "third"):
        fabric_publish(actor=actor, source=named(name))
    first = stale_ask(actor=actor)
    assert (list(first.asked), counted(first)) == (["another"], (24, 1, 2))
    assert counted(stale_ask(actor=actor, after="small")) == (24, 1, 0), "it goes on behind a name"
    assert counted(stale_ask(actor=actor)) == (24, 1, 0)


def test_while_drills_are_stopped_it_says_so_and_starts_none(actor, small):
    pull_drill_stop(actor=actor, reason="Quiet.")
    with pytest.raises(Refused, match="owner stopped all drills on .*: Quiet; no drill starts until"):
        stale_ask(actor=actor)
    assert not Drill.objects.exists()


def test_it_drills_only_where_the_actor_may(actor, small):
    fabric_publish(actor=actor, source=named("another"))
    vera = fresh(member("vera", "viewer", "editor@another"))
    assert counted(stale_ask(actor=vera)) == (24, 1, 0)
    assert set(Drill.objects.values_list("fabric__name", flat=True)) == {"another"}
    with pytest.raises(Refused, match="viola may not start drills") as refused:
        stale_ask(actor=fresh(member("viola", "viewer")))
    assert refused.value.code == "forbidden"
