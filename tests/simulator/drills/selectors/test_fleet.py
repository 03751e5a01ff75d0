"""All fabrics with their cells: the counts are those of the standings, the statements do not grow, pages follow each other."""

from __future__ import annotations

import pytest

from fabric.services.fabrics.revisions import fabric_publish
from simulator.drills.models.tables import Drill
from simulator.drills.selectors.drill_views import State
from simulator.drills.selectors.drills import coverage
from simulator.drills.selectors.fleet import TREND_BATCHES, BatchShare, fleet_page, fleet_rows
from simulator.drills.selectors.standings import drills_standing
from simulator.drills.services.drills import drill_ask
from tests.simulator.drills.selectors.test_standings import ONE, OTHER, drilled, named


@pytest.fixture
def fabrics(actor, small):
    """Fabrics in every state: never drilled, stale, deviated, whole and partly drilled."""
    for name in ("stale", "deviated", "whole", "partly"):
        fabric_publish(actor=actor, source=named(name))
    for name in ("stale", "deviated", "whole"):
        drilled(actor, name)
    drilled(actor, "partly", [ONE])
    drilled(actor, "deviated", [ONE], "deviated")
    fabric_publish(actor=actor, source=OTHER.replace("name: small", "name: stale"))


def test_its_counts_are_those_of_the_standings_and_of_each_coverage(actor, fabrics):
    rows = {row.fabric.name: row for row in fleet_page(actor).rows}
    assert list(rows) == ["deviated", "partly", "small", "stale", "whole"]
    found = drills_standing(actor)
    for stand in found.wrong:
        assert rows[stand.fabric].stand == stand
    assert {name for name, row in rows.items() if row.stand.never} == set(found.undrilled)
    for name, row in rows.items():
        seen = coverage(actor, name)
        assert {one.cell: one.state for one in seen.cells} == row.stand.states
        assert row.stand.last_at == max((one.last.ended_at for one in seen.cells if one.last), default=None)
    assert len(rows["stale"].due) == 1
    assert len(rows["partly"].due) == 23
    assert rows["whole"].due == ()


def test_a_cell_that_waits_is_not_due_again(actor, small):
    drill_ask(actor=actor, fabric=small, cells=[ONE])
    (row,) = fleet_page(actor).rows
    assert row.open == {ONE}
    assert len(row.due) == 23
    assert row.count(State.NEVER) == 24


def test_its_statements_do_not_grow_with_the_fabrics(actor, small, django_assert_num_queries):
    drilled(actor, small)
    fleet_page(actor)  # The digests of a revision are reckoned once in a process.
    with django_assert_num_queries(7):
        fleet_page(actor)
    for n in range(5):
        fabric_publish(actor=actor, source=named(f"another{n}"))
        drilled(actor, f"another{n}", [ONE])
    fleet_page(actor)
    with django_assert_num_queries(7):
        assert len(fleet_page(actor).rows) == 6


def test_pages_follow_each_other_by_name(actor, fabrics, stranger):
    fabric_publish(actor=stranger, source=named("theirs"))
    first = fleet_page(actor, limit=2)
    assert ([row.fabric.name for row in first.rows], first.next) == (["deviated", "partly"], "partly")
    second = fleet_page(actor, limit=2, after=first.next)
    third = fleet_page(actor, limit=2, after=second.next)
    assert [row.fabric.name for row in (*second.rows, *third.rows)] == ["small", "stale", "whole"]
    assert third.next == ""
    assert len(list(fleet_rows(actor))) == 5


def test_those_that_were_never_drilled(actor, fabrics):
    assert [row.fabric.name for row in fleet_page(actor, never=True).rows] == ["small"]
    drill_ask(actor=actor, fabric="small", cells=[ONE])
    assert [row.fabric.name for row in fleet_page(actor, never=True).rows] == ["small"], "it has no verdict yet"
    drilled(actor, "small", "stale")
    assert fleet_page(actor, never=True).rows == ()


def test_the_trend_is_what_passed_in_the_newest_batches(actor, small):
    drilled(actor, small)
    drilled(actor, small, [ONE], "deviated")
    for _ in range(TREND_BATCHES - 2):
        drilled(actor, small, [ONE])
    (row,) = fleet_page(actor).rows
    assert row.trend[:3] == (BatchShare(24, 24), BatchShare(0, 1), BatchShare(1, 1))
    drilled(actor, small, [ONE])
    (row,) = fleet_page(actor).rows
    assert row.trend[0] == BatchShare(0, 1)
    assert len(row.trend) == TREND_BATCHES
    Drill.objects.update(mode="live")
    assert fleet_page(actor).rows[0].trend == ()
