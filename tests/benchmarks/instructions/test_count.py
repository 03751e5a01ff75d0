"""Callgrind counts the instructions of a run, and counts the same again."""

from __future__ import annotations

import shutil

import pytest

from tests.benchmarks.instructions import count

SPREAD = 0.002
"""Part by which two counts may differ: addresses of memory decide some of the branches."""


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("valgrind"), reason="valgrind is not installed")
def test_two_counts_of_one_work_are_the_same():
    first, second = (count.count_work("load") for _ in range(2))
    assert first > 100_000
    assert abs(first - second) <= SPREAD * first
