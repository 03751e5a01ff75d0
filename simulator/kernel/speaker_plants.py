"""Planted bugs of conversations."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Any

from fabric.core import conversations, routing
from fabric.core.graph import conversation
from fabric.core.graph.state import Logged
from fabric.core.mechanisms import hop_limit
from fabric.core.spec import FabricSpec
from fabric.core.topologies import graph
from simulator.kernel import planting


def _writes_forgotten() -> AbstractContextManager[None]:
    """A turn's packet is committed without what its speaker wrote."""
    return planting.attribute(conversations, "_writes", lambda work, step: iter(()))


def _outside_forgotten() -> AbstractContextManager[None]:
    """A change of the context from outside during a turn is lost with that turn."""

    def log(work: Any, step: Any) -> Any:
        return tuple(Logged(True, one) for one in conversations._writes(work, step))

    return planting.attribute(conversations, "_log", log)


def _turns_unbounded() -> AbstractContextManager[None]:
    """The bound on turns is not looked at."""
    return planting.attribute(conversation, "_bounded", lambda graph, state, decision: decision)


def _hops_unbounded() -> AbstractContextManager[None]:
    """No handover is one too many."""
    kept = hop_limit._counts

    def counts(config: Any, state: Any, proposal: Any, view: Any) -> Any:
        return [] if proposal.kind == "handoff" else kept(config, state, proposal, view)

    return planting.attribute(hop_limit, "_counts", counts)


def _tools_for_all() -> AbstractContextManager[None]:
    """Whoever names tools of a conversation is offered them wherever it works."""
    return planting.attribute(FabricSpec, "tools_of", lambda spec, agent: agent.tools)


def _anything_crosses() -> AbstractContextManager[None]:
    """A restart edge is crossed by whatever fails, as often as it does."""
    return planting.attribute(graph, "_blocked", lambda work, step, crossed: [])


def _first_level_alone() -> AbstractContextManager[None]:
    """The first retry target is taken whether or not it has a turn left."""
    return planting.attribute(routing, "back_from", lambda work, step, ways, cause, message: next(iter(ways), None))


def _everything_heard() -> AbstractContextManager[None]:
    """What was said before a conversation began anew is heard still."""
    return planting.attribute(graph, "_heard", lambda work, steps: steps)


SPEAKER_PLANTS: Mapping[str, Callable[[], AbstractContextManager[None]]] = {
    "writes_forgotten": _writes_forgotten,
    "outside_forgotten": _outside_forgotten,
    "turns_unbounded": _turns_unbounded,
    "hops_unbounded": _hops_unbounded,
    "tools_for_all": _tools_for_all,
    "anything_crosses": _anything_crosses,
    "first_level_alone": _first_level_alone,
    "everything_heard": _everything_heard,
}
"""By name."""
