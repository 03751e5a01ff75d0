"""The benchmark of a turn: it goes through the whole guard, trips nothing, and its work does not grow with the conversation."""

from __future__ import annotations

import cProfile
import pstats

from fabric.core.mechanisms import find_state, loop_detector
from tests.benchmarks import turns


def test_the_window_that_the_guard_looks_at_is_full():
    run = turns.Turns()
    for _ in range(30):
        run.turn()
    step = run.run.steps[run.call.step_id]
    assert (step.turns, len(step.history)) == (31, 30)
    assert len(find_state(run.run.guards, loop_detector, step.id).calls) == 30
    assert run.guarded() > 0


def test_the_figures_are_of_both_turns():
    guards, spent = turns.ours()
    assert set(guards) == set(spent) == {turns.EARLY, turns.LATE}
    assert all(seconds > 0 for seconds in (*guards.values(), *spent.values()))


def calls_of(run: turns.Turns) -> int:
    """Function calls that the guard makes about one more tool call."""
    profile = cProfile.Profile()
    profile.enable()
    run.guarded()
    profile.disable()
    return pstats.Stats(profile).total_calls // turns.ASKED  # type: ignore[attr-defined]


def test_the_guard_does_as_much_at_turn_150_as_at_turn_40():
    """Counted, not timed: windows are bounded, so nothing that is asked grows with the step."""
    run = turns.Turns()
    for _ in range(40):
        run.turn()
    early = calls_of(run)
    for _ in range(110):
        run.turn()
    assert calls_of(run) == early
