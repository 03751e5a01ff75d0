"""Batches are drilled by a process beside the one that conducts, which is the only one; whatever ends that process, the rows say what became of each cell."""

from __future__ import annotations

import os
import signal
import tempfile
import time
from collections import Counter
from pathlib import Path

import pytest
from django.db import connection
from django.db.models import F

from console.launch.processes.keeper import descendants
from fabric.core.values.taxonomy import FailureType, Tier
from fabric.core.values.units import US
from fabric.models import Duty
from simulator.drills.batches.batch import drill_claim
from simulator.drills.conductor import CELL_S, DUTY, Conductor, begin, end, start_process
from simulator.drills.models.tables import OPEN_STATUSES, Drill, Schedule, Status
from simulator.drills.schedules.services import schedule_create
from simulator.drills.services.drills import drill_ask, stop_drills
from simulator.installation.workers import Rows, temporary_site, wait_until
from simulator.scenarios.promises.digests import CELLS

ONE = (FailureType.PROVIDER, Tier.BATCH)
TWO = (FailureType.PROVIDER, Tier.INTERACTIVE)
LONGEST_S = 120.0


@pytest.fixture(autouse=True)
def _same_database(monkeypatch, request):
    """The process beside this one uses the same database."""
    if "actor" in request.fixturenames:
        request.getfixturevalue("actor")
        monkeypatch.setenv("DATABASE_URL", f"sqlite:///{connection.settings_dict['NAME']}")


@pytest.fixture
def conductor():
    made = Conductor(look_s=0.05)
    yield made
    made.stop()


def wait_for(seen):
    give_up = time.monotonic() + LONGEST_S
    while not seen():
        assert time.monotonic() < give_up, list(Drill.objects.values_list("status", "verdict", "why"))
        time.sleep(0.02)


def children():
    return [pid for pid in descendants(os.getpid()) if b"drill_batch" in _command(pid)]


def _command(pid):
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def none_open():
    return not Drill.objects.filter(status__in=OPEN_STATUSES).exists()


def test_a_batch_is_done_and_the_duty_given_back(actor, small, conductor):
    drill_ask(actor=actor, fabric=small, cells=(ONE, TWO))
    assert conductor.look()
    assert none_open()
    assert "" not in Drill.objects.values_list("verdict", flat=True)
    assert Duty.objects.get(name=DUTY).held_until == 0
    assert children() == []


def test_one_that_is_woken_begins_at_once_and_one_that_is_not_looks_by_itself(actor, small):
    slow = Conductor(look_s=3_600.0)
    slow.start()
    try:
        drill_ask(actor=actor, fabric=small, cells=(ONE,), wake=slow.wake)
        wait_for(none_open)
    finally:
        slow.stop()
    assert not Drill.objects.filter(verdict="").exists()


def test_no_other_process_conducts_meanwhile(actor, small, conductor):
    drill_ask(actor=actor, fabric=small, cells=(ONE,))
    held = time.time_ns() // 1_000 + 3_600_000_000
    Duty.objects.update_or_create(name=DUTY, defaults={"holder": "another", "held_until": held})
    assert conductor.look()
    assert list(Drill.objects.values_list("status", flat=True)) == [Status.QUEUED]


def test_what_is_stopped_ends_its_process_and_the_next_batch_begins(actor, small, conductor):
    first = drill_ask(actor=actor, fabric=small, cells="all")
    conductor.start()
    wait_for(lambda: Drill.objects.filter(status=Status.RUNNING).exists())
    (process,) = children()
    os.kill(process, signal.SIGSTOP)  # It would go on for ever.
    stop_drills(actor=actor, batch=first.batch)
    second = drill_ask(actor=actor, fabric=small, cells=(ONE,))
    wait_for(none_open)
    assert process not in children()
    assert Status.ABORTED in Drill.objects.filter(batch=first.batch).values_list("status", flat=True)
    assert not Drill.objects.filter(batch=second.batch, verdict="").exists()


def test_a_process_that_is_killed_leaves_an_interrupted_drill_and_the_rest_goes_on(actor, small):
    """Within one look."""
    conductor = Conductor(look_s=3_600.0)
    drill_ask(actor=actor, fabric=small, cells="all")
    conductor.start()
    wait_for(lambda: Drill.objects.filter(status=Status.RUNNING).exists())
    os.kill(children()[0], signal.SIGKILL)
    wait_for(none_open)
    conductor.stop()
    states = list(Drill.objects.values_list("status", flat=True))
    assert states.count(Status.INTERRUPTED) == 1
    assert "drill it again" in Drill.objects.get(status=Status.INTERRUPTED).why


def test_what_a_process_elsewhere_was_at_when_it_ended_is_interrupted_before_anything_is_begun(actor, small, conductor):
    asked = drill_ask(actor=actor, fabric=small, cells=(ONE, TWO))
    lost = drill_claim(asked.batch, "a process that is no more")
    assert conductor.look()
    seen = Drill.objects.get(id=lost.id)
    other = Drill.objects.exclude(id=lost.id).get()
    assert seen.status == Status.INTERRUPTED
    assert other.status != Status.INTERRUPTED
    assert seen.ended_at <= other.started_at


