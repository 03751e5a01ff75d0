"""Schedules: what people do about them, and what is asked for when one is due."""

from __future__ import annotations

import json

import pytest

from fabric.core.values.units import US
from fabric.models import AuditLine, Member
from fabric.selectors.errors import Refused
from fabric.services.actors import find_actor
from fabric.services.fabrics.revisions import fabric_publish
from fabric.worker.process.duties import database_us
from simulator.drills.batches.batch import drill_claim, drill_end
from simulator.drills.models.tables import Drill, Schedule, Status
from simulator.drills.schedules import services as schedules_due
from simulator.drills.schedules.services import (
    SCHEDULES_MAX,
    schedule_change,
    schedule_create,
    schedule_delete,
    schedule_get,
    schedule_pause,
    schedule_resume,
    schedule_run,
    schedules_ask,
    schedules_list,
    schedules_wait,
)
from simulator.drills.services.drill_stop import pull_drill_stop
from tests.fabric.services.world import SMALL
from tests.people import member

DAILY = "0 3 * * *"
HOUR = 3_600 * US


def made(actor, **more):
    return schedule_create(actor=actor, **{"fabric": "small", "cron": DAILY, **more})


def refused(act, **asked):
    with pytest.raises(Refused) as caught:
        act(**asked)
    return caught.value


def due(schedule_id, ago_us=1):
    """Its instant has come."""
    Schedule.objects.filter(id=schedule_id).update(next_at=database_us() - ago_us)


def test_one_is_made_and_told(actor, small):
    before = database_us()
    one = made(actor, cron=" 0  3 * * * ", cells="stale", reason="Each night.")
    assert (one.fabric, one.cells, one.cron, one.when) == (small, "stale", DAILY, "every day at 03:00 UTC")
    assert (one.made_by, one.paused_by, one.last_at, one.version, dict(one.came)) == ("owner", "", None, 1, {})
    assert before < one.next_at <= before + 24 * HOUR
    assert one.next_at % (24 * HOUR) == 3 * HOUR
    line = AuditLine.objects.get(kind="schedule_created", subject=one.id)
    assert json.loads(line.body)["cron"] == DAILY
    assert schedules_list(actor) == [one]
    assert not schedules_wait()
    assert schedules_ask() == 0


@pytest.mark.parametrize(
    ("given", "code", "field"),
    [
        ({"fabric": "nosuch"}, "not_found", "fabric"),
        ({"cron": "*/5 * * * *"}, "invalid", "cron"),
        ({"cells": "some"}, "invalid", "cells"),
        ({"scenario": "nosuch"}, "not_found", "scenario"),
        ({"scenario": "provider-down", "cells": "stale"}, "invalid", "cells"),
    ],
)
def test_what_cannot_be_is_refused_with_its_field(actor, small, given, code, field):
    if given.get("cells") == "stale":
        given = {**given, "scenario": shipped()}
    found = refused(made, actor=actor, **given)
    assert (found.code, found.field) == (code, field)
    assert not Schedule.objects.exists()


def shipped():
    from simulator.scenarios.spec.collection import library

    return next(iter(library()))


def test_a_workspace_has_so_many_and_no_more(actor, small, stranger):
    one = made(actor)
    row = Schedule.objects.get(id=one.id)
    for _ in range(SCHEDULES_MAX - 1):
        Schedule.objects.create(
            workspace_id=row.workspace_id,
            fabric_id=row.fabric_id,
            cron=DAILY,
            made_by="owner",
            made_at=1,
            next_at=2**60,
        )
    found = refused(made, actor=actor)
    assert (found.code, found.message) == ("conflict", "there are 50 schedules already: delete one first")
    fabric_publish(actor=stranger, source=SMALL)
    assert made(stranger).made_by == "mallory"


def test_it_is_changed_paused_resumed_and_deleted_as_it_was_seen(actor, small):
    one = made(actor)
    changed = schedule_change(actor=actor, schedule=one.id, version=1, fabric=small, cron="0 4 * * *", cells="stale")
    assert (changed.version, changed.cron, changed.cells, changed.next_at % (24 * HOUR)) == (
        2,
        "0 4 * * *",
        "stale",
        4 * HOUR,
    )
    paused = schedule_pause(actor=actor, schedule=one.id, version=2)
    assert (paused.version, paused.paused_by) == (3, "owner")
    assert refused(schedule_pause, actor=actor, schedule=one.id, version=3).code == "conflict"
    due(one.id, 10 * HOUR)
    assert schedules_ask() == 0, "one that is paused asks for nothing"
    resumed = schedule_resume(actor=actor, schedule=one.id, version=3)
    assert (resumed.paused_by, resumed.next_at > database_us()) == ("", True), "what it missed is over"
    assert refused(schedule_resume, actor=actor, schedule=one.id, version=4).code == "conflict"
    for act, more in (
        (schedule_change, {"fabric": small, "cron": DAILY}),
        (schedule_pause, {}),
        (schedule_delete, {}),
    ):
        found = refused(act, actor=actor, schedule=one.id, version=3, **more)
        assert (found.code, found.field) == ("conflict", "version")
    schedule_delete(actor=actor, schedule=one.id, version=4)
    assert not Schedule.objects.exists()
    assert refused(schedule_get, actor=actor, schedule_id=one.id).code == "not_found"
    kinds = AuditLine.objects.filter(subject=one.id).order_by("id").values_list("kind", flat=True)
    assert list(kinds) == [f"schedule_{act}" for act in ("created", "changed", "paused", "resumed", "deleted")]


