"""How alike an agent's turns ask (docs/specification/failures.md, row semantic no-progress)."""

from __future__ import annotations

import pytest

from fabric.core.mechanisms.progress import LIMITS
from fabric.core.rules.near_identical import Likeness, likeness

ALIKE, APART, SCAN = Likeness
ABOUT = "find one more old record about these famous lighthouse keepers"
OTHERS = (
    "harbour fees of the town",
    "who built the pier",
    "a list of shipwrecks",
    "lamp oil prices",
    "fog horn",
    "tides",
)


def asked(*queries, name="q"):
    return [{"look": [{name: query}]} for query in queries]


TABLE = [
    ("paraphrases", ALIKE, asked(*[f"{ABOUT} {word}" for word in ("please", "now", "again")])),
    ("the same", ALIKE, asked("fog horn", "fog horn", "fog horn")),
    ("no arguments", ALIKE, [{"look": [{}]}] * 3),
    ("unreadable raw arguments", ALIKE, [{"look": [None]}] * 3),
    ("a third of the words", ALIKE, asked("a b", "a c", "a d")),
    ("less than a third", APART, asked("a b c", "a d e", "a f g")),
    ("other questions", APART, asked(*OTHERS)),
    ("half of the pairs", APART, asked("a b", "a b", "c d")),
    ("less than half of the pairs", ALIKE, asked("a b", "a b", "a b", "c d")),
    ("a number in the question", APART, asked("records 1", "records 2", "records 3")),
    ("a month in the question", APART, asked("records of May", "records of June", "records of July")),
    ("swapped arguments", APART, [{"look": [{"a": "red", "b": "tall"}]}, {"look": [{"a": "tall", "b": "red"}]}]),
    ("another tool", APART, [{"look": [{"q": "fog"}]}, {"find": [{"q": "fog"}]}]),
    ("ids", SCAN, asked(*range(1, 7), name="id")),
    ("dates", SCAN, asked("2024-01-01", "2024-01-02", "2024-01-03", name="day")),
    ("ids in bundles", SCAN, [{"look": [{"ids": [1, 2]}, {"ids": [3]}]}, {"look": [{"ids": [4]}]}]),
    ("an id that comes again", APART, asked(1, 2, 1, name="id")),
    ("one id in like words", ALIKE, [{"look": [{"id": 7, "why": f"{ABOUT} {word}"}]} for word in ("now", "again")]),
    ("one turn", ALIKE, asked(1)),
]


@pytest.mark.parametrize(("wanted", "turns"), [row[1:] for row in TABLE], ids=[row[0] for row in TABLE])
def test_what_a_row_of_turns_asks(wanted, turns):
    assert likeness(turns) is wanted


def test_each_likeness_has_a_limit():
    assert set(LIMITS) == set(Likeness)
