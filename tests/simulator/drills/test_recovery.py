"""A failure that goes away after some decisions: the chain up to there, and a run that completes where none of them has ended it."""

from __future__ import annotations

import pytest

from fabric.core.values.taxonomy import FailureType, Tier
from simulator.drills.fabrics import samples
from simulator.scenarios.play.cells import drill
from simulator.scenarios.promises.digests import CELLS
from tests.simulator.drills.drilled import ANSWER, drilled

ENDABLE = [(failure, tier) for failure, tier in CELLS if failure is not FailureType.COST_OVERRUN]

CHAINS = """
infinite_tool_loop    | interactive | 1 | inject > completed
infinite_tool_loop    | batch       | 1 | inject > completed
infinite_tool_loop    | batch       | 2 | inject > escalate > replan > completed
sub_agent_deadlock    | batch       | 1 | skips handover > abort > aborted
provider_failure      | interactive | 1 | retry > completed
provider_failure      | interactive | 3 | retry > retry > skips fallback_model > skips wait_for_breaker > surface > failed
provider_failure      | batch       | 5 | retry > retry > retry > retry > retry > completed
schema_grounding_fail | batch       | 2 | replan > replan > completed
plan_malformed        | batch       | 1 | replan > completed
semantic_no_progress  | batch       | 1 | replan > completed
"""
"""By hand: row, tier, decisions after which it is gone."""


@pytest.mark.parametrize("line", CHAINS.strip().splitlines())
def test_a_run_goes_on_where_the_failure_ends(line):
    failure, tier, after, chain = (part.strip() for part in line.split("|"))
    cell = drill(drilled(), FailureType(failure), Tier(tier), recovers_after=int(after))
    assert (cell.verdict, cell.expected, cell.observed) == ("pass", chain, chain)


@pytest.mark.parametrize("after", [1, 2, 3])
@pytest.mark.parametrize("person", ["approve", "reject"])
def test_every_cell_recovers_as_its_ladder_says(after, person):
    spec = drilled(lead=True, fallbacks=1, safe_fallback=ANSWER)
    found = [drill(spec, *cell, person=person, recovers_after=after) for cell in ENDABLE]
    assert [cell for cell in found if cell.verdict != "pass"] == []


@pytest.mark.parametrize("spec", samples(), ids=lambda spec: spec.name)
def test_every_cell_of_a_sample_recovers(spec):
    found = [drill(spec, *cell, recovers_after=1) for cell in ENDABLE]
    assert [cell for cell in found if cell.verdict != "pass"] == []
    assert sum(cell.observed.endswith(("> completed", "> stopped")) for cell in found) >= 8
