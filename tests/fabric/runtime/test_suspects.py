"""Suspects: the table, and who may be owned together."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest

from fabric.runtime.quarantine import CLAIMS_MAX
from fabric.runtime.suspects import SUSPECT_FROM, TOGETHER, admitted, is_suspect, together


def test_every_claim_that_is_driven_has_its_group_and_the_last_is_alone():
    """Total over the claims that the default policy lets a run have: before each it is no suspect, or the table has a group for it."""
    driven = range(CLAIMS_MAX)
    assert {claims for claims in driven if is_suspect(claims)} == set(TOGETHER) == set(range(SUSPECT_FROM, CLAIMS_MAX))
    sizes = [TOGETHER[claims] for claims in sorted(TOGETHER)]
    assert sizes == [16, 4, 1]
    assert all(smaller < larger for larger, smaller in pairwise(sizes))
    assert [together(CLAIMS_MAX + more) for more in (0, 1, 15)] == [1, 1, 1], "a policy that allows more"


@pytest.mark.parametrize(
    ("held", "asked", "taken"),
    [
        ((), (), 0),
        ((), (2,) * 40, 16),
        ((), (4,) * 40, 1),
        ((2,) * 15, (2, 2), 1),
        ((2, 2, 2), (3, 3), 1),
        ((2, 2, 2, 2), (3, 2), 0),
        ((4,), (2,), 0),
        ((2,), (4, 2), 0),
        ((), (2, 4, 2), 1),
        ((4, 4), (), 0),
    ],
)
def test_suspects_are_taken_in_turn_until_one_would_be_too_many(held, asked, taken):
    assert admitted(held, asked) == taken


def test_no_group_is_too_large_for_any_of_it_and_no_larger_one_would_do():
    rng = random.Random(7)
    for _ in range(500):
        asked = [rng.randrange(SUSPECT_FROM, 7) for _ in range(rng.randrange(30))]
        held: list[int] = []
        while asked:  # Whoever is taken gets on sooner or later: everybody has his turn.
            taken = admitted(held, asked)
            held, asked = held + asked[:taken], asked[taken:]
            assert len(held) <= min(map(together, held))
            assert not asked or len(held) + 1 > min(map(together, [*held, asked[0]]))
            held = rng.sample(held, rng.randrange(len(held)))
