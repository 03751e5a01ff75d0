"""Decisions over the API: each with its evidence, its cell, the other tiers, what followed, and whether it derives."""

from __future__ import annotations

from fabric.models import Run, Workspace
from fabric.services.fabrics.revisions import fabric_publish
from fabric.services.workspaces.policies import policy_set
from tests.console.pages.workspaces.test_policies_of_runs import READS
from tests.fabric.services.world import ran


def test_a_decision_is_explained(program, actor, doubtful):
    run = ran(actor, doubtful)
    answer = program.get(f"/api/v1/runs/{run.id}/explain")
    assert answer.status_code == 200
    told = answer.json()
    assert (told["run_id"], told["derives"], told["erased"]) == (run.id, True, False)
    (one,) = told["decisions"]
    # docs/specification/stages.md: below tau is no failure type and has no ladder; it escalates at once in every tier.
    assert (one["failure_type"], one["reaction"], one["rungs"]) == (None, "escalate", [])
    assert {other["reaction"] for other in one["other_tiers"]} == {"escalate"}
    assert tuple(one["trips"][0][name] for name in ("mechanism", "limit", "observed")) == ("escalation", 0.7, 0.55)
    assert one["followed"][0]["kind"] == "review_opened"


def test_a_run_without_decisions_and_runs_that_are_not_there(program, actor, small):
    run = ran(actor, small)
    assert program.get(f"/api/v1/runs/{run.id}/explain").json()["decisions"] == []
    Run.objects.filter(id=run.id).update(workspace_id=Workspace.objects.create(name="other").id)
    assert program.get(f"/api/v1/runs/{run.id}/explain").status_code == 404
    assert program.get("/api/v1/runs/019a8b5e-4a53-7c1e-9a64-3f7d2b1c0e55/explain").status_code == 404


def test_a_decision_is_explained_under_the_policy_of_then(program, actor):
    fabric_publish(actor=actor, source=READS)
    policy_set(actor=actor, policy={"limits": {"turns": 2}}, expect=0)
    run = ran(actor, "reading")
    policy_set(actor=actor, policy={}, expect=1)
    told = program.get(f"/api/v1/runs/{run.id}/explain").json()
    (one,) = told["decisions"]
    assert (told["derives"], one["differences"], one["judged_again"]) == (True, [], ["turns"])
