"""The work of a run and of a turn is counted, and is no more than recorded: a change that raises it records it too."""

from __future__ import annotations

import json
import sys

import pytest

from tests.benchmarks import counts

SLACK = 0.01
"""Part by which a count may lie below its record."""


@pytest.fixture(scope="module")
def found():
    return counts.count_apart()


@pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="calls are counted differently by another Python")
def test_a_run_and_a_turn_do_no_more_than_recorded(found):
    recorded = json.loads(counts.FILE.read_text())
    wrong = {
        f"{work}, {name}": (recorded[work][name], now)
        for work, numbers in found.items()
        for name, now in numbers.items()
        if not recorded[work][name] * (1 - SLACK) <= now <= recorded[work][name]
    }
    assert not wrong, f"{wrong}: say in the commit why, and record it with python -m tests.benchmarks.counts --write"


def test_a_turn_does_as_much_late_as_early(found):
    """P12: the 200th turn costs at most 1.1 times the tenth."""
    early, late = found[f"turn {counts.EARLY}"], found[f"turn {counts.LATE}"]
    assert {name: now for name, now in late.items() if now > 1.1 * early[name]} == {}
