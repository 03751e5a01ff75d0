"""When agents only pass work around (docs/specification/protections.md), over moves alone."""

from __future__ import annotations

from typing import Any

import pytest

from fabric.core.rules.deadlocks import Move, Rules, judge, list_items
from fabric.core.rules.near_identical import read_words
from fabric.core.values.taxonomy import Cause

RULES = Rules(similarity=0.9, brief_chars=40, window_moves=20, cycle_max=3)
LONG = "Look into the booking of the customer and say whether it can be moved to another day."


def moved(way: str, text: str = LONG, wave: int = 0, **fields) -> Move:
    """``a>b``: a passes it to b."""
    speaker, target = way.split(">")
    heard = fields.pop("heard", None)
    given: dict[str, Any] = {"heard": None if heard is None else read_words({"text": heard}), "items": list_items(text)}
    return Move(speaker, target, read_words({"text": text}), len(text), wave, **given, **fields)


def walk(*steps: tuple[str, str]) -> list[Move]:
    """Handoffs between peers, one after the other."""
    return [moved(way, text, n, peer=True) for n, (way, text) in enumerate(steps)]


def verdict(moves: list[Move], **more) -> tuple[int, Cause | None]:
    """After how many moves a rule applies, and which; 0: none ever does."""
    for n, move in enumerate(moves):
        found = judge(RULES, moves[:n], [move], **more)
        if found is not None:
            return n + 1, found.cause
    return 0, None


# -- (a) the same brief ------------------------------------------------------------------------------------------------


def test_the_second_near_identical_brief_to_the_same_target_is_one_too_many():
    again = LONG.replace("another day", "another week")
    assert verdict([moved("a>b"), moved("a>b", again, 1)]) == (0, None)  # 14 of 16 words: 0.875
    longer = f"{LONG} Mind that a change of the day costs a fee which the customer has to agree to beforehand."
    assert verdict([moved("a>b", longer), moved("a>b", longer.replace("agree", "consent"), 1)]) == (
        2,
        Cause.BRIEF_REPEATED,
    )
    assert verdict([moved("a>b"), moved("a>b", LONG.upper(), 1)]) == (2, Cause.BRIEF_REPEATED)


@pytest.mark.parametrize(
    ("second", "text"),
    [
        ("a>c", LONG),
        ("c>b", LONG),
        ("b>a", LONG),
        ("a>b", "Say what else the customer has asked for in the last three calls."),
        ("a>b", LONG + " It is booking 4711."),
    ],
    ids=["another target", "another speaker", "back", "another brief", "another number"],
)
def test_what_is_no_repetition(second, text):
    assert verdict([moved("a>b"), moved(second, text, 1)]) == (0, None)


def test_a_short_brief_and_an_empty_one_are_not_compared():
    assert verdict([moved("a>b", "x" * 39), moved("a>b", "x" * 39, 1)]) == (0, None)
    assert verdict([moved("a>b", "x" * 40), moved("a>b", "x" * 40, 1)]) == (2, Cause.BRIEF_REPEATED)
    assert verdict([moved("a>b", ""), moved("a>b", "", 1)]) == (0, None)


def test_a_repetition_counts_within_twenty_moves():
    between = [moved(f"c{n}>d{n}", wave=n + 1) for n in range(19)]
    assert verdict([moved("a>b"), *between[:18], moved("a>b", wave=30)]) == (20, Cause.BRIEF_REPEATED)
    assert verdict([moved("a>b"), *between, moved("a>b", wave=30)]) == (0, None)


def test_the_briefs_of_one_wave_are_alike_by_nature_and_count_where_they_are_the_same():
    names = ["Oslo", "Bergen", "Tromso"]
    text = "Say what the report has on the office in {}: its rent, its staff, its sales, its plans, its risks and whatever else bears on closing it."
    alike = [moved("a>b", text.format(name)) for name in names]
    assert judge(RULES, [], alike) is None
    assert verdict([moved("a>b", text.format(name), n) for n, name in enumerate(names)])[1] is Cause.BRIEF_REPEATED
    found = judge(RULES, [], [*alike, moved("a>b", text.format("Bergen"))])
    assert found is not None
    assert (found.cause, found.cycle) == (Cause.BRIEF_REPEATED, ("a", "b"))
    assert judge(RULES, [], [*alike, alike[0]], repeats=True) is None


PARTS = [
    "rent",
    "staff",
    "sales",
    "plans",
    "risks",
    "permits",
    "parking",
    "heating",
    "lighting",
    "cleaning",
    "insurance",
    "catering",
    "security",
    "travel",
    "training",
]


