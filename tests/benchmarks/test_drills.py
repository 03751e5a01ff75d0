import pytest

from simulator.drills.fabrics import default_table, samples
from tests.benchmarks import drills


def test_all_cells_are_drilled_and_their_runs_counted():
    """Each cell has a run that is disturbed, and each fabric one in each tier that is not. Of all that is shipped: by command."""
    found = drills.measure(1, [default_table(), samples()[0]])
    fabrics = 2
    assert (found["cells"], found["not_passed"]) == (24 * fabrics, 0)
    assert found["runs"] >= 24 * fabrics + 3 * fabrics
    for figure, counted in (("cells_per_s", "cells"), ("runs_per_s_a_core", "runs")):
        assert found[figure] == pytest.approx(found[counted] / found["seconds_of_one_core"], rel=0.01)
