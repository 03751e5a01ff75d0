"""Many slow calls at once on one real worker: a call in flight is a coroutine, never a thread."""

import os
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest

from tests.chaos import inflight

RUNS = 100
CALL_S = 5.0
SERVERS = ("TEST_DATABASE_URL", "TEST_REDIS_URL")
DATABASES = ["sqlite", pytest.param("postgresql", marks=[pytest.mark.postgresql, pytest.mark.redis])]

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def begun(request: pytest.FixtureRequest) -> Iterator[dict[str, Future[Any]]]:
    """Every run that a test here is going to look at, side by side: they mostly wait."""
    here = [item for item in request.session.items if isinstance(item, pytest.Function) and item.path == request.path]
    wanted = [str(item.callspec.params["db"]) for item in here]
    there = [db for db in wanted if db == "sqlite" or all(server in os.environ for server in SERVERS)]
    with ThreadPoolExecutor(len(there)) as side_by_side:
        yield {db: side_by_side.submit(inflight.run, db, RUNS, CALL_S, alone=False) for db in there}


@pytest.mark.parametrize("db", DATABASES)
def test_inflight_calls_are_as_many_as_runs_and_no_threads(begun, db):
    found = begun[db].result()
    print(
        f"\n{db}: {RUNS} runs in {found['together_s']} s, {found['threads']} threads, {found['in_flight_peak']} calls at once"
    )
    assert found["in_flight_peak"] >= RUNS
    assert found["threads"] < 40
    assert found["states"] == ["completed"]
    assert (found["replayed"]["runs"], found["replayed"]["differences"]) == (RUNS, 0)