@pytest.mark.parametrize(
    ("before", "after", "trips"),
    [
        (", ".join(PARTS), ", ".join(PARTS[1:]), False),
        (", ".join(PARTS), ", ".join(PARTS[:-1]), False),
        ("\n".join(f"- {part}" for part in PARTS), "\n".join(f"- {part}" for part in PARTS[2:]), False),
        (", ".join(PARTS[:-1]) + " and " + PARTS[-1], ", ".join(PARTS[:-2]) + " and " + PARTS[-1], False),
        (", ".join(PARTS), ", ".join(PARTS), True),
        (", ".join(PARTS[1:]), ", ".join(PARTS), True),
        (", ".join(PARTS), ", ".join([*PARTS[1:], "garden"]), True),
        (" ".join(PARTS), " ".join(PARTS[1:]), True),
    ],
    ids=["first done", "last done", "lines", "and", "the same", "one more", "another one", "no list"],
)
def test_a_brief_that_only_loses_items_of_its_list_is_progress(before, after, trips):
    text = "Say what the report has on the following parts of the office in the old town by the harbour: {}."
    found = verdict([moved("a>b", text.format(before)), moved("a>b", text.format(after), 1)])
    assert found == ((2, Cause.BRIEF_REPEATED) if trips else (0, None))


def test_a_text_of_one_part_has_no_items():
    assert list_items("Look at the booking.") == list_items("") == frozenset()
    assert list_items('Parts: ["rent", "Staff"].') == {"parts", "rent", "staff"}


# -- (b) the supervisor's state ----------------------------------------------------------------------------------------

MORE = "I need more information."


def test_a_supervisor_that_turns_to_the_same_worker_after_the_same_message_is_stuck():
    texts = ("First try this please now.", "Go deeper there, then.", "Otherwise, ask them.")
    moves = [moved("boss>w", text, n, heard=heard) for n, (text, heard) in enumerate(zip(texts, [None, MORE, MORE], strict=True))]  # fmt: skip
    assert verdict(moves) == (3, Cause.SUPERVISOR_STUCK)
    assert verdict([moved("boss>w", "go", n, heard=f"of {n}") for n in range(6)]) == (0, None)
    assert verdict([moved("boss>w", "go", 0), moved("boss>w", "go", 1)]) == (0, None)
    others = [moved("boss>w", "go", 0, heard=MORE), moved("boss>v", "go", 1, heard=MORE)]
    assert verdict(others) == (0, None)


def test_a_workers_near_identical_replies_are_one():
    said = (
        "I have looked at all of it, and I still need more information on the office before I can say anything about it"
    )
    replies = [None, f"{said}.", f"{said} now."]
    moves = [moved("boss>w", f"go {n}", n, heard=heard) for n, heard in enumerate(replies)]
    assert verdict(moves) == (3, Cause.SUPERVISOR_STUCK)
    other = [moved("boss>w", f"go {n}", n, heard=heard) for n, heard in enumerate([None, said, f"{said} of 2026"])]
    assert verdict(other) == (0, None)


def test_of_an_earlier_epoch_only_what_was_heard_counts():
    assert verdict([moved("boss>w", LONG, 0, past=True), moved("boss>w", LONG, 1)]) == (0, None)
    moves = [moved("boss>w", LONG, 0, heard=MORE, past=True), moved("boss>w", LONG, 1, heard=MORE)]
    assert verdict(moves) == (2, Cause.SUPERVISOR_STUCK)


def test_one_wave_of_a_supervisor_is_one_state():
    assert judge(RULES, [], [moved("boss>w", "go on", heard=MORE), moved("boss>w", "go back", heard=MORE)]) is None


# -- (c) cycles of handoffs --------------------------------------------------------------------------------------------


def test_ping_pong_is_stopped_where_the_cycle_closes_for_the_second_time():
    moves = walk(("a>b", "yours"), ("b>a", "no, yours"), ("a>b", "yours"), ("b>a", "no, yours"))
    assert verdict(moves) == (4, Cause.HANDOFF_CYCLE)
    found = judge(RULES, moves[:3], moves[3:])
    assert found is not None
    assert found.cycle == ("a", "b", "a")


def test_three_in_a_circle():
    once = [("a>b", "yours"), ("b>c", "yours"), ("c>a", "yours")]
    assert verdict(walk(*once, *once)) == (6, Cause.HANDOFF_CYCLE)
    four = [("a>b", "yours"), ("b>c", "yours"), ("c>d", "yours"), ("d>a", "yours")]
    assert verdict(walk(*four, *four, *four)) == (0, None)


def test_a_cycle_that_closes_again_after_something_else_counts():
    round_ = [("a>b", "yours"), ("b>a", "yours")]
    assert verdict(walk(*round_, ("a>c", "look"), ("c>a", "seen"), *round_)) == (6, Cause.HANDOFF_CYCLE)


def test_ordinary_dialogue_is_no_deadlock():
    said = [
        "Which day?",
        "Monday.",
        "And the place?",
        "The one in town.",
        "For how many?",
        "For two.",
        "Done.",
        "Thanks.",
    ]
    assert verdict(walk(*(("a>b" if n % 2 == 0 else "b>a", text) for n, text in enumerate(said)))) == (0, None)


def test_what_is_handed_back_by_a_supervisor_is_no_cycle_of_peers():
    moves = [moved(way, "go", n) for n, way in enumerate(("a>b", "b>a", "a>b", "b>a"))]
    assert verdict(moves) == (0, None)


def test_an_agent_that_hands_over_to_itself():
    assert verdict(walk(("a>a", "on"), ("a>a", "on"))) == (2, Cause.HANDOFF_CYCLE)
