"""Suspects: runs that were claimed more than once without getting on, so that one of them may be what kills its owners. Pure.

A worker's death counts against every run that it owned, so the one that killed it is known from its neighbours only by being owned with others each
time. Suspects are therefore taken in ever smaller groups, and the last time before the quarantine (``quarantine.py``) alone: whoever has gone there
went alone. Other runs are neither counted nor held up; to them a death costs one claim of several.

A policy that allows more claims than the default has its last ones alone as well. One that allows fewer is put away before its turn to be alone has
come: a run's row does not say what its policy allows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from fabric.core.policy import Limits

SUSPECT_FROM = 2
"""Claims without progress from which on a run is a suspect: one of them may be anybody's bad luck."""
ALONE_FROM = Limits().claims_without_progress - 1
"""Claims without progress from which on the next may be the last."""
SMALLER = 4
"""Each claim more makes the group so many times smaller."""

TOGETHER: Final[Mapping[int, int]] = {
    claims: SMALLER ** (ALONE_FROM - claims) for claims in range(SUSPECT_FROM, ALONE_FROM + 1)
}
"""By a suspect's claims without progress so far: how many suspects, itself among them, its next owner may hold. With more claims it is alone."""


def is_suspect(claims: int) -> bool:
    """Whether a run with so many claims without progress, before the next one, is a suspect."""
    return claims >= SUSPECT_FROM


def together(claims: int) -> int:
    """How many suspects one worker may hold, a suspect with so many claims among them."""
    return TOGETHER.get(claims, 1)


def admitted(held: Iterable[int], asked: Sequence[int]) -> int:
    """How many of the suspects that are due one worker may take: the first so many, up to the one that would be too many for itself or another.

    ``held``: those that it holds and that have not got on since, as they were before it took them. ``asked``: the claims of those that are due, in
    the order in which they are claimed. Since nobody is passed over, nobody is passed over for ever: the worker takes no other before it has room.
    """
    groups = [together(claims) for claims in held]
    for place, claims in enumerate(asked):
        groups.append(together(claims))
        if len(groups) > min(groups):
            return place
    return len(asked)
