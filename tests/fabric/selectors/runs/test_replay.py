"""Refolding: whole journals agree with the tables, and each kind of damage is found."""

import pytest

from fabric.models import Event, Review, Run
from fabric.selectors.errors import Refused
from fabric.selectors.runs.replay import replay_run, run_ids
from fabric.services.runs.start import run_start
from tests.fabric.services.world import ran
from tests.servers.unguarded import unguarded


@pytest.fixture
def waiting(actor, doubtful) -> str:
    return ran(actor, doubtful).id


def differences(actor, run_id: str) -> str:
    return "; ".join(replay_run(actor, run_id).differences)


def test_runs_that_ran_are_the_same(actor, small, waiting, store, nudge):
    done = ran(actor, small)
    queued = run_start(store=store, nudge=nudge, actor=actor, fabric=small, text="Later").run_id
    assert [replay_run(actor, run_id).differences for run_id in run_ids(actor)] == [(), (), ()]
    assert list(run_ids(actor)) == sorted([waiting, done.id, queued])
    assert replay_run(actor, done.id).events == done.last_seq
    assert replay_run(actor, queued).events == 0


def test_an_erased_payload_is_no_difference(actor, waiting):
    Event.objects.filter(run_id=waiting).update(payload=None)
    assert differences(actor, waiting) == ""


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("state", "running"),
        ("stage", "plan"),
        ("epoch", 1),
        ("cost_usd_micros", 1),
        ("tokens", 1),
        ("reason", "another"),
        ("recovered", True),
        ("truncated", True),
        ("cause", "timeout"),
        ("failure", "provider_failure"),
        ("fired", "\nbudget\n"),
        ("breakers", "\nprovider:openai\n"),
        ("unconfirmed_usd_micros", 3),
        ("spent_on", "{}"),
        ("started_at", 1),
        ("ended_at", 1),
        ("deadline_at", 1),
    ],
)
def test_a_column_that_the_journal_does_not_say(actor, waiting, column, value):
    Run.objects.filter(id=waiting).update(**{column: value})
    assert differences(actor, waiting).startswith(f"the run's row has {column} {value!r}, the journal ")


@pytest.mark.parametrize(
    ("change", "found"),
    [
        (lambda rows: rows.filter(seq=4).update(header=b'{"e":[1,"","","a/b","c/d","","",0],"d":{}}'), "event 4: the chain is broken here"),
        (lambda rows: rows.filter(seq=4).update(header=b"{}"), "event 4 (model_answered) does not fold"),
        (lambda rows: rows.filter(seq=1).update(payload=b'{"text":"x"}'), "event 1 (run_started): its payload is not the one that was hashed"),
        (lambda rows: rows.filter(seq=4).update(hash=b"\1" * 32), "event 4: the chain is broken here"),
        (lambda rows: rows.filter(seq=4).delete(), "event 4 is missing: "),
        (lambda rows: rows.filter(seq=4).update(version=9), "event 4 (model_answered) does not fold"),
    ],
)  # fmt: skip
def test_a_journal_that_was_changed(actor, waiting, change, found):
    with unguarded():
        change(Event.objects.filter(run_id=waiting))
    assert found in differences(actor, waiting)


def test_a_header_that_says_the_same_in_other_bytes(actor, waiting):
    row = Event.objects.get(run_id=waiting, seq=4)
    with unguarded():
        Event.objects.filter(run_id=waiting, seq=4).update(header=bytes(row.header).replace(b'"d":{', b'"d": {', 1))
    assert "event 4 (model_answered): its header does not encode to the bytes that are stored" in differences(
        actor, waiting
    )


def test_an_end_that_is_cut_off(actor, waiting):
    with unguarded():
        Event.objects.filter(run_id=waiting).order_by("-seq").first().delete()
    assert "the run's row ends at event" in differences(actor, waiting)


@pytest.mark.parametrize(
    ("change", "found"),
    [
        (lambda rows: rows.delete(), "is in the journal and not in the table"),
        (lambda rows: rows.update(id="other"), "review other is in the table and not in the journal"),
        (lambda rows: rows.update(verb="approve"), "has verb 'approve', the journal ''"),
        (lambda rows: rows.update(digest="0"), "has digest '0', the journal"),
        (lambda rows: rows.update(verbs="approve"), "has verbs 'approve', the journal 'approve,edit,respond,reject'"),
        (lambda rows: rows.update(content=b'{"item":"x"}'), "shows something else than the journal has"),
        (lambda rows: rows.update(due_at=1), "has due_at 1, the journal"),
    ],
)
def test_an_item_that_the_journal_does_not_say(actor, waiting, change, found):
    change(Review.objects.filter(run_id=waiting))
    assert found in differences(actor, waiting)


def test_another_workspaces_run_is_not_there(stranger, waiting):
    with pytest.raises(Refused):
        replay_run(stranger, waiting)
    assert list(run_ids(stranger)) == []
