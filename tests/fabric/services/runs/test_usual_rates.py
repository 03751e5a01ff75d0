"""A fabric learns what it usually spends from the runs that real workers complete, and the next run takes that at its start."""

from __future__ import annotations

from fabric.selectors.fabrics.lookup import fabric_get, revision_spec, usual_rates
from fabric.selectors.runs.lookup import run_events
from fabric.services.fabrics.revisions import fabric_publish
from tests.fabric.services.world import SMALL, ran


def pinned(actor, run):
    return [row.fact for row in run_events(actor, run.id, limit=500) if row.kind == "usual_rates_pinned"]


def test_the_sixth_run_knows_what_five_have_cost(actor):
    name = fabric_publish(actor=actor, source=SMALL.replace("name: small", "name: steady")).name
    runs = [ran(actor, name) for _ in range(6)]
    assert [len(pinned(actor, run)) for run in runs] == [0, 0, 0, 0, 0, 1]
    (fact,) = pinned(actor, runs[-1])
    found = {one["scope"]: one for one in fact["rates"]}
    assert found["run"]["usd_micros"] == sorted(run.cost_usd_micros for run in runs[:5])[2]
    assert found["run"]["runs"] == 5
    assert {scope.partition(":")[0] for scope in found} == {"run", "agent", "stage"}
    shown = usual_rates(actor, name, revision_spec(fabric_get(actor, name).revision_id))
    assert (shown.runs, shown.rates[-2 if shown.rates[-1].whose != "the run" else -1].runs >= 5) == (6, True)
