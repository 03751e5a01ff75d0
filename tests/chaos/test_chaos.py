"""A short run of chaos on each kind of installation, side by side: nothing lost, nothing done twice. Longer ones are made by hand: `manage.py dev chaos`."""

import os
import shutil
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.chaos import campaign
from tests.chaos.campaign import Order, Outcome
from tests.chaos.faults.nemesis import KINDS
from tests.chaos.installation import Plan
from tests.chaos.judging.judge import BETWEEN_SHORT, VERDICTS

SECONDS = 11.0
"""Each, so that every strike that is asked for below has come. One that is short of kills goes on by itself until it has them."""
LIVE = 8
"""Live runs that are kept up: enough for each worker to have some to lose."""
SEED = 20_261_122
PLANS = {
    "sqlite": Plan(),
    "postgresql-redis": Plan("postgresql", "redis", 4),
    "postgresql-rabbitmq": Plan("postgresql", "rabbitmq", 4),
}
PUT_AWAY = "quarantine: The run is quarantined: it was claimed # times without progress."
PROGRAMS = {"redis": "redis-server", "rabbitmq": "rabbitmq-server"}
NEEDS = {
    "sqlite": [],
    "postgresql-redis": [pytest.mark.postgresql, pytest.mark.redis],
    "postgresql-rabbitmq": [pytest.mark.postgresql, pytest.mark.rabbitmq],
}

pytestmark = pytest.mark.slow


def missing(plan: Plan) -> str:
    """Return what is not installed here of what the plan needs: these servers are made and stopped here, those of other tests will not do."""
    if plan.db == "postgresql" and not (
        shutil.which("initdb") or list(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    ):
        return "initdb"
    program = PROGRAMS.get(plan.broker, "")
    return program if program and not shutil.which(program, path=f"{os.environ['PATH']}:/usr/sbin") else ""


@pytest.fixture(scope="module")
def begun(request: pytest.FixtureRequest) -> Iterator[dict[str, Future[Outcome]]]:
    """Every run of chaos that a test here is going to look at, side by side."""
    here = [item for item in request.session.items if isinstance(item, pytest.Function) and item.path == request.path]
    wanted = {str(item.callspec.params["name"]) for item in here}
    there = [name for name in wanted if not missing(PLANS[name])]
    with ThreadPoolExecutor(max(1, len(there))) as side_by_side:
        yield {name: side_by_side.submit(campaign.run, order(PLANS[name])) for name in there}


def order(plan: Plan) -> Order:
    return Order(plan, SECONDS, None, tuple(KINDS), SEED, live=LIVE)


@pytest.mark.parametrize("name", [pytest.param(name, marks=NEEDS[name]) for name in PLANS])
def test_nothing_is_lost_and_nothing_is_done_twice(begun, name):
    if program := missing(PLANS[name]):
        if os.environ.get("CI", "").lower() in ("true", "1"):
            pytest.fail(f"left out: {program} is not installed", pytrace=False)
        pytest.skip(f"{program} is not installed")
    found = begun[name].result()
    print(
        f"\n{name}: {found.line}\nends: {found.states}; strikes: {found.strikes}; undone: {found.undone}; asked a person: {found.asked}"
    )
    assert found.void == []
    assert found.bad == []
    assert {found.line[verdict] for verdict in VERDICTS} == {0}
    assert found.line["kills"] > 0
    assert found.line["kills_between_effect_and_commit"] >= BETWEEN_SHORT
    # A run whose owners were all killed is put away and asks, as it must; that this was so is judged. Nothing else may have asked.
    assert set(found.asked) <= {PUT_AWAY}
    # Who was to be cancelled or to fail is judged too, run by run; here only that there were some, and that they had something to undo.
    assert found.states["completed"] > 0
    assert found.undone > 0
    assert set(found.strikes) >= {"kill", "failpoint", "grants"} | (
        {"skew"} if PLANS[name].db == "postgresql" else set()
    )
