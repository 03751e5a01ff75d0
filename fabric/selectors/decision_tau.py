"""Does tau sit right? What people made of results that a critic was not sure of, in a sentence that states what it rests on."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

from fabric.core.frozen import value
from fabric.selectors.decision_figures import Figures

ENOUGH = 20
"""Decisions of people just below tau, before anything is said of it."""
NEAREST = "0"
"""The band of scores up to 0.1 below tau: what would pass if tau were that much lower."""
MOSTLY, RARELY = 0.9, 0.5
"""Shares of those that people approved unchanged: from the first on asking was mostly for nothing; under the second it was mostly right."""


class Sits(StrEnum):
    """What the decisions say of tau."""

    UNASKED = "unasked"
    """Nothing was asked for its score."""
    UNKNOWN = "unknown"
    """Too few were decided."""
    HIGH = "high"
    """It asks for what people let pass."""
    LOW = "low"
    """What lies just below is mostly changed or turned down: what lies just above passes unseen."""
    RIGHT = "right"
    """Neither."""


@value(kw_only=True)
class Judged:
    """What is said of tau."""

    sits: Sits
    sentence: str


def tau_judged(bands: Sequence[Figures]) -> Judged:
    """What the decisions about scores below tau say of it. Too few are never taken for a good sign."""
    people = sum(one.people for one in bands)
    if not people:
        return Judged(sits=Sits.UNASKED, sentence="no person decided about a score below tau in this time")
    near = next((one for one in bands if one.name == NEAREST), None)
    count, passed = (near.people, near.approved) if near is not None else (0, 0)
    if count < ENOUGH or near is None:
        said = f"too few to say: people decided {count} of the {ENOUGH} needed that scored up to 0.1 below tau"
        return Judged(sits=Sits.UNKNOWN, sentence=said)
    stated = (
        f"of {count:,} results that scored up to 0.1 below tau ({_taus(near)}), people approved {passed:,} as they were, "
        f"edited, declined or rejected {near.against:,} and sent back {near.responded:,}"
    )
    share = passed / count
    if share >= MOSTLY:
        return Judged(sits=Sits.HIGH, sentence=f"{stated}: tau may be too high, it asks for what people let pass")
    if share < RARELY:
        end = "tau may be too low, what scores a little more passes unseen"
        return Judged(sits=Sits.LOW, sentence=f"{stated}: {end}")
    return Judged(sits=Sits.RIGHT, sentence=f"{stated}: nothing in this speaks for moving tau")


def _taus(near: Figures) -> str:
    least, most = near.tau_least or 0.0, near.tau_most or 0.0
    return f"{least:g}" if least == most else f"{least:g} to {most:g}"
