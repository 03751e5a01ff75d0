"""Planted bugs of what a decision says of itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from fabric.core import events as ev
from fabric.core import failover, reactions, swap
from fabric.core.failure import Failure
from fabric.core.frozen import replace
from fabric.core.ladder import Choice
from fabric.core.work import Work
from simulator.kernel import planting


@contextmanager
def _wrong_rung() -> Iterator[None]:
    """A decision does one rung and records the next one."""
    announces = reactions._announce

    def misnames(work: Work, failure: Failure, choice: Choice) -> None:
        row = choice.failure_type
        if row is not None and choice.rung_index + 1 < len(
            work.compiled.ladders.at(row, work.run.tier, failure.stage).rungs
        ):
            choice = replace(choice, rung_index=choice.rung_index + 1)
        announces(work, failure, choice)

    vars(reactions)["_announce"] = misnames
    try:
        yield
    finally:
        vars(reactions)["_announce"] = announces


def _stand_in_for_nothing() -> AbstractContextManager[None]:
    """What a call to a model that stands in may cost is not journaled: the decision looks as if it cost nothing."""
    weighs = swap._weighed

    def for_nothing(*given: Any) -> ev.Weighed | None:
        found = weighs(*given)
        if found is None:
            return None
        return replace(found, candidates=tuple(replace(one, usd_micros=0) for one in found.candidates))

    return planting.attribute(swap, "_weighed", for_nothing)


def _farthest_stand_in() -> AbstractContextManager[None]:
    """Of an endpoint's models the one is asked that can least and whose cost differs most."""
    nearest = failover._distance

    def farthest(*given: Any) -> tuple[int, int]:
        lost, differs = nearest(*given)
        return -lost, -differs

    return planting.attribute(failover, "_distance", farthest)


DECISION_PLANTS: Mapping[str, Callable[[], AbstractContextManager[None]]] = {
    "wrong_rung": _wrong_rung,
    "stand_in_for_nothing": _stand_in_for_nothing,
    "farthest_stand_in": _farthest_stand_in,
}
"""By name."""
