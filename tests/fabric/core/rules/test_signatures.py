"""Failure signatures (docs/specification/failures.md): what makes two failures the same, and the third of them that stops the run."""

from __future__ import annotations

import pytest

from fabric.core import events as ev
from fabric.core.rules.signatures import (
    COUNTED,
    LIMIT,
    MESSAGE_BYTES_MAX,
    Failures,
    add_failure,
    effective_limit,
    forget_answered,
    normalise_message,
    reaches_limit,
    read_hint,
    signature,
    tool_signature,
    without_arguments,
)
from fabric.core.values.taxonomy import Cause, ErrorClass
from tests.fabric.core.fabrics import spec
from tests.fabric.core.harness import ran
from tests.fabric.core.scripts import fails, planned

DETERMINISTIC = ErrorClass.DETERMINISTIC


def test_the_documents_example():
    assert signature("verify", DETERMINISTIC, "test failed") == "verify|deterministic|test failed"


@pytest.mark.parametrize(
    ("message", "kept"),
    [
        ("commit abc123def0", "commit <hex>"),
        ("abcdef", "abcdef"),
        ("abcdef0", "<hex>"),
        ("COMMIT ABC123DEF0", "commit <hex>"),
        ("line 42", "line <n>"),
        ("line42", "line42"),
        ("row_42 of 7", "row_42 of <n>"),
        ("order 1234567", "order <hex>"),
        ("order 123456", "order <n>"),
        ("at 3.5 s", "at <n>.<n> s"),
        ("abc123def0x", "abc123def0x"),
        ("a,  b", "a,b"),
        ("a,b , c", "a,b ,c"),
        ("  a \t\n b  ", "a b"),
        ("", "unknown"),
        (" \n ", "unknown"),
    ],
)
def test_what_differs_each_time_is_taken_out(message, kept):
    assert normalise_message(message) == kept


def test_a_message_is_cut_to_240_bytes_between_characters():
    assert normalise_message("x" * 300) == "x" * MESSAGE_BYTES_MAX == "x" * 240
    cut = normalise_message("x" + "é" * 300)
    assert cut == "x" + "é" * 119
    assert len(cut.encode()) == 239


def test_it_is_cut_after_it_was_normalised():
    assert normalise_message("1 " * 300) == ("<n> " * 60)
    assert normalise_message("f" * 64 + " tail") == "<hex> tail"


def test_what_is_longer_than_any_hash_is_no_hex_word():
    assert normalise_message("a" * 65) == "a" * 65
    assert normalise_message("a" * 300) == "a" * 240


def test_what_is_normalised_stays_as_it_is():
    once = normalise_message("Commit ABC123DEF0, line 42:  expected 7")
    assert normalise_message(once) == once == "commit <hex>,line <n>: expected <n>"


def test_a_hint_beats_the_reason_and_an_empty_one_does_not():
    assert signature("n", DETERMINISTIC, "boom at 7", hint="Missing file 3") == "n|deterministic|missing file <n>"
    assert signature("n", DETERMINISTIC, "boom at 7", hint="  ") == "n|deterministic|boom at <n>"
    assert signature("n", DETERMINISTIC, "boom at 7") == "n|deterministic|boom at <n>"


@pytest.mark.parametrize(
    ("code", "hint"),
    [
        ("E42", "code_e42"),
        ("2", "code_2"),
        ("12345678", "code_12345678"),
        (" not found!", "code_not_found"),
        ("", ""),
        (" -- ", ""),
    ],
)
def test_a_code_is_a_hint_of_one_word_whose_digits_stay(code, hint):
    assert read_hint(code) == hint
    kept = signature("verify", ErrorClass.DETERMINISTIC, "it failed", read_hint(code))
    assert kept == f"verify|deterministic|{hint or 'it failed'}"


def test_a_message_that_holds_half_a_character_still_has_a_signature():
    assert normalise_message("bad \ud800 text") == "bad ? text"


def test_node_class_and_message_each_tell_failures_apart():
    keys = {
        signature("work", DETERMINISTIC, "x"),
        signature("verify", DETERMINISTIC, "x"),
        signature("work", ErrorClass.STRUCTURAL, "x"),
        signature("work", DETERMINISTIC, "y"),
    }
    assert len(keys) == 4


def test_only_deterministic_and_structural_failures_count():
    assert {ErrorClass.DETERMINISTIC, ErrorClass.STRUCTURAL} == COUNTED


def fail(failures: Failures, message: str, limit: int = 3) -> tuple[bool, Failures]:
    key = signature("verify", DETERMINISTIC, message)
    return reaches_limit(failures, key, limit), add_failure(failures, key)


def test_work_succeeds_and_verify_fails_again_and_again_stops_at_the_third_failure():
    failures, stopped = Failures(), []
    for line in (17, 42, 99):  # `work` succeeds each time between: nothing to count, and nothing that resets.
        stops, failures = fail(failures, f"test failed at line {line}")
        stopped.append(stops)
    assert stopped == [False, False, True]
    assert failures.counts == {"verify|deterministic|test failed at line <n>": 3}


