"""One cell for each failure type through real workers, Celery over Redis and PostgreSQL: what the virtual clock shows is what happens."""

import pytest

from fabric.core.taxonomy import FailureType, Tier
from simulator.chaos.harness import site
from simulator.drills.live import PROVIDER, drill_live
from tests.simulator.drills.drilled import drilled

pytestmark = [pytest.mark.slow, pytest.mark.postgresql, pytest.mark.redis]

TIERS = {
    FailureType.TOOL_LOOP: Tier.BATCH,
    FailureType.DEADLOCK: Tier.BATCH,
    FailureType.COST_OVERRUN: Tier.HIGH_STAKES,
    FailureType.PROVIDER: Tier.INTERACTIVE,
    FailureType.SCHEMA_GROUNDING: Tier.BATCH,
    FailureType.PLAN_MALFORMED: Tier.BATCH,
    FailureType.NO_PROGRESS: Tier.INTERACTIVE,
    FailureType.UNSAFE_OUTPUT: Tier.BATCH,
}
QUERY = {"type": "object", "properties": {"query": {"type": "string"}}, "required": ["query"]}
LOOKUP = {
    "name": "lookup",
    "kind": "callable",
    "target": "simulator.drills.provider.lookup",
    "description": "Looks something up.",
    "parameters": QUERY,
}


def test_one_cell_of_each_failure_type_on_real_workers():
    spec = drilled(tools=[LOOKUP], reviewers=["owner"])
    with site("postgresql", provider=PROVIDER, workers=2) as made:
        found = drill_live(made, spec, list(TIERS.items()))
        assert made.deaths() == 0
    assert [(cell.failure, cell.tier) for cell in found] == list(TIERS.items())
    assert [cell for cell in found if cell.verdict != "pass"] == []
    told = {cell.failure: cell.observed for cell in found}
    assert told[FailureType.COST_OVERRUN] == "escalate > waiting"
    assert told[FailureType.TOOL_LOOP] == "inject > replan > abort > aborted"
