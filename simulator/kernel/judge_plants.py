"""Planted bugs of judges and released outputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager

from fabric.core import judging, releases
from fabric.core.flow import Stage
from fabric.core.judges import judges_of
from fabric.core.mechanisms.contract import Proposal
from fabric.core.work import Work
from simulator.kernel import planting


def _passes_unheard() -> AbstractContextManager[None]:
    """A judge that has not been heard is taken to have accepted."""

    def heard(work: Work, stage: Stage, proposal: Proposal) -> judging.Heard:
        return judging.Heard({judge.branch: () for judge in judges_of(work.compiled.spec, stage)})

    return planting.attribute(judging, "heard", heard)


def _no_is_yes() -> AbstractContextManager[None]:
    """What a tool says to an oracle is not read."""
    return planting.attribute(judging, "_told", lambda work, judge, proposal, said: ())


def _released_by_finding() -> AbstractContextManager[None]:
    """A release holds for whatever is found to have the same in it."""
    own = releases.key
    return planting.attribute(releases, "key", lambda payload, problems: own(None, problems))


JUDGE_PLANTS: Mapping[str, Callable[[], AbstractContextManager[None]]] = {
    "passes_unheard": _passes_unheard,
    "no_is_yes": _no_is_yes,
    "released_by_finding": _released_by_finding,
}
"""By name."""
