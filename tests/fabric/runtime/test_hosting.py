"""The machine of one worker: every event in every state of a run has the answer that the table of ``runtime/hosting`` gives."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import product

import pytest

from fabric.core.events.inputs import ModelReplied
from fabric.core.spec.policies.limits import Limits
from fabric.runtime.happenings import Append, BatchRefused, CutShort, Draining, Perform, PortAnswered, Release
from fabric.runtime.hosting.machine import DriverFailed
from fabric.runtime.hosting.polling import PollAnswer, StorePoll
from fabric.runtime.hosting.release import AFTER_WRITE, AfterWrite, choose_act
from fabric.runtime.ports.journal import BatchFate, StoreUnavailable
from tests.fabric.runtime.hosting_scenes import (
    CONFIG,
    HOLD_US,
    NOW,
    POLL,
    REVISION,
    RUN,
    SWEEP_US,
    Scene,
    claimed,
)

LOST = StoreUnavailable("the answer is lost", unknown=True)
POISON = Limits().claims_without_progress + 1
RESULT = ModelReplied(command_id="plan.0.e0.r0.t1", attempt=1, text="late", input_tokens=1, output_tokens=1)


# -- states ------------------------------------------------------------------------------------------------------------


def unknown(scene: Scene) -> None:
    scene.written = scene.dropped()


def driven(scene: Scene) -> None:
    scene.written = scene.dropped()
    scene.drive()


def writing(scene: Scene) -> None:
    scene.drive()
    scene.written = scene.write()


def driven_anew(scene: Scene) -> None:
    writing(scene)
    scene.drive(fence=2)


def leaving(scene: Scene) -> None:
    writing(scene)
    scene.fail()


def cooling(scene: Scene) -> None:
    scene.written = scene.dropped()
    scene.drive()
    scene.fail()


def asked_for(scene: Scene) -> None:
    scene.written = scene.dropped()
    scene.hosting.end_release(RUN, BatchFate.FENCED, NOW)


STATES = (unknown, driven, writing, driven_anew, leaving, cooling, asked_for)


# -- events ------------------------------------------------------------------------------------------------------------


def of_fate(fate: BatchFate | Exception) -> Callable[[Scene], None]:
    return lambda scene: scene.end_written(fate)


def of_release(fate: BatchFate | Exception) -> Callable[[Scene], None]:
    return lambda scene: scene.hosting.end_release(RUN, fate, scene.now)


def look_twice(scene: Scene) -> None:
    for _ in range(2):
        scene.hosting.end_answer(scene.answer(owned=[RUN]), scene.now)


def pass_time(scene: Scene) -> None:
    scene.now += HOLD_US
    scene.hosting.due(scene.now)


EVENTS: Mapping[str, Callable[[Scene], object]] = {
    "claimed": lambda scene: scene.drive(fence=3),
    "claimed too often": lambda scene: scene.hosting.claim(claimed(claims=POISON), REVISION, POLL, scene.now),
    "claimed without its revision": lambda scene: scene.hosting.claim(claimed(), None, POLL, scene.now),
    "not given": lambda scene: scene.hosting.take_answer(
        PollAnswer(replace(POLL, again=(RUN,)), claimed=True), POLL.incarnation
    ),
    "raises": lambda scene: scene.fail(),
    "committed": of_fate(BatchFate.COMMITTED),
    "fenced": of_fate(BatchFate.FENCED),
    "family full": of_fate(BatchFate.FAMILY_FULL),
    "input gone": of_fate(BatchFate.INPUT_GONE),
    "grant gone": of_fate(BatchFate.GRANT_GONE),
    "fate unknown": of_fate(LOST),
    "release committed": of_release(BatchFate.COMMITTED),
    "release fenced": of_release(BatchFate.FENCED),
    "release unknown": of_release(LOST),
    "cooldown over": pass_time,
    "answered": lambda scene: scene.step(PortAnswered(RESULT)),
    "refused": lambda scene: scene.step(BatchRefused("fenced")),
    "stops": lambda scene: [scene.hosting.step(run, Draining(), scene.now) for run in scene.hosting.stop()],
    "ends": lambda scene: scene.step(CutShort()),
    "retired": lambda scene: scene.hosting.lose(),
    "hinted at": lambda scene: scene.hosting.note_hint(RUN),
    "two looks": look_twice,
}
DRIVEN = ("driven", "writing", "driven_anew")
AFTER: Mapping[str, Mapping[str, str]] = {
    "claimed": dict.fromkeys((one.__name__ for one in STATES), "driven"),
    "claimed too often": dict.fromkeys((one.__name__ for one in STATES), "cooling"),
    "claimed without its revision": dict.fromkeys((one.__name__ for one in STATES), "cooling"),
    "not given": {"asked_for": "unknown"},
    "raises": {"driven": "cooling", "writing": "leaving", "driven_anew": "cooling"},
    "committed": {"writing": "driven", "leaving": "cooling"},
    "fenced": {"writing": "asked_for", "leaving": "asked_for"},
    "family full": {"writing": "asked_for", "leaving": "asked_for"},
    "input gone": {"writing": "cooling", "leaving": "cooling"},
    "grant gone": {"writing": "cooling", "leaving": "cooling"},
    "fate unknown": {"writing": "cooling", "leaving": "cooling"},
    "release committed": {},
    "release fenced": {"unknown": "asked_for", "leaving": "asked_for"},
    "release unknown": {"unknown": "asked_for", "leaving": "asked_for"},
    "cooldown over": {"cooling": "unknown"},
    "answered": {},
    "refused": dict.fromkeys(DRIVEN, "unknown"),
    "stops": {},
    "ends": {},
    "retired": dict.fromkeys((*DRIVEN, "cooling", "asked_for"), "unknown"),
    "hinted at": {},
    "two looks": {"unknown": "asked_for", "leaving": "asked_for"},
}
"""The state after each event, by the state before; a state that is not named is the same after it."""


@pytest.mark.parametrize(("state", "event"), [*product(STATES, EVENTS)])
def test_every_event_in_every_state_has_its_answer(state, event):
    scene = Scene()
    state(scene)
    before = scene.state()
    EVENTS[event](scene)
    assert scene.state() == AFTER[event].get(state.__name__, before)


def test_the_table_names_every_event_and_every_fate_has_a_rule():
    assert set(AFTER) == set(EVENTS)
    assert set(AFTER_WRITE) == set(BatchFate)


# -- cooldown and release ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fate", "after_us", "faults"),
    [(BatchFate.INPUT_GONE, 0, 0), (BatchFate.GRANT_GONE, 0, 0), (LOST, HOLD_US, 1)],
)
def test_a_run_whose_batch_was_not_written_is_released_where_its_journal_ends(fate, after_us, faults):
    scene = Scene()
    writing(scene)
    scene.end_written(fate)
    assert [type(effect) for effect in scene.effects] == [Release]
    assert scene.releases(after_us - 1) == []
    (batch,) = scene.releases(after_us)
    assert (batch.release, batch.rows, batch.last_seq, batch.wake_at) == (True, (), 0, NOW + after_us)
    assert (scene.hosting.counters.refused, scene.hosting.counters.faults) == (1, faults)


@pytest.mark.parametrize("fate", [BatchFate.COMMITTED, LOST])
def test_a_run_that_was_let_go_of_while_it_was_written_is_released_behind_what_committed(fate):
    scene = Scene()
    leaving(scene)
    _, batch = scene.written
    scene.end_written(fate)
    assert scene.effects == []
    (release,) = scene.releases(HOLD_US)
    assert release.last_seq == (batch.new_seq if fate is BatchFate.COMMITTED else batch.last_seq)


def test_a_step_that_raises_names_its_happening_and_drops_the_run():
    scene = Scene()
    scene.drive()
    scene.fail()
    (failed,) = scene.effects
    assert isinstance(failed, DriverFailed)
    assert (type(failed.happening), type(failed.error)) == (PortAnswered, ZeroDivisionError)
    assert scene.hosting.hand_over() == ()


def test_a_quarantined_run_is_put_away_at_once_and_counted():
    scene = Scene()
    EVENTS["claimed too often"](scene)
    (batch,) = scene.releases()
    assert batch.rows[0].kind == "run_quarantined"
    assert (scene.hosting.counters.quarantined, scene.hosting.counters.faults) == (1, 0)


def test_a_leaving_run_is_never_due_at_once_and_never_goes_on():
    assert {choose_act(fate, leaving=True) for fate in BatchFate} == {AfterWrite.ASK, AfterWrite.COOL_DOWN}


# -- asking by name ----------------------------------------------------------------------------------------------------


def test_a_fenced_run_is_asked_for_by_name_a_sweep_later():
    scene = Scene()
    writing(scene)
    scene.end_written(BatchFate.FENCED)
    assert scene.hosting.counters.stale_refused == 1
    assert scene.hosting.orphans.due(NOW + SWEEP_US - 1) == ()
    assert scene.hosting.orphans.due(NOW + SWEEP_US) == (RUN,)


@pytest.mark.parametrize("fate", [BatchFate.FAMILY_FULL, BatchFate.FENCED])
def test_only_a_run_whose_family_was_full_is_taken_again_without_spawning(fate):
    scene = Scene()
    writing(scene)
    scene.end_written(fate)
    assert scene.hosting.orphans.take_crowded(RUN) is (fate is BatchFate.FAMILY_FULL)


# -- stepping ----------------------------------------------------------------------------------------------------------


def test_a_commit_issues_what_its_batch_intended_and_counts_as_owned_in_the_term_of_the_write():
    scene = Scene()
    writing(scene)
    run, batch = scene.written
    scene.take(scene.hosting.end_write(run, batch, BatchFate.COMMITTED, NOW, term=4))
    assert [type(effect) for effect in scene.effects] == [Perform]
    assert (run.durable, run.writing, run.term) == (batch, None, 4)


def test_rows_that_come_while_a_batch_is_written_wait_for_it_and_go_out_together():
    scene = Scene()
    writing(scene)
    run, batch = scene.written
    scene.step(CutShort())
    assert list(scene.hosting.hand_over()) == []
    scene.end_write(run, batch, BatchFate.COMMITTED)
    ((again, second),) = scene.hosting.hand_over()
    assert (again, second.last_seq, second.release) == (run, batch.new_seq, True)


def test_a_call_of_an_answer_that_was_let_go_of_is_not_taken_in():
    scene = Scene()
    run = scene.drive()
    assert scene.hosting.stream_call(run, (RUN, "plan", 1), None, NOW) == ()


def test_an_answer_to_an_owner_before_reaches_the_driver_of_now():
    scene = Scene()
    driven_anew(scene)
    run = scene.hosting.owned[RUN]
    seq = run.driver.run.seq
    scene.take(scene.hosting.answer_call(run, (RUN, RESULT.command_id, 1), RESULT, NOW))
    assert run.driver.run.seq > seq
    assert any(isinstance(effect, Append) for effect in scene.effects)


# -- asking the store --------------------------------------------------------------------------------------------------


def poll(scene: Scene, *, covered: bool = True, inflight: int = 0) -> StorePoll | None:
    hosting = scene.hosting
    if not hosting.polling.wants(len(hosting.owned), inflight):
        return None
    return hosting.poll(scene.now, "worker-1", 1, covered=covered, inflight=inflight)


def test_one_question_is_under_way_at_a_time_and_a_hint_meanwhile_shares_the_next():
    scene = Scene()
    first = poll(scene)
    assert first is not None
    assert (first.room, first.inbox, first.owned) == (CONFIG.max_owned, False, True)
    scene.hosting.note_hint(RUN)
    assert poll(scene) is None
    scene.hosting.take_answer(PollAnswer(first, claimed=True), "worker-1")
    second = poll(scene)
    assert second is not None
    assert not second.owned


def test_nothing_is_claimed_while_no_lease_covers_it_and_it_is_looked_again_soon():
    scene = Scene()
    assert poll(scene, covered=False) is None
    assert scene.hosting.next_at(NOW, covered=False) < NOW + SWEEP_US
    assert scene.hosting.next_at(NOW, covered=True) == NOW


def test_a_worker_that_stops_takes_in_inputs_alone():
    scene = Scene()
    scene.drive()
    scene.hosting.stop()
    asked = poll(scene)
    assert asked is not None
    assert (asked.room, asked.inbox) == (0, True)
    answer = PollAnswer(asked, claims=[claimed()], claimed=True)
    assert scene.hosting.take_answer(answer, "worker-1") == PollAnswer(asked, claimed=True)


def test_the_answer_to_an_earlier_life_is_left_alone():
    scene = Scene()
    asked = poll(scene)
    assert asked is not None
    assert scene.hosting.take_answer(PollAnswer(asked, claimed=True), "worker-1-2") is None
    assert not scene.hosting.polling.under_way


def test_a_full_worker_asks_again_once_there_is_room_for_some():
    scene = Scene()
    assert poll(scene, inflight=CONFIG.max_inflight_calls) is None
    assert poll(scene, inflight=CONFIG.max_inflight_calls - 1) is None
    assert poll(scene, inflight=0) is not None
