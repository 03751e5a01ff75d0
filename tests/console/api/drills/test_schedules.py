"""Schedules of drills over the API."""

from __future__ import annotations

import pytest

from simulator.drills.models.tables import Drill, Schedule

SCHEDULES = "/api/v1/drills/schedules"
GOOD = {"fabric": "small", "cron": "0 3 * * *", "cells": "stale", "reason": "Each night."}


def test_one_is_made_listed_changed_held_run_and_deleted(program, small):
    made = program.post(SCHEDULES, GOOD)
    assert made.status_code == 201
    one = made.json()
    assert (one["when"], one["made_by"], one["version"], one["last_at"]) == ("every day at 03:00 UTC", "owner", 1, None)
    assert program.get(SCHEDULES).json() == {"schedules": [one]}
    here = f"{SCHEDULES}/{one['id']}"
    changed = program.post(here, {**GOOD, "cron": "15 * * * *", "version": 1}).json()
    assert (changed["when"], changed["version"]) == ("every hour at minute 15", 2)
    assert program.post(here, {**GOOD, "version": 1}).status_code == 409
    assert program.post(f"{here}/pause", {"version": 2}).json()["paused_by"] == "owner"
    assert program.post(f"{here}/pause", {"version": 3}).status_code == 409
    assert program.post(f"{here}/resume", {"version": 3}).json()["paused_by"] == ""
    run = program.post(f"{here}/run", {})
    assert run.status_code == 202
    assert len(run.json()["drills"]) == Drill.objects.count() == 24
    assert program.post(f"{here}/run", {}).status_code == 409
    assert program.get(SCHEDULES).json()["schedules"][0]["last_batch"] == run.json()["batch"]
    assert program.post(f"{here}/delete", {"version": 4}).json() == {"deleted": one["id"]}
    assert program.post(f"{here}/delete", {"version": 4}).status_code == 404
    assert not Schedule.objects.exists()


@pytest.mark.parametrize(
    ("body", "status", "field"),
    [
        ({**GOOD, "cron": "*/5 * * * *"}, 422, "cron"),
        ({**GOOD, "cells": "some"}, 422, "cells"),
        ({**GOOD, "fabric": "nosuch"}, 404, ""),
        ({}, 422, "fabric"),
    ],
)
def test_what_cannot_be_is_refused(program, small, body, status, field):
    answer = program.post(SCHEDULES, body)
    assert answer.status_code == status
    assert field in str(answer.json())
    assert not Schedule.objects.exists()
