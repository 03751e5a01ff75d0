"""A journal is folded as it is, or its damage is named: what, where, in one sentence."""

from __future__ import annotations

import re
from hashlib import sha256
from typing import Any

import pytest

from fabric.core.values.fingerprint import ZERO_HASH
from fabric.core.values.frozen import replace
from fabric.core.values.taxonomy import Tier
from fabric.runtime.journal.loader import JournalDamage, LoadedRun, drop_snapshot, load, needs_journal, slim
from fabric.runtime.journal.snapshots import build_snapshot
from tests.fabric.core.fabrics import spec
from tests.fabric.core.harness import World, ran
from tests.fabric.core.scripts import asks, fails, planned, scored, summary
from tests.fabric.runtime.claimed_runs import claimed, rechained, stored

SCRIPT: dict[str, Any] = {
    "planner": [fails(), planned(2)],
    "worker": [asks(), asks(), summary(), summary()],
    "critic": scored(0.4),
}


@pytest.fixture(scope="module")
def world() -> World:
    """A run that waits for a person."""
    return ran(spec(), SCRIPT, tier=Tier.BATCH)


@pytest.fixture(scope="module")
def rows(world):
    return stored(world.rows)


def damage(given) -> JournalDamage:
    found = load(given)
    assert isinstance(found, JournalDamage)
    return found


def test_a_whole_journal_folds_to_the_run(world):
    found = load(claimed(world))
    assert isinstance(found, LoadedRun)
    assert (found.run, found.head, found.snapshot_seq) == (world.run, world.rows[-1].hash, 0)
    assert {found.contents.seqs[e.content_ref] for e in world.events if e.content_ref} <= {e.seq for e in world.events}
    assert found.contents.sizes == {e.content_ref: e.content_bytes for e in world.events if e.content_ref}


def test_a_run_that_never_started_loads(world):
    found = load(replace(claimed(world, rows=()), last_seq=0, head=ZERO_HASH))
    assert isinstance(found, LoadedRun)
    assert found.run.seq == 0


def test_every_missing_row_is_named(world, rows):
    for number in range(len(rows) - 1):
        found = damage(claimed(world, rows=(*rows[:number], *rows[number + 1 :])))
        first, last = rows[number].seq, rows[number].last_seq
        which = f"event {first} is" if first == last else f"events {first} to {last} are"
        assert (found.what, found.seq) == ("gap", first)
        assert found.sentence == f"{which} missing from the journal"


def test_several_missing_rows_and_one_twice(world, rows):
    found = damage(claimed(world, rows=(*rows[:3], *rows[6:])))
    first, last = rows[3].seq, rows[5].last_seq
    assert found == JournalDamage("gap", first, f"events {first} to {last} are missing from the journal")
    assert damage(claimed(world, rows=(*rows[:3], rows[2], *rows[3:]))) == JournalDamage(
        "gap", first, f"event {rows[2].seq} is there twice"
    )


def test_a_missing_tail_is_named_by_what_the_row_knows(world, rows):
    last, first = rows[-1].last_seq, rows[-1].seq
    which = f"event {last} is" if first == last else f"events {first} to {last} are"
    assert damage(claimed(world, rows=rows[:-1])) == JournalDamage(
        "tail", first, f"{which} missing at the journal's end"
    )
    found = damage(claimed(world, rows=rows[:-3]))
    assert found.sentence == f"events {rows[-3].seq} to {last} are missing at the journal's end"
    assert damage(claimed(world, rows=())).what == "tail"


def test_a_row_that_knows_less_or_something_else_is_named(world, rows):
    last = rows[-1].last_seq
    longer = damage(replace(claimed(world), last_seq=last - 2))
    assert longer.sentence == f"the journal has event {last}, but its run's row ends at {last - 2}"
    other = damage(replace(claimed(world), head=b"\1" * 32))
    assert other == JournalDamage(
        "tail", last, f"event {last} is not the one that the run's row ends with: its hash differs"
    )


@pytest.mark.parametrize("field", ["header", "hash", "payload_hash", "version", "kind"])
def test_a_changed_row_is_named_whatever_was_changed(world, rows, field):
    for number, row in enumerate(rows):
        held = getattr(row, field)
        changed = held + 1 if isinstance(held, int) else "run_ending" if field == "kind" else b"\x7f" + held[1:]
        if changed == held:
            continue
        found = damage(claimed(world, rows=(*rows[:number], replace(row, **{field: changed}), *rows[number + 1 :])))
        # A payload is compared with its hash first.
        assert found.what == ("payload" if field == "payload_hash" and row.payload is not None else "changed")
        assert found.seq == row.seq
        assert f"event {row.seq} " in found.sentence


def test_a_changed_payload_is_named(world, rows):
    for number, row in enumerate(rows):
        if row.payload is None:
            continue
        changed = replace(row, payload=row.payload[:-1] + b"\x01")
        found = damage(claimed(world, rows=(*rows[:number], changed, *rows[number + 1 :])))
        assert found == JournalDamage(
            "payload", row.seq, f"the payload of event {row.seq} ({row.kind}) is not the one that was written"
        )


def test_an_unknown_version_and_an_unknown_kind_are_named(world, rows):
    newer = rechained(rows, lambda row: {"version": 9} if row.seq == 4 else {})
    found = damage(replace(claimed(world, rows=newer), head=newer[-1].hash))
    assert (found.what, found.seq) == ("unknown", 4)
    assert re.fullmatch(r"event 4 is \w+ version 9; this program knows version \d: upgrade it", found.sentence)
    strange = rechained(rows, lambda row: {"kind": "teleported"} if row.seq == 4 else {})
    found = damage(replace(claimed(world, rows=strange), head=strange[-1].hash))
    assert (found.what, found.seq) == ("unknown", 4)
    assert "event kind 'teleported' is not known to this version" in found.sentence


