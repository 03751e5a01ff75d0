"""A margin's words: what would happen at its limit is never read as what has happened."""

from __future__ import annotations

import pytest

from console.pages.runs.page import Meter
from fabric.core.schema.limits import Unit
from fabric.selectors.runs.margins.margin import Margin


def says(**changed):
    given = {
        "key": "limits.hops",
        "name": "Handoffs",
        "observed": 0,
        "limit": 5,
        "unit": Unit.HANDOFFS,
        "at_limit": "the next handoff is refused",
    }
    return Meter(Margin(**{**given, **changed})).says


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({}, "at 5 the next handoff is refused"),
        ({"where": "clerk", "observed": 2}, "clerk: at 5 the next handoff is refused"),
        ({"unit": Unit.RETRY_TOKENS, "limit": 10, "at_limit": "it fails"}, "at 0 it fails"),
        ({"shared": ("provider:x", "failures"), "at_limit": "timeout, opens at 5 in a row"}, "timeout, opens at 5 in a row"),
        ({"unit": Unit.SECONDS, "observed": 30, "limit": 60, "at_limit": "it ends"}, "30 s of 1 m; it ends"),
    ],
)  # fmt: skip
def test_a_count_says_at_which_number_that_happens(changed, said):
    assert says(**changed) == said
