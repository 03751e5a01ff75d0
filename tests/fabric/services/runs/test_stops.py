"""Stops of new runs: who may, what is refused, and that no start slips through."""

from __future__ import annotations

import threading
from dataclasses import replace

import pytest
from django.db import connection, transaction

from fabric.core.audit.lines import Act
from fabric.core.values.units import US
from fabric.models import AuditLine, Run, StartStop
from fabric.selectors.runs.stops import find_open_stop, find_stop, stop_get, stops_list, stops_standing
from fabric.services.errors import Refused
from fabric.services.fabrics.revisions import fabric_publish
from fabric.services.runs.forks import run_fork
from fabric.services.runs.start import STOPPED, run_start
from fabric.services.runs.stop_work import stops_carry_out
from fabric.services.runs.stops import allow_new_runs, are_stops_due, may_stop_starts, stop_new_runs
from fabric.worker.process.duties import database_us
from tests.fabric.services.world import SMALL, ran

WAIT_S = 60
BLOCKED_S = 0.5
"""So long a caller waits that waits for a lock; one that does not is done long before."""


@pytest.fixture
def start(store, nudge, actor):
    """Starts a run of a fabric."""

    def started(fabric, **more):
        return run_start(store=store, nudge=nudge, actor=actor, fabric=fabric, text="Why?", **more)

    return started


@pytest.fixture
def other(actor):
    """A second fabric."""
    return fabric_publish(actor=actor, source=SMALL.replace("name: small", "name: other")).name


def lines(act):
    return list(AuditLine.objects.filter(kind=act).values_list("actor", "subject"))


def refused(start, fabric):
    with pytest.raises(Refused) as caught:
        start(fabric)
    assert (caught.value.code, caught.value.field) == ("conflict", STOPPED)
    return caught.value.message


class TestWhatIsRefused:
    def test_no_run_of_a_stopped_fabric_starts_and_one_sentence_says_all(self, start, actor, small, other):
        stop_new_runs(actor=actor, fabric=small, reason=" The provider\nis down. ")
        said = refused(start, small)
        assert said.startswith(f"new runs of {small} are stopped since 20")
        assert said.endswith(
            f"UTC, by owner: The provider is down; start it again when an operator or owner has allowed new runs of {small}"
        )
        assert start(other).created
        assert Run.objects.count() == 1
        assert lines("run_started") == [("owner", Run.objects.get().id)], "a refused start leaves no line"

    def test_no_run_of_a_stopped_workspace_starts(self, start, actor, small, other):
        stop = stop_new_runs(actor=actor, fabric="", reason="An incident.")
        assert [refused(start, one).partition(" since ")[0] for one in (small, other)] == ["new runs are stopped"] * 2
        allow_new_runs(actor=actor, stop_id=stop.id)
        assert start(small).created
        assert lines(Act.NEW_RUNS_STOPPED) == lines(Act.NEW_RUNS_ALLOWED) == [("owner", actor.workspace_id)]

    def test_where_both_stand_that_of_the_workspace_is_named_and_both_count(self, start, actor, small, other):
        stop_new_runs(actor=actor, fabric=small, reason="Its tool.")
        whole = stop_new_runs(actor=actor, fabric="", reason="Everything.")
        assert "Everything" in refused(start, small)
        assert [one.fabric for one in stops_standing(actor)] == ["", small]
        allow_new_runs(actor=actor, stop_id=whole.id)
        assert "Its tool" in refused(start, small)
        assert start(other).created

    def test_a_repeated_start_gets_its_run_of_before(self, start, actor, small):
        first = start(small, start_key="order-1")
        stop_new_runs(actor=actor, fabric=small, reason="Later.")
        again = start(small, start_key="order-1")
        assert (again.run_id, again.created) == (first.run_id, False)

    def test_a_fork_is_refused_too(self, store, nudge, actor, small):
        origin = ran(actor, small)
        stop_new_runs(actor=actor, fabric=small, reason="Later.")
        with pytest.raises(Refused, match=r": Later; start it again when an operator or owner") as caught:
            run_fork(store=store, nudge=nudge, actor=actor, run_id=origin.id, seq=1)
        assert caught.value.field == STOPPED

    def test_a_stop_of_another_workspace_refuses_nothing(self, start, stranger, small):
        stop_new_runs(actor=stranger, fabric="", reason="There.")
        assert start(small).created


class TestItsEnd:
    def test_its_given_end_comes_by_the_databases_clock(self, start, store, nudge, actor, small):
        stop = stop_new_runs(actor=actor, fabric=small, reason="Until noon.", for_s=3_600)
        assert stop.until_at == stop.stopped_at + 3_600 * US
        assert ", until 20" in refused(start, small)
        assert not are_stops_due(database_us())
        ended = database_us() - 1
        StartStop.objects.update(until_at=ended)
        assert start(small).created, "before any worker recorded the end"
        assert (find_stop(actor, small), stops_standing(actor)) == (None, [])
        assert are_stops_due(database_us())
        stops_carry_out(store, nudge)
        seen = stop_get(actor, stop.id)
        assert (seen.ended_at, seen.ended_by) == (ended, "system")
        assert lines(Act.STOP_EXPIRED) == [("system", small)]
        assert not are_stops_due(database_us())

    def test_a_new_one_may_follow_one_whose_end_has_come(self, start, actor, small):
        first = stop_new_runs(actor=actor, fabric=small, reason="Short.", for_s=60)
        StartStop.objects.update(until_at=database_us() - 1)
        second = stop_new_runs(actor=actor, fabric=small, reason="Again.")
        assert stop_get(actor, first.id).ended_by == "system"
        assert "Again" in refused(start, small)
        assert [one.id for one in stops_list(actor)] == [second.id, first.id]

    def test_it_is_lifted_once(self, actor, small):
        stop = stop_new_runs(actor=actor, fabric=small, reason="Later.")
        assert find_open_stop(actor, small).id == stop.id
        lifted = allow_new_runs(actor=replace(actor, name="ana"), stop_id=stop.id)
        assert lifted.ended_by == "ana"
        for resume in (False, True):
            with pytest.raises(Refused, match="has ended already") as caught:
                allow_new_runs(actor=actor, stop_id=stop.id, resume=resume)
            assert caught.value.code == "conflict"
        assert lines(Act.NEW_RUNS_ALLOWED) == [("ana", small)]
        with pytest.raises(Refused, match=f"new runs of {small} are not stopped"):
            find_open_stop(actor, small)


