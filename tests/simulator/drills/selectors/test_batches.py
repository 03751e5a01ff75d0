"""The list of the last batches, and how many drills of a cell stay."""

from __future__ import annotations

import pytest

from fabric.core.values.taxonomy import FailureType, Tier
from simulator.drills.batches.batch import drill_claim, drill_end
from simulator.drills.conductor import Conductor
from simulator.drills.models.tables import Drill, Status
from simulator.drills.selectors import batches as recent
from simulator.drills.selectors.batches import KEPT, batches_recent, drills_prune
from simulator.drills.services.drills import drill_ask, stop_drills

ONE = (FailureType.PROVIDER, Tier.BATCH)
TWO = (FailureType.PROVIDER, Tier.INTERACTIVE)


def ended(actor, *cells, verdict="pass"):
    asked = drill_ask(actor=actor, fabric="small", cells=cells)
    while (one := drill_claim(asked.batch, "h")) is not None:
        drill_end(one, "h", status=Status.COMPLETED, verdict=verdict)
    return asked.batch


def test_batches_are_told_with_what_they_came_to(actor, small, stranger, django_assert_num_queries):
    done = ended(actor, ONE, TWO)
    goes_on = drill_ask(actor=actor, fabric=small, cells=(ONE, TWO)).batch
    drill_end(drill_claim(goes_on, "h"), "h", status=Status.COMPLETED, verdict="deviated")
    with django_assert_num_queries(2):
        (first, second), more = batches_recent(actor)
    assert not more
    assert (first.id, dict(first.came), first.count, first.took) == (goes_on, {"deviated": 1, "queued": 1}, 2, None)
    assert (second.id, dict(second.came), second.asked_by, second.fabric) == (done, {"pass": 2}, "owner", small)
    rows = Drill.objects.filter(batch=done)
    assert second.took == max(row.ended_at for row in rows) - min(row.started_at for row in rows)
    stop_drills(actor=actor, batch=goes_on)
    assert dict(batches_recent(actor)[0][0].came) == {"deviated": 1, "aborted": 1}
    assert batches_recent(stranger) == ([], False)


def test_the_list_goes_on_where_it_ended(actor, small):
    batches = [ended(actor, ONE) for _ in range(5)]
    seen, before = [], ""
    for _ in range(3):
        found, more = batches_recent(actor, before=before, limit=2)
        seen += [one.id for one in found]
        before = found[-1].first
    assert seen == batches[::-1]
    assert not more
    assert batches_recent(actor, before="0") == ([], False)


def test_the_newest_of_each_cell_stay_and_what_is_open(actor, small, monkeypatch):
    assert KEPT == 200
    monkeypatch.setattr(recent, "KEPT", 2)
    other = ended(actor, TWO)
    batches = [ended(actor, ONE) for _ in range(4)]
    Drill.objects.filter(batch=batches[0]).update(scenario="provider-down")
    waiting = drill_ask(actor=actor, fabric=small, cells=(ONE,)).batch
    assert drills_prune(batches[-1]) == 1
    left = set(Drill.objects.values_list("batch", flat=True))
    assert left == {other, batches[0], batches[2], batches[3], waiting}
    assert drills_prune(batches[-1]) == 0


@pytest.mark.parametrize("at_once", [1, 2])
def test_they_go_a_bounded_number_at_a_time(actor, small, monkeypatch, at_once):
    monkeypatch.setattr(recent, "KEPT", 1)
    monkeypatch.setattr(recent, "AT_ONCE", at_once)
    batches = [ended(actor, ONE) for _ in range(4)]
    assert drills_prune(batches[-1]) == at_once
    assert Drill.objects.count() == 4 - at_once


def test_who_drills_has_them_go(actor, small, monkeypatch):
    """The process beside is not needed for that: the batch has ended when the conductor comes to it."""
    monkeypatch.setattr(recent, "KEPT", 1)
    ended(actor, ONE)
    last = drill_ask(actor=actor, fabric=small, cells=(ONE,)).batch
    conductor = Conductor(look_s=0.05)
    monkeypatch.setattr(conductor, "_do", lambda batch: Drill.objects.filter(batch=batch).update(status="completed"))
    assert conductor.look()
    assert set(Drill.objects.values_list("batch", flat=True)) == {last}
