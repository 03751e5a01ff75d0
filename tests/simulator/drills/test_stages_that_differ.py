"""Drills of fabrics of which single stages differ: a failure is compared with the cell of the stage in which it is met."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from fabric.core.values.flow import Stage
from fabric.core.values.taxonomy import FailureType, Tier
from simulator.rules.decisions.checks import _cells
from simulator.scenarios.play.cells import drill, matrix
from simulator.scenarios.promises.layers import unmet, unmet_said
from tests.simulator.drills.drilled import drilled
from tests.simulator.drills.variants import with_policy

JSON = dict[str, Any]
BATCH = Tier.BATCH


def cell(failure: str, *rungs: JSON) -> JSON:
    return {"decision_table": {failure: {str(tier): {"rungs": list(rungs)} for tier in Tier}}}


ONCE = cell("provider_failure", {"reaction": "retry", "times": 1}, {"reaction": "abort"})


def test_a_drill_goes_by_the_cell_of_the_stage_in_which_it_meets_the_failure():
    found = drill(with_policy(drilled(), stages={"finalize": ONCE}), FailureType.PROVIDER, BATCH)
    assert (found.verdict, found.observed) == ("pass", "retry > abort > aborted")
    assert found.expected == found.observed
    elsewhere = drill(with_policy(drilled(), stages={"plan": ONCE}), FailureType.PROVIDER, BATCH)
    assert (elsewhere.verdict, elsewhere.observed) == ("pass", drill(drilled(), FailureType.PROVIDER, BATCH).observed)


@pytest.mark.parametrize(("most", "chain"), [(1, "retry > skips retry"), (2, "retry > retry > skips retry")])
def test_a_drill_knows_how_often_a_stage_may_retry(most, chain):
    spec = with_policy(drilled(), stages={"finalize": {"retry": {"stage_retries": most}}})
    found = drill(spec, FailureType.PROVIDER, BATCH)
    assert found.verdict == "pass"
    assert found.observed.startswith(f"{chain} > ")


def test_cells_that_no_drill_meets_are_named():
    spec = with_policy(drilled(), stages={"finalize": ONCE, "validate": ONCE})
    assert {(one.stage, one.failure) for one in unmet(spec)} == {(Stage.VALIDATE, FailureType.PROVIDER)}
    assert unmet_said(spec) == (
        "No drill meets these cells of single stages, so nothing is shown about them: "
        "validate: provider_failure x interactive, validate: provider_failure x batch, validate: provider_failure x high_stakes"
    )
    assert unmet_said(drilled()) == ""


@pytest.mark.parametrize("seed", range(6))
def test_the_whole_table_is_as_promised_whatever_cells_stages_have(seed):
    rng, stages = Random(seed), {stage: JSON() for stage in Stage}
    for stage, own in stages.items():
        _cells(own, stage, {}, rng)
    found = matrix(with_policy(drilled(lead=bool(seed % 2)), stages=stages), seed=seed)
    assert [one for one in found if one.verdict != "pass"] == []
