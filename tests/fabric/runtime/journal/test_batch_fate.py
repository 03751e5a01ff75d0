"""A writer finds the fate of a batch whose answer was lost, and which events count as progress: both are tables."""

from __future__ import annotations

import pytest

from fabric.core.events.envelope import KINDS, JournalRow
from fabric.core.values.flow import RunState
from fabric.core.values.frozen import replace
from fabric.runtime.journal.batches import find_fate
from fabric.runtime.journal.progress import PROGRESS
from fabric.runtime.ports.batch_parts import RunColumns
from fabric.runtime.ports.journal import Batch, BatchFate, Head

BEFORE, AFTER, ELSE = b"before", b"after", b"else"
ROW = JournalRow(seq=8, at=1, version=1, kind="input_ignored", header=b"{}", payload=None, payload_hash=b"", hash=AFTER)
ROWS = (ROW, replace(ROW, seq=9))
COLUMNS = RunColumns(state=RunState.RUNNING, stage="plan", epoch=0, cost_usd_micros=0, tokens=0)


def batch(rows: int) -> Batch:
    return Batch(run_id="run", fence=3, last_seq=7, rows=ROWS[:rows], head=AFTER if rows else BEFORE, columns=COLUMNS)


@pytest.mark.parametrize(
    ("rows", "head", "fate"),
    [
        (1, None, BatchFate.FENCED),
        (1, Head(4, 7, BEFORE), BatchFate.FENCED),
        (1, Head(4, 8, AFTER), BatchFate.FENCED),
        (1, Head(3, 7, BEFORE), None),
        (1, Head(3, 8, AFTER), BatchFate.COMMITTED),
        (1, Head(3, 8, ELSE), BatchFate.FENCED),
        (1, Head(3, 9, ELSE), BatchFate.FENCED),
        (2, Head(3, 8, ELSE), BatchFate.FENCED),
        (2, Head(3, 9, AFTER), BatchFate.COMMITTED),
        (0, Head(3, 7, BEFORE), None),
        (0, Head(3, 8, ELSE), BatchFate.FENCED),
        (0, None, BatchFate.FENCED),
    ],
)
def test_where_the_row_stands_tells_what_became_of_it(rows, head, fate):
    assert find_fate(batch(rows), head) is fate


def test_every_kind_of_event_is_progress_or_is_not():
    assert set(PROGRESS) == set(KINDS)


def test_what_a_takeover_writes_is_no_progress():
    assert not any(PROGRESS[kind] for kind in ("ownership_taken", "attempt_interrupted", "call_issued"))
    assert PROGRESS["model_answered"]


def test_whatever_takes_an_input_is_progress():
    """Each input is taken once, so no run is woken by them for ever: a child that waits, goes on and waits again makes no suspect of its parent."""
    assert all(PROGRESS[kind] for kind in ("child_waiting", "child_freed", "child_quarantined", "child_answered"))
