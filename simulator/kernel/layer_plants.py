"""Planted bugs of retry layers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Any

from fabric.core import ladder, node_retries
from fabric.core.run import Step
from fabric.core.topologies import supervisor
from fabric.core.work import Work
from simulator.kernel import planting


def _node_wait_skipped() -> AbstractContextManager[None]:
    """A node that is to run again runs at once."""

    def due(work: Work) -> Step | None:
        return next((step for key, step in work.run.steps.items() if key in work.run.timers), None)

    return planting.attribute(node_retries, "due", due)


def _node_retries_not_counted() -> AbstractContextManager[None]:
    """Each activation of a node counts its attempts anew."""
    kept = ladder._scope

    def scope(failure: Any, per: Any) -> str:
        return f"step:{failure.step_id}" if per == "node" and failure.step_id else kept(failure, per)

    return planting.attribute(ladder, "_scope", scope)


def _nothing_is_a_part() -> AbstractContextManager[None]:
    """A fan-out whose gaps are all accepted goes on with nothing."""
    kept = supervisor._needed

    def needed(policy: Any, branches: int, accepted: int) -> int:
        return branches - accepted if policy.mode == "all" else kept(policy, branches, accepted)

    return planting.attribute(supervisor, "_needed", needed)


LAYER_PLANTS: Mapping[str, Callable[[], AbstractContextManager[None]]] = {
    "node_wait_skipped": _node_wait_skipped,
    "node_retries_not_counted": _node_retries_not_counted,
    "nothing_is_a_part": _nothing_is_a_part,
}
"""By name."""
