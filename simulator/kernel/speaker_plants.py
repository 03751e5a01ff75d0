"""Planted bugs of conversations."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Any

from fabric.core import conversations
from fabric.core.graph import conversation
from fabric.core.mechanisms import hop_limit
from fabric.core.spec import FabricSpec
from simulator.kernel import planting


def _writes_forgotten() -> AbstractContextManager[None]:
    """A turn's packet is committed without what its speaker wrote."""
    return planting.attribute(conversations, "_writes", lambda work, step: iter(()))


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


SPEAKER_PLANTS: Mapping[str, Callable[[], AbstractContextManager[None]]] = {
    "writes_forgotten": _writes_forgotten,
    "turns_unbounded": _turns_unbounded,
    "hops_unbounded": _hops_unbounded,
    "tools_for_all": _tools_for_all,
}
"""By name."""
