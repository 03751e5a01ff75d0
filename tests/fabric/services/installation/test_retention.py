"""Retention: contents go when their time has come, the chain stays, and each run is told once."""

import json
import threading

import pytest
from django.db import connection

from fabric.core.values.flow import RunState
from fabric.management.run_follower import Following
from fabric.models import Attachment, AuditLine, Event, FollowUpClosure, Inbox, Review, Run, Snapshot, Workspace
from fabric.models.runs.run import ERASED_TITLE
from fabric.selectors.reviews.lookup import list_open_reviews
from fabric.selectors.runs.replay import replay_run
from fabric.services.errors import Refused
from fabric.services.installation import retention
from fabric.services.installation.retention import DAY_US, retention_apply, retention_set, retention_wanted
from fabric.services.reviews.decisions import decide_review
from fabric.services.runs.control import run_cancel
from fabric.services.runs.forks import run_fork
from fabric.services.runs.projections import projections_rebuild
from fabric.services.runs.start import run_start
from tests.fabric.management.console import command
from tests.fabric.services.world import ran

WORD = "Quetzalcoatl"


@pytest.fixture
def decided(actor, doubtful, store, nudge):
    """A run that was asked about, answered, and has ended."""
    run = ran(actor, doubtful, f"What does {WORD} say?")
    (item,) = list_open_reviews(actor, run.id)
    decide_review(
        store=store, nudge=nudge, actor=actor, review_id=item.id, digest=item.digest, verb="approve", message=WORD
    )
    done = Following(actor, run.id, wait=True).to_rest()
    assert done.state is RunState.COMPLETED
    return done


def contents(run_id):
    """Everything of a run that is content, in bytes."""
    found = [
        bytes(payload)
        for payload in Event.objects.filter(run_id=run_id, payload__isnull=False).values_list("payload", flat=True)
    ]
    found += map(bytes, Inbox.objects.filter(run_id=run_id).exclude(body=b"").values_list("body", flat=True))
    found += [
        text.encode()
        for text in Attachment.objects.filter(run_id=run_id).exclude(text="").values_list("text", flat=True)
    ]
    found += map(bytes, Review.objects.filter(run_id=run_id).exclude(content=b"{}").values_list("content", flat=True))
    return found


def headers(run_id):
    return [
        (seq, bytes(header), bytes(hashed))
        for seq, header, hashed in Event.objects.filter(run_id=run_id)
        .order_by("seq")
        .values_list("seq", "header", "hash")
    ]


def everything_about(run_id):
    """Return what every table says that names the run."""
    found = []
    with connection.cursor() as cursor:
        for table, key in (
            ("run", "id"),
            ("event", "run_id"),
            ("inbox", "run_id"),
            ("attachment", "run_id"),
            ("review", "run_id"),
            ("snapshot", "run_id"),
            ("follow_up_closure", "run_id"),
            ("audit", "subject"),
        ):
            cursor.execute(f"SELECT * FROM fabric_{table} WHERE {key} = %s", [run_id])
            found += cursor.fetchall()
    return repr(found)


def test_nothing_is_erased_by_default(actor, decided):
    assert not retention_wanted()
    assert retention_apply(now=2**62) == []
    assert WORD in everything_about(decided.id)


def test_contents_go_and_the_chain_stays(actor, decided):
    before = headers(decided.id)
    Snapshot.objects.create(
        run_id=decided.id, workspace_id=actor.workspace_id, seq=1, digest="d", head=b"h", state=WORD.encode()
    )
    FollowUpClosure.objects.create(
        review="t", workspace_id=actor.workspace_id, run_id=decided.id, closed_at=1, closed_by="owner", note=WORD
    )
    count = len(
        [
            payload
            for payload in Event.objects.filter(run_id=decided.id).values_list("payload", flat=True)
            if payload is not None
        ]
    )
    retention_set(actor=actor, days=30)
    assert retention_wanted()
    assert retention_apply(now=decided.ended_at + 30 * DAY_US - 1) == []
    assert len(contents(decided.id)) > 10
    (erased,) = retention_apply(now=decided.ended_at + 30 * DAY_US)
    assert (erased.run_id, erased.ended_at, erased.events) == (decided.id, decided.ended_at, count)
    assert contents(decided.id) == []
    assert WORD not in everything_about(decided.id)
    assert headers(decided.id) == before
    row = Run.objects.get(id=decided.id)
    assert (row.title, row.state, row.cost_usd_micros) == (ERASED_TITLE, "completed", decided.cost_usd_micros)
    assert replay_run(actor, decided.id).differences == ()
    assert projections_rebuild(actor=actor, run_id=decided.id, check=True).result == "same"


def test_it_is_told_once(actor, decided):
    retention_set(actor=actor, days=30)
    for _ in range(3):
        retention_apply(now=decided.ended_at + 31 * DAY_US)
    (line,) = AuditLine.objects.filter(kind="run_erased")
    told = json.loads(bytes(line.body))
    assert (line.actor, line.subject, told["days"], told["ended_at"]) == ("system", decided.id, 30, decided.ended_at)
    assert told["documents"] == 1
    assert [json.loads(bytes(one.body)) for one in AuditLine.objects.filter(kind="retention_set")] == [{"days": 30}]


