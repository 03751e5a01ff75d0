"""Drills over the API: coverage, asking, one drill, and stopping."""

import json
from typing import get_args

import pytest

from console.api.drills.operations import FailureName, ModeName, StateName, TierName
from fabric.core.values.taxonomy import FailureType, Tier
from fabric.models import Incarnation
from simulator.drills.batches.batch import batch_drill, drill_claim, drill_end
from simulator.drills.models.tables import MODES, Drill, Status
from simulator.drills.selectors.drill_views import State

DRILLS = "/api/v1/fabrics/small/drills"
ONE = {"failure": "provider_failure", "tier": "batch"}


def test_the_names_are_all_there():
    assert set(get_args(FailureName)) == set(FailureType)
    assert set(get_args(TierName)) == set(Tier)
    assert set(get_args(StateName)) == set(State)
    assert get_args(ModeName) == MODES


def test_a_cell_is_asked_for_driven_and_shown(program, small):
    asked = program.post(DRILLS, {"cells": [ONE], "seed": 7, "reason": "Why not."})
    assert asked.status_code == 202
    (drill_id,) = asked.json()["drills"]
    waits = program.get(f"/api/v1/drills/{drill_id}").json()
    assert (waits["status"], waits["verdict"], waits["seed"], waits["reason"]) == ("queued", "", 7, "Why not.")
    seen = program.get(DRILLS).json()
    assert (seen["proven"], seen["batches"], len(seen["cells"])) == (0, [asked.json()["batch"]], 24)
    one = drill_claim(asked.json()["batch"], "h")
    drill_end(one, "h", status=Status.COMPLETED, verdict="pass", expected="retry > failed", observed="retry > failed")
    seen = program.get(DRILLS).json()
    (cell,) = [one for one in seen["cells"] if one["state"] != "never"]
    assert (cell["failure"], cell["tier"], cell["state"], cell["last"]["id"]) == (*ONE.values(), "pass", drill_id)
    assert (seen["proven"], seen["batches"]) == (1, [])


def test_all_are_asked_for_and_stopped(program, small):
    asked = program.post(DRILLS, {"cells": "all"}).json()
    assert len(asked["drills"]) == 24
    assert program.post(DRILLS, {"cells": "stale"}).status_code == 409
    stop = f"/api/v1/drills/batches/{asked['batch']}/stop"
    assert program.post(stop, {"reason": "Enough."}).json() == {"batch": asked["batch"], "stopped": 24}
    assert set(Drill.objects.values_list("status", "why")) == {("aborted", "Enough.")}
    assert program.post(stop, {}).status_code == 409


@pytest.mark.parametrize(
    "body", [{}, {"cells": []}, {"cells": "some"}, {"cells": [{**ONE, "tier": "slow"}]}, {"cells": "all", "seed": -1}]
)
def test_what_cannot_be_asked_is_refused(program, small, body):
    assert program.post(DRILLS, body).status_code == 422
    assert not Drill.objects.exists()


def test_what_is_not_there(program, small):
    assert program.get("/api/v1/fabrics/none/drills").status_code == 404
    assert program.get("/api/v1/drills/none").status_code == 404
    assert program.post("/api/v1/drills/batches/none/stop", {}).status_code == 404


def test_live_ones_are_asked_for_with_their_caps_and_counted_for_themselves(program, small):
    live = {"cells": [ONE], "mode": "live", "cap_s": 60, "cap_usd_micros": 5_000}
    refused = program.post(DRILLS, live)
    assert refused.status_code == 503
    assert "No worker is alive" in refused.content.decode()
    Incarnation.objects.create(name="w", started_at=0, lease_until=2**53)
    asked = program.post(DRILLS, live)
    assert asked.status_code == 202
    seen = program.get(f"/api/v1/drills/{asked.json()['drills'][0]}").json()
    assert (seen["mode"], seen["cap_s"], seen["cap_usd_micros"], seen["rollback"]) == ("live", 60, 5_000, None)
    one = drill_claim(asked.json()["batch"], "h")
    body = '{"rollback": {"done": true, "said": "run 1 was ended"}}'
    assert drill_end(one, "h", status=Status.COMPLETED, verdict="pass", body=body)
    covered = program.get(f"{DRILLS}?mode=live").json()
    assert (covered["mode"], covered["proven"]) == ("live", 1)
    [cell] = [cell for cell in covered["cells"] if cell["state"] != "never"]
    assert cell["last"]["rollback"] == {"done": True, "said": "run 1 was ended"}
    assert program.get(DRILLS).json()["proven"] == 0
    for more in ({"mode": "both"}, {"mode": "live", "cap_s": 1}, {"mode": "live", "cap_usd_micros": 0}, {"cap_s": 60}):
        assert program.post(DRILLS, {"cells": [ONE], **more}).status_code == 422
    assert program.get(f"{DRILLS}?mode=both").status_code == 422


@pytest.mark.parametrize(("form", "media"), [("html", "text/html"), ("json", "application/json"), ("junit", "application/xml")])  # fmt: skip
def test_reports_of_one_of_its_batch_and_of_the_coverage(program, small, form, media):
    asked = program.post(DRILLS, {"cells": [ONE], "seed": 7}).json()
    batch_drill(asked["batch"], "h")
    (drill_id,) = asked["drills"]
    for of in (f"/api/v1/drills/{drill_id}", f"/api/v1/drills/batches/{asked['batch']}", DRILLS):
        answer = program.get(f"{of}/report?form={form}")
        assert (answer.status_code, answer.headers["Content-Type"].partition(";")[0]) == (200, media)
        assert b"provider" in b"".join(answer.streaming_content)
    assert json.loads(b"".join(program.get(f"{DRILLS}/report").streaming_content))["passed"] == 1


def test_a_drill_as_a_test_and_what_there_is_no_report_of(program, small):
    asked = program.post(DRILLS, {"cells": [ONE], "seed": 7}).json()
    one = f"/api/v1/drills/{asked['drills'][0]}"
    assert b"def test_provider_failure_batch():" in b"".join(program.get(f"{one}/pytest").streaming_content)
    assert program.get(f"{one}/report?form=journal").status_code == 409
    assert program.get(f"{one}/report?form=pdf").status_code == 422
    assert program.get("/api/v1/drills/none/report").status_code == 404
    assert program.get("/api/v1/drills/none/pytest").status_code == 404
