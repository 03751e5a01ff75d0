"""The list of runs over generated rows: no view that an index answers reads the table, on either database. Times are printed, never asserted."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from fabric.selectors.runs.query.filters import slow_terms
from fabric.selectors.runs.query.grammar import FIELDS, Query, parse
from simulator.installation.database import ROOT, clean_environment
from tests.benchmarks.console import many_runs, pages

RUNS = 20_000


@pytest.fixture(scope="module", params=["sqlite", pytest.param("postgresql", marks=pytest.mark.postgresql)])
def views(request: pytest.FixtureRequest) -> list[dict[str, object]]:
    command = [sys.executable, str(ROOT / "manage.py"), "bench", "pages", "--json", "--db", request.param]
    command += ["--runs", str(RUNS), "--rounds", "1"]
    done = subprocess.run(command, env=clean_environment(), cwd=ROOT, capture_output=True, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.slow
def test_every_view_is_answered_and_no_indexed_one_reads_the_whole_table(views):
    assert [view["status"] for view in views] == [200] * len(views)
    indexed = [view for view in views if view["indexed"]]
    assert len(indexed) == len(pages.INDEXED) + len(pages.SORTED) + 1
    plans = [(view["view"], plan) for view in indexed for plan in view["plans"]]
    assert [one for one in plans if pages.SCAN.search(one[1])] == []
    # A view without runs has no chart; each has the rows, the count, and the counts of other views.
    assert all(len(view["plans"]) >= 5 for view in indexed)


def test_every_word_of_the_query_line_is_measured():
    queries = [parse(text, now=0, fabrics=many_runs.FABRICS) for _, text in (*pages.INDEXED, *pages.SCANNED)]
    assert [query for query in queries if not isinstance(query, Query)] == []
    assert {term.field for query in queries for term in query.terms} == set(FIELDS)


def test_what_is_said_to_be_indexed_is_measured_as_such():
    slow = {text: [term.written for term in slow_terms(parse(text, now=0))] for _, text in pages.SCANNED}
    assert {text for text, terms in slow.items() if not terms} == {"id:0123456789ab"}  # Its end is looked for, too.


@pytest.mark.parametrize(
    ("plan", "scans"),
    [
        ("Limit\n  ->  Seq Scan on fabric_run  (cost=0.00..12)", True),
        ("->  Parallel Seq Scan on fabric_run  (cost=0.00..12)", True),
        ("->  Index Scan using run_list on fabric_run", False),
        ("SCAN fabric_run", True),
        ("SCAN fabric_run USING COVERING INDEX run_list", False),
        ("SEARCH fabric_run USING INDEX run_live (workspace_id=?)", False),
    ],
)
def test_a_scan_is_known_when_it_is_seen(plan, scans):
    assert bool(pages.SCAN.search(plan)) is scans