@pytest.mark.parametrize(("given", "in_force"), [(0, 3), (-5, 3), (1, 1), (2, 2), (7, 7)])
def test_a_limit_of_nothing_means_three(given, in_force):
    assert effective_limit(given) == in_force
    assert reaches_limit(Failures({"k": in_force - 1}), "k", given)
    assert not reaches_limit(Failures({"k": in_force - 2}), "k", given)
    assert LIMIT == 3


def test_counting_changes_nothing_that_was_given():
    before = Failures({"k": 1})
    assert add_failure(before, "k") == Failures({"k": 2})
    assert before == Failures({"k": 1})


def test_a_persons_word_lets_one_more_failure_of_the_kind_pass_and_takes_nothing_off():
    failures = Failures()
    for _ in range(2):
        _, failures = fail(failures, "no")
    stops, failures = fail(forget_answered(failures), "no")
    assert not stops
    assert list(failures.counts.values()) == [3]
    assert fail(failures, "no")[0]


def test_a_word_before_the_first_failure_excuses_nothing():
    assert fail(forget_answered(Failures()), "no", limit=1)[0]


@pytest.mark.parametrize(("limit", "rounds", "stops_at"), [(3, 2, 5), (3, 0, 3), (3, 5, 8), (2, 2, 4), (0, 2, 5)])
def test_a_persons_word_lets_no_more_pass_than_rounds_go(limit, rounds, stops_at):
    failures, stopped = Failures(), []
    for _ in range(stops_at):
        stopped.append(reaches_limit(failures, "k", limit, rounds=rounds))
        failures = forget_answered(add_failure(failures, "k"))
    assert stopped == [False] * (stops_at - 1) + [True]


# -- errors of tools -----------------------------------------------------------------------------------------------------


def kinds(*errors: tuple[str, object]) -> int:
    """How many failures these errors are, each with its call's arguments."""
    return len({tool_signature("fan_out.0", "look", error, args=args) for error, args in errors})


def test_an_error_that_repeats_its_arguments_is_one_failure():
    names = ("Oslo harbour", "North Sea", "the old town")
    assert kinds(*((f"Nothing is known of '{name.upper()}'.", {"of": [{"name": name}]}) for name in names)) == 1
    assert kinds(*((f"Nothing is known of {name}.", {"of": "something else"}) for name in names)) == 3


def test_a_scan_over_ids_fails_differently_for_each():
    assert kinds(*((f"flight HAT{n} has no seats", {"flight": f"HAT{n}"}) for n in range(41, 44))) == 3
    assert kinds(*((f"line {n} is missing", {"line": n}) for n in range(41, 44))) == 1, "S1 masks plain numbers"


def test_only_the_first_sentence_of_an_error_counts():
    said = "The index cannot be reached. Tried host {}, which says: {}."
    assert kinds(*((said.format(host, why), {}) for host, why in (("a", "gone"), ("b", "busy")))) == 1
    assert kinds(("Error. The index is gone.", {}), ("Error. The index is busy.", {})) == 2, "two words say too little"
    assert kinds(("e.g. v. 1.5 is no version", {}), ("e.g. v. 1.5 is no number", {})) == 2


@pytest.mark.parametrize(
    ("error", "args", "kept"),
    [
        ("no file named in here", {"q": "in"}, "no file named in here"),
        ("informal files are refused", {"q": "formal"}, "informal files are refused"),
        ("cannot open (a+b)*", {"q": "(a+b)*"}, "cannot open <argument>"),
        ("id A-7 and 12 of 3", {"id": "A-7", "n": 12, "on": True}, "id A-7 and 12 of 3"),
        ("", {"q": "x"}, ""),
        ("no rows", None, "no rows"),
    ],
)
def test_what_is_left_of_an_error(error, args, kept):
    assert without_arguments(error, args) == kept


def test_a_visit_that_is_tried_again_counts_once():
    """A cell that retries: the third failure is the third visit's, and not the second visit's first try (S1: counted once a node has failed)."""
    rungs = [{"reaction": "retry", "times": 1}, {"reaction": "replan", "times": 2}, {"reaction": "abort"}]
    table = {"schema_grounding_fail": {"interactive": {"rungs": rungs}}}
    world = ran(spec(table=table), {"planner": planned(), "worker": fails(Cause.UNKNOWN, "the check fails")})
    reactions = [fact.reaction for fact in world.of(ev.ReactionDecided)]
    assert reactions == ["retry", "replan", "retry", "replan", "abort"]
    came_back = [
        trip.evidence.observed
        for fact in world.of(ev.ReactionDecided)
        for trip in (fact.cause, *fact.causes)
        if trip.cause is Cause.REPEATED_FAILURE
    ]
    assert came_back == [3]
