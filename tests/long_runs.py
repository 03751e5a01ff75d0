"""Tests that take long, and of which a smaller one, or one on the other database, is in every run: `manage.py test --long` has them too.

Every run must end within 15 minutes on two cores. What stands here has its like among the others (said beside it); nothing is here that is proved by
no other test. A name that no test has any more is refused when all tests are collected.
"""

import os
from collections.abc import Sequence
from fnmatch import fnmatchcase

import pytest

ASKED = "FABRIC_TEST_LONG"
"""Variable that is set where the long ones are asked for: some tests try all there is then, and a part of it else."""

LONG = {
    "tests/chaos/test_bad_broker.py::*": "messages lost and doubled: `tests/console/test_celery.py`, and each seed of the simulator",
    "tests/chaos/test_chaos.py::*(postgresql-rabbitmq)": "on PostgreSQL and Redis it is in every run",
    "tests/chaos/test_chaos.py::*(sqlite)": "on PostgreSQL and Redis it is in every run",
    "tests/chaos/test_parts.py::*(deploy)": "a worker that is replaced: `tests/chaos/test_up.py`",
    "tests/chaos/test_parts.py::*(outage)": "a broker that is away: `tests/console/test_celery.py`",
    "tests/chaos/test_parts.py::*(zombies)": "writes under a lost fence: `tests/fabric/adapters/test_writer_under_fire.py`",
    "tests/chaos/test_workers.py::*(sqlite)": "on PostgreSQL it is in every run",
    "tests/console/api/test_at_once.py::test_it_is_done_once(sqlite)": "on PostgreSQL it is in every run",
    "tests/console/api/test_at_once.py::test_sixty_four_*(sqlite)": "on PostgreSQL it is in every run",
    "tests/console/api/test_database_away.py::test_a_disk_that_is_full(sqlite)": "on PostgreSQL it is in every run",
    "tests/console/live/test_outages.py::*(burst-sqlite)": "on PostgreSQL it is in every run",
    "tests/console/live/test_outages.py::*(killed_server-sqlite)": "on PostgreSQL it is in every run",
    "tests/console/live/test_outages.py::*(restarted_server-postgresql)": "on SQLite it is in every run",
    "tests/console/live/test_outages.py::*(sleeping_laptop-sqlite)": "on PostgreSQL it is in every run",
    "tests/e2e/test_run_events.py::test_a_burst_of_10_000_*": "without a browser: `burst` in `tests/console/live/test_outages.py`",
    "tests/fabric/services/test_review_at_once.py::*(sqlite)": "on PostgreSQL it is in every run",
    "tests/simulator/bench/test_command.py::test_the_audit_stream_*(sqlite)": "on PostgreSQL it is in every run",
    "tests/simulator/bench/test_command.py::test_the_last_line_*(sqlite*": "on PostgreSQL it is in every run",
    "tests/simulator/bench/test_idle.py::test_runs_that_wait_*": "its figures are made by hand (docs/figures.md)",
    "tests/simulator/bench/test_pages.py::test_every_view_*(sqlite)": "on PostgreSQL it is in every run",
    "tests/simulator/bench/test_spends.py::test_processes_*(sqlite)": "on PostgreSQL it is in every run",
    "tests/simulator/drills/test_at_once.py::*(sqlite)": "on PostgreSQL it is in every run",
    "tests/simulator/drills/test_conductor.py::test_a_real_worker_*(sqlite)": "on PostgreSQL it is in every run",
    "tests/simulator/drills/test_in_place.py::test_one_that_passes_a_cap_*(cost)": "with the cap of time it is in every run",
    "tests/simulator/drills/test_in_place.py::test_where_the_worker_is_killed_*(postgresql)": "on SQLite it is in every run",
}
"""Patterns of names, round brackets for square ones, and what is like them in every run."""


def many(whole: int) -> int:
    """How many of what is drawn at random: all of them where the long ones are asked for, else a third, drawn anew in every run."""
    return whole if ASKED in os.environ else whole // 3


def of(items: Sequence[pytest.Item]) -> tuple[set[pytest.Item], list[str]]:
    """Those of the tests that are long, and the names here that none of them has."""
    by_file: dict[str, list[pytest.Item]] = {}
    for item in items:
        by_file.setdefault(item.nodeid.partition("::")[0], []).append(item)
    found = {
        pattern: [item for item in by_file.get(pattern.partition("::")[0], ()) if _named(item, pattern)]
        for pattern in LONG
    }
    return {item for named in found.values() for item in named}, [name for name, named in found.items() if not named]


def _named(item: pytest.Item, pattern: str) -> bool:
    return fnmatchcase(item.nodeid.replace("[", "(").replace("]", ")"), pattern)
