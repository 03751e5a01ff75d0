"""Fabrics over the API."""

from __future__ import annotations

from fabric.models import Fabric
from fabric.services.fabrics import fabric_publish
from tests.fabric.services.world import SMALL, ran


def test_there_is_none_yet(program):
    assert program.get("/api/v1/fabrics").json() == {"fabrics": []}


def test_the_list_says_what_a_run_can_be_started_with(program, small, doubtful):
    found = program.get("/api/v1/fabrics").json()["fabrics"]
    assert [one["name"] for one in found] == ["doubtful", "small"]
    assert found[1]["example"] == "What do the notes say?"
    assert found[1]["tier"] in found[1]["tiers"]


def test_one_with_its_revisions(program, small, actor):
    fabric_publish(actor=actor, source=SMALL.replace("A small fabric", "A second title"))
    found = program.get("/api/v1/fabrics/small").json()
    assert (found["title"], found["revision"]) == ("A second title", 2)
    assert [(one["number"], one["current"]) for one in found["revisions"]] == [(2, True), (1, False)]
    assert found["revisions"][0]["digest"] == found["digest"] != found["revisions"][1]["digest"]


def test_an_unknown_one_is_404_and_the_names_are_told(program, small):
    answer = program.get("/api/v1/fabrics/large")
    assert answer.status_code == 404
    assert "small" in answer.json()["detail"]


def test_one_of_another_workspace_is_unknown(program, small, stranger):
    Fabric.objects.update(workspace_id=stranger.workspace_id)
    assert program.get("/api/v1/fabrics/small").status_code == 404
    assert program.get("/api/v1/fabrics").json() == {"fabrics": []}


def test_what_a_success_costs(program, small, actor):
    nothing = program.get("/api/v1/fabrics/small/cost-per-success").json()
    assert (nothing["parts"], nothing["whole"]["per_success_usd_micros"], nothing["days"]) == ([], None, 7)
    run = ran(actor, small)
    found = program.get("/api/v1/fabrics/small/cost-per-success", days=1).json()
    assert found["parts"][0] | {"revision": None, "tier": None} == found["whole"]
    assert found["whole"]["per_success_usd_micros"] == found["whole"]["cost_usd_micros"] == run.cost_usd_micros > 0
    assert program.get("/api/v1/fabrics/small/cost-per-success", days=91).status_code == 422
    assert program.get("/api/v1/fabrics/large/cost-per-success").status_code == 404
