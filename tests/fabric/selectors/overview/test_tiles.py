"""The overview's questions: right numbers, bounded, from an index, one workspace at a time."""

from __future__ import annotations

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from fabric.core.values.flow import TERMINAL, RunState
from fabric.models import Run
from fabric.selectors.overview import tiles as overview
from fabric.selectors.overview.tiles import HOUR, TILE_OF, Tile, first_steps, newest, spend, states, workers
from fabric.services.fabrics.revisions import fabric_publish
from tests.fabric.selectors.rows import NOW, run_row, worker_row
from tests.fabric.services.world import SMALL


def test_every_state_is_counted_somewhere():
    assert set(TILE_OF) == set(RunState)
    assert set(Tile) == {*TILE_OF.values(), Tile.RECOVERED}
    live = {TILE_OF[state] for state in RunState if state not in TERMINAL}
    assert not live & {TILE_OF[state] for state in TERMINAL}


def test_runs_are_counted_by_state(actor, small):
    for state in ("running", "running", "cancelling", "unwinding", "waiting", "queued", "paused", "quarantined"):
        run_row(actor, small, state, asked=5)
    run_row(actor, small, "running", asked=30)
    run_row(actor, small, "completed", asked=50, ended=2)
    run_row(actor, small, "completed", asked=50, ended=3, recovered=True)
    run_row(actor, small, "failed", asked=50, ended=59)
    run_row(actor, small, "aborted", asked=500, ended=1)
    run_row(actor, small, "cancelled", asked=50, ended=1)
    run_row(actor, small, "completed", asked=90, ended=61)
    found = states(actor, NOW)
    assert {tile.value: count.count for tile, count in found.tiles.items()} == {
        "running": 3,
        "waiting": 1,
        "queued": 1,
        "paused": 1,
        "ending": 2,
        "quarantined": 1,
        "completed": 1,
        "recovered": 1,
        "stopped": 0,
        "failed": 2,
        "cancelled": 1,
    }
    assert (found.live, found.ended_count, found.cut) == (9, 5, False)
    assert found.tiles[Tile.RUNNING].oldest_at == NOW - HOUR // 2
    assert found.tiles[Tile.ENDED_BADLY].spark == (1, *[0] * 10, 1)


def test_counts_stop_and_say_so(actor, small, monkeypatch):
    monkeypatch.setattr(overview, "COUNTED", 3)
    for _ in range(3):
        run_row(actor, small, "queued")
    assert (states(actor, NOW).tiles[Tile.QUEUED].count, states(actor, NOW).tiles[Tile.QUEUED].capped) == (3, False)
    run_row(actor, small, "queued")
    assert (states(actor, NOW).tiles[Tile.QUEUED].count, states(actor, NOW).tiles[Tile.QUEUED].capped) == (3, True)


def test_only_the_newest_runs_are_looked_at_and_it_is_said(actor, small, monkeypatch):
    monkeypatch.setattr(overview, "NEWEST_RUNS", 4)
    for n in range(4):
        run_row(actor, small, "completed", asked=n + 1, ended=0.5)
    assert newest(actor)[1] is False
    run_row(actor, small, "completed", asked=9, ended=0.5)
    found = states(actor, NOW)
    assert (found.cut, found.tiles[Tile.COMPLETED].count) == (True, 4)
    assert (spend(actor, NOW).cut, spend(actor, NOW).fabrics[0].runs) == (True, 4)


def test_nothing_of_another_workspace_is_counted(actor, stranger, small):
    run_row(actor, small, "running", cost_usd_micros=9)
    run_row(actor, small, "failed", ended=1)
    found = states(stranger, NOW)
    assert (found.live, found.ended_count) == (0, 0)
    assert spend(stranger, NOW).fabrics == ()
    steps = first_steps(stranger)
    assert steps is not None
    assert (steps.sample, steps.run_id) == ("", "")


