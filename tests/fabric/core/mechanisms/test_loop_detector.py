"""Loop detectors A to E (docs/specification/protections.md): what reaches a threshold is blocked before it is executed; legal work never is."""

from __future__ import annotations

import re
from typing import Any

import pytest

from console.launch.processes.data_directory import ROOT
from fabric.core import events as ev
from fabric.core.mechanisms import loop_detector
from fabric.core.rules import loops as loop_rules
from fabric.core.rules import near_identical
from fabric.core.spec.policies.loop_limits import LoopDetector
from fabric.core.state.context import Contents
from fabric.core.values.fingerprint import fingerprint, masked_fingerprint
from fabric.core.values.flow import Stage
from fabric.core.values.frozen import replace
from fabric.core.values.taxonomy import PASS, Cause
from tests.fabric.core.fabrics import proposal, view
from tests.fabric.core.mechanisms.facts import STEP, at, issued
from tests.fabric.core.mechanisms.windows import CONFIG, PENDING, SAME_CALLS, Window, look

NUMBERS = {
    "A": (CONFIG.identical_threshold, CONFIG.identical_window),
    "B": (*loop_rules.PERIODS, CONFIG.period_repeats, CONFIG.period_window),
    "C": (near_identical.SIMILARITY,),
    "D": (CONFIG.consecutive_threshold,),
    "E": (loop_rules.ANSWER_CHARS_MIN, CONFIG.answer_threshold),
    "F": (CONFIG.stale_threshold, CONFIG.long_window),
    "G": (CONFIG.long_threshold, CONFIG.long_window),
    "H": (CONFIG.failing_threshold,),
    "I": (loop_rules.SAID_SIMILARITY, CONFIG.said_threshold, CONFIG.said_window),
}
"""By the letter of a detector: the numbers of its row in docs/specification/protections.md, in their order."""


@pytest.mark.parametrize("letter", NUMBERS)
def test_the_defaults_are_those_of_the_document(letter):
    page = (ROOT / "docs" / "specification" / "protections.md").read_text()
    (row,) = re.findall(rf"^\| {letter} \| `\w+` \| (.*) \|$", page, re.MULTILINE)
    assert tuple(float(one) for one in re.findall(r"\d+(?:\.\d+)?", row)) == NUMBERS[letter]


# -- A -----------------------------------------------------------------------------------------------------------------


def test_a_third_equal_call_with_equal_results_is_blocked():
    assert Window().run([look()] * 3) == ("identical_calls", 3)


def test_the_trip_says_what_was_seen():
    window = Window()
    window.run([look()] * 2)
    (verdict,) = window.propose(look())
    assert verdict.cause is Cause.LOOP_DETECTED
    assert verdict.message == f"the agent asked for look {SAME_CALLS}"
    evidence = (verdict.evidence.limit, verdict.evidence.observed, verdict.evidence.window)
    assert evidence == (3, 3, f"{CONFIG.identical_window} calls")
    assert verdict.advice.startswith("This call was not executed")


def test_equal_means_canonically_equal():
    calls = [
        ("look", {"n": 1, "q": "é"}, "r"),
        ("look", {"q": "e\u0301", "n": 1.0}, "r"),
        ("look", {"n": 1, "q": "é"}, "r"),
    ]
    assert Window().run(calls) == ("identical_calls", 3)


@pytest.mark.parametrize("others", [1, 2])
def test_others_between_do_not_help_within_five_calls(others):
    between = [look(f"other {n}") for n in range(others)]
    assert Window().run([look(), *between[:1], look(), *between[1:], look()]) == ("identical_calls", 3 + others)


def test_the_window_is_five_calls_the_proposed_one_included():
    far = [look(), look("1"), look("2"), look("3"), look(), look("4"), look("5"), look("6"), look()]
    assert Window().run(far) is None


def test_results_that_differ_are_progress():
    assert Window().run([look(result=n) for n in range(4)]) is None


def test_results_are_compared_after_masking():
    polls = [f"job 7 at 12:0{n}:30 took {n} ms, pid {n}: still running" for n in range(3)]
    assert Window().run([look(result=poll) for poll in polls]) == ("identical_calls", 3)


def test_a_number_in_a_result_is_not_masked():
    assert Window().run([look(result=f"{n} rows") for n in range(3)]) is None


def test_a_result_that_is_not_there_yet_counts_as_equal():
    assert Window().run([look(result=PENDING)] * 3) == ("identical_calls", 3)
    mixed = [look(result="one"), look(result=PENDING), look()]
    assert Window().run(mixed) == ("identical_calls", 3)


def test_within_one_answer_each_call_is_judged_with_those_before_it():
    verdicts = Window().propose(*[look(result=PENDING)] * 4)
    assert [verdict is PASS for verdict in verdicts] == [True, True, False, False]


