"""Verifying: no false alarm, and every kind of damage found and named with its run and event."""

import json
import random
from contextlib import contextmanager, suppress

import pytest
from django.db import IntegrityError, connection, transaction

from fabric.models import AuditLine, Checkpoint, Event, Run
from fabric.packing.rows import unpack
from fabric.selectors.audit import journal_verification as verify
from fabric.selectors.stored_events import count_events
from fabric.services.installation.retention import retention_apply, retention_set
from fabric.services.people.tokens import token_create
from fabric.services.runs.start import run_start
from tests.fabric.selectors.audit.scenes import audited
from tests.servers.unguarded import unguarded
from tests.sets import many


@pytest.fixture
def site(actor, small, doubtful, tmp_path):
    return audited(actor, [small, doubtful], tmp_path)


@pytest.fixture
def run(site):
    """A run that has ended."""
    return site.runs[0]


def said(site, **more):
    return [(one.fault.value, one.run_id, one.seq) for one in site.findings(**more)]


def test_nothing_is_wrong_with_what_was_only_written(site, small, store, nudge, actor):
    run_start(store=store, nudge=nudge, actor=actor, fabric=small, text="It waits in its queue")
    token_create(actor=actor, name="unsealed")
    assert said(site) == []
    assert (site.counted.runs, site.counted.checkpoints, site.counted.unsealed) == (4, 2, 2)
    assert site.counted.events == count_events(Event.objects.all())
    assert site.counted.lines == AuditLine.objects.count() - 2
    assert [said(site, run_id=name) for name in site.runs] == [[], [], []]


def test_pages_of_any_size_say_the_same(site, monkeypatch):
    monkeypatch.setattr(verify, "EVENTS", 7)
    monkeypatch.setattr(verify, "RUNS", 2)
    assert said(site) == []
    assert site.counted.events == count_events(Event.objects.all())
    with unguarded():
        second, third = Event.objects.filter(run_id=site.runs[1]).order_by("seq")[1:3]
        Event.objects.filter(run_id=site.runs[1], seq__in=(second.seq, third.seq)).delete()
    assert said(site) == [("gap", site.runs[1], second.seq)]


@contextmanager
def rolled_back():
    """Undo what is done in the block."""
    with transaction.atomic():
        undo = transaction.savepoint()
        try:
            yield
        finally:
            transaction.savepoint_rollback(undo)


