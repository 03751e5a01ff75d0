"""Duties: one process at a time does each, when there is something to do, and another takes over from one that died."""

import threading

import pytest
from django.db import connection

from fabric.composition import worker as worker_process
from fabric.core.audit.lines import Act
from fabric.models import AuditLine, Duty
from fabric.services.actors import system_actor, workspace_default
from fabric.services.acts import audit_record
from fabric.worker.process.duties import DutySpec, DutyThread, database_us, duty_done, duty_take

WAIT_S = 20


def spec(**given):
    values = {
        "name": "sweep",
        "look_s": 3_600.0,
        "every_s": 0.0,
        "lease_s": 60.0,
        "wanted": lambda: True,
        "act": lambda: None,
    }
    return DutySpec(**values | given)


def test_one_at_a_time(transactional_db):
    assert duty_take(spec(), "one")
    assert not duty_take(spec(), "two")
    duty_done(spec(), "two", again_s=0)
    assert not duty_take(spec(), "two"), "who does not hold it gives nothing back"
    duty_done(spec(), "one", again_s=0)
    assert duty_take(spec(), "two")


def test_many_at_once(transactional_db):
    taken, start = [], threading.Barrier(8)

    def take(holder):
        start.wait()
        try:
            if duty_take(spec(), holder):
                taken.append(holder)
        finally:
            connection.close()

    threads = [threading.Thread(target=take, args=(f"{n}",)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(taken) == 1


def test_it_is_not_due_again_too_soon(transactional_db):
    assert duty_take(spec(), "one")
    duty_done(spec(), "one", again_s=3_600)
    assert not duty_take(spec(), "two")
    Duty.objects.update(due_at=database_us())
    assert duty_take(spec(), "two")


def test_one_that_died_is_succeeded(transactional_db):
    assert duty_take(spec(), "one")
    Duty.objects.update(held_until=database_us())
    assert duty_take(spec(), "two")
    duty_done(spec(), "one", again_s=3_600)
    assert Duty.objects.get().holder == "two"


def test_looking_for_nothing_writes_nothing(transactional_db, django_assert_num_queries):
    thread = DutyThread([], "one")
    with django_assert_num_queries(0):
        assert thread.look(spec(wanted=lambda: False))
    assert Duty.objects.count() == 0


def test_a_failure_is_said_and_tried_again_later(transactional_db, caplog):
    thread = DutyThread([], "one")
    assert not thread.look(spec(act=lambda: 1 / 0))
    assert "sweep was not done, trying again in 60 s: division by zero" in caplog.text
    assert Duty.objects.get().held_until == 0
    assert Duty.objects.get().due_at > database_us()


@pytest.fixture
def done():
    return threading.Event()


def test_the_thread_looks_at_each_and_ends_when_it_is_told(transactional_db, done):
    order = []
    duties = [
        spec(name="first", act=lambda: order.append("first")),
        spec(name="broken", act=lambda: 1 / 0),
        spec(name="last", act=lambda: (order.append("last"), done.set())),
    ]
    thread = DutyThread(duties, "one")
    thread.start()
    assert done.wait(WAIT_S)
    thread.stop(WAIT_S)
    assert not thread._thread.is_alive()
    assert order == ["first", "last"]


def test_the_worker_s_duties_seal_and_sign(transactional_db, tmp_path, settings):
    settings.FABRIC_DATA, settings.FABRIC_CHECKPOINTS = tmp_path, tmp_path
    audit_record(actor=system_actor(workspace_default()), act=Act.RETENTION_SET, subject="x")
    names = []
    for duty in worker_process.duties():
        names.append(duty.name)
        assert DutyThread([], "one").look(duty)
    assert names == [
        *(
            "stops",
            "publications",
            "folds",
            "seal",
            "checkpoint",
            "retention",
            "audit_retention",
            "grants",
            "guard_changes",
        ),
        "memories",
    ]
    assert list(AuditLine.objects.values_list("seq", flat=True).order_by("seq")) == [1, 2]
    assert len(list(tmp_path.glob("checkpoints-*.ndjson"))) == 1
