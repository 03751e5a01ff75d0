"""Judges one proposal by the mechanisms in guard order, and returns every trip, in that order.

The ladder decides which trip wins (``ladder.choose``): the gravest reaction first, ties to the mechanism that stands
earlier here.
"""

from __future__ import annotations

from collections.abc import Iterable
from types import ModuleType
from typing import Any, get_args

from fabric.core.budgets.grants import Lacking
from fabric.core.mechanisms import FRESH, ORDER, find_state, scope_key
from fabric.core.mechanisms import policy as agents_policy
from fabric.core.mechanisms.contract import Proposal, ProposalKind, Scope, View
from fabric.core.spec.policies.flow_policy import FlowPolicy
from fabric.core.values.flow import Stage
from fabric.core.values.identity_cache import keep_results
from fabric.core.values.taxonomy import Trip

_BY_KIND: dict[ProposalKind, tuple[ModuleType, ...]] = {
    kind: tuple(module for module in ORDER if kind in module.APPLIES_TO) for kind in get_args(ProposalKind)
}


Listed = tuple[ModuleType, Any, str, Any]
"""A mechanism, its part of a policy, and the key and initial state of one per run. The key of others is ""."""


@keep_results
def _list_mechanisms(policy: FlowPolicy, stage: Stage, kind: ProposalKind) -> tuple[Listed, ...]:
    """Return the mechanisms that judge proposals of a kind in a stage, each with its numbers."""
    seen = policy.of_stage(stage)
    return tuple(
        (
            module,
            module.config(seen),
            scope_key(module, "") if module.SCOPE is Scope.RUN else "",
            FRESH[module.NAME],
        )
        for module in _BY_KIND[kind]
    )


_RANK = {module.NAME: rank for rank, module in enumerate(ORDER)}


def in_order(trips: Iterable[Trip]) -> tuple[Trip, ...]:
    """Return the trips of several proposals in guard order. Trips of no mechanism come last, such as a provider's error
    or a spent correction.
    """
    return tuple(sorted(trips, key=lambda trip: _RANK.get(trip.mechanism, len(_RANK))))


def judge(proposal: Proposal, view: View, policy: FlowPolicy, *, without: str = "") -> list[Trip]:
    """Return all trips for one proposal, earliest mechanism first; empty if it passes. A call that the workspace's
    policy denies is judged by no mechanism. Each mechanism uses the policy of the proposal's stage. ``without``:
    a mechanism that is skipped.

    Raises Lacking if nothing trips and shared state is missing; a proposal that is refused anyway needs none.
    """
    if view.denied and (trip := agents_policy.find_denied(proposal, view)) is not None:
        return [trip]
    trips: list[Trip] = []
    lacking: Lacking | None = None
    guards = view.run.guards
    for module, config, key, fresh in _list_mechanisms(policy, proposal.stage, proposal.kind):
        if without == module.NAME:
            continue
        state = guards.get(key, fresh) if key else find_state(guards, module, proposal.step_id)
        try:
            verdict = module.check(config, state, proposal, view)
        except Lacking as error:
            lacking = lacking or error
            continue
        if isinstance(verdict, Trip):
            trips.append(verdict)
    if lacking is not None and not trips:
        raise lacking
    return trips
