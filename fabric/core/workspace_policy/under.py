"""A fabric as a run sees it under its workspace's policy. The revision that the run is pinned to stays what it is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from fabric.core.spec import FabricSpec
from fabric.core.taxonomy import Tier
from fabric.core.workspace_policy.policy import WorkspacePolicy
from fabric.core.workspace_policy.rules import RULES, declared, run_cap


@dataclass(frozen=True, slots=True)
class Under:
    """What a policy says of a compiled fabric beside what it draws tighter."""

    denied: Mapping[str, str] = field(default_factory=dict)
    """What may not be called, as ``tool:NAME`` or ``model:NAME``, and why."""
    declared: Mapping[str, str] = field(default_factory=dict)
    """Tools that the policy declares irreversible, with the pattern that says so."""
    run_usd_micros: int | None = None
    """The most that anybody may raise a run's cap to; None: the policy says nothing of that."""
    number: int = 0
    """The policy's version; 0: it has none."""


FREE = Under()
"""Of a workspace without a policy."""


def drawn(spec: FabricSpec, policy: WorkspacePolicy, tier: Tier, number: int = 0) -> tuple[FabricSpec, Under]:
    """A fabric under a policy, for the runs of a tier, and what the policy says beside it. ``number``: the policy's version."""
    held, denied = spec, {}
    for rule in RULES:
        if rule.deny is not None:
            denied.update(dict(rule.deny(spec, policy)))
        if rule.tighten is not None:
            held = rule.tighten(held, policy, tier)
    return held, Under(_with_ways_back(spec, denied), declared(spec, policy), run_cap(policy, tier), number)


def _with_ways_back(spec: FabricSpec, denied: Mapping[str, str]) -> dict[str, str]:
    """With the tools that the engine could not undo or reconcile: nobody calls what may not be undone as its author meant."""
    found = dict(denied)
    for tool in spec.tools:
        for way in (tool.compensation, tool.reconcile):
            if way is not None and f"tool:{way}" in denied:
                found.setdefault(f"tool:{tool.name}", f"its way back is {way}, and {denied[f'tool:{way}']}")
    return found
