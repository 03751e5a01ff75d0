"""Checkpoints: signed, chained, and over every run that grew since the one before, however clocks and pages lie."""

import json

import pytest

from fabric.core.audit.lines import Act, checkpoint_read
from fabric.core.values.flow import RunState
from fabric.management.run_follower import Following
from fabric.models import Checkpoint, Run
from fabric.secrets.signing import read_signer, verify_signature
from fabric.selectors.reviews.lookup import list_open_reviews
from fabric.services.acts import audit_record
from fabric.services.audit import checkpoints
from fabric.services.audit.checkpoints import CLOCKS_US, audit_seal, checkpoint_make, checkpoints_make
from fabric.services.reviews.decisions import decide_review
from tests.fabric.services.world import ran


@pytest.fixture
def signer(tmp_path):
    return read_signer(tmp_path, "17" * 32)


@pytest.fixture
def make(actor, signer):
    """Makes what is due, and gives back what each says of runs."""

    def make(**options):
        made = checkpoint_make(workspace_id=actor.workspace_id, signer=signer, **options)
        return [{run_id: seq for run_id, seq, _ in checkpoint_read(bytes(one.body)).runs} for one in made]

    return make


def bodies():
    return [checkpoint_read(bytes(one.body)) for one in Checkpoint.objects.order_by("number")]


def test_what_grew_is_covered_once(actor, small, doubtful, store, nudge, make):
    done, waiting = ran(actor, small), ran(actor, doubtful)
    assert make() == [{done.id: done.last_seq, waiting.id: waiting.last_seq}]
    assert make() == [], "nothing changed"
    (item,) = list_open_reviews(actor, waiting.id)
    decide_review(store=store, nudge=nudge, actor=actor, review_id=item.id, digest=item.digest, verb="approve")
    ended = Following(actor, waiting.id, wait=True).to_rest()
    assert ended.state is RunState.COMPLETED
    another = ran(actor, small)
    assert make() == [{waiting.id: ended.last_seq, another.id: another.last_seq}]
    assert make() == []


def test_they_are_chained_and_signed(actor, small, make, signer):
    for _ in range(3):
        ran(actor, small)
        audit_seal()
        make()
    found = bodies()
    assert [body.number for body in found] == [1, 2, 3]
    assert found[0].prev == "0" * 64
    for row in Checkpoint.objects.all():
        assert verify_signature(signer.public, bytes(row.signature), bytes(row.body))
    assert len({body.prev for body in found}) == 3
    assert json.loads(bytes(Checkpoint.objects.get(number=1).body))["format"] == 1


def test_the_stream_alone_is_reason_enough(actor, make):
    audit_seal()
    assert make() == [{}]
    assert make() == []
    audit_record(actor=actor, act=Act.RETENTION_SET, subject="x")
    assert make() == [], "not sealed yet"
    audit_seal()
    assert make() == [{}]
    assert [body.stream.seq for body in bodies()] == [2, 3]


def test_more_runs_than_one_holds_make_several(actor, small, make, monkeypatch):
    runs = {ran(actor, small).id for _ in range(7)}
    monkeypatch.setattr(checkpoints, "RUNS_MAX", 3)
    made = make()
    assert [len(one) for one in made] == [3, 3, 1]
    assert set().union(*made) == runs
    assert [body.whole for body in bodies()] == [False, False, True]
    assert make() == []


def test_one_that_was_interrupted_between_its_parts_is_finished(actor, small, make, monkeypatch):
    runs = {ran(actor, small).id for _ in range(5)}
    Run.objects.update(ended_at=1)  # So long ago that only the first look of all finds them.
    monkeypatch.setattr(checkpoints, "RUNS_MAX", 2)
    stored = checkpoints._store_checkpoint
    monkeypatch.setattr(
        checkpoints, "_store_checkpoint", lambda body, signer: None if body.number == 2 else stored(body, signer)
    )
    (first,) = make()
    monkeypatch.setattr(checkpoints, "_store_checkpoint", stored)
    assert set().union(first, *make()) == runs


def test_clocks_that_lie_apart_lose_no_run(actor, small, make, monkeypatch):
    first = ran(actor, small)
    make()
    at = bodies()[-1].at
    late = ran(actor, small)
    Run.objects.filter(id=late.id).update(ended_at=at - CLOCKS_US + 1_000_000)
    assert make() == [{late.id: late.last_seq}]
    assert first.id != late.id


def test_an_export_s_checkpoint_is_of_its_run_alone_and_hides_no_other(actor, small, make):
    one, other = ran(actor, small), ran(actor, small)
    assert make(only=(one.id,)) == [{one.id: one.last_seq}]
    assert make(only=(one.id,)) == [{one.id: one.last_seq}]
    assert make() == [{other.id: other.last_seq}]


def test_each_is_written_outside_as_well(actor, small, tmp_path, signer):
    ran(actor, small)
    assert checkpoints_make(signer=signer, folder=tmp_path) == 1
    ran(actor, small)
    assert checkpoints_make(signer=signer, folder=tmp_path) == 1
    (path,) = tmp_path.glob("checkpoints-*.ndjson")
    kept = [json.loads(line) for line in path.read_text().splitlines()]
    rows = Checkpoint.objects.order_by("number")
    assert [one["body"].encode() for one in kept] == [bytes(row.body) for row in rows]
    assert [one["signature"] for one in kept] == [bytes(row.signature).hex() for row in rows]
    assert path.stat().st_mode & 0o777 == 0o600


def test_of_two_at_once_one_stands(actor, small, make, monkeypatch):
    ran(actor, small)
    stored = checkpoints._store_checkpoint

    def second(body, signer):
        monkeypatch.setattr(checkpoints, "_store_checkpoint", stored)
        assert make() != []
        return stored(body, signer)

    monkeypatch.setattr(checkpoints, "_store_checkpoint", second)
    assert make() == []
    assert Checkpoint.objects.count() == 1


def test_runs_are_found_by_indexes(actor, small, make, django_assert_max_num_queries):
    from django.db import connection

    ran(actor, small)
    make()
    with django_assert_max_num_queries(20) as asked:
        make()
    looked = [query["sql"] for query in asked.captured_queries if "FROM fabric_run" in query["sql"]]
    assert len(looked) == 3
    with connection.cursor() as cursor:
        for statement, index in zip(looked, ("run_ended", "run_bad_ended", "run_live"), strict=True):
            cursor.execute(f"EXPLAIN QUERY PLAN {statement}")
            assert index in str(cursor.fetchall())
