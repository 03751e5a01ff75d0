"""The sets of tests are fixed, and each test is in one of them at least."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from tests import sets

FILE = "tests/chaos/web/test_web.py"


class Mark(NamedTuple):
    """A mark of a test."""

    name: str


class Item(NamedTuple):
    """A test, by its name."""

    nodeid: str
    marks: tuple[Mark, ...] = ()

    def iter_markers(self) -> tuple[Mark, ...]:
        """Its marks."""
        return self.marks


CASES = [Item(f"{FILE}::test_it[{n}]") for n in range(30)]


@pytest.fixture
def chosen(monkeypatch):
    """Chooses a set by its name."""
    return lambda name: monkeypatch.setenv(sets.SET, name)


def left_out(cases=CASES):
    return {item.nodeid for item in sets.leave_out(cases)[0]}


def test_full_has_the_same_sample_every_time(chosen):
    chosen("full")
    assert sets.sample(range(10), 4, "pages") == sets.sample(range(10), 4, "pages")
    assert len({tuple(sets.sample(range(4), 4, name)) for name in "abcdefgh"}) == 4, "not all begin with the first"
    each = sets.SAMPLED[f"{FILE}::*"]
    assert abs(len(CASES) - len(CASES) / each - len(left_out())) < 1


@pytest.mark.parametrize("name", ["nightly", "named"])
def test_all_samples_are_run_where_all_or_files_are_named(chosen, name):
    chosen(name)
    assert left_out() == set()
    assert sets.sample(range(9), 3, "pages") == list(range(9))


def test_what_only_nightly_has_is_left_out_else(chosen):
    pattern = next(iter(sets.NIGHTLY))
    one = Item(pattern.replace("*", "test_it"))
    for name, out in (("fast", True), ("full", True), ("named", True), ("nightly", False)):
        chosen(name)
        assert (one.nodeid in left_out([one])) is out, name


def test_fast_leaves_out_what_waits_or_needs_a_server(chosen):
    waits = [Item("tests/test_a.py::test_it", (Mark(name),)) for name in sorted(sets.SERVERS)]
    inside = [Item(f"{folder}test_a.py::test_it") for folder in sets.SLOW_FOLDERS]
    quick = Item("tests/fabric/core/test_b.py::test_it", (Mark("django_db"),))
    chosen("fast")
    assert left_out([*waits, *inside, quick]) == {one.nodeid for one in (*waits, *inside)}


def test_files_without_a_test_of_the_set_are_not_imported(chosen):
    whole = next(name.removesuffix("::*") for name in sets.NIGHTLY if name.endswith(".py::*"))
    slow, quick = f"{sets.SLOW_FOLDERS[0]}test_a.py", "tests/console/test_b.py"
    collected = {}
    for name in ("fast", "full", "named", "nightly"):
        chosen(name)
        collected[name] = [sets.is_collected(file) for file in (whole, slow, quick)]
    every = [True, True, True]
    assert collected == {"fast": [False, False, True], "full": [False, True, True], "named": every, "nightly": every}


def test_fast_has_one_of_twelve_tests_outside_the_core(chosen):
    others = [Item(f"tests/console/test_c.py::test_{n}") for n in range(120)]
    chosen("fast")
    assert len(others) - len(left_out(others)) == len(others) / sets.FAST_EACH


def test_full_has_so_many_cases_of_a_test_with_the_first_and_the_last(chosen):
    cases = [Item(f"tests/console/test_c.py::test_it[{n}]") for n in range(40)]
    few = [Item(f"tests/console/test_c.py::test_few[{n}]") for n in range(sets.CASES_MAX)]
    core = [Item(f"tests/fabric/core/test_c.py::test_it[{n}]") for n in range(40)]
    chosen("full")
    kept = [item for item in cases if item.nodeid not in left_out([*cases, *few, *core])]
    assert len(kept) == sets.CASES_MAX
    assert (kept[0], kept[-1]) == (cases[0], cases[-1])
    assert left_out([*few, *core]) == set()
    chosen("nightly")
    assert left_out(cases) == set()


def test_a_sample_of_two_patterns_is_taken_once(chosen, monkeypatch):
    monkeypatch.setattr(sets, "SAMPLED", {f"{FILE}::*": 30, f"{FILE}::test_i*": 2})
    chosen("full")
    assert len(left_out()) == len(CASES) - 1


def test_a_pattern_that_fits_nothing_is_named():
    unknown = sets.leave_out(CASES)[1]
    assert "tests/e2e/drills/test_drills.py::*" in unknown
    assert f"{FILE}::*" not in unknown