def test_a_cell_that_takes_too_long_is_an_error_and_the_rest_goes_on(actor, small, conductor):
    """A process that has stood still for longer than a cell may take; its clock is moved, so that no other cell is taken for one."""
    drill_ask(actor=actor, fabric=small, cells="all")
    running = Drill.objects.filter(status=Status.RUNNING)
    conductor.start()
    wait_for(running.exists)
    os.kill(children()[0], signal.SIGSTOP)
    assert running.update(started_at=F("started_at") - round(CELL_S * US)) == 1
    wait_for(none_open)
    late = Drill.objects.get(why__contains="took more than 60 s")
    assert (late.status, late.verdict) == (Status.FAILED, "error")
    assert Drill.objects.filter(status=Status.COMPLETED).count() == len(CELLS) - 1


def test_a_process_that_cannot_begin_is_an_error_with_what_it_said(actor, small, conductor, monkeypatch):
    monkeypatch.setenv("DATABASE_URL", "sqlite:////nowhere/at/all.sqlite3")
    drill_ask(actor=actor, fabric=small, cells=(ONE, TWO))
    assert conductor.look()
    assert set(Drill.objects.values_list("status", "verdict")) == {("failed", "error")}
    assert "cannot be opened" in Drill.objects.first().why


def test_a_worker_that_ends_interrupts_what_it_was_at_and_leaves_the_rest(actor, small, conductor):
    drill_ask(actor=actor, fabric=small, cells="all")
    conductor.start()
    wait_for(lambda: Drill.objects.filter(status=Status.RUNNING).exists())
    conductor.stop()
    states = set(Drill.objects.values_list("status", flat=True))
    assert Status.RUNNING not in states
    assert Status.QUEUED in states
    assert children() == []


def test_the_process_ends_with_the_one_that_started_it(actor, small):
    """The pipe between them closes, whatever ended that."""
    asked = drill_ask(actor=actor, fabric=small, cells="all")
    with tempfile.TemporaryFile() as said:
        process = start_process(asked.batch, "h", said)
        wait_for(lambda: Drill.objects.filter(status=Status.RUNNING).exists())
        process.stdin.close()
        assert process.wait(LONGEST_S) == 1
    assert Drill.objects.filter(status=Status.QUEUED).exists()


def test_a_worker_asks_for_what_is_due_while_it_drills_something_else(actor, small):
    """Its process stands still: schedules have a thread of their own."""
    first = drill_ask(actor=actor, fabric=small, cells=(ONE,))
    due = schedule_create(actor=actor, fabric=small, cron="0 3 * * *")
    Schedule.objects.update(next_at=2**60)
    begin()
    try:
        wait_for(lambda: Drill.objects.filter(status=Status.RUNNING).exists())
        os.kill(children()[0], signal.SIGSTOP)
        Schedule.objects.update(next_at=1)
        wait_for(lambda: Drill.objects.count() == len(CELLS))
        assert Drill.objects.get(batch=first.batch).status == Status.RUNNING
    finally:
        end()
    assert set(Drill.objects.exclude(batch=first.batch).values_list("via", flat=True)) == {f"schedule:{due.id}"}


# -- the whole path: Celery, its broker and a database of an installation --------------------------------------------

ASK = """
import json
from fabric.services.actors import owner_actor
from simulator.drills.services.drills import drill_ask
from simulator.drills.tasks import wake
print(json.dumps({"batch": drill_ask(actor=owner_actor(), fabric="small-model", cells="all", wake=wake).batch}))
"""
COVERED = """
import json
from fabric.services.actors import owner_actor
from simulator.drills.selectors.drills import coverage
seen = coverage(owner_actor(), "small-model")
print(json.dumps({"counts": seen.counts, "took_s": seen.last.took_s}))
"""
OPEN = "SELECT count(*) FROM drills_drill WHERE status IN ('queued', 'running')"
PROVIDER = "simulator.drills.live.provider.FailingProvider"


@pytest.mark.slow
@pytest.mark.parametrize(
    "database",
    ["sqlite", pytest.param("postgresql", marks=[pytest.mark.postgresql, pytest.mark.redis])],
)
def test_a_real_worker_drills_what_is_asked_for_and_another_goes_on_where_it_was_killed(database):
    with temporary_site(database, provider=PROVIDER, workers=1) as made:
        rows = Rows.from_environment(made.environment)
        batch = made.manage("django", "shell", "--verbosity", "0", "-c", ASK)["batch"]
        wait_until(lambda: bool(rows.read("SELECT 1 FROM drills_drill WHERE status = 'running'")), made, LONGEST_S)
        worker = made.workers[0].pid
        os.kill(worker, signal.SIGKILL)
        wait_until(lambda: made.workers[0].poll() is not None or made.restarts > 0, made, LONGEST_S)
        wait_until(lambda: rows.read(OPEN) == [(0,)], made, LONGEST_S)
        found = rows.read(f"SELECT status, verdict FROM drills_drill WHERE batch = '{batch}'")
        covered = made.manage("django", "shell", "--verbosity", "0", "-c", COVERED)
    assert len(found) == 24
    told = Counter(verdict or "never" for _, verdict in found)
    assert covered["counts"] == told
    assert covered["took_s"] > 0
    assert {status for status, _ in found} <= {"completed", "failed", "interrupted"}
    assert sum(status == "interrupted" for status, _ in found) <= 1
    assert all(verdict for status, verdict in found if status != "interrupted")
