"""Suspects: the claims that make a run one, and how many of them a worker owns."""

from __future__ import annotations

import pytest

from fabric.runtime.quarantine.verdicts import CLAIMS_MAX, SUSPECT_FROM, count_admitted, is_suspect


def test_a_run_is_a_suspect_from_its_second_claim_without_progress_until_it_is_quarantined():
    assert [claims for claims in range(CLAIMS_MAX) if is_suspect(claims)] == [2, 3, 4]
    assert SUSPECT_FROM < CLAIMS_MAX, "a suspect is driven alone before it is quarantined"


@pytest.mark.parametrize(("owned", "taken"), [(0, 1), (1, 0), (2, 0), (40, 0)])
def test_a_worker_takes_a_suspect_only_while_it_owns_none(owned, taken):
    assert count_admitted(owned) == taken
