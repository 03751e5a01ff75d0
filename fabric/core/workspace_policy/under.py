"""Fabric as a run sees it under its workspace's policy. The revision that the run is pinned to stays unchanged."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from fabric.core.spec.fabric import FabricSpec
from fabric.core.values.taxonomy import Tier
from fabric.core.workspace_policy.policy import WorkspacePolicy
from fabric.core.workspace_policy.rules import RULES, list_irreversible_tools, run_cap


@dataclass(frozen=True, slots=True)
class PolicyRules:
    """Rules of a policy on a compiled fabric, besides the tightened limits."""

    denied: Mapping[str, str] = field(default_factory=dict)
    """Denied calls, as ``tool:NAME`` or ``model:NAME``, with the reason."""
    declared: Mapping[str, str] = field(default_factory=dict)
    """Tools that the policy declares irreversible, with the pattern that says so."""
    run_usd_micros: int | None = None
    """The most to which a person may raise a run's cap; None: no such rule."""
    number: int = 0
    """The policy's version; 0: it has none."""


FREE = PolicyRules()
"""Rules of a workspace without a policy."""


def tighten_fabric(
    spec: FabricSpec, policy: WorkspacePolicy, tier: Tier, number: int = 0
) -> tuple[FabricSpec, PolicyRules]:
    """Return a fabric under a policy, for the runs of a tier, and the policy's further rules. ``number``: the
    policy's version.
    """
    held, denied = spec, {}
    for rule in RULES:
        if rule.deny is not None:
            denied.update(dict(rule.deny(spec, policy)))
        if rule.tighten is not None:
            held = rule.tighten(held, policy, tier)
    return held, PolicyRules(
        _add_undo_tools(spec, denied), list_irreversible_tools(spec, policy), run_cap(policy, tier), number
    )


def _add_undo_tools(spec: FabricSpec, denied: Mapping[str, str]) -> dict[str, str]:
    """Return the denied calls, with the tools that have a denied compensation or reconcile tool. They could not be
    undone as their author meant.
    """
    found = dict(denied)
    for tool in spec.tools:
        for way in (tool.compensation, tool.reconcile):
            if way is not None and f"tool:{way}" in denied:
                found.setdefault(f"tool:{tool.name}", f"its way back is {way}, and {denied[f'tool:{way}']}")
    return found
