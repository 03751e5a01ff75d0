"""Scenarios over the API: the library, one, checking, importing, playing, exporting, and capturing a run."""

from __future__ import annotations

import json

import pytest

from fabric.models import Incarnation
from fabric.services.fabrics.revisions import fabric_publish
from simulator.drills.batches.batch import batch_drill
from simulator.drills.models.tables import Drill, StoredScenario
from simulator.scenarios.spec.chaostoolkit import build_experiment, import_experiment
from simulator.scenarios.spec.collection import library
from tests.fabric.services.world import ran
from tests.simulator.drills.library.test_captures import FAILING
from tests.simulator.drills.management.sources import source

LIST = "/api/v1/scenarios"
PLAY = "/api/v1/fabrics/small/scenarios/endpoint-down/drills"


def test_the_library_and_one_of_it(program, small):
    items = program.get(LIST).json()["items"]
    assert [one["name"] for one in items] == list(library())
    one = program.get(f"{LIST}/endpoint-down").json()
    assert {name: one[name] for name in ("origin", "failure", "faults", "parameters", "version", "made_at")} == {
        "origin": "shipped",
        "failure": "provider_failure",
        "faults": ["unavailable"],
        "parameters": {"role": "finalizer", "status": 503},
        "version": 0,
        "made_at": None,
    }
    assert one["words"][0].startswith("The endpoint answers 503, or another error")
    assert program.get(f"{LIST}/nosuch").status_code == 404


def test_one_is_checked_kept_and_taken_away_again(program, actor):
    wrong = program.post(f"{LIST}/check", {"source": source().replace("finalizer", "finaliser")})
    assert wrong.status_code == 422
    assert "ine 12, disturbance.0.role: " in wrong.json()["detail"]
    good = program.post(f"{LIST}/check", {"source": source()})
    assert (good.status_code, good.json()["scenario"]["failure"]) == (200, "provider_failure")
    assert not StoredScenario.objects.exists()
    kept = program.post(LIST, {"source": source(), "name": "kept"})
    assert kept.status_code == 201
    assert (kept.json()["scenario"]["name"], kept.json()["scenario"]["version"]) == ("kept", 1)
    assert program.post(LIST, {"source": source(), "name": "kept"}).status_code == 409
    taken = program.get(f"{LIST}/kept/export").json()
    assert taken["toml"] == StoredScenario.objects.get().source
    assert import_experiment(json.dumps(taken["chaostoolkit"])).scenario.name == "kept"


def test_an_experiment_comes_in_with_what_is_left_out(program, actor):
    tree = build_experiment(library()["tool-error"]) | {"controls": []}
    kept = program.post(LIST, {"source": json.dumps(tree), "name": "theirs"})
    assert kept.json()["left_out"] == ["controls: controls are not applied here, and are left out"]


def test_one_is_played(program, small):
    asked = program.post(PLAY, {"tiers": ["batch"], "parameters": {"status": 500}, "seed": 7, "reason": "Why not."})
    assert asked.status_code == 202
    (drill,) = asked.json()["drills"]
    assert program.post(PLAY, {"tiers": ["batch"]}).status_code == 409
    batch_drill(asked.json()["batch"], "h")
    seen = program.get(f"/api/v1/drills/{drill}").json()
    assert {name: seen[name] for name in ("scenario", "failure", "tier", "seed", "verdict", "reason")} == {
        "scenario": "endpoint-down", "failure": "provider_failure", "tier": "batch", "seed": 7, "verdict": "pass", "reason": "Why not.",
    }  # fmt: skip


def test_one_is_played_live_with_its_caps(program, small):
    live = {"tiers": ["batch"], "mode": "live", "cap_s": 60, "cap_usd_micros": 5_000}
    refused = program.post(PLAY, live)
    assert (refused.status_code, Drill.objects.count()) == (503, 0)
    assert "No worker is alive" in refused.content.decode()
    Incarnation.objects.create(name="w", started_at=0, lease_until=2**53)
    asked = program.post(PLAY, live)
    assert asked.status_code == 202
    seen = program.get(f"/api/v1/drills/{asked.json()['drills'][0]}").json()
    assert {name: seen[name] for name in ("mode", "scenario", "cap_s", "cap_usd_micros", "rollback")} == {
        "mode": "live", "scenario": "endpoint-down", "cap_s": 60, "cap_usd_micros": 5_000, "rollback": None,
    }  # fmt: skip
    cannot = program.post(PLAY.replace("endpoint-down", "tool-error"), {"mode": "live"})
    assert cannot.status_code == 422
    assert "cannot be injected live" in cannot.json()["detail"]
    assert cannot.json()["errors"][0]["path"] == "mode"


def test_one_around_a_run_enters_no_row(program, small):
    asked = program.post(PLAY.replace("endpoint-down", "messages-lost"), {"tiers": ["batch"]}).json()
    assert program.get(f"/api/v1/drills/{asked['drills'][0]}").json()["failure"] is None


@pytest.mark.parametrize(
    "body",
    [
        {"tiers": []},
        {"tiers": ["slow"]},
        {"parameters": {"nosuch": 1}},
        {"parameters": {"status": "x"}},
        {"seed": -1},
        {"mode": "both"},
        {"mode": "live", "cap_s": 1},
        {"mode": "live", "cap_usd_micros": 0},
        {"cap_s": 60},
        {"cap_usd_micros": 9},
    ],
)
def test_what_cannot_be_played_is_refused(program, small, body):
    assert program.post(PLAY, body).status_code == 422
    assert not Drill.objects.exists()


def test_a_run_is_captured(program, actor):
    run = ran(actor, fabric_publish(actor=actor, source=FAILING["server_error"]).name)
    kept = program.post(f"/api/v1/runs/{run.id}/scenario", {"name": "what-broke"})
    assert kept.status_code == 201
    one = kept.json()["scenario"]
    assert (one["name"], one["origin"], one["captured_from"], one["failure"]) == (
        "what-broke",
        "captured",
        run.id,
        "provider_failure",
    )
    assert program.post(f"/api/v1/runs/{run.id}/scenario", {"name": "what-broke"}).status_code == 409
