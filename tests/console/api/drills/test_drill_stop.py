"""The drill stop over the API."""

from __future__ import annotations

from simulator.drills.models.tables import Drill

DRILL_STOP_COLUMNS = "/api/v1/drill-stop"
DRILLS = "/api/v1/fabrics/small/drills"


def test_it_is_pulled_seen_and_released(program, small):
    assert program.get(DRILL_STOP_COLUMNS).json() == {"pulled": False, "by": "", "at": None, "reason": "", "stopped": 0}
    program.post(DRILLS, {"cells": "all"})
    told = program.post(f"{DRILL_STOP_COLUMNS}/pull", {"reason": "Enough."})
    assert told.status_code == 200
    assert (told.json()["pulled"], told.json()["reason"], told.json()["stopped"]) == (True, "Enough.", 24)
    assert program.get(DRILL_STOP_COLUMNS).json() == {**told.json(), "stopped": 0}
    again = program.post(f"{DRILL_STOP_COLUMNS}/pull", {"reason": "Me too."})
    assert again.status_code == 409
    assert "stopped already" in again.json()["detail"]
    refused = program.post(DRILLS, {"cells": "all"})
    assert refused.status_code == 409
    assert "until the owner or an operator allows drills again" in refused.json()["detail"]
    assert program.post(f"{DRILL_STOP_COLUMNS}/release", {"reason": "Go on."}).json()["pulled"] is False
    assert program.post(f"{DRILL_STOP_COLUMNS}/release", {"reason": "Go on."}).status_code == 409
    assert program.post(DRILLS, {"cells": "stale"}).status_code == 202
    assert Drill.objects.filter(status="queued").count() == 24


def test_it_needs_a_reason(program, small):
    for body in ({}, {"reason": ""}, {"reason": " "}):
        assert program.post(f"{DRILL_STOP_COLUMNS}/pull", body).status_code == 422, body
    assert program.get(DRILL_STOP_COLUMNS).json()["pulled"] is False
