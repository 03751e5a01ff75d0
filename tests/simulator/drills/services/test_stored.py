"""Asking for drills, stopping them, and what the coverage says of them."""

from __future__ import annotations

import json

import pytest
from django.db import connection

from fabric.core.values.taxonomy import FailureType, Tier
from fabric.models import AuditLine
from fabric.selectors.errors import Refused
from fabric.services.fabrics.revisions import fabric_publish
from simulator.drills.batches.batch import batch_drill, batch_next, drill_claim, drill_end, drills_interrupt
from simulator.drills.models.tables import Drill, Status
from simulator.drills.selectors.drill_views import State
from simulator.drills.selectors.drills import coverage, drill_get, drills_open_count, drills_recent
from simulator.drills.services.drills import SEED_MAX, drill_ask, stop_drills
from simulator.scenarios.promises.digests import CELLS
from tests.fabric.services.world import SMALL

ONE = (FailureType.PROVIDER, Tier.BATCH)
TWO = (FailureType.PROVIDER, Tier.INTERACTIVE)
OTHER = SMALL + "decision_table:\n  provider_failure:\n    batch: {rungs: [{reaction: abort}]}\n"
"""Its cell ``ONE`` has another ladder."""


def asked(actor, fabric="small", cells=(ONE,), **more):
    return drill_ask(actor=actor, fabric=fabric, cells=cells, **more)


def ended(asked_for, verdict="pass", **columns):
    """Every drill of a batch came to that verdict, without being driven."""
    status = Status.FAILED if verdict == "error" else Status.COMPLETED
    while (one := drill_claim(asked_for.batch, "h")) is not None:
        assert drill_end(one, "h", **{"status": status, "verdict": verdict, **columns})


def state_of(actor, cell=ONE):
    return next(one for one in coverage(actor, "small").cells if one.cell == cell)


def test_a_fabric_that_was_never_drilled(actor, small):
    found = coverage(actor, small)
    assert tuple(one.cell for one in found.cells) == CELLS
    assert found.counts == {State.NEVER: 24}
    assert (found.proven, found.batches, found.last, found.ahead) == (0, (), None, 0)


def test_all_24_are_asked_for_and_wait_in_their_order(actor, small):
    woken = []
    found = asked(
        actor, cells="all", seed=7, reason=" before the release ", wake=lambda: woken.append(Drill.objects.count())
    )
    assert woken == [24], "the rows are there when a worker is woken"
    rows = Drill.objects.order_by("place")
    assert tuple((row.failure, row.tier) for row in rows) == CELLS
    assert {(row.seed, row.number, row.asked_by, row.reason, row.mode) for row in rows} == {
        (7, 1, "owner", "before the release", "virtual")
    }
    assert coverage(actor, small).counts == {State.QUEUED: 24}
    assert drills_open_count(actor, 100) == 24
    line = AuditLine.objects.get(kind="drills_asked")
    assert json.loads(line.body) == {
        "batch": found.batch, "number": 1, "cells": 24, "seed": 7, "reason": "before the release",
    }  # fmt: skip


def test_a_seed_is_drawn_where_none_is_given_and_the_same_for_all_of_a_batch(actor, small):
    asked(actor, cells="all")
    (seed,) = set(Drill.objects.values_list("seed", flat=True))
    assert 0 < seed <= SEED_MAX


@pytest.mark.parametrize("seed", [-1, SEED_MAX + 1])
def test_what_is_no_seed_is_refused(actor, small, seed):
    with pytest.raises(Refused, match="no seed: give a whole number") as refused:
        asked(actor, seed=seed)
    assert (refused.value.code, refused.value.field) == ("invalid", "seed")


def test_a_cell_that_waits_is_not_asked_for_twice(actor, small):
    asked(actor)
    with pytest.raises(Refused, match="that cell waits") as refused:
        asked(actor)
    assert refused.value.code == "conflict"
    both = asked(actor, cells=(ONE, TWO))
    assert (len(both.drills), both.left_out) == (1, 1)
    with pytest.raises(Refused, match="all 2 cells wait"):
        asked(actor, cells=(ONE, TWO))


