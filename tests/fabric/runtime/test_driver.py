"""RunDriver by hand: nothing goes out before its intent has committed, nothing is trusted that has not, a resting run is given back."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, get_args

import pytest

from fabric.core.events.commands import AbortCall, CallModel
from fabric.core.events.envelope import list_events, split_rows
from fabric.core.events.inputs import INBOX, CallFailed, CancelRequested, ModelReplied, RunRequested
from fabric.core.state.context import compile_spec
from fabric.core.values.fingerprint import ZERO_HASH
from fabric.core.values.flow import FORMAT, RunState
from fabric.core.values.taxonomy import Cause, Tier
from fabric.runtime import driver as driving
from fabric.runtime.driver import RunDriver
from fabric.runtime.happenings import (
    Append,
    Arrived,
    BatchRefused,
    Committed,
    Draining,
    Due,
    Happening,
    Perform,
    PortAnswered,
    Quarantine,
    Release,
    Taken,
    WakeAt,
)
from fabric.runtime.journal.batches import merge_batches
from fabric.runtime.ports.batch_parts import FamilyCaps, Send, Snapshot
from fabric.runtime.ports.journal import Batch, ClaimedRun, InboxItem, StoredRow
from tests.fabric.core.fabrics import PRICES, lone

T0 = 1_800_000_000_000_000
S = 1_000_000


def item(given: Any) -> InboxItem:
    return InboxItem("run-1", given.input_id, INBOX.dump_json(given))


START = item(RunRequested(input_id="start", request={"text": "What is it?"}, deadline_at=T0 + 300 * S))
CANCEL = item(CancelRequested(input_id="cancel", actor="alice"))


class Driven:
    """A driver and the rows it has handed out, committed or not."""

    def __init__(
        self, fabric=None, *, rows=(), inbox=(START,), fence=1, tier=Tier.INTERACTIVE, now=T0, taken=False
    ) -> None:
        self.driver = RunDriver(compile_spec(fabric or lone(), prices=PRICES, prompt_overhead={"worker": 5_000}))
        self.now = now
        claimed = ClaimedRun(
            run_id="run-1",
            fence=fence,
            revision_id="r",
            trace_id="t" * 32,
            seed=7,
            tier=tier,
            rows=tuple(rows),
            inbox=tuple(inbox),
            taken_over=taken,
            last_seq=rows[-1].last_seq if rows else 0,
            head=rows[-1].hash if rows else ZERO_HASH,
            at=now,
        )
        self.effects = self.step(Taken(claimed, "process-1"))

    def step(self, happening: Happening):
        self.effects = self.driver.step(happening, self.now)
        return self.effects

    def commit(self, seq: int | None = None):
        return self.step(Committed(self.driver.run.seq if seq is None else seq))

    @property
    def batch(self) -> Batch:
        return next(effect.batch for effect in self.effects if isinstance(effect, Append))

    def kinds(self):
        return [type(effect).__name__ for effect in self.effects]

    def performed(self):
        return [effect.command for effect in self.effects if isinstance(effect, Perform)]

    def answer(self, text='{"text": "Found."}', command="fan_out.0.e0.r0.t1", attempt=1):
        return self.step(PortAnswered(ModelReplied(command_id=command, attempt=attempt, text=text)))


def stored(rows):
    return [StoredRow(r.seq, r.kind, r.version, r.header, r.payload, r.payload_hash, r.hash) for r in rows]


def refused(retry_after_s: float, attempt: int = 1) -> CallFailed:
    return CallFailed(
        command_id="fan_out.0.e0.r0.t1",
        attempt=attempt,
        cause=Cause.RATE_LIMIT,
        message="slow down",
        retry_after_s=retry_after_s,
    )


def test_every_happening_has_a_step():
    assert set(driving._STEPS) == set(get_args(Happening))


def test_a_claim_decides_at_once_and_performs_nothing_before_the_commit():
    driven = Driven()
    assert driven.kinds() == ["Append", "WakeAt"]
    batch = driven.batch
    assert (batch.fence, batch.last_seq, batch.consumed, batch.release) == (1, 0, ("start",), False)
    events = list_events(batch.rows)
    assert [event.fact.kind for event in events][:1] == ["run_started"]
    assert events[-1].fact.kind == "call_issued"
    assert batch.head == batch.rows[-1].hash
    driven.commit()
    assert [type(command) for command in driven.performed()] == [CallModel]


def test_commands_go_out_with_their_own_batch_and_not_before():
    driven = Driven()
    first = driven.driver.run.seq
    assert driven.step(Committed(first - 1)) == []
    assert len([e for e in driven.step(Committed(first)) if isinstance(e, Perform)]) == 1
    assert driven.step(Committed(first)) == []


def test_a_refused_batch_voids_everything():
    driven = Driven()
    assert driven.step(BatchRefused("fenced")) == [Release("fenced")]
    for happening in (Committed(99), Due(), Arrived(CANCEL)):
        assert driven.step(happening) == []
    assert driven.answer() == []


def test_a_command_that_was_superseded_before_its_commit_never_goes_out():
    driven = Driven()
    driven.step(Arrived(CANCEL))
    driven.commit()
    assert [type(command) for command in driven.performed()] == [AbortCall]


def test_a_command_that_committed_too_late_has_timed_out_without_being_sent():
    driven = Driven()
    driven.now += 31 * S
    effects = driven.commit()
    assert driven.performed() == []
    assert [row.kind for row in split_rows(driven.batch.rows)] == [
        "attempt_failed",
        "reaction_decided",
        "retry_scheduled",
    ]
    assert any(isinstance(effect, WakeAt) for effect in effects)


def test_an_inbox_row_is_taken_once():
    driven = Driven()
    driven.commit()
    assert driven.step(Arrived(START)) == []
    driven.step(Arrived(CANCEL))
    assert driven.batch.consumed == ("cancel",)
    assert driven.step(Arrived(CANCEL)) == []


def test_an_input_that_changes_nothing_is_consumed_all_the_same():
    driven = Driven(inbox=())
    assert driven.effects == []
    driven.step(Arrived(START))
    again = item(RunRequested(input_id="start-2", request={"text": "x"}, deadline_at=T0 + S))
    driven.step(Arrived(again))
    assert (driven.batch.consumed, [row.kind for row in split_rows(driven.batch.rows)]) == (
        ("start-2",),
        ["input_ignored"],
    )


def test_a_batch_extends_the_one_before_it():
    driven = Driven()
    first = driven.batch
    driven.commit()
    driven.answer()
    second = driven.batch
    assert second.last_seq == first.new_seq
    both = merge_batches(first, second)
    assert (both.last_seq, both.rows, both.head) == (0, first.rows + second.rows, second.head)
    assert both.consumed == ("start",)
    with pytest.raises(AssertionError):
        merge_batches(second, first)


def test_the_last_batch_of_a_run_gives_it_back():
    driven = Driven()
    driven.commit()
    driven.answer()
    assert driven.batch.release
    assert driven.batch.wake_at is None
    assert driven.batch.columns.state is RunState.COMPLETED
    assert driven.commit() == [Release("released")]
    assert driven.answer() == []


def waiting() -> Driven:
    driven = Driven(tier=Tier.HIGH_STAKES)
    driven.commit()
    for turn in range(1, 5):
        driven.answer("no", f"fan_out.0.e0.r0.t{turn}")
        if turn < 4:
            driven.commit()
    return driven


def test_a_run_that_waits_for_a_person_is_given_back_with_its_next_instant():
    driven = waiting()
    opened = next(review for review in driven.driver.run.reviews.values()).fact
    assert driven.batch.release
    assert driven.batch.wake_at == opened.remind_at
    assert [one.review_id for one in driven.batch.reviews] == [opened.review_id]
    assert WakeAt(None) in driven.effects
    assert driven.commit() == [Release("released")]


def test_what_a_released_run_still_records_does_not_take_the_release_back():
    table = {"schema_grounding_fail": {"high_stakes": {"rungs": [{"reaction": "escalate"}]}}}
    fabric = lone(workers=2, table=table, fan_in={"mode": "quorum", "k": 1})
    driven = Driven(fabric, tier=Tier.HIGH_STAKES)
    driven.commit()
    for turn in range(1, 5):
        driven.answer("no", f"fan_out.0.e0.r0.t{turn}")
        driven.commit()
    driven.answer("no", "fan_out.1.e0.r0.t1")
    for turn in range(2, 5):
        driven.commit()
        driven.answer("no", f"fan_out.1.e0.r0.t{turn}")
    released = driven.batch
    assert released.release
    # Nothing of it may be lost when a later batch is written together with it.
    later = Batch(
        run_id="run-1", fence=1, last_seq=driven.driver.run.seq, rows=(), head=released.head, columns=released.columns
    )
    both = merge_batches(released, later)
    assert both.release
    assert both.wake_at == released.wake_at


def test_an_inbox_row_that_comes_after_the_release_is_left_for_the_next_owner():
    driven = waiting()
    assert driven.step(Arrived(CANCEL)) == []


def test_the_next_owner_folds_the_journal_and_goes_on():
    first = waiting()
    rows = []
    again = Driven(tier=Tier.HIGH_STAKES)
    rows += again.batch.rows
    again.commit()
    again.answer()
    rows += again.batch.rows
    second = Driven(tier=Tier.HIGH_STAKES, rows=stored(rows), inbox=(), fence=2, now=again.now)
    assert second.driver.run == again.driver.run
    assert second.effects[0].batch.rows == ()
    assert second.batch.release, "there is nothing left to do, so it is given back at once"
    assert first.driver.run.reviews


def test_a_takeover_goes_on_from_the_chain_it_was_given():
    first = Driven()
    second = Driven(rows=stored(first.batch.rows), inbox=(), fence=2, now=T0 + S, taken=True)
    assert [row.kind for row in split_rows(second.batch.rows)] == [
        "ownership_taken",
        "attempt_interrupted",
        "call_issued",
    ]
    assert (second.batch.last_seq, second.batch.fence) == (first.batch.new_seq, 2)
    second.commit()
    assert [command.attempt for command in second.performed()] == [2]


UNWATCHED = lone(stall_watchdog={"after_s": 0})


def test_due_before_its_time_asks_to_be_woken_again():
    driven = Driven(UNWATCHED)
    driven.commit()
    (wake,) = driven.step(Due())
    assert wake == WakeAt(T0 + 120 * S)


def test_a_wake_that_has_come_is_asked_for_anew_even_for_the_same_instant():
    driven = Driven(UNWATCHED)
    driven.commit()
    driven.step(PortAnswered(refused(9.0)))
    driven.driver._wake = T0 + 120 * S  # As if the host had been asked for the instant that comes next.
    driven.now = T0 + 9 * S
    assert driven.step(Due())[-1] == WakeAt(T0 + 120 * S)


def test_the_wake_follows_what_is_due_next():
    driven = Driven(UNWATCHED)
    assert driven.effects[-1] == WakeAt(T0 + 120 * S)
    driven.commit()
    driven.step(PortAnswered(refused(9.0)))
    assert driven.effects[-1] == WakeAt(T0 + 9 * S)
    driven.now = T0 + 9 * S
    driven.step(Due())
    assert driven.effects[-1] == WakeAt(T0 + 120 * S)
    driven.commit()
    assert [command.attempt for command in driven.performed()] == [2]


def test_an_event_puts_the_watchdog_off_without_setting_its_clock_anew():
    driven = Driven()
    assert driven.effects[-1] == WakeAt(T0 + 60 * S)
    driven.commit()
    driven.now = T0 + 20 * S
    driven.step(PortAnswered(refused(5.0)))
    assert driven.effects[-1] == WakeAt(T0 + 25 * S)
    driven.now = T0 + 25 * S
    driven.step(Due())
    assert driven.effects[-1] == WakeAt(T0 + 85 * S)
    driven.commit()
    driven.now = T0 + 30 * S
    driven.step(PortAnswered(refused(0.0, attempt=2)))
    # It is woken for the retry, whose backoff is at most two seconds, and not for the watchdog.
    assert all(effect.at < T0 + 33 * S for effect in driven.effects if isinstance(effect, WakeAt))


def test_a_driver_is_stepped_with_taken_first():
    with pytest.raises(AssertionError, match="stepped with Taken first"):
        RunDriver(compile_spec(lone(), prices=PRICES)).step(Arrived(START), T0)


def test_an_erased_content_that_is_needed_is_damage_and_nothing_is_issued():
    first = Driven()
    rows = [replace(row, payload=None) for row in stored(first.batch.rows)]
    second = Driven(rows=rows, inbox=(), fence=2, now=T0 + S, taken=True)
    [effect] = second.effects
    assert isinstance(effect, Quarantine)
    assert (effect.damage.what, effect.damage.seq) == ("payload", 1)
    assert effect.damage.sentence == "the payload of event 1 is missing, and the run cannot continue without it"
    assert second.answer(attempt=2) == []


def test_a_content_that_goes_missing_on_the_way_is_damage_too():
    driven = Driven()
    driven.commit()
    driven.driver.contents.keep(())
    [effect] = driven.answer()
    assert isinstance(effect, Quarantine)
    assert effect.damage.what == "payload"
    assert "its payload was erased, so this run cannot continue" in effect.damage.sentence
    assert driven.commit() == []


def test_the_release_of_a_draining_run_is_not_taken_for_the_batch_before_it():
    """Both end at one seq: were the release handed out at once, the commit of the first would end the driver before the release is written."""
    driven = Driven()
    driven.commit()
    driven.step(PortAnswered(refused(20)))
    assert driven.batch.rows[-1].kind == "retry_scheduled"
    assert driven.step(Draining()) == []
    (append,) = driven.commit()
    assert (append.batch.release, append.batch.rows, append.batch.wake_at) == (True, (), T0)
    assert driven.commit() == [Release("released")]


def test_a_draining_run_is_released_with_the_answer_it_waited_for():
    driven = Driven()
    driven.commit()
    assert driven.step(Draining()) == []
    driven.step(PortAnswered(refused(20)))
    assert (driven.batch.release, driven.batch.wake_at) == (True, T0)
    assert [row.kind for row in split_rows(driven.batch.rows)][-1] == "retry_scheduled"
    assert driven.step(Draining()) == []
    assert driven.commit() == [Release("released")]


def test_an_announced_input_is_not_taken_before_its_time():
    driven = Driven()
    driven.commit()
    assert driven.step(Arrived(replace(CANCEL, visible_at=T0 + S, announced=True))) == [WakeAt(T0 + S)]
    driven.step(Arrived(CANCEL))
    assert driven.batch.consumed == ("cancel",)


def test_a_merged_batch_brings_what_both_bring():
    driven = Driven()
    first, caps = driven.batch, FamilyCaps(alive=1, spawned=2)
    driven.commit()
    driven.answer()
    second = driven.batch
    taken = Snapshot(seq=first.new_seq, digest="d", head=first.head, state=b"")
    sends = [Send(run_id="run-2", input_id=name, body=b"") for name in "ab"]
    first = replace(first, caps=caps, sends=(sends[0],), snapshot=taken, format=FORMAT)
    both = merge_batches(first, replace(second, sends=(sends[1],), columns=None))
    assert (both.caps, both.sends, both.snapshot, both.format) == (caps, tuple(sends), taken, FORMAT)
    assert both.columns == first.columns
    assert merge_batches(first, second).columns == second.columns
