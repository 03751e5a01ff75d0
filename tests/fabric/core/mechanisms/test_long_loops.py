"""Loop detectors F, G and H (docs/specification/protections.md): what long runs do again and again is blocked at the threshold; whatever is new begins anew."""

from __future__ import annotations

import pytest

from fabric.core.spec.policies.loop_limits import LOOP_NAMES, LoopDetector
from fabric.core.values.taxonomy import PASS
from tests.fabric.core.mechanisms.windows import CONFIG, Failed, Window, look


def cycle(names: str, times: int = 1):
    return [look(name, result=f"of {name}") for name in names * times]


def test_the_numbers_of_the_long_loops():
    assert (CONFIG.stale_threshold, CONFIG.long_threshold, CONFIG.long_window, CONFIG.failing_threshold) == (
        5,
        6,
        30,
        4,
    )


@pytest.mark.parametrize("names", ["abcd", "abcdefg", "abcdefghijklmnop"])
def test_f_blocks_the_fifth_call_in_a_row_that_brings_nothing_new_whatever_the_period(names):
    assert Window().run(cycle(names, 3)) == ("nothing_new_in_a_row", len(names) + 5)
    assert Window().run(cycle(names) + cycle(names)[:4]) is None, "one before"


def test_f_wants_no_order():
    assert Window().run(cycle("abcdefg") + cycle("gbdfa")) == ("nothing_new_in_a_row", 12)


def test_f_says_what_was_seen():
    window = Window()
    window.run(cycle("abcd", 2))
    (verdict,) = window.propose(*cycle("a"))
    assert (
        verdict.message
        == "the agent asked for 5 calls in a row that had been made before, the last one look, and got no new result (limit 5)"
    )
    assert (verdict.evidence.limit, verdict.evidence.observed, verdict.evidence.window) == (5, 5, "in a row")
    assert verdict.evidence.details["cycle"] == ["look"] * 5


@pytest.mark.parametrize("other", [look("new"), look("c", result="changed")], ids=["a new call", "another result"])
def test_whatever_is_new_begins_f_anew(other):
    assert Window().run([*cycle("abcd"), *cycle("ab"), other, *cycle("dacb")]) is None


def test_a_poll_is_something_new_to_f_and_g():
    waits = ("wait", {}, "pending")
    calls = [*cycle("abcd"), *cycle("ab"), waits, *cycle("c"), waits, *cycle("d"), waits, *cycle("ab")]
    assert (
        Window(
            LoopDetector(detectors=["nothing_new_in_a_row", "near_identical_calls_in_the_long_run"]), polls="wait"
        ).run(calls)
        is None
    )
    assert Window(LoopDetector(detectors=["nothing_new_in_a_row", "near_identical_calls_in_the_long_run"])).run(
        calls
    ) == ("nothing_new_in_a_row", len(calls) - 1)


def edits(n: int, last: int):
    return [("edit", {"text": f"{n}.{m}"}, "ok") for m in range(last)]


def after_edits(times: int, between: int):
    """A test after some edits, again and again; what the first edit and the first test say is new."""
    test: tuple[str, dict[str, str], object] = ("test", {}, "5 failed")
    return [*edits(0, 1), test, *(call for n in range(1, times) for call in (*edits(n, between), test))]


@pytest.mark.parametrize("between", [2, 3, 4])
def test_g_blocks_the_sixth_equal_call_in_thirty_where_nothing_new_came_in_between(between):
    calls = after_edits(6, between)
    assert Window().run(calls) == ("near_identical_calls_in_the_long_run", len(calls))
    assert Window().run(after_edits(5, between)) is None, "one before"


def test_the_window_of_g_is_thirty_calls():
    assert Window().run(after_edits(6, 5)) is None


def test_g_says_what_was_seen():
    window = Window()
    window.run(after_edits(6, 2)[:-1])
    (verdict,) = window.propose(("test", {}, ""))
    assert verdict.message == (
        "the agent asked 6 times within 30 calls for calls like test, and learnt nothing new in between (limit 6)"
    )
    assert (verdict.evidence.limit, verdict.evidence.observed, verdict.evidence.window) == (6, 6, "30 calls")


def test_anything_new_in_between_begins_g_anew():
    calls = after_edits(6, 2)
    assert Window().run([*calls[:9], ("look", {}, "a new text"), *calls[9:]]) is None
    assert Window().run([*calls[:10], ("test", {}, "4 failed"), *calls[11:]]) is None


def broken(n: int):
    return (f"tool {n}", {"n": n}, Failed(f"no {n}"))


def test_h_blocks_the_call_after_four_turns_of_nothing_but_failures():
    assert Window().run([broken(n) for n in range(5)]) == ("nothing_but_errors", 5)
    assert Window().run([broken(n) for n in range(4)]) is None, "one before"


def test_what_is_written_reads_as_it_was():
    for config in (
        CONFIG,
        LoopDetector(detectors=list(LOOP_NAMES)[:8], failing_threshold=5),
        LoopDetector(preset="flow"),
    ):
        assert LoopDetector.model_validate(config.model_dump(mode="json")) == config


def test_whatever_succeeds_begins_h_anew():
    fixed = [call for n in range(12) for call in (broken(n), look(str(n), result=n))]
    assert Window().run(fixed) is None
    assert Window().run([*(broken(n) for n in range(3)), look(), *(broken(n) for n in range(3, 7))]) is None


def test_the_calls_of_one_answer_fail_together():
    window = Window()
    for n in range(3):
        assert set(window.propose(*(broken(10 * n + m) for m in range(4)))) == {PASS}
    assert window.propose(broken(90)) == [PASS]
    (verdict,) = window.propose(broken(91))
    assert verdict.message == "the agent got nothing but errors in 4 turns in a row (limit 4)"
    assert (verdict.evidence.limit, verdict.evidence.observed) == (4, 4)


def test_a_fabric_is_judged_by_the_detectors_that_it_names():
    before = LoopDetector(detectors=list(LOOP_NAMES)[:5])
    for calls in (cycle("abcd", 3), after_edits(6, 3), [broken(n) for n in range(9)]):
        assert Window(before).run(calls) is None
        assert Window().run(calls) is not None
