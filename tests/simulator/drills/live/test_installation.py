"""One cell for each failure type through real workers, Celery over Redis and PostgreSQL: what the virtual clock shows is what happens."""

import json

import pytest

from fabric.core.values.taxonomy import FailureType, Tier
from simulator.drills.fabrics import samples
from simulator.drills.live.installation import PROVIDER, drill_live, drilled_live
from simulator.installation.workers import temporary_site
from tests.simulator.drills.drilled import drilled
from tests.simulator.drills.management.test_drill_command import drill

pytestmark = pytest.mark.slow

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


@pytest.mark.postgresql
@pytest.mark.redis
def test_one_cell_of_each_failure_type_on_real_workers():
    spec = drilled(reviewers=["owner"])
    with temporary_site("postgresql", provider=PROVIDER, workers=2) as made:
        found = drill_live(made, spec, list(TIERS.items()))
        assert made.count_deaths() == 0
    assert [(cell.failure, cell.tier) for cell in found] == list(TIERS.items())
    assert [cell for cell in found if cell.verdict != "pass"] == []
    told = {cell.failure: cell.observed for cell in found}
    assert told[FailureType.COST_OVERRUN] == "escalate > waiting"
    assert told[FailureType.TOOL_LOOP] == "inject > escalate > waiting"


def test_a_sample_with_tools_of_its_own_on_sqlite():
    """trip-desk has a fixed plan, tools at an address that no server serves here, and no agent that merges or writes: no tool outside is asked."""
    trips = next(spec for spec in samples() if spec.name == "trip-desk")
    cells = [(FailureType.NO_PROGRESS, Tier.INTERACTIVE), (FailureType.COST_OVERRUN, Tier.BATCH)]
    found = drilled_live(trips, cells, "sqlite")
    assert [(cell.verdict, cell.observed) for cell in found] == [
        ("pass", "terminate > stopped"),
        ("pass", "skips cheaper_model > abort > aborted"),
    ]
    assert [cell.equipped for cell in found] == ["a tool that reads", "an aggregator"]
    assert len({cell.seed for cell in found}) == 2, "each says with which seed its run was started"


def test_by_command_a_live_drill_says_where_it_runs():
    code, out, err = drill("--live", "--failure", "plan_malformed", "--tier", "interactive", "--json")
    [cell] = json.loads(out)["cells"]
    assert (code, cell["verdict"], cell["observed"]) == (0, "pass", "abort > aborted")
    assert err.splitlines()[0] == "default-table: starting an installation of its own on sqlite"


def test_a_server_that_does_not_answer_is_one_sentence(monkeypatch):
    monkeypatch.setenv("TEST_DATABASE_URL", "postgresql://nobody@127.0.0.1:1/none")
    code, out, err = drill("--live", "--db", "postgresql")
    assert (code, out) == (2, "")
    assert err.splitlines()[-1].startswith("--live: PostgreSQL does not answer: ")
