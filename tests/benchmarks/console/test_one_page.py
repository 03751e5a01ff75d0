"""A run's page and a publication are measured as they are. Times are printed, never asserted."""

from __future__ import annotations

import pytest

from fabric.composition import engine as wiring
from fabric.models import Revision
from tests.benchmarks.console import one_page


@pytest.mark.django_db
def test_each_publication_makes_a_revision():
    found = one_page.measure_publication(2)
    assert Revision.objects.count() == 3, "the first is not timed"
    assert 0 < found["best_ms"] <= found["p50_ms"]


@pytest.mark.slow
@pytest.mark.django_db(transaction=True)
def test_the_page_of_a_long_run_is_answered():
    found = one_page.measure_run_page(wiring.store(), 120, 1)
    assert (found["status"], found["events"] >= 120, found["bytes"] > 10_000) == (200, True, True)