def test_two_who_ask_at_once_are_held_apart_by_the_table(actor, small, monkeypatch):
    from simulator.drills.services import drills as services

    asked(actor)
    monkeypatch.setattr(services, "_open", lambda *_: Drill.objects.none())
    with pytest.raises(Refused, match="at the same moment"):
        asked(actor)
    assert Drill.objects.count() == 1


def test_no_cell_an_unknown_fabric_and_an_unknown_version_are_refused(actor, small, stranger):
    for more in ({"cells": ()}, {"fabric": "none"}, {"number": 9}):
        with pytest.raises(Refused):
            asked(actor, **more)
    with pytest.raises(Refused, match="no fabric is named 'small'"):
        asked(stranger)
    assert not Drill.objects.exists()


@pytest.mark.parametrize(("verdict", "proven"), [("pass", 1), ("deviated", 0), ("error", 0), ("unknown", 0)])
def test_a_verdict_is_the_cells_state(actor, small, verdict, proven):
    ended(asked(actor), verdict, expected="retry > surface", observed="surface")
    seen = state_of(actor)
    assert seen.state == verdict
    assert (seen.last.expected, seen.last.observed) == ("retry > surface", "surface")
    assert seen.last.took >= 0
    assert coverage(actor, small).proven == proven
    assert coverage(actor, small).last.took_s >= 0


def test_a_fresh_verdict_stays_while_the_cell_is_drilled_again(actor, small):
    ended(asked(actor))
    asked(actor)
    seen = state_of(actor)
    assert (seen.state, seen.last.verdict, seen.now.status) == (State.QUEUED, "pass", Status.QUEUED)
    assert coverage(actor, small).proven == 1


def test_another_revision_makes_verdicts_stale_and_the_old_content_makes_them_fresh_again(actor, small):
    ended(asked(actor, cells=(ONE, TWO)))
    assert fabric_publish(actor=actor, source=OTHER).number == 2
    assert state_of(actor, ONE).state is State.STALE
    assert state_of(actor, ONE).last.number == 1
    assert state_of(actor, TWO).state is State.PASS, "another cell's ladder is not its business"
    fabric_publish(actor=actor, source=SMALL)
    assert state_of(actor, ONE).state is State.PASS


def test_stale_ones_are_those_without_a_fresh_verdict(actor, small):
    ended(asked(actor, cells="all"), "deviated")
    with pytest.raises(Refused, match="no cell is stale") as refused:
        asked(actor, cells="stale")
    assert refused.value.code == "conflict"
    Drill.objects.filter(failure=ONE[0], tier=ONE[1]).update(covers="before")
    Drill.objects.filter(failure=TWO[0], tier=TWO[1]).delete()
    assert {drill_get(actor, one).cell for one in asked(actor, cells="stale").drills} == {ONE, TWO}


def test_a_drill_of_an_earlier_revision_says_nothing_new_about_the_cell(actor, small):
    ended(asked(actor))
    fabric_publish(actor=actor, source=OTHER)
    ended(asked(actor), "deviated")
    ended(asked(actor, number=1), "pass")
    seen = state_of(actor)
    assert (seen.state, seen.last.number) == (State.DEVIATED, 2)


def test_what_is_stopped_is_aborted_and_stays_so(actor, small):
    found = asked(actor, cells=(ONE, TWO))
    one = drill_claim(found.batch, "h")
    assert stop_drills(actor=actor, batch=found.batch, reason="enough") == 2
    assert not drill_end(one, "h", status=Status.COMPLETED, verdict="pass")
    assert set(Drill.objects.values_list("status", "verdict", "stopped_by", "why")) == {
        ("aborted", "", "owner", "enough")
    }
    assert coverage(actor, small).counts == {State.NEVER: 24}
    assert AuditLine.objects.filter(kind="drills_stopped", subject=found.batch).count() == 1
    with pytest.raises(Refused, match="have all ended") as refused:
        stop_drills(actor=actor, batch=found.batch)
    assert refused.value.code == "conflict"


