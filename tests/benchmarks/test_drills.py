import sys

import pytest

from simulator.drills.fabrics import default_table, samples
from tests.benchmarks import drills

CALLS = 27_500
"""Calls of functions of a simulated run at most. A change that needs more raises it, and says why in its commit."""


@pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="calls are counted differently by another Python")
def test_a_simulated_run_makes_no_more_calls_than_recorded():
    assert 0.97 * CALLS < drills.count_calls(default_table()) <= CALLS


def test_all_cells_are_drilled_and_their_runs_counted():
    """Each cell has a run that is disturbed, and each fabric one in each tier that is not. Of all that is shipped: by command."""
    found = drills.measure(1, [default_table(), samples()[0]])
    fabrics = 2
    assert (found["cells"], found["not_passed"]) == (24 * fabrics, 0)
    assert found["runs"] >= 24 * fabrics + 3 * fabrics
    for figure, counted in (("cells_per_s", "cells"), ("runs_per_s_a_core", "runs")):
        assert found[figure] == pytest.approx(found[counted] / found["seconds_of_one_core"], rel=0.01)
