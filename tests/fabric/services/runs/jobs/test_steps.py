"""Jobs survive their workers, act on each run once, list refusals, and stop between batches."""

import pytest

from fabric.composition.worker import job_duties
from fabric.core.events.inputs import INBOX
from fabric.models import AuditLine, Inbox, JobAction, Member, Run, RunJobItem
from fabric.runtime.ports.journal import StoreUnavailable
from fabric.selectors.runs.query.choices import RunChoice
from fabric.selectors.runs.query.jobs import job_get, job_refusals
from fabric.services.actors import find_actor
from fabric.services.errors import Refused
from fabric.services.runs.control import run_cancel, run_resume
from fabric.services.runs.jobs import steps
from fabric.services.runs.jobs.actions import RunPorts
from fabric.services.runs.jobs.requests import job_begin, job_stop
from fabric.services.runs.jobs.steps import job_step, jobs_advance, jobs_wait
from fabric.worker.process.duties import DutyThread
from tests.fabric.services.runs.jobs.worlds import counts, make_ports, outcomes, queue_runs, sent
from tests.fabric.services.world import ran
from tests.people import member


class DiesAfter:
    """The real store; the worker dies when it has put so many inputs."""

    def __init__(self, inputs: int) -> None:
        self._real, self._left = make_ports().store, inputs

    def __getattr__(self, name: str) -> object:
        return getattr(self._real, name)

    def put_input(self, *given: object, **more: object) -> bool:
        if not self._left:
            raise SystemExit("the worker was killed")
        self._left -= 1
        return self._real.put_input(*given, **more)  # type: ignore[arg-type]


def begin(actor, action=JobAction.CANCEL, **choice):
    return job_begin(actor=actor, action=action, choice=RunChoice(**choice), reason="too dear").job


def test_a_worker_that_dies_within_a_batch_leaves_the_rest_to_the_next_one(actor, small):
    ids = queue_runs(actor, small, 4)
    job = begin(actor)
    ports = make_ports()
    with pytest.raises(SystemExit):
        job_step(RunPorts(store=DiesAfter(2), nudge=ports.nudge, now=ports.now), job.id)
    assert [len(sent(run_id)) for run_id in ids] == [1, 1, 0, 0]
    assert sorted(outcomes(job.id).values()) == ["", "", "done", "done"]
    jobs_advance(ports)
    assert [sent(run_id) for run_id in ids] == [["cancel"]] * 4
    assert counts(job.id) == ("ended", 4, 4, 0)


@pytest.mark.parametrize("action", [JobAction.CANCEL, JobAction.TERMINATE, JobAction.PAUSE])
def test_an_act_whose_record_was_lost_is_not_repeated(actor, small, action):
    (run_id,) = queue_runs(actor, small, 1)
    job = begin(actor, action)
    job_step(make_ports(), job.id)
    # The worker died after the act and before its record.
    RunJobItem.objects.filter(job_id=job.id).update(outcome="")
    if action is JobAction.PAUSE:
        run_resume(store=make_ports().store, nudge=make_ports().nudge, actor=actor, run_id=run_id)
    before = sent(run_id)
    jobs_advance(make_ports())
    assert sent(run_id) == before
    assert counts(job.id) == ("ended", 1, 1, 0)


def test_two_workers_at_once_act_on_no_run_twice_and_count_none_twice(actor, small):
    ids = queue_runs(actor, small, 3)
    job, ports = begin(actor), make_ports()

    class Overtaken(DiesAfter):
        """At its first input, another worker carries out the same batch and ends the job."""

        def put_input(self, *given: object, **more: object) -> bool:
            if self._left:
                self._left = 0
                jobs_advance(ports)
            return self._real.put_input(*given, **more)  # type: ignore[arg-type]

    job_step(RunPorts(store=Overtaken(1), nudge=ports.nudge, now=ports.now), job.id)
    assert [sent(run_id) for run_id in ids] == [["cancel"]] * 3
    assert counts(job.id) == ("ended", 3, 3, 0)
    assert AuditLine.objects.filter(subject=job.id, kind="run_job_ended").count() == 1