def test_a_blocked_call_leaves_the_window():
    window = Window()
    assert window.run([look()] * 3) == ("identical_calls", 3)
    assert [seen.call[0] for seen in window.state.calls] == ["look", "look"]
    others = [look(str(n)) for n in range(1, CONFIG.identical_window - 1)]
    assert window.run([*others, look()]) is None


def test_another_tool_with_the_same_arguments_is_another_call():
    assert Window().run([("a", {}, "r"), ("b", {}, "r"), ("c", {}, "r")]) is None


# -- B -----------------------------------------------------------------------------------------------------------------


def test_a_period_of_two_is_blocked_as_it_closes_for_the_second_time():
    assert Window().run([look("a"), look("b"), look("a"), look("b")]) == ("repeated_cycle", 4)


def test_a_period_of_three_is_blocked_as_it_closes_for_the_second_time():
    assert Window().run([look(q) for q in "abcabc"]) == ("repeated_cycle", 6)


def test_what_came_before_the_cycle_does_not_matter():
    assert Window().run([look(q) for q in "xyzabab"]) == ("repeated_cycle", 7)


def test_a_cycle_with_another_result_is_none():
    calls = [look("a", 1), look("b", 1), look("a", 2), look("b", 2), look("a", 3)]
    assert Window().run(calls) is None


def test_the_cycle_is_named():
    window = Window()
    window.run([("read", {}, "r"), ("write", {}, "r"), ("read", {}, "r")])
    (verdict,) = window.propose(("write", {}, "r"))
    assert verdict.evidence.details["cycle"] == ["read", "write"]
    assert "went round read -> write 2 times, and the results were the same (limit 2)" in verdict.message


def test_turns_of_several_calls_are_compared_whole():
    window = Window()
    one, two = [look("a"), look("b")], [look("c"), look("d")]
    for wave in (one, two, one):
        assert all(verdict is PASS for verdict in window.propose(*wave))
    assert [v.evidence.details["detector"] for v in window.propose(*two)] == ["repeated_cycle", "repeated_cycle"]
    other = Window()
    for wave in (one, two, one):
        other.propose(*wave)
    assert all(verdict is PASS for verdict in other.propose(look("c"), look("e")))


def test_a_period_of_one_is_not_bs_business():
    assert Window(LoopDetector(detectors=["repeated_cycle"])).run([look()] * 8) is None


# -- D -----------------------------------------------------------------------------------------------------------------


def test_the_fifth_equal_call_in_a_row_is_blocked_whatever_its_results():
    assert Window().run([look(result=n) for n in range(6)]) == ("same_call_in_a_row", 5)


def test_a_streak_that_is_broken_begins_anew():
    calls = [look(result=n) for n in range(4)] + [look("other")] + [look(result=n) for n in range(10, 14)]
    assert Window().run(calls) is None


# -- legal work --------------------------------------------------------------------------------------------------------


def test_a_declared_polling_tool_is_left_alone():
    assert Window().run([look()] * 40, polling=True) is None


@pytest.mark.parametrize(
    "values",
    [
        [{"day": f"2024-01-{n + 1:02}"} for n in range(20)],
        [{"page": n} for n in range(20)],
        [{"id": f"{n:07x}"} for n in range(20)],
    ],
    ids=["dates", "pages", "ids"],
)
def test_a_scan_with_equal_empty_results_never_trips(values):
    assert Window().run([("search", args, []) for args in values]) is None


def test_an_edit_and_test_cycle_never_trips():
    calls = []
    for n in range(15):
        calls += [
            ("edit", {"line": n, "text": f"try {n}"}, "ok"),
            ("test", {"command": "run tests"}, f"{15 - n} failed"),
        ]
    assert Window().run(calls) is None


def test_a_tests_result_that_never_changes_is_a_loop_all_the_same():
    calls = [("edit", {"text": "x"}, "ok"), ("test", {}, "1 failed")] * 4
    assert Window().run(calls) == ("repeated_cycle", 4)


# -- what is not seen --------------------------------------------------------------------------------------------------


def test_retries_replays_and_model_calls_are_not_observed():
    state = loop_detector.State()
    assert loop_detector.observe(state, at(issued(call="tool", attempt=2, target="look", args_hash="h"))) == state
    assert loop_detector.observe(state, at(issued(call="model"))) == state


def test_a_call_answered_from_its_first_result_counts():
    window = Window()
    window.propose(look())
    again = ev.CallDeduplicated(
        step_id=STEP,
        call_id="c",
        tool="look",
        args_hash=fingerprint({"q": "x"}),
        turn=2,
        result_ref="r",
        masked_hash=masked_fingerprint("the same"),
    )
    window.state = loop_detector.observe(window.state, at(again))
    window.turn = 2
    (verdict,) = window.propose(look())
    assert verdict.evidence.details["detector"] == "identical_calls"


