"""Cost per success: all money over what completed, by revision and tier, within the window and the workspace."""

from __future__ import annotations

import pytest

from fabric.models import Run
from fabric.selectors.errors import Refused
from fabric.selectors.overview import success_cost
from fabric.selectors.overview.success_cost import SuccessCost, success_costs
from fabric.selectors.overview.tiles import DAY
from fabric.services.fabrics.revisions import fabric_publish
from tests.fabric.services.world import SMALL, ran

NOW = 10**15


def costing(run, cost: int, state: str = "completed", *, at: int = NOW, **fields) -> None:
    Run.objects.filter(id=run.id).update(cost_usd_micros=cost, state=state, created_at=at, **fields)


@pytest.mark.parametrize(("cost", "completed", "each"), [(10, 0, None), (10, 1, 10), (10, 3, 4), (0, 2, 0), (9, 3, 3)])
def test_a_success_pays_for_what_failed_too(cost, completed, each):
    assert SuccessCost(runs=9, completed=completed, cost_usd_micros=cost).per_success == each


def test_by_revision_and_tier(actor, small, stranger):
    costing(ran(actor, small), 100)
    costing(ran(actor, small), 50, "aborted")
    costing(ran(actor, small), 7, "running", tier="batch")
    fabric_publish(actor=actor, source=SMALL.replace("A small fabric", "Another title"))
    costing(ran(actor, small), 30)
    found = success_costs(actor, small, NOW)
    told = [(p.revision, str(p.tier), p.runs, p.completed, p.cost_usd_micros, p.per_success) for p in found.parts]
    assert told == [
        (2, "interactive", 1, 1, 30, 30),
        (1, "interactive", 2, 1, 150, 150),
        (1, "batch", 1, 0, 7, None),
    ]
    assert (found.whole.runs, found.whole.completed, found.whole.per_success) == (4, 2, 94)
    with pytest.raises(Refused):
        success_costs(stranger, small, NOW)


def test_the_window_and_runs_that_a_run_spawned(actor, small):
    costing(ran(actor, small), 100, at=NOW - 7 * DAY)
    costing(ran(actor, small), 200, at=NOW - 7 * DAY + 1)
    costing(ran(actor, small), 400, parent_run_id="x")
    assert success_costs(actor, small, NOW).whole.cost_usd_micros == 200
    assert success_costs(actor, small, NOW, 8).whole.cost_usd_micros == 300


def test_it_says_where_it_was_cut(actor, small, monkeypatch):
    monkeypatch.setattr(success_cost, "NEWEST_RUNS", 1)
    costing(ran(actor, small), 100, at=NOW - 1)
    assert success_costs(actor, small, NOW).cut is False
    costing(ran(actor, small), 10)
    found = success_costs(actor, small, NOW)
    assert (found.cut, found.whole.cost_usd_micros) == (True, 10)


def test_a_success_is_the_oracles_where_one_is_set_and_it_says_which(actor, small):
    costing(ran(actor, small), 100)
    assert success_costs(actor, small, NOW).whole.by == "gates"
    asks = SMALL + "gates:\n  oracle: [{name: said, expression: outcome.text != '', message: Nothing was said.}]\n"
    fabric_publish(actor=actor, source=asks)
    costing(ran(actor, small), 30)
    found = success_costs(actor, small, NOW)
    assert [(part.revision, part.by) for part in found.parts] == [(2, "oracle"), (1, "gates")]
    assert found.whole.by == "mixed"


def test_a_static_answer_is_no_success(actor, small):
    costing(ran(actor, small), 100)
    costing(ran(actor, small), 100, reason="safe_fallback")
    found = success_costs(actor, small, NOW).whole
    assert (found.runs, found.completed, found.per_success) == (2, 1, 200)