def test_batches_are_bounded_and_a_stop_ends_the_job_after_the_present_one(actor, small, monkeypatch):
    monkeypatch.setattr(steps, "BATCH", 2)
    ids = queue_runs(actor, small, 5)
    job = begin(actor)
    job_step(make_ports(), job.id)
    assert counts(job.id) == ("running", 5, 2, 0)
    job_stop(actor=actor, job_id=job.id)
    jobs_advance(make_ports())
    assert counts(job.id) == ("stopped", 5, 2, 0)
    seen = job_get(actor, job.id)
    assert (seen.left, seen.ended, seen.stopped_by) == (3, True, "owner")
    assert [len(sent(run_id)) for run_id in ids] == [1, 1, 0, 0, 0]


def test_refusals_are_counted_and_listed_with_the_sentence_of_the_single_action(actor, small):
    ended, queued = ran(actor, small), queue_runs(actor, small, 1)[0]
    job = begin(actor)
    jobs_advance(make_ports())
    assert counts(job.id) == ("ended", 2, 1, 1)
    (refusal,), more = job_refusals(actor, job.id)
    with pytest.raises(Refused) as single:
        run_cancel(store=make_ports().store, nudge=make_ports().nudge, actor=actor, run_id=ended.id)
    assert (refusal.run_id, refusal.says, more) == (ended.id, single.value.message, "")
    assert refusal.run is not None
    assert refusal.run.title == ended.title
    assert sent(queued) == ["cancel"]


def test_the_rights_of_the_asker_are_those_of_the_moment(actor, small, doubtful):
    ids = queue_runs(actor, small, 1) + queue_runs(actor, doubtful, 1)
    user = member("ona", "operator")
    job = begin(find_actor(user))
    Member.objects.filter(name="ona").update(roles=f"operator@{small},viewer")
    jobs_advance(make_ports())
    assert counts(job.id) == ("ended", 2, 1, 1)
    assert [len(sent(run_id)) for run_id in ids] == [1, 0]
    (refusal,), _ = job_refusals(actor, job.id)
    assert "ona may not cancel runs" in refusal.says
    (line,) = AuditLine.objects.filter(kind="cancel_sent")
    assert (line.actor, line.via) == ("ona", f"job:{job.id}")


def test_no_worker_acts_in_the_name_of_a_former_member(actor, small):
    queue_runs(actor, small, 1)
    user = member("ona", "operator")
    job = begin(find_actor(user))
    Member.objects.filter(name="ona").update(removed_at=1)
    jobs_advance(make_ports())
    assert counts(job.id) == ("ended", 1, 0, 1)
    assert "ona is no member of this workspace" in job_refusals(actor, job.id)[0][0].says


def test_a_store_that_is_away_refuses_no_run_and_the_next_turn_goes_on(actor, small):
    class Away(DiesAfter):
        def put_input(self, *given: object, **more: object) -> bool:
            raise StoreUnavailable("the database is away")

    queue_runs(actor, small, 2)
    job, ports = begin(actor), make_ports()
    with pytest.raises(Refused, match="away"):
        jobs_advance(RunPorts(store=Away(0), nudge=ports.nudge, now=ports.now))
    assert counts(job.id) == ("running", 2, 0, 0)
    jobs_advance(ports)
    assert counts(job.id) == ("ended", 2, 2, 0)


def test_one_odd_run_does_not_hold_up_the_rest(actor, small, caplog):
    odd, other = queue_runs(actor, small, 2)
    job, ports = begin(actor), make_ports()

    class Odd(DiesAfter):
        def put_input(self, *given: object, **more: object) -> bool:
            if given[0] == odd:
                raise ZeroDivisionError
            return self._real.put_input(*given, **more)  # type: ignore[arg-type]

    jobs_advance(RunPorts(store=Odd(0), nudge=ports.nudge, now=ports.now))
    assert counts(job.id) == ("ended", 2, 1, 1)
    assert sent(other) == ["cancel"]
    assert "could not act on run" in caplog.text


def test_the_workers_duty_carries_it_out(actor, small):
    (duty,) = job_duties()
    thread = DutyThread((duty,), "one")
    assert not jobs_wait()
    (run_id,) = queue_runs(actor, small, 1)
    job = begin(actor)
    assert jobs_wait()
    assert thread.look(duty)
    assert counts(job.id) == ("ended", 1, 1, 0)
    (row,) = Inbox.objects.filter(run_id=run_id, input_id="cancel")
    assert INBOX.validate_json(bytes(row.body)).reason == "too dear"
    assert not RunJobItem.objects.exists()
    assert Run.objects.get(id=run_id).state == "queued"