class TestWhatIsAsked:
    def test_one_place_is_stopped_once(self, actor, small):
        stop_new_runs(actor=actor, fabric=small, reason="First.")
        with pytest.raises(Refused, match=r"already: new runs of small are stopped since .*: First\.") as caught:
            stop_new_runs(actor=actor, fabric=small, reason="Second.")
        assert caught.value.code == "conflict"
        assert StartStop.objects.count() == 1

    @pytest.mark.parametrize(
        ("given", "code", "field"),
        [
            ({"reason": " \n\t"}, "invalid", "reason"),
            ({"running": "drain"}, "invalid", "running"),
            ({"for_s": 59}, "invalid", "for_s"),
            ({"for_s": 31 * 86_400}, "invalid", "for_s"),
            ({"fabric": "nowhere"}, "not_found", "fabric"),
        ],
    )
    def test_what_is_wrong_is_refused_and_stops_nothing(self, actor, small, given, code, field):
        with pytest.raises(Refused) as caught:
            stop_new_runs(**{"actor": actor, "fabric": small, "reason": "Why.", **given})
        assert (caught.value.code, caught.value.field) == (code, field)
        assert not StartStop.objects.exists()

    @pytest.mark.parametrize("role", ["editor", "reviewer", "finance", "safety", "reader", "auditor", "viewer"])
    def test_others_than_operators_and_owners_may_neither_stop_nor_allow(self, actor, small, role):
        stop = stop_new_runs(actor=actor, fabric=small, reason="Why.")
        person = replace(actor, name="ben", roles=frozenset({role}))
        assert not may_stop_starts(person)
        for act in (
            lambda: stop_new_runs(actor=person, fabric="", reason="Why."),
            lambda: allow_new_runs(actor=person, stop_id=stop.id),
        ):
            with pytest.raises(Refused, match="that is for operator or owner") as caught:
                act()
            assert caught.value.code == "forbidden"
        assert [one.id for one in stops_standing(person)] == [stop.id], "they see it"

    def test_an_operator_of_one_fabric_stops_that_one_alone(self, actor, small, other):
        ana = replace(actor, name="ana", roles=frozenset({f"operator@{small}"}))
        stop = stop_new_runs(actor=ana, fabric=small, reason="Mine.")
        hidden = stop_new_runs(actor=actor, fabric=other, reason="Not hers.")
        whole = stop_new_runs(actor=actor, fabric="", reason="All.")
        for act in (
            lambda: stop_new_runs(actor=ana, fabric="", reason="All."),
            lambda: allow_new_runs(actor=ana, stop_id=whole.id),
        ):
            with pytest.raises(Refused) as caught:
                act()
            assert caught.value.code == "forbidden"
        with pytest.raises(Refused) as caught:
            allow_new_runs(actor=ana, stop_id=hidden.id)
        assert caught.value.code == "not_found"
        assert [one.id for one in stops_standing(ana)] == [whole.id, stop.id]
        assert allow_new_runs(actor=ana, stop_id=stop.id).ended_by == "ana"


class TestAtOnce:
    def test_a_start_that_comes_while_a_stop_is_written_waits_for_it_and_is_refused(self, start, actor, small):
        written, commit, told = threading.Event(), threading.Event(), []

        def stop():
            with transaction.atomic():
                stop_new_runs(actor=actor, fabric=small, reason="Now.")
                written.set()
                commit.wait(WAIT_S)
            connection.close()

        def begin():
            try:
                told.append(start(small))
            except Refused as refusal:
                told.append(refusal.field)
            connection.close()

        stopping, starting = threading.Thread(target=stop), threading.Thread(target=begin)
        stopping.start()
        written.wait(WAIT_S)
        starting.start()
        starting.join(BLOCKED_S)
        commit.set()
        stopping.join(WAIT_S)
        starting.join(WAIT_S)
        assert told == [STOPPED]
        assert not Run.objects.exists()

    def test_once_a_stop_has_returned_no_run_is_added(self, start, actor, small):
        begun = threading.Semaphore(0)
        ends = []

        def begin():
            try:
                while True:
                    start(small)
                    begun.release()
            except Refused as refusal:
                ends.append(refusal.field)
            finally:
                connection.close()

        threads = [threading.Thread(target=begin) for _ in range(4)]
        for one in threads:
            one.start()
        for _ in range(12):
            begun.acquire(timeout=WAIT_S)
        stop_new_runs(actor=actor, fabric="", reason="Enough.")
        then = Run.objects.count()
        for one in threads:
            one.join(WAIT_S)
        assert ends == [STOPPED] * 4
        assert Run.objects.count() == then >= 12
