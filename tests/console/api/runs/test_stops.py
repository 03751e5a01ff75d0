"""Stops of new runs over the API."""

from __future__ import annotations

import pytest

from fabric.models import StartStop
from fabric.services.runs.stops import stop_new_runs

STOPS = "/api/v1/stops"
REASON = {"reason": "The provider bills twice."}


def test_new_runs_are_stopped_seen_and_allowed(program, small):
    assert program.get(STOPS).json() == {"stops": []}
    made = program.post(STOPS, {"fabric": small, "running": "pause", "for_s": 3_600, **REASON})
    assert made.status_code == 201
    stop = made.json()
    assert (stop["fabric"], stop["stopped_by"], stop["running"], stop["left"]) == (small, "owner", "pause", "pause")
    assert stop["until"] > stop["stopped_at"]
    assert (stop["ended_at"], stop["ended_by"]) == (None, "")
    assert program.get(STOPS).json() == {"stops": [stop]}
    again = program.post(STOPS, {"fabric": small, **REASON})
    assert (again.status_code, "There is a stop already" in again.json()["detail"]) == (409, True)
    assert "code" not in again.json(), "that is for refused starts"
    allowed = program.post(f"{STOPS}/{stop['id']}/allow", {})
    assert (allowed.status_code, allowed.json()["ended_by"], allowed.json()["left"]) == (200, "owner", "")
    assert program.post(f"{STOPS}/{stop['id']}/allow", {"resume": True}).status_code == 409


def test_a_refused_start_has_a_code_for_programs(program, actor, small):
    stop_new_runs(actor=actor, fabric="", reason="Why.")
    answer = program.post("/api/v1/runs", {"fabric": small, "text": "Why?"})
    assert (answer.status_code, answer.json()["code"]) == (409, "new_runs_stopped")
    assert "errors" not in answer.json()


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({}, 422),
        ({"reason": " "}, 422),
        ({**REASON, "running": "drain"}, 422),
        ({**REASON, "for_s": 59}, 422),
        ({**REASON, "fabric": "nowhere"}, 404),
    ],
)
def test_what_is_wrong_stops_nothing(program, small, body, status):
    assert program.post(STOPS, body).status_code == status
    assert not StartStop.objects.exists()
