"""Planted bugs of what a decision says of itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager

from fabric.core import reactions
from fabric.core.failure import Failure
from fabric.core.frozen import replace
from fabric.core.ladder import Choice
from fabric.core.work import Work


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


DECISION_PLANTS: Mapping[str, Callable[[], AbstractContextManager[None]]] = {"wrong_rung": _wrong_rung}
"""By name."""