def test_runs_that_have_not_ended_are_left_alone(actor, doubtful, small, store, nudge):
    waiting = ran(actor, doubtful, WORD)
    queued = run_start(store=store, nudge=nudge, actor=actor, fabric=small, text=WORD).run_id
    retention_set(actor=actor, days=1)
    assert retention_apply(now=2**62) == []
    assert all(WORD in everything_about(name) for name in (waiting.id, queued))


def test_every_way_to_end_counts(actor, small, doubtful, store, nudge):
    done, waiting = ran(actor, small), ran(actor, doubtful)
    run_cancel(store=store, nudge=nudge, actor=actor, run_id=waiting.id)
    assert Following(actor, waiting.id, wait=True).to_rest().state is RunState.CANCELLED
    Run.objects.filter(id=done.id).update(state="failed")
    retention_set(actor=actor, days=1)
    assert {one.run_id for one in retention_apply(now=2**62)} == {done.id, waiting.id}


def test_pages_of_any_size_erase_the_same(actor, small, monkeypatch):
    runs = {ran(actor, small).id for _ in range(5)}
    Run.objects.update(ended_at=Run.objects.first().ended_at)
    monkeypatch.setattr(retention, "RUNS", 2)
    retention_set(actor=actor, days=1)
    assert {one.run_id for one in retention_apply(dry_run=True, now=2**62)} == runs
    assert {one.run_id for one in retention_apply(now=2**62)} == runs


def test_another_workspace_keeps_its_own(actor, stranger, decided):
    retention_set(actor=stranger, days=1)
    assert retention_apply(now=2**62) == []
    assert Workspace.objects.get(id=actor.workspace_id).retention_days is None


def test_of_two_at_once_one_erases(actor, decided):
    retention_set(actor=actor, days=1)
    found, start = [], threading.Barrier(4)

    def erase():
        start.wait()
        try:
            found.extend(retention_apply(now=2**62))
        finally:
            connection.close()

    threads = [threading.Thread(target=erase) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [one.run_id for one in found] == [decided.id]
    assert AuditLine.objects.filter(kind="run_erased").count() == 1


def test_it_is_answered_from_indexes(actor, decided, django_assert_max_num_queries):
    retention_set(actor=actor, days=1)
    with django_assert_max_num_queries(30) as asked:
        retention_apply(now=2**62)
    looked = [
        query["sql"] for query in asked.captured_queries if "ended_at" in query["sql"] and "LIMIT" in query["sql"]
    ]
    assert len(looked) == 2
    with connection.cursor() as cursor:
        for statement, index in zip(looked, ("run_ended", "run_bad_ended"), strict=True):
            cursor.execute(f"EXPLAIN QUERY PLAN {statement}")
            assert index in str(cursor.fetchall())


def test_the_same_answer_again_is_still_the_same_answer(actor, decided, store, nudge):
    """The words are gone; the names of those who said them are not."""
    retention_set(actor=actor, days=1)
    retention_apply(now=2**62)
    item = Review.objects.get(run_id=decided.id)
    again = decide_review(
        store=store, nudge=nudge, actor=actor, review_id=item.id, digest=item.digest, verb="approve", message="?"
    )
    assert not again.created
    with pytest.raises(Refused, match="was answered by owner at"):
        decide_review(
            store=store,
            nudge=nudge,
            actor=actor,
            review_id=item.id,
            digest=item.digest,
            verb="reject",
            message="no",
        )


@pytest.mark.parametrize("days", [0, -1, 36_501])
def test_days_that_are_none(actor, days):
    with pytest.raises(Refused, match="give 1 to 36,500"):
        retention_set(actor=actor, days=days)
    assert not retention_wanted()


def test_the_command(actor, decided):
    assert command("retention").out == "The contents of 0 runs were erased; they are kept for good.\n"
    assert command("retention", "--days", "30").out == "Contents are kept 30 days after a run's end.\n"
    assert command("retention").out == "The contents of 0 runs were erased; they are kept 30 days after a run's end.\n"
    Workspace.objects.update(erased_until=0)
    Run.objects.filter(id=decided.id).update(ended_at=DAY_US)
    dry = command("retention", "--dry-run")
    assert dry.out.splitlines()[-1].startswith("The contents of 1 runs would be erased")
    assert contents(decided.id)
    done = command("retention", "--json").last
    assert [one["run_id"] for one in done["runs"]] == [decided.id]
    assert contents(decided.id) == []
    assert command("retention", "--for-good").out == "Contents are kept for good.\n"
    assert (command("retention", "--days", "0").code, command("retention", "--days", "0").err) == (
        2,
        "contents cannot be kept 0 days; give 1 to 36,500\n",
    )


def test_a_run_that_was_erased_cannot_be_forked(actor, decided, store, nudge):
    retention_set(actor=actor, days=1)
    retention_apply(now=2**62)
    for seq in (2, 8):
        with pytest.raises(Refused, match="were erased, so it cannot be forked"):
            run_fork(store=store, nudge=nudge, actor=actor, run_id=decided.id, seq=seq)