HEADER = b'{"e":[1,"","",0],"d":{}}'
CHANGES = [
    ("a gap", lambda rows: rows.filter(seq=4).delete(), [("gap", 4)], "events 4 to 7 are missing: 8 follows 3"),
    ("a larger gap", lambda rows: rows.filter(seq__in=(1, 4)).delete(), [("gap", 1)], "events 1 to 7 are missing"),
    ("a header", lambda rows: rows.filter(seq=4).update(header=HEADER), [("changed", 4)], "was changed"),
    ("a kind", lambda rows: rows.filter(seq=4).update(kind="run_ended"), [("changed", 4)], "was changed"),
    ("a version", lambda rows: rows.filter(seq=4).update(version=99), [("changed", 4)], "was changed"),
    ("a hash", lambda rows: rows.filter(seq=4).update(hash=b"\1" * 32), [("changed", 4), ("changed", 8)], "was changed"),
    ("an instant", lambda rows: rows.filter(seq=4).update(at=1), [("changed", 4)], "another instant"),
    ("a number of events", lambda rows: rows.filter(seq=4).update(more=0), [("changed", 4)], "another number of events"),
    ("a workspace", lambda rows: rows.filter(seq=4).update(workspace_id="w"), [("changed", 4)], "another workspace"),
    ("a content", lambda rows: rows.filter(seq=1).update(payload=b"{}"), [("payload_changed", 1)], "another content"),
    ("a content that was none", lambda rows: rows.filter(kind="run_ended").update(payload=b""), [("payload_changed", 20)], ""),
    ("a lost content", lambda rows: rows.filter(seq=1).update(payload=None), [("payload_missing", 1)], "no audit line"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("change", "found", "words"), [case[1:] for case in CHANGES], ids=[case[0] for case in CHANGES]
)
def test_damage_is_named_with_its_run_and_event(site, run, change, found, words):
    with unguarded():
        change(Event.objects.filter(run_id=run))
    everything = site.findings()
    assert [(one.fault.value, one.seq) for one in everything] == found
    assert {one.run_id for one in everything} == {run}
    assert words in everything[0].says
    assert run in everything[0].says
    assert said(site, run_id=run) == [(fault, run, seq) for fault, seq in found]
    assert said(site, run_id=site.runs[1]) == []


def rewritten(run, seq, **changes):
    """A journal that an attacker changed who knows how it is chained: all hashes and the row agree."""
    from fabric.core.values.fingerprint import ZERO_HASH, event_hash

    head = ZERO_HASH
    with unguarded():
        for row in Event.objects.filter(run_id=run).order_by("seq"):
            if row.seq == seq:
                for name, value in changes.items():
                    setattr(row, name, value)
            head = event_hash(head, row.seq, row.kind, row.version, bytes(row.header), bytes(row.payload_hash))
            Event.objects.filter(run_id=run, seq=row.seq).update(**changes if row.seq == seq else {}, hash=head)
        Run.objects.filter(id=run).update(head_hash=head)


def test_an_event_of_a_newer_version_is_no_damage_and_is_named(site, run):
    with unguarded():
        Checkpoint.objects.all().delete()
    rewritten(run, 4, version=9)
    (found,) = site.findings(folder=False)
    assert (found.fault.value, found.run_id, found.seq) == ("unknown_version", run, 4)
    assert "version 9, which this program does not know: upgrade it" in found.says


def test_a_journal_that_was_written_anew_meets_its_checkpoint(site, run):
    last = Run.objects.get(id=run).last_seq
    rewritten(run, 1, payload=None, payload_hash=b"")
    assert said(site) == [("covered_changed", run, last)]


def test_an_end_that_was_cut_off(site, run):
    last = Run.objects.get(id=run).last_seq
    with unguarded():
        Event.objects.filter(run_id=run, seq=last).delete()
    assert said(site) == [("gap", run, last), ("covered_missing", run, last)]
    # By an attacker who mends the row too.
    before = Event.objects.filter(run_id=run).latest("seq")
    Run.objects.filter(id=run).update(last_seq=last - 1, head_hash=before.hash)
    assert said(site) == [("covered_missing", run, last)]


def test_an_end_that_was_forged(site, run):
    last = Run.objects.get(id=run).last_seq
    Run.objects.filter(id=run).update(last_seq=last - 1)
    assert said(site) == [("end_differs", run, last - 1), ("end_differs", run, last)]
    Run.objects.filter(id=run).update(last_seq=last, head_hash=b"\1" * 32)
    assert said(site) == [("end_differs", run, last)]


def test_a_run_that_was_deleted_whole(site, run):
    last = Run.objects.get(id=run).last_seq
    Run.objects.filter(id=run).delete()
    assert said(site) == [("run_missing", run, 1)]
    with unguarded():
        Event.objects.filter(run_id=run).delete()
    assert said(site) == [("covered_missing", run, last)]


def test_erased_by_retention_is_no_damage(site, actor, run):
    retention_set(actor=actor, days=1)
    assert retention_apply(now=2**62)
    site.seal()
    assert said(site) == []
    assert site.counted.erased == 2, "one of the three still waits for a person"


def test_only_the_audit_line_of_this_run_excuses_it(site, actor, run):
    retention_set(actor=actor, days=1)
    retention_apply(now=2**62)
    other = site.runs[1]
    with unguarded():
        Event.objects.filter(run_id=other).update(payload=None)
    assert said(site) == [("payload_missing", other, 1)]


def test_the_stream(site):
    def lines():
        return AuditLine.objects.filter(seq=3)

    cases = [
        (lambda: lines().delete(), [("stream_gap", "", 3)]),
        (lambda: lines().update(actor="mallory"), [("stream_changed", "", 3)]),
        (lambda: lines().update(body=b"{ }"), [("stream_changed", "", 3)]),
        (lambda: lines().update(hash=b"\1" * 32), [("stream_changed", "", 3), ("stream_changed", "", 4)]),
        (lambda: lines().update(seq=None, hash=None), [("stream_gap", "", 3)]),
    ]
    for change, found in cases:
        with rolled_back(), unguarded():
            change()
            assert said(site) == found
    last = AuditLine.objects.order_by("-seq").first()
    with unguarded():
        last.delete()
    assert said(site) == [("covered_missing", "", last.seq)]


def test_the_checkpoints(site):
    second = Checkpoint.objects.get(number=2)
    body = json.loads(bytes(second.body))
    cases = [
        (lambda: Checkpoint.objects.filter(number=1).delete(), [("checkpoint_missing", "", 1), ("checkpoint_missing", "", 1)]),
        (second.delete, [("checkpoint_missing", "", 2)]),
        (lambda: Checkpoint.objects.filter(number=2).update(at=1), [("checkpoint_changed", "", 2)]),
        (lambda: Checkpoint.objects.filter(number=2).update(signature=b"\0" * 64), [("checkpoint_changed", "", 2)]),
        (
            lambda: Checkpoint.objects.filter(number=2).update(body=json.dumps(body | {"runs": []}).encode()),
            [("checkpoint_changed", "", 2), ("checkpoint_missing", "", 2)],
        ),
        (
            lambda: Checkpoint.objects.filter(number=2).update(body=json.dumps(body | {"format": 2}).encode()),
            [("checkpoint_changed", "", 2), ("checkpoint_missing", "", 2)],
        ),
    ]  # fmt: skip
    for change, found in cases:
        with rolled_back(), unguarded():
            change()
            assert said(site) == found
    assert said(site, trusted=frozenset({"00" * 32})) == [("untrusted_key", "", 1), ("untrusted_key", "", 2)]


def test_the_end_of_the_checkpoints_shows_outside_alone(site):
    with unguarded():
        Checkpoint.objects.filter(number=2).delete()
    assert said(site, folder=False) == []
    assert said(site) == [("checkpoint_missing", "", 2)]


def test_half_a_line_outside_is_named(site):
    (path,) = site.folder.glob("checkpoints-*.ndjson")
    with path.open("a") as file:
        file.write('{"body": "{')
    (found,) = site.findings()
    assert (found.fault.value, found.seq) == ("checkpoint_changed", 3)
    assert "line 3 is no checkpoint" in found.says


# -- H5: 1,000 mutations, each found -----------------------------------------------------------------------------------

COLUMNS = {
    "fabric_event": ("seq", "kind", "version", "more", "at", "header", "payload", "payload_hash", "hash", "run_id", "workspace_id"),
    "fabric_audit": ("seq", "id", "workspace_id", "at", "actor", "via", "kind", "subject", "body", "hash", "address"),
    "fabric_checkpoint": ("number", "workspace_id", "at", "body", "signature"),
}  # fmt: skip
KEYS = {"fabric_event": ("run_id", "seq"), "fabric_audit": ("id",), "fabric_checkpoint": ("id",)}


def changed(rng, value):
    """Another value, as little different as it gets."""
    if value is None or isinstance(value, int):
        return (value or 0) + rng.choice((1, 1_000, 10**6))
    raw = bytearray(value.encode() if isinstance(value, str) else value)
    how = rng.choice(("flip", "cut", "add"))
    if not raw or how == "add":
        raw.insert(rng.randint(0, len(raw)), 0x78)
    elif how == "cut":
        del raw[rng.randrange(len(raw))]
    else:
        place = rng.randrange(len(raw))
        raw[place] ^= 1
    return raw.decode("latin-1") if isinstance(value, str) else bytes(raw)


def reads_the_same(before, after):
    """Tells whether two packed columns unpack to the same bytes."""
    return isinstance(before, bytes) and isinstance(after, bytes) and unpack(before) == unpack(after)


def ask(statement, *values):
    with connection.cursor() as cursor:
        cursor.execute(statement, values)
        return cursor.fetchall() if cursor.description else cursor.rowcount


def mutate(rng, table):
    """Does one random damage to a table; what it was."""
    key = KEYS[table]
    where = " AND ".join(f"{name} = %s" for name in key)
    rows = ask(f"SELECT {', '.join(key)} FROM {table} ORDER BY {', '.join(key)}")
    one, other = rng.sample(rows, 2)
    what = rng.choice(("edit", "edit", "edit", "delete", "swap", "insert", "truncate"))
    names = COLUMNS[table]
    if what == "edit":
        name = rng.choice(names)
        ((before,),) = ask(f"SELECT {name} FROM {table} WHERE {where}", *one)
        after = changed(rng, before)
        ask(f"UPDATE {table} SET {name} = %s WHERE {where}", after, *one)
        if name in ("header", "payload") and reads_the_same(before, after):
            return ""  # Some bits of a compressed row say nothing.
        return f"{table}.{name} of {one}: {before!r} -> {after!r}"
    if what == "delete":
        ask(f"DELETE FROM {table} WHERE {where}", *one)
    elif what == "truncate":
        order = {"fabric_event": "seq", "fabric_audit": "seq", "fabric_checkpoint": "number"}[table]
        same = f"WHERE run_id = '{one[0]}'" if table == "fabric_event" else ""
        ends = ask(f"SELECT {', '.join(key)} FROM {table} {same} ORDER BY {order} DESC LIMIT {rng.randint(1, 2)}")
        for end in ends:
            ask(f"DELETE FROM {table} WHERE {where}", *end)
    elif what == "insert":
        fixed = {"fabric_event": "seq", "fabric_audit": "id", "fabric_checkpoint": "id"}[table]
        fresh = 999_999 if fixed == "seq" else "another"
        place = {"fabric_audit": "seq", "fabric_checkpoint": "number"}.get(table, "")
        columns = [name for name in {*names, fixed} if name not in (fixed, place)]
        extra = f", {place}" if place else ""
        value = ", 999999" if place else ""
        ask(
            f"INSERT INTO {table} ({', '.join(columns)}, {fixed}{extra}) "
            f"SELECT {', '.join(columns)}, %s{value} FROM {table} WHERE {where}", fresh, *one,
        )  # fmt: skip
    else:
        # Two rows say what the other said, each in its place.
        held = [name for name in names if name not in (*key, "seq", "number")]
        (first,), (second,) = (
            ask(f"SELECT {', '.join(held)} FROM {table} WHERE {where}", *row) for row in (one, other)
        )
        setting = ", ".join(f"{name} = %s" for name in held)
        ask(f"UPDATE {table} SET {setting} WHERE {where}", *second, *one)
        ask(f"UPDATE {table} SET {setting} WHERE {where}", *first, *other)
        if first == second:
            return ""
    return f"{what} in {table}: {one}, {other}"


@pytest.mark.slow
def test_random_mutations_are_all_found(site):
    """Edit, delete, swap, insert, cut off: anywhere in what a checkpoint covers (docs/specification/durability.md H5); a thousand in the nightly set."""
    site.seal()
    assert site.findings() == []
    rng, missed, done = random.Random(5), [], 0
    with unguarded():
        while done < many(1_000):
            table = rng.choices(list(COLUMNS), (6, 3, 1))[0]
            # What the tables' own keys refuse is no damage.
            with suppress(IntegrityError), rolled_back():
                told = mutate(rng, table)
                if told and not site.findings():
                    missed.append(told)
                done += bool(told)
    assert missed == []