def test_a_step_of_any_length_remembers_no_more_than_its_windows_need():
    window = Window()
    for n in range(300):
        window.propose(look(f"page {n}"))
    assert len(window.state.calls) == loop_detector.KEPT == CONFIG.period_window * 16


# -- C, over arguments as they are journaled, and E --------------------------------------------------------------------


def paraphrased(*queries: str, tool: str = "search"):
    """The verdict on the last of some calls whose arguments stand in the run's contents, all with the same result."""
    contents, state = Contents(), loop_detector.State()
    for n, query in enumerate(queries):
        args = {"query": query}
        contents.put(f"r{n}", {"calls": [{"call_id": f"c{n}", "tool": tool, "args": args}]}, 1)
        given: Any = {"call_id": f"c{n}", "args_hash": fingerprint(args), "args_ref": f"r{n}", "turn": n}
        judged = proposal(target=tool, wave=((tool, fingerprint(args)),), **given)
        verdict = loop_detector.check(CONFIG, state, judged, replace(view(), contents=contents))
        state = loop_detector.observe(state, at(issued(f"t{n}", call="tool", target=tool, **given)))
        done = ev.ToolAnswered(
            command_id="x", attempt=1, step_id=STEP, call_id=f"c{n}", tool=tool, args_hash="", masked_hash="none"
        )
        state = loop_detector.observe(state, at(done))
    return verdict


LONG = "find one more old record about these famous lighthouse keepers"


def test_a_third_paraphrase_with_the_same_result_is_blocked():
    verdict = paraphrased(f"{LONG} please", f"{LONG} now", f"{LONG} again")
    assert verdict.evidence.details["detector"] == "near_identical_calls"
    assert verdict.evidence.observed == 3
    assert paraphrased(f"{LONG} please", f"{LONG} now") is PASS


def test_calls_that_differ_in_a_number_or_a_date_are_never_near_identical():
    assert paraphrased(f"{LONG} 1", f"{LONG} 2", f"{LONG} 3") is PASS
    assert paraphrased(f"{LONG} May", f"{LONG} June", f"{LONG} July") is PASS


@pytest.mark.parametrize(
    ("stage", "verdict", "trips"),
    [("fan_out", "output", True), ("plan", "output", False), ("fan_out", "rejected", False)],
)
def test_the_third_equal_answer_that_was_given_back_is_not_followed_by_a_request(stage, verdict, trips):
    contents, state = Contents(), loop_detector.State()
    asked = proposal(kind="model", stage=Stage(stage), turn=4)
    for n in range(3):
        assert loop_detector.check(CONFIG, state, asked, replace(view(), contents=contents)) is PASS
        contents.put(f"r{n}", {"text": f"At 12:00:0{n} I have thought about it, and will answer in prose."}, 1)
        said = ev.ModelAnswered(command_id="m", attempt=1, step_id=STEP, verdict=verdict)
        state = loop_detector.observe(state, replace(at(said), content_ref=f"r{n}"))
    found = loop_detector.check(CONFIG, state, asked, replace(view(), contents=contents))
    assert (found is not PASS) is trips


# -- presets -----------------------------------------------------------------------------------------------------------


def test_the_presets_are_the_documents_own_rules():
    calls = [look(result=n) for n in range(12)]
    assert Window(LoopDetector(preset="flow")).run(calls) == ("flow", 3)
    assert Window(LoopDetector(preset="fabro")).run(calls) == ("fabro", 10)
    assert Window(LoopDetector(preset="ag2")).run(calls) == ("ag2", 3)


def test_ag2_warns_once():
    window = Window(LoopDetector(preset="ag2"))
    assert window.run([look()] * 3) == ("ag2", 3)
    given = {"step_id": STEP, "call_id": "c", "tool": "look", "args_hash": "h", "problem": "loop"}
    refused = ev.CallRefused(cause=Cause.LOOP_DETECTED, mechanism="loop_detector", **given)
    window.state = loop_detector.observe(window.state, at(refused))
    assert window.run([look()] * 5) is None


def test_a_policy_that_switches_detection_off_or_says_two_things_is_refused():
    with pytest.raises(ValueError, match="name at least one"):
        LoopDetector(detectors=[])
    with pytest.raises(ValueError, match="not both"):
        LoopDetector(preset="flow", detectors=["identical_calls"])
    assert Window(LoopDetector(detectors=["same_call_in_a_row"])).run([look()] * 6) == ("same_call_in_a_row", 5)