def test_spend_stands_beside_the_ceiling_of_each_run(actor, small, doubtful):
    run_row(actor, small, "completed", ended=1, cost_usd_micros=300_000)
    run_row(actor, small, "failed", ended=1, cost_usd_micros=100_000)
    run_row(actor, small, "completed", asked=61, ended=1, cost_usd_micros=7)
    run_row(actor, doubtful, "running", cost_usd_micros=50_000)
    found = spend(actor, NOW)
    assert [(one.fabric_name, one.runs, one.usd_micros, one.share) for one in found.fabrics] == [
        ("small", 2, 400_000, 30),
        ("doubtful", 1, 50_000, 5),
    ]
    assert (found.usd_micros, found.fabrics[0].cap_usd_micros) == (450_000, 1_000_000)
    assert (found.fabrics[0].per_success_usd_micros, found.fabrics[1].per_success_usd_micros) == (400_000, None)


def test_each_run_is_measured_by_the_version_it_is_pinned_to(actor, small):
    run_row(actor, small, "completed", ended=1, cost_usd_micros=300_000)
    fabric_publish(actor=actor, source=SMALL.replace("run_usd_micros: 1000000", "run_usd_micros: 100000"))
    run_row(actor, small, "completed", ended=1, cost_usd_micros=60_000)
    (one,) = spend(actor, NOW).fabrics
    assert (one.revision_number, one.share, one.cap_usd_micros, one.usd_micros, one.runs) == (
        2,
        60,
        100_000,
        360_000,
        2,
    )


def test_money_that_may_not_be_spent_and_was_is_all_of_it(actor, small):
    fabric_publish(
        actor=actor,
        source=SMALL.replace("run_usd_micros: 1000000", "run_usd_micros: 0").replace(
            "{input_usd_per_mtok: 1, output_usd_per_mtok: 2}", "{input_usd_per_mtok: 0, output_usd_per_mtok: 0}"
        ),
    )
    run_row(actor, small, "running")
    assert spend(actor, NOW).fabrics[0].share == 0
    run_row(actor, small, "running", cost_usd_micros=1)
    assert spend(actor, NOW).fabrics[0].share == 100


def test_workers_by_their_leases(actor, small):
    worker_row("alive")
    worker_row("lapsed", lease=-2)
    worker_row("taken over", lease=-5, retired=-4)
    worker_row("stopped", lease=-3, retired=-3)
    worker_row("long gone", lease=-61)
    run_row(actor, small, "running", incarnation="alive")
    found = workers(actor, NOW)
    assert [(worker.name, worker.runs) for worker in found.alive] == [("alive", 1)]
    assert {worker.name for worker in found.missing_workers} == {"lapsed", "taken over"}


def test_the_first_steps_end_with_the_second_run(actor, small):
    steps = first_steps(actor)
    assert steps is not None
    assert (steps.sample, steps.run_id, steps.run_ended) == ("small", "", False)
    run = run_row(actor, small, "running")
    steps = first_steps(actor)
    assert steps is not None
    assert (steps.run_id, steps.run_ended) == (run.id, False)
    Run.objects.update(state="failed")
    steps = first_steps(actor)
    assert steps is not None
    assert steps.run_ended
    run_row(actor, small, "running")
    assert first_steps(actor) is None


def test_a_fabric_that_needs_a_model_is_no_first_step(actor):
    fabric_publish(actor=actor, source=SMALL.replace("provider: scripted", "provider: openai"))
    steps = first_steps(actor)
    assert steps is not None
    assert steps.sample == ""


@pytest.mark.parametrize("ask", [states, spend, workers])
def test_questions_are_answered_from_an_index(actor, small, ask):
    """A query that scans the table of runs would be slow with a million of them, and the page asks once a second."""
    run_row(actor, small, "running", incarnation="w-1")
    run_row(actor, small, "completed", ended=1)
    worker_row("w-1")
    plans = plans_of(lambda: ask(actor, NOW))
    assert plans
    assert [line for line in plans if "SCAN fabric_run" in line and "INDEX" not in line] == []


def plans_of(ask) -> list[str]:
    """SQLite's plan for every query of a question, line by line."""
    if connection.vendor != "sqlite":
        pytest.skip("the plans of SQLite are read")
    with CaptureQueriesContext(
        connection,
    ) as captured:
        ask()
    lines: list[str] = []
    with connection.cursor() as cursor:
        for query in captured.captured_queries:
            if query["sql"].startswith("SELECT"):
                cursor.execute(f"EXPLAIN QUERY PLAN {query['sql']}")
                lines += [row[3] for row in cursor.fetchall()]
    return lines