def test_a_header_that_is_none_and_an_event_that_makes_no_sense_are_named(world, rows):
    broken = rechained(rows, lambda row: {"header": b"[]"} if row is rows[1] else {})
    found = damage(replace(claimed(world, rows=broken), head=broken[-1].hash))
    assert (found.what, found.seq) == ("unreadable", rows[1].seq)
    after = rows[0].last_seq + 1
    answer = [row for row in rows if row.kind == "model_answered"][1]
    moved = rechained((rows[0], replace(answer, seq=after)), lambda row: {})
    found = damage(replace(claimed(world, rows=moved), last_seq=moved[-1].last_seq, head=moved[-1].hash))
    assert (found.what, found.seq) == ("unreadable", after)
    assert "makes no sense after those before it" in found.sentence


def test_an_erased_payload_matters_only_while_it_is_needed(world, rows):
    refs = build_snapshot(world.run, rows[-1].hash, loaded(world).contents).refs
    needed = {row.payload_hash for row in rows if row.seq in refs}
    held = {row.payload_hash for row in rows if row.payload is not None}
    for gone in held:
        erased = [replace(row, payload=None) if row.payload_hash == gone else row for row in rows]
        last = max(row.seq for row in rows if row.payload_hash == gone)
        found = load(claimed(world, rows=erased))
        if gone in needed:
            sentence = f"the payload of event {last} is missing, and the run cannot continue without it"
            assert found == JournalDamage("payload", last, sentence)
        else:
            assert isinstance(found, LoadedRun)
    assert needed < held


def test_a_content_that_stands_in_the_journal_twice_may_be_missing_once(world, rows):
    twice = [row for row in rows if row.payload and sum(row.payload == other.payload for other in rows) > 1]
    assert twice
    erased = [replace(row, payload=None) if row is twice[-1] else row for row in rows]
    assert isinstance(load(claimed(world, rows=erased)), LoadedRun)


def test_an_ended_run_needs_no_payload():
    world = ran(spec(), {"planner": planned(1)})
    assert world.end.state == "completed"
    erased = [replace(row, payload=None) for row in stored(world.rows)]
    assert isinstance(load(claimed(world, rows=erased)), LoadedRun)


def loaded(world) -> LoadedRun:
    found = load(claimed(world))
    assert isinstance(found, LoadedRun)
    return found


# -- from a snapshot ---------------------------------------------------------------------------------------------------


def test_every_snapshot_of_a_run_leads_to_the_same_run_and_contents(world, rows):
    whole = loaded(world)
    for number, row in enumerate(rows[:-1], start=1):
        begun = load(replace(claimed(world, rows=rows[:number]), last_seq=row.last_seq, head=row.hash))
        assert isinstance(begun, LoadedRun)
        snapshot = build_snapshot(begun.run, begun.head, begun.contents)
        found = load(claimed(world, snapshot=snapshot))
        assert isinstance(found, LoadedRun)
        assert (found.run, found.head, found.snapshot_seq) == (whole.run, whole.head, row.last_seq)
        assert found.contents.values.items() <= whole.contents.values.items()
        assert build_snapshot(found.run, found.head, found.contents) == build_snapshot(
            whole.run, whole.head, whole.contents
        )


def test_damage_behind_a_snapshot_and_in_what_it_needs_is_named(world, rows):
    whole = loaded(world)
    snapshot = build_snapshot(whole.run, whole.head, whole.contents)
    given = claimed(world, snapshot=snapshot)
    assert isinstance(load(given), LoadedRun)
    first = given.kept[0]
    changed = replace(first, payload=b'{"text":"other"}', payload_hash=sha256(b'{"text":"other"}').digest())
    assert damage(replace(given, kept=(changed, *given.kept[1:]))).what == "payload"
    missing = damage(replace(given, kept=given.kept[1:]))
    assert (missing.what, missing.seq) == ("payload", first.seq)
    assert damage(replace(given, last_seq=given.last_seq + 1)).what == "tail"


def test_a_changed_snapshot_is_put_aside_for_the_whole_journal(world, rows):
    whole = loaded(world)
    snapshot = build_snapshot(whole.run, whole.head, whole.contents)
    good = claimed(world, snapshot=snapshot)
    assert not needs_journal(good)
    assert not needs_journal(claimed(world))
    for changed in (
        replace(snapshot, state=snapshot.state[:-1] + b"\x00"),
        replace(snapshot, seq=snapshot.seq - 1),
        replace(snapshot, head=b"\2" * 32),
        replace(snapshot, refs=snapshot.refs[1:]),
        replace(snapshot, digest="another program"),
        replace(snapshot, state=b""),
    ):
        given = replace(good, snapshot=changed)
        assert needs_journal(given)
        again = load(drop_snapshot(given, rows))
        assert isinstance(again, LoadedRun)
        assert (again.run, again.snapshot_seq) == (whole.run, 0)


def test_what_an_owner_keeps_of_its_claim_holds_no_journal(world):
    whole = loaded(world)
    kept = slim(claimed(world, snapshot=build_snapshot(whole.run, whole.head, whole.contents)))
    assert (kept.rows, kept.kept, kept.snapshot, kept.inbox) == ((), (), None, ())
    assert (kept.last_seq, kept.head) == (world.rows[-1].last_seq, world.rows[-1].hash)
