"""Real workers on databases of their own: killed after answers, or crowded with slow calls. Longer runs are made by hand: `manage.py chaos`."""

import os
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest

from simulator.chaos import inflight, kill

KILLS = 5
RUNS = 200
CALL_S = 5.0
WORKS: dict[str, Callable[[str], Any]] = {
    "kill": lambda db: kill.run(db, KILLS),
    "inflight": lambda db: inflight.run(db, RUNS, CALL_S, alone=False),
}
SERVERS = ("TEST_DATABASE_URL", "TEST_REDIS_URL")
DATABASES = ["sqlite", pytest.param("postgresql", marks=[pytest.mark.postgresql, pytest.mark.redis])]

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def begun(request: pytest.FixtureRequest) -> Iterator[dict[tuple[str, str], Future[Any]]]:
    """Every chaos run that a test here is going to look at, side by side: they mostly wait, for a lease to lapse or for slow calls."""
    here = [item for item in request.session.items if isinstance(item, pytest.Function) and item.path == request.path]
    wanted = [(item.originalname.split("_")[1], str(item.callspec.params["db"])) for item in here]
    there = [one for one in wanted if one[1] == "sqlite" or all(server in os.environ for server in SERVERS)]
    with ThreadPoolExecutor(len(there)) as side_by_side:
        yield {(work, db): side_by_side.submit(WORKS[work], db) for work, db in there}


@pytest.mark.parametrize("db", DATABASES)
def test_kill_9_loses_nothing_and_asks_nothing_again_that_was_journaled(begun, db):
    found = begun["kill", db].result()
    print(f"\n{db}: {found}")
    assert found.kills == KILLS
    assert found.ended == {"completed": found.runs}
    assert found.runs % kill.RUNS_AT_ONCE == 0  # None is missing.
    assert found.asked_twice == []
    assert found.asked_after_journaled == []
    assert found.not_intended == []
    assert found.answered + found.interrupted >= found.asked  # Each call that was sent was answered or found out.


@pytest.mark.parametrize("db", DATABASES)
def test_inflight_calls_are_as_many_as_runs_and_no_threads(begun, db):
    found = begun["inflight", db].result()
    print(
        f"\n{db}: {RUNS} runs in {found['together_s']} s, {found['threads']} threads, {found['in_flight_peak']} calls at once"
    )
    assert found["in_flight_peak"] >= RUNS
    assert found["threads"] < 40
    assert found["states"] == ["completed"]
    assert (found["replayed"]["runs"], found["replayed"]["differences"]) == (RUNS, 0)
