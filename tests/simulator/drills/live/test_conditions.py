"""Members with the right ask for live drills, within caps; drills put back what they leave."""

from __future__ import annotations

import json
import time

import pytest

from fabric.core.people.actor import Actor
from fabric.core.values.taxonomy import FailureType, Tier
from fabric.models import AuditLine, Incarnation
from fabric.selectors.errors import Refused
from simulator.drills.batches.batch import (
    batch_next,
    drill_claim,
    drill_end,
    drill_overdue,
    drills_interrupt,
    drills_wait,
)
from simulator.drills.conductor import LANES
from simulator.drills.live.conditions import CAP_S, CAP_S_MAX, CAP_S_MIN, CAP_USD_MICROS
from simulator.drills.models.tables import MODES, Drill, Status
from simulator.drills.selectors.drill_views import State
from simulator.drills.selectors.drills import coverage, drill_get, drills_recent
from simulator.drills.services.drills import drill_ask

ONE = (FailureType.PROVIDER, Tier.BATCH)
OVERRUN = (FailureType.COST_OVERRUN, Tier.BATCH)


@pytest.fixture
def worker(actor):
    """A worker that says that it is alive."""
    now = time.time_ns() // 1_000
    return Incarnation.objects.create(name="w", started_at=now, lease_until=now + 3_600_000_000)


def live(actor, cells=(ONE,), **more):
    return drill_ask(actor=actor, fabric="small", cells=cells, mode="live", **more)


def test_each_mode_has_a_lane_of_its_own():
    assert set(LANES) == set(MODES)
    assert len({lane.duty for lane in LANES.values()}) == len(LANES)


def test_live_drills_are_for_the_owner_and_operators(actor, small, worker, vera):
    with pytest.raises(
        Refused, match="vera may drill in simulated time, and live drills are for operator or owner"
    ) as refused:
        live(vera)
    assert refused.value.code == "forbidden"
    assert live(Actor(name="olga", workspace_id=actor.workspace_id, roles=frozenset({"operator"}))).drills


def test_without_a_worker_that_is_alive_they_are_refused_with_the_command_that_starts_one(actor, small, worker):
    Incarnation.objects.update(lease_until=1)
    with pytest.raises(Refused, match="no worker is alive.*`python3 manage.py up`") as refused:
        live(actor)
    assert refused.value.code == "unavailable"
    assert not Drill.objects.exists()


@pytest.mark.parametrize(
    ("field", "given"),
    [("cap_s", CAP_S_MIN - 1), ("cap_s", CAP_S_MAX + 1), ("cap_usd_micros", 0), ("cap_usd_micros", -1)],
)
def test_caps_that_are_none_are_refused_with_what_may_be_given(actor, small, worker, field, given):
    with pytest.raises(Refused, match=f"{field}: {given} is none; give") as refused:
        live(actor, **{field: given})
    assert (refused.value.code, refused.value.field) == ("invalid", field)


@pytest.mark.parametrize("more", [{"cap_s": 60}, {"cap_usd_micros": 60}])
def test_a_virtual_one_has_no_caps_and_there_are_two_modes(actor, small, more):
    with pytest.raises(Refused, match="is of live drills"):
        drill_ask(actor=actor, fabric="small", cells=(ONE,), **more)
    with pytest.raises(Refused, match="'both' is no mode: name virtual or live"):
        drill_ask(actor=actor, fabric="small", cells=(ONE,), mode="both")


def test_unless_they_are_named_caps_follow_the_fabrics_own_and_an_overrun_may_bill_its_run(actor, small, worker):
    found = live(actor, cells=(ONE, OVERRUN))
    assert {row.failure: (row.cap_usd_micros, row.cap_s) for row in Drill.objects.all()} == {
        "provider_failure": (CAP_USD_MICROS, CAP_S),
        "cost_overrun": (4 * 1_000_000 + 1, CAP_S),
    }
    line = AuditLine.objects.get(kind="drills_asked")
    assert json.loads(line.body).items() >= {"batch": found.batch, "mode": "live", "cap_s": CAP_S}.items()


def test_caps_that_are_named_are_each_drills(actor, small, worker):
    live(actor, cells=(ONE, OVERRUN), cap_usd_micros=500, cap_s=30)
    assert set(Drill.objects.values_list("cap_usd_micros", "cap_s")) == {(500, 30)}


def test_the_two_modes_know_nothing_of_each_other(actor, small, worker):
    virtual, lived = drill_ask(actor=actor, fabric="small", cells=(ONE,)), live(actor)
    assert (batch_next("virtual"), batch_next("live")) == (virtual.batch, lived.batch)
    one = drill_claim(lived.batch, "h")
    assert coverage(actor, "small", "live").counts == {State.RUNNING: 1, State.NEVER: 23}
    assert coverage(actor, "small").counts == {State.QUEUED: 1, State.NEVER: 23}
    assert drills_interrupt("virtual") == 0
    assert drill_end(one, "h", status=Status.COMPLETED, verdict="pass")
    assert not drills_wait("live")
    assert coverage(actor, "small", "live").proven == 1
    assert coverage(actor, "small").proven == 0
    assert [seen.id for seen in drills_recent(actor, cell=ONE, mode="live")[0]] == list(lived.drills)


def test_a_live_one_is_overdue_so_much_later_than_its_own_cap(actor, small, worker):
    one = drill_claim(live(actor, cap_s=100).batch, "h")
    rows, now = Drill.objects.filter(id=one.id), time.time_ns() // 1_000
    rows.update(started_at=now - 159_000_000)
    assert not drill_overdue("h", 60.0)
    rows.update(started_at=now - 161_000_000)
    assert drill_overdue("h", 60.0)
    assert drill_get(actor, one.id).verdict == "error"