@pytest.fixture
def olga(actor):
    """An operator."""
    return find_actor(member("olga", "operator"))


def test_operators_make_and_change_them_and_others_look_on(actor, vera, olga, small, stranger):
    one = made(actor)
    for act, more in ((schedule_pause, {}), (schedule_delete, {}), (schedule_change, {"fabric": small, "cron": DAILY})):
        found = refused(act, actor=vera, schedule=one.id, version=1, **more)
        assert (found.code, found.field) == ("forbidden", "actor")
    assert refused(schedule_run, actor=vera, schedule=one.id).code == "forbidden"
    assert refused(schedule_create, actor=vera, fabric=small, cron=DAILY).code == "forbidden"
    hers = made(olga)
    assert schedule_pause(actor=olga, schedule=hers.id, version=1).paused_by == "olga"
    assert schedule_resume(actor=actor, schedule=hers.id, version=2).paused_by == ""
    assert refused(schedule_pause, actor=stranger, schedule=one.id, version=1).code == "not_found"
    assert schedules_list(stranger) == []


def test_what_is_due_is_asked_for_once_in_the_name_of_who_made_it(actor, olga, small):
    one = made(olga, reason="Each night.")
    due(one.id, 49 * HOUR)
    woken = []
    assert schedules_wait()
    assert schedules_ask(lambda: woken.append(Drill.objects.count())) == 1
    assert woken == [24], "the rows are there when a worker is woken"
    assert schedules_ask() == 0, "what was missed is caught up with once"
    assert set(Drill.objects.values_list("asked_by", "via", "reason", "mode")) == {
        ("olga", f"schedule:{one.id}", "Each night.", "virtual")
    }
    line = AuditLine.objects.get(kind="drills_asked")
    assert (line.actor, line.via) == ("olga", f"schedule:{one.id}")
    asked = schedule_get(actor, one.id)
    assert asked.next_at > database_us()
    assert (asked.last_said, asked.version, dict(asked.came)) == ("", 1, {"queued": 24})
    done = drill_claim(asked.last_batch, "h")
    drill_end(done, "h", status=Status.COMPLETED, verdict="pass")
    assert dict(schedule_get(actor, one.id).came) == {"queued": 23, "pass": 1}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"roles": "viewer"}, "olga may not start drills: that is for editor, operator or owner"),
        ({"removed_at": 2}, "olga is no member of this workspace (any more)"),
    ],
)
def test_who_made_it_and_may_not_drill_any_more_asks_for_nothing(actor, olga, small, change, said):
    one = made(olga)
    due(one.id)
    Member.objects.filter(name="olga").update(**change)
    assert schedules_ask() == 0
    assert not Drill.objects.exists()
    seen = schedule_get(actor, one.id)
    assert (seen.last_said, seen.next_at > database_us()) == (said, True)


def test_a_scenario_is_played_in_all_of_its_tiers(actor, small):
    one = made(actor, scenario=shipped())
    due(one.id)
    assert schedules_ask() == 1
    assert set(Drill.objects.values_list("scenario", flat=True)) == {one.scenario}


def test_why_nothing_was_asked_for_is_said_and_is_no_error(actor, small):
    one = made(actor, cells="stale")
    due(one.id)
    schedules_ask()
    while (drill := drill_claim(schedule_get(actor, one.id).last_batch, "h")) is not None:
        drill_end(drill, "h", status=Status.COMPLETED, verdict="pass")
    batch = schedule_get(actor, one.id).last_batch
    due(one.id)
    assert schedules_ask() == 0
    seen = schedule_get(actor, one.id)
    assert seen.last_said.startswith("no cell is stale")
    assert (seen.last_batch, dict(seen.came)) == (batch, {"pass": 24}), "the verdicts are still the last ones"
    assert seen.next_at > database_us()
    pull_drill_stop(actor=actor, reason="Quiet.")
    Schedule.objects.update(cells="all")
    due(one.id)
    assert schedules_ask() == 0
    assert schedule_get(actor, one.id).last_said.startswith("owner stopped all drills on")
    assert Drill.objects.count() == 24


def test_one_that_fails_keeps_no_other_from_being_asked_for_and_waits_for_its_next_instant(actor, small, monkeypatch):
    first, second = made(actor), made(actor, cells="stale")
    due(first.id, 2), due(second.id, 1)
    really = schedules_due.drill_ask

    def failing(*, cells, **asked):
        if cells == "all":
            raise ZeroDivisionError
        return really(cells=cells, **asked)

    monkeypatch.setattr(schedules_due, "drill_ask", failing)
    assert schedules_ask() == 1
    seen = schedule_get(actor, first.id)
    assert seen.last_said == "it could not be asked for: ZeroDivisionError; the worker's log says why"
    assert seen.next_at > database_us()
    assert schedule_get(actor, second.id).last_said == ""


def test_it_is_run_now_in_ones_own_name_and_keeps_its_instant(actor, olga, small):
    one = made(olga)
    asked = schedule_run(actor=actor, schedule=one.id)
    assert set(Drill.objects.values_list("asked_by", "via")) == {("owner", "")}
    seen = schedule_get(actor, one.id)
    assert (seen.last_batch, seen.next_at, seen.version) == (asked.batch, one.next_at, 1)
    assert refused(schedule_run, actor=actor, schedule=one.id).code == "conflict"
