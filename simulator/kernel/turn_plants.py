"""Planted bugs of debates, procedures and teams."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Any

from fabric.core import children
from fabric.core.frozen import replace
from fabric.core.topologies import debate, sop
from simulator.kernel import planting


def _side_speaks_twice() -> AbstractContextManager[None]:
    """Each side has two turns in a round."""
    kept = debate._round
    return planting.attribute(debate, "_round", lambda *given: [turn for turn in kept(*given) for _ in range(2)])


def _round_missed() -> AbstractContextManager[None]:
    """The last round is never held."""
    kept = debate._of

    def fewer(work: Any) -> Any:
        topology = kept(work)
        return topology.model_copy(update={"rounds": max(1, topology.rounds - 1)})

    return planting.attribute(debate, "_of", fewer)


def _votes_uncounted() -> AbstractContextManager[None]:
    """Who stands first has won, whatever the votes are."""
    return planting.attribute(debate, "_tied", lambda topology, votes: [topology.workers[0]])


def _artifacts_left_out() -> AbstractContextManager[None]:
    """Whoever does an item reads nothing of those before it."""
    kept = sop._following
    return planting.attribute(
        sop, "_following", lambda work, steps: [replace(turn, hears=()) for turn in kept(work, steps)]
    )


def _team_without_cap() -> AbstractContextManager[None]:
    """A team has its whole share, whatever its own cap is."""
    return planting.attribute(children, "_own_cap", lambda work, step: work.compiled.spec.policy.budget.run_usd_micros)


TURN_PLANTS: Mapping[str, Callable[[], AbstractContextManager[None]]] = {
    "side_speaks_twice": _side_speaks_twice,
    "round_missed": _round_missed,
    "votes_uncounted": _votes_uncounted,
    "artifacts_left_out": _artifacts_left_out,
    "team_without_cap": _team_without_cap,
}
"""By name."""
