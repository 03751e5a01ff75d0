"""Events of one instant that stand in one row of the journal."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabric.core import events as ev
from fabric.core.decision.work import EmittedFact
from fabric.core.events import envelope
from fabric.core.events.envelope import (
    EVENTS_MAX,
    FOLLOWING,
    KINDS,
    NO_PAYLOAD,
    Event,
    UnknownEvent,
    list_events,
    list_kinds,
    read_row,
    split_rows,
    to_rows,
    verify_chain,
)
from fabric.core.values.fingerprint import ZERO_HASH, content_ref
from fabric.core.values.flow import Stage
from fabric.runtime.journal.progress import PROGRESS

ENTERED = ev.StageEntered(stage=Stage.PLAN, epoch=0, deadline_at=9, agents=("a",))
CANCELLED = ev.CancelAccepted(actor="ada\nbob")


def emitted(*parts):
    """Return events in order. A part: the fact, and what else is not usual."""
    found = []
    for seq, (fact, more) in enumerate(parts, start=1):
        content = more.get("content")
        ref, size = ("", 0) if content is None else (content_ref(content), len(content))
        event = Event(seq, more.get("at", 1_000), fact, more.get("input_id", ""), ref, size)
        found.append(EmittedFact(event, content))
    return found


def lengths(events):
    return [len(read_row(row.seq, row.kind, row.version, row.header)) for row in to_rows(events, ZERO_HASH)]


PARTS = st.tuples(
    st.sampled_from([ENTERED, CANCELLED]),
    st.fixed_dictionaries(
        {},
        optional={"content": st.just(b'{"a":"\\n"}'), "input_id": st.just("in"), "at": st.sampled_from([1_000, 2_000])},
    ),
)


@given(st.lists(PARTS, max_size=40))
def test_rows_give_their_events_back(parts):
    events = emitted(*parts)
    rows = list(to_rows(events, ZERO_HASH))
    assert list_events(rows) == [one.event for one in events]
    single = list(split_rows(rows))
    assert list_events(single) == [one.event for one in events]
    assert [row.payload for row in single] == [one.content for one in events]
    assert [kind for row in rows for kind in list_kinds(row.kind, row.header)] == [row.kind for row in single]
    assert verify_chain([(r.seq, r.kind, r.version, r.header, r.payload_hash, r.hash) for r in rows], ZERO_HASH) is None
    assert all(row.last_seq - row.seq < EVENTS_MAX for row in rows)
    if rows:
        assert rows[-1].last_seq == len(events)


@pytest.mark.parametrize(
    ("second", "rows"),
    [
        ((ENTERED, {}), [2]),
        ((CANCELLED, {}), [1, 1]),
        ((ENTERED, {"content": b"{}"}), [1, 1]),
        ((ENTERED, {"input_id": "in"}), [1, 1]),
        ((ENTERED, {"at": 2_000}), [1, 1]),
    ],
)
def test_an_event_follows_in_a_row_only_without_content_and_input_and_at_one_instant(second, rows):
    assert lengths(emitted((CANCELLED, {"content": b"{}", "input_id": "in"}), second)) == rows


def test_a_row_has_so_many_events_at_most():
    assert lengths(emitted(*[(ENTERED, {})] * (2 * EVENTS_MAX + 1))) == [EVENTS_MAX, EVENTS_MAX, 1]


def test_kinds_that_follow_are_known():
    assert set(KINDS) >= FOLLOWING
    assert PROGRESS.keys() >= FOLLOWING


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"stage_entered",
        b"stage_entered one {}",
        b"stage_entered 2 {}",
        b"\xff\xfe 1 {}",
        b"stage_entered 1",
        b"no 1 {}",
    ],
)
def test_a_malformed_line_is_refused_when_it_is_read(line):
    (row,) = to_rows(emitted((CANCELLED, {})), ZERO_HASH)
    bad = replace(row, header=row.header + b"\n" + line)
    (first, second) = envelope.split_row(bad.seq, bad.kind, bad.version, bad.header)
    assert (first[3], second[0]) == (row.header, 2)
    with pytest.raises(ValueError, match=r"event|header"):
        list_events([bad])
    assert UnknownEvent.__mro__[1] is ValueError


def test_the_events_after_the_first_have_no_payload():
    (row,) = to_rows(emitted((CANCELLED, {"content": b"{}"}), (ENTERED, {})), ZERO_HASH)
    first, second = split_rows([row])
    assert (first.payload, second.payload, second.payload_hash) == (b"{}", None, NO_PAYLOAD)
    assert first.hash == second.hash == row.hash
