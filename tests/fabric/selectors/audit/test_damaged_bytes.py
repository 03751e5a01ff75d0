"""A byte of a packed column changed in the database: its event is named, its run can be looked at, and no other run knows of it."""

import json

import pytest
from django.db import connection

from fabric.models import Event
from fabric.packing.rows import MAGIC
from fabric.secrets.signing import read_signer
from fabric.selectors.audit.journal_verification import VerifiedCounts, verify_journals
from fabric.selectors.runs.events.moments import build_contents, event_get, moment_at
from fabric.selectors.runs.events.windows import EventFilter, events_window
from fabric.selectors.runs.export.bundle import FORMS, EventLines, run_envelopes
from fabric.selectors.runs.export.bundle_verify import Bundle
from fabric.selectors.runs.inputs import run_inputs
from fabric.selectors.runs.lookup import run_events, run_outcome
from fabric.selectors.runs.replay import replay_run
from fabric.services.errors import Refused
from fabric.services.runs.export import run_export
from fabric.services.runs.forks import fork_origin
from tests.fabric.services.world import ran
from tests.servers.unguarded import unguarded

COLUMNS = pytest.mark.parametrize("column", ["header", "payload"])


@pytest.fixture
def run(actor, small):
    return ran(actor, small)


def stored(run_id, seq, column):
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {column} FROM fabric_event WHERE run_id = %s AND seq = %s", [run_id, seq])
        return bytes(cursor.fetchone()[0])


def overwrite(run_id, seq, column, value):
    with unguarded(), connection.cursor() as cursor:
        cursor.execute(f"UPDATE fabric_event SET {column} = %s WHERE run_id = %s AND seq = %s", [value, run_id, seq])


def damage(run_id, seq, column):
    """Changes one byte of what is stored."""
    packed = bytearray(stored(run_id, seq, column))
    assert packed.startswith(MAGIC)
    packed[-1] ^= 0x41
    overwrite(run_id, seq, column, bytes(packed))


def test_the_model_packs_what_it_stores_and_unpacks_what_it_reads(run):
    before = Event.objects.get(run_id=run.id, seq=1)
    assert stored(run.id, 1, "header").startswith(MAGIC)
    with unguarded():
        Event.objects.filter(run_id=run.id, seq=1).update(header=before.header, payload=before.payload)
    assert stored(run.id, 1, "header").startswith(MAGIC)
    again = Event.objects.get(run_id=run.id, seq=1)
    assert (again.header, again.payload) == (before.header, before.payload)
    assert json.loads(again.header.split(b"\n")[0])["d"]
    with unguarded():
        Event.objects.filter(run_id=run.id, seq=1).update(payload=None)
    assert Event.objects.get(run_id=run.id, seq=1).payload is None
    assert Event.objects.filter(run_id=run.id, seq=1, payload__isnull=True).exists()


def test_rows_from_before_there_was_packing_are_read_and_verified(run, actor):
    kept = Event.objects.get(run_id=run.id, seq=1)
    overwrite(run.id, 1, "header", kept.header)
    overwrite(run.id, 1, "payload", kept.payload)
    assert stored(run.id, 1, "header") == kept.header
    assert Event.objects.get(run_id=run.id, seq=1).header == kept.header
    assert list(verify_journals(VerifiedCounts())) == []
    assert replay_run(actor, run.id).differences == ()


@COLUMNS
def test_it_is_named_and_other_runs_are_whole(run, actor, small, column):
    other = ran(actor, small)
    damage(run.id, 1, column)
    found = [(one.fault.value, one.run_id, one.seq) for one in verify_journals(VerifiedCounts())]
    assert found == [("changed" if column == "header" else "payload_changed", run.id, 1)]
    assert replay_run(actor, run.id).differences != ()
    assert replay_run(actor, other.id).differences == ()


def outcome_at(run_id):
    """The events that carry what the last one names as the outcome."""
    rows = Event.objects.filter(run_id=run_id).order_by("-seq")
    (ref,) = (json.loads(row.header)["d"]["outcome_ref"] for row in rows[:1])
    return [row.seq for row in rows if row.payload is not None and bytes(row.payload_hash).hex().startswith(ref)]


@COLUMNS
@pytest.mark.parametrize("last", [False, True], ids=["its request", "its outcome"])
def test_its_run_can_be_looked_at(run, actor, column, last):
    seqs = [1]
    if last:
        seqs = [run.last_seq] if column == "header" else outcome_at(run.id)
    for seq in seqs:
        damage(run.id, seq, column)
    # A row with a header that cannot be read has its first event alone.
    within = Event.objects.get(run_id=run.id, seq=seqs[0]).more if column == "header" else 0
    everything = [n for n in range(1, run.last_seq + 1) if not seqs[0] < n <= seqs[0] + within]
    assert [one["payload"]["seq"] for one in run_envelopes(actor, run.id).events] == everything
    assert [one.seq for one in run_events(actor, run.id)] == everything
    assert [one.seq for one in events_window(actor, run.id, EventFilter()).rows] == everything
    record = event_get(actor, run.id, seq)
    assert record.row.known is (column == "payload")
    assert (record.state == "unreadable") is (column == "payload")
    assert (moment_at(actor, run.id, seq) is None) is (column == "header")
    assert (run_outcome(actor, run.id) is None) is last
    assert (run_inputs(actor, run.id).text is None) is (not last and column == "payload")


@COLUMNS
@pytest.mark.parametrize("form", FORMS)
def test_its_events_are_exported_all_the_same(run, actor, column, form):
    def count():
        return len(list(map(json.loads, b"".join(iter(EventLines(actor, run.id, form).next_page, b"")).splitlines())))

    before, first = count(), Event.objects.get(run_id=run.id, seq=1)
    damage(run.id, 1, column)
    assert count() == before - (first.more if (form, column) == ("readable", "header") else 0)


@COLUMNS
def test_its_bundle_names_it(run, actor, column, tmp_path):
    damage(run.id, 1, column)
    folder = run_export(actor=actor, run_id=run.id, to=tmp_path / "bundle", signer=read_signer(tmp_path))
    problems = list(Bundle(folder).problems())
    assert problems
    assert all("event 1 " in problem or "revision" in problem for problem in problems), problems


def test_its_bundle_names_a_damaged_decision(actor, doubtful, tmp_path):
    run = ran(actor, doubtful)
    seq = Event.objects.get(run_id=run.id, kind="review_opened").seq
    damage(run.id, seq, "header")
    folder = run_export(actor=actor, run_id=run.id, to=tmp_path / "bundle", signer=read_signer(tmp_path))
    assert (folder / "decisions.ndjson").read_bytes() == b""
    assert f"event {seq} has a header that cannot be read" in list(Bundle(folder).problems())


def test_a_damaged_content_is_as_an_erased_one_to_what_is_rendered_from_it(run, actor):
    moment = moment_at(actor, run.id, run.last_seq)
    assert build_contents(run.id, moment, moment.where).values.keys() == moment.where.keys()
    damage(run.id, 1, "payload")
    assert moment.where.keys() - build_contents(run.id, moment, moment.where).values.keys() == {moment.run.request_ref}


@COLUMNS
def test_it_is_not_forked(run, actor, store, column):
    damage(run.id, 1, column)
    with pytest.raises(Refused, match="damaged"):
        fork_origin(store=store, actor=actor, run_id=run.id, seq=run.last_seq - 1)