def test_stopping_is_for_who_asked_and_for_operators(actor, small, vera, stranger):
    found = asked(actor)
    with pytest.raises(Refused, match="owner asked for these drills: vera may look on") as refused:
        stop_drills(actor=vera, batch=found.batch)
    assert refused.value.code == "forbidden"
    with pytest.raises(Refused, match="no batch of drills"):
        stop_drills(actor=stranger, batch=found.batch)
    own = asked(vera, cells=(TWO,))
    assert stop_drills(actor=vera, batch=own.batch) == 1


def test_what_ran_when_its_process_died_is_interrupted(actor, small):
    found = asked(actor, cells=(ONE, TWO))
    one = drill_claim(found.batch, "h")
    assert drills_interrupt() == 1
    assert not drill_end(one, "h", status=Status.COMPLETED, verdict="pass")
    seen = drill_get(actor, one.id)
    assert (seen.status, seen.verdict, seen.ended) == (Status.INTERRUPTED, "", True)
    assert batch_next() == found.batch, "the rest of it waits"


def test_a_batch_is_driven_cell_by_cell(actor, small):
    found = asked(actor, cells=(ONE, TWO), seed=3)
    assert batch_drill(found.batch, "h") == 2
    for row in Drill.objects.all():
        assert row.verdict in {"pass", "deviated", "error", "unknown"}
        assert row.status in {Status.COMPLETED, Status.FAILED}
        assert row.expected or row.why
        assert json.loads(row.body)["seconds"] > 0
    assert batch_drill(found.batch, "h") == 0


def test_a_revision_that_cannot_be_read_is_an_error_with_a_sentence(actor, small):
    found = asked(actor)
    from fabric.models import Revision
    from fabric.selectors.fabrics.lookup import revision_spec

    Revision.objects.update(spec="{}")
    revision_spec.cache_clear()
    assert batch_drill(found.batch, "h") == 1
    seen = drill_get(actor, found.drills[0])
    assert (seen.status, seen.verdict) == (Status.FAILED, "error")
    assert "published by another version" in seen.why


def test_batches_take_turns_in_the_order_in_which_they_were_asked_for(actor, small):
    fabric_publish(actor=actor, source=SMALL.replace("name: small", "name: other"))
    first, second = asked(actor), asked(actor, fabric="other")
    assert batch_next() == min(first.batch, second.batch)
    assert coverage(actor, small).ahead + coverage(actor, "other").ahead == 1


def test_lists_page_by_the_last_id_and_stay_in_their_workspace(actor, small, stranger):
    ended(asked(actor, cells="all"))
    found, more = drills_recent(actor, limit=10)
    assert (len(found), more) == (10, True)
    rest, more = drills_recent(actor, before=found[-1].id)
    assert (len(rest), more) == (14, False)
    assert len({one.id for one in (*found, *rest)}) == 24
    assert [one.cell for one in drills_recent(actor, fabric=small, cell=ONE)[0]] == [ONE]
    assert drills_recent(stranger) == ([], False)
    with pytest.raises(Refused, match="no drill"):
        drill_get(stranger, found[0].id)


def test_coverage_costs_the_same_however_much_was_drilled(actor, small, django_assert_max_num_queries):
    for _ in range(3):
        ended(asked(actor, cells="all"))
    with django_assert_max_num_queries(9):
        coverage(actor, small)
    if connection.vendor == "sqlite":
        from simulator.drills.selectors.drills import VIRTUAL

        with connection.cursor() as cursor:
            newest = "SELECT id FROM drills_drill WHERE fabric_id = 'f' AND mode = %s AND failure = 'a' AND tier = 'b' AND verdict <> '' ORDER BY id DESC LIMIT 1"
            cursor.execute(f"EXPLAIN QUERY PLAN {newest}", [VIRTUAL])
            assert "USING INDEX drill_of_cell" in " ".join(str(row) for row in cursor.fetchall())
