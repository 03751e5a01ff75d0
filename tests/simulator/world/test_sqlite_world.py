"""The SQLite stores under the virtual schedule: a seed brings about there, write for write, what it does in memory."""

from __future__ import annotations

from collections import Counter

import pytest

from simulator.clockwork.clock import VirtualClock
from simulator.stores.sqlite import open_stores
from simulator.world.campaign import campaign, simulate
from tests.fabric.conftest import sqlite_tables

__all__ = ["sqlite_tables"]
SEEDS = (*range(20), 83, 157, 200, 496, 2375)
MET = {
    *("granted_call", "shared_refusal", "reaped", "write_grant_gone", "children", "write_family_full", "snapshot"),
    *("taken_over", "busy", "commit_landed", "write_input_gone", "undone_in_time", "ended_completed"),
}
"""What the stores have rules for: the seeds must meet all of it, so choose others when they no longer do."""


def test_seeds_have_the_same_trace_on_a_file_and_in_memory(sqlite_tables):
    """The long form: ``manage.py dev simulate --seeds 2000 --store sqlite``."""
    reports = list(campaign(SEEDS, file=sqlite_tables))
    assert [violation for report in reports for violation in report.violations] == []
    met = sum((report.sometimes for report in reports), Counter())
    assert {name for name in MET if not met[name]} == set()
    assert [report.digest for report in reports] == [report.digest for report in campaign(SEEDS)]


@pytest.mark.parametrize("plant", ["no_unique_input", "grant_without_cap_check"])
def test_stores_that_do_something_else_are_found(sqlite_tables, plant):
    """Those in memory have a planted bug here, those on the file have not."""
    found = [simulate(seed, plant, sqlite_tables).violations for seed in SEEDS]
    assert {one.invariant for violations in found for one in violations} == {"stores_agree"}


def test_what_it_cannot_do_it_says(sqlite_tables):
    with open_stores(sqlite_tables, VirtualClock(), "revision-1") as stores:
        for call, failure in (("heads", "away"), ("write", "late")):
            with pytest.raises(ValueError, match=f"does not fail as '{failure}' at '{call}'"):
                stores.journal.fail_next(failure, call=call)
