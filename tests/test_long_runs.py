"""What takes turns: all of it is met in as many days as one of how many there are, and none is left out where nobody takes turns."""

from __future__ import annotations

from math import gcd
from typing import NamedTuple

import pytest

from console.launch.paths import ROOT
from tests import long_runs


class Item(NamedTuple):
    """A test, by its name."""

    nodeid: str


CASES = [f"tests/chaos/test_web.py::test_it[{n}]" for n in range(30)]


@pytest.fixture
def day(monkeypatch):
    monkeypatch.delenv(long_runs.ASKED, raising=False)
    return lambda number: monkeypatch.setenv(long_runs.TURN, str(number))


def left_out():
    return {item.nodeid for item in long_runs.of([Item(name) for name in CASES])[0]}


@pytest.mark.parametrize("each", [2, 3, 4])
def test_in_so_many_days_each_has_its_turn_once(day, each):
    met = []
    for number in range(700, 700 + each):
        day(number)
        met += long_runs.in_turn(range(10), each, "pages")
    assert sorted(met) == list(range(10))


def test_a_day_has_the_same_ones_and_not_all_begin_at_once(day):
    day(700)
    assert long_runs.in_turn(range(10), 4, "pages") == long_runs.in_turn(range(10), 4, "pages")
    assert len({tuple(long_runs.in_turn(range(4), 4, name)) for name in "abcdefgh"}) == 4


def test_of_what_a_pattern_fits_the_others_are_left_out(day):
    each = long_runs.IN_TURN["tests/chaos/test_web.py::*"]
    left = []
    for number in range(each):
        day(number)
        left.append(left_out())
        assert abs(len(CASES) - len(CASES) / each - len(left[-1])) < 1
    assert set.intersection(*left) == set()


def test_nobody_takes_turns_where_files_are_named_or_all_is_asked_for(day, monkeypatch):
    monkeypatch.delenv(long_runs.TURN, raising=False)
    assert left_out() == set()
    assert long_runs.in_turn(range(9), 3, "pages") == list(range(9))
    day(700)
    monkeypatch.setenv(long_runs.ASKED, "1")
    assert left_out() == set()
    assert long_runs.in_turn(range(9), 3, "pages") == list(range(9))


def test_a_file_rests_until_it_has_its_turn_and_never_where_nobody_takes_turns(day, monkeypatch):
    [(file, each)] = long_runs.FILES.items()
    assert (ROOT / file).is_file()
    resting = []
    for number in range(700, 700 + each):
        day(number)
        resting.append(long_runs.rests(file))
    assert resting.count(False) == 1
    assert not long_runs.rests("tests/test_tidy.py")
    monkeypatch.setenv(long_runs.ASKED, "1")
    assert not long_runs.rests(file)


def test_every_page_of_a_test_that_takes_turns_itself_has_its_day():
    turns = {each for pattern, each in long_runs.IN_TURN.items() if "_axe.py" in pattern}
    assert turns
    assert {gcd(long_runs.PAGES, each) for each in turns} == {1}


def test_a_test_that_two_patterns_fit_has_its_day(day, monkeypatch):
    monkeypatch.setattr(long_runs, "IN_TURN", {"tests/chaos/test_web.py::*": 4, "tests/chaos/test_web.py::test_i*": 2})
    left = []
    for number in range(4):
        day(number)
        left.append(left_out())
    assert set.intersection(*left) == set()


def test_a_pattern_that_fits_nothing_is_told():
    unknown = long_runs.of([Item(name) for name in CASES])[1]
    assert "tests/e2e/test_drills.py::*" in unknown
    assert "tests/chaos/test_web.py::*" not in unknown
