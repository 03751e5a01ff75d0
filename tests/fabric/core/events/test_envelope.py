"""Events as bytes and back, the chain over them, and what remains when a payload is erased."""

from __future__ import annotations

import json
from dataclasses import fields, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabric.core import events as ev
from fabric.core.events.envelope import (
    NO_PAYLOAD,
    Event,
    UnknownEvent,
    envelope,
    fact_class,
    fact_json,
    from_row,
    list_events,
    to_row,
    verify_chain,
)
from fabric.core.evolve import fold
from fabric.core.state.run import Run
from fabric.core.values.fingerprint import ZERO_HASH
from fabric.core.values.flow import Stage
from fabric.core.values.taxonomy import Cause, Evidence, Tier
from fabric.core.values.tracing import Trace
from tests.fabric.core.events.samples import FACTS, sample
from tests.fabric.core.fabrics import spec
from tests.fabric.core.harness import World, ran
from tests.fabric.core.scripts import asks, fails, planned, scored, summary

each = pytest.mark.parametrize("kind", FACTS, ids=lambda kind: kind.kind)


def event(fact, seq: int = 3) -> Event:
    return Event(seq, 1_700_000_000_000_000, fact, "input-1", "c" * 32, 9)


def test_every_kind_survives_its_bytes():
    for kind in FACTS:
        given = event(sample(kind))
        row = to_row(given, b'{"x":1}', ZERO_HASH)
        back = from_row(row.seq, row.kind, row.version, row.header)
        assert back == given
        assert to_row(back, b'{"x":1}', ZERO_HASH) == row
        for f in fields(kind):
            assert type(getattr(back.fact, f.name)) is type(getattr(given.fact, f.name)), (kind.kind, f.name)


def test_the_samples_leave_no_field_at_its_default():
    made = [(kind, f, getattr(sample(kind), f.name)) for kind in FACTS for f in fields(kind)]
    assert [(kind.kind, f.name) for kind, f, value in made if value == f.default and f.name != "on_expiry"] == []


@each
def test_every_kind_has_an_envelope_that_is_json(kind):
    shown = json.loads(json.dumps(envelope(Trace("t" * 32, "run-1"), event(sample(kind)))))
    assert set(shown) == {
        *("id", "trace_id", "span_id", "parent_span_id", "timestamp", "source", "destination", "payload"),
    }
    assert shown["id"] == "run-1.3"
    assert all(shown[party]["layer"] for party in ("source", "destination"))
    assert (shown["payload"]["kind"], shown["payload"]["version"]) == (kind.kind, kind.version)


def test_defaults_are_left_out_of_the_bytes_and_stand_in_the_json():
    row = to_row(event(ev.InputIgnored(input_kind="x", reason="y")), None, ZERO_HASH)
    assert json.loads(row.header)["d"] == {"input_kind": "x", "reason": "y"}
    short = event(ev.StageEntered(stage=Stage.PLAN, epoch=0, deadline_at=1))
    assert "agents" not in json.loads(to_row(short, None, ZERO_HASH).header)["d"]
    assert fact_json(short)["agents"] == []


@given(st.text(), st.floats(allow_nan=False, allow_infinity=False), st.lists(st.text(), max_size=3))
def test_any_text_and_number_survives(text, number, names):
    details = {"names": names, "n": number, "text": text}
    cause = ev.TripRecord(
        mechanism="m", cause=Cause.UNKNOWN, message=text, evidence=Evidence(observed=number, details=details)
    )
    given = event(replace(sample(ev.ReactionDecided), cause=cause))
    row = to_row(given, None, ZERO_HASH)
    assert from_row(row.seq, row.kind, row.version, row.header) == given


# -- unknown rows ------------------------------------------------------------------------------------------------------


def test_a_row_of_a_newer_program_is_refused_with_a_sentence():
    with pytest.raises(
        UnknownEvent, match="event kind 'teleported' is not known to this version; upgrade before you replay"
    ):
        fact_class("teleported")
    row = to_row(event(ev.CancelAccepted(actor="a")), None, ZERO_HASH)
    with pytest.raises(
        UnknownEvent, match="event 3 is cancel_accepted version 2; this program knows version 1: upgrade it"
    ):
        from_row(3, "cancel_accepted", 2, row.header)


