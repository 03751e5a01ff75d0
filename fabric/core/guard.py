"""Takes one proposed thing past the mechanisms in guard order and gives back every trip, in that order.

Which trip wins is the ladder's business (``ladder.gravest``): the gravest reaction first, ties to the mechanism that stands earlier here.
"""

from __future__ import annotations

from collections.abc import Iterable
from types import ModuleType
from typing import get_args

from fabric.core.grants import Lacking
from fabric.core.mechanisms import ORDER, state_of
from fabric.core.mechanisms import policy as agents_policy
from fabric.core.mechanisms.contract import Proposal, ProposalKind, View
from fabric.core.policy import FlowPolicy
from fabric.core.verdict import Trip

_BY_KIND: dict[ProposalKind, tuple[ModuleType, ...]] = {
    kind: tuple(module for module in ORDER if kind in module.APPLIES_TO) for kind in get_args(ProposalKind)
}


_RANK = {module.NAME: rank for rank, module in enumerate(ORDER)}


def in_order(trips: Iterable[Trip]) -> tuple[Trip, ...]:
    """Trips of several proposals in guard order; what is no mechanism's (a provider's error, a spent correction) comes last."""
    return tuple(sorted(trips, key=lambda trip: _RANK.get(trip.mechanism, len(_RANK))))


def judge(proposal: Proposal, view: View, policy: FlowPolicy, *, without: str = "") -> list[Trip]:
    """All trips for one proposal, earliest mechanism first; empty when everybody passes. What the workspace's policy lets nobody call is asked of no other. Each goes by the policy as the proposal's stage sees it. ``without``: a mechanism that is not asked.

    Raises Lacking when nobody objects and something is wanted that is not at hand: what is refused anyway is not asked for.
    """
    if view.denied and (trip := agents_policy.denied(proposal, view)) is not None:
        return [trip]
    trips: list[Trip] = []
    lacking: Lacking | None = None
    seen = policy.of_stage(proposal.stage)
    for module in _BY_KIND[proposal.kind]:
        if without == module.NAME:
            continue
        state = state_of(view.run.guards, module, proposal.step_id)
        try:
            verdict = module.check(module.config(seen), state, proposal, view)
        except Lacking as error:
            lacking = lacking or error
            continue
        if isinstance(verdict, Trip):
            trips.append(verdict)
    if lacking is not None and not trips:
        raise lacking
    return trips
