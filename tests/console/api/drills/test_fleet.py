"""Stale cells of all fabrics over the API: started at once, by fabric, and refused with a reason."""

from __future__ import annotations

from fabric.services.fabrics.revisions import fabric_publish
from simulator.drills.models.tables import Drill
from simulator.drills.services.drill_stop import pull_drill_stop
from tests.simulator.drills.selectors.test_standings import ONE, drilled, named

DRILLS = "/api/v1/drills"


def test_stale_cells_of_every_fabric_are_started(program, actor, small):
    fabric_publish(actor=actor, source=named("another"))
    drilled(actor, small, [ONE])
    asked = program.post(DRILLS, {"reason": "Nightly."})
    assert asked.status_code == 202
    told = asked.json()
    assert [(one["fabric"], len(one["drills"])) for one in told["fabrics"]] == [("another", 24), ("small", 23)]
    assert told["left"] == 0
    first = Drill.objects.get(id=told["fabrics"][0]["drills"][0])
    assert (first.batch, first.reason, first.status) == (told["fabrics"][0]["batch"], "Nightly.", "queued")
    again = program.post(DRILLS, {})
    assert (again.status_code, "no cell of any fabric is stale" in again.json()["detail"].lower()) == (409, True)


def test_while_drills_are_stopped_none_starts(program, actor, small):
    pull_drill_stop(actor=actor, reason="Quiet.")
    refused = program.post(DRILLS, {})
    assert (refused.status_code, "Quiet" in refused.json()["detail"]) == (409, True)
    assert not Drill.objects.exists()