@pytest.mark.parametrize(
    "header", [b"", b"{}", b"[1]", b'{"e":[],"d":{}}', b'{"e":[1,"","","","","","",0],"d":{"nonsense":1}}']
)
def test_a_header_that_is_not_ours_is_refused(header):
    with pytest.raises((ValueError, KeyError, TypeError)):
        from_row(1, "cancel_accepted", 1, header)


# -- the chain of a real run -------------------------------------------------------------------------------------------

SCRIPT: dict[str, Any] = {
    "planner": [fails(), planned(2)],
    "worker": [asks(), asks(), summary(), summary()],
    "critic": scored(0.4),
}


@pytest.fixture(scope="module")
def world() -> World:
    return ran(spec(), SCRIPT, tier=Tier.BATCH).decide("approve").go()


def hashed(rows):
    return [(r.seq, r.kind, r.version, r.header, r.payload_hash, r.hash) for r in rows]


def test_the_chain_of_a_run_holds(world):
    assert world.end.state == "completed"
    assert verify_chain(hashed(world.rows), ZERO_HASH) is None


def test_tampering_with_any_part_of_any_row_is_found_there(world):
    rows = hashed(world.rows)
    for number, row in enumerate(rows):
        for column, other in ((1, "run_ending"), (2, 9), (3, row[3] + b" "), (4, b"\0" * 32), (5, b"\0" * 32)):
            changed = [*rows[:number], (*row[:column], other, *row[column + 1 :]), *rows[number + 1 :]]
            if changed[number] != row:
                assert verify_chain(changed, ZERO_HASH) == row[0], (row[1], column)


def test_a_row_taken_out_put_in_or_moved_is_found(world):
    rows = hashed(world.rows)
    assert verify_chain([*rows[:4], *rows[5:]], ZERO_HASH) == rows[5][0]
    assert verify_chain([*rows[:4], rows[3], *rows[4:]], ZERO_HASH) == rows[3][0]
    assert verify_chain([rows[1], rows[0], *rows[2:]], ZERO_HASH) == rows[1][0]
    assert verify_chain(rows, b"\1" * 32) == 1


def test_seqs_are_dense_and_instants_never_go_back(world):
    assert [event.seq for event in world.events] == list(range(1, len(world.events) + 1))
    assert [row.seq for row in world.rows[1:]] == [row.last_seq + 1 for row in world.rows[:-1]]
    assert [e.at for e in world.events] == sorted(e.at for e in world.events)


def test_an_erased_payload_leaves_the_chain_whole_and_the_state_as_it_was(world):
    before = fold(Run("run-1", tier=Tier.BATCH, seed=7), world.events)
    assert before == world.run
    erased = [replace(row, payload=None) for row in world.rows]
    assert any(row.payload for row in world.rows)
    assert verify_chain(hashed(erased), ZERO_HASH) is None
    events = list_events(erased)
    assert fold(Run("run-1", tier=Tier.BATCH, seed=7), events) == world.run


def test_a_row_without_a_content_says_so(world):
    for row in world.rows:
        assert (row.payload is None) is (row.payload_hash == NO_PAYLOAD)


def test_the_state_holds_no_content(world):
    assert "The answer." not in repr(world.run)
    assert "What is it?" not in repr(world.run)


def test_every_event_stands_in_one_trace_with_its_span_under_its_step_under_the_run(world):
    shown = [envelope(Trace("t" * 32, "run-1"), e) for e in world.events]
    by_kind = {e["payload"]["kind"]: e for e in shown}
    root, call, answer = (by_kind[kind] for kind in ("run_started", "call_issued", "model_answered"))
    assert root["parent_span_id"] == ""
    assert {e["trace_id"] for e in shown} == {"t" * 32}
    assert all(len(e["span_id"]) == 16 and int(e["span_id"], 16) >= 0 for e in shown)
    failed = next(e for e in shown if e["payload"]["kind"] == "attempt_failed")
    first = next(e for e in shown if e["payload"]["kind"] == "call_issued")
    assert (failed["span_id"], failed["parent_span_id"]) == (first["span_id"], first["parent_span_id"])
    assert call["parent_span_id"] not in (root["span_id"], "")
    assert answer["source"] == {"layer": "model", "agent_id": ""}


def test_the_same_run_gives_the_same_bytes_twice():
    one, two = (ran(spec(), {"planner": planned(3)}) for _ in range(2))
    assert [row.hash for row in one.rows] == [row.hash for row in two.rows]
