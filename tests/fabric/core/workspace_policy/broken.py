"""For each rule of the policy: a policy, a fabric that breaks it, and one that keeps it. The same table is held at publication and at the call."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from fabric.core.spec.fabric import FabricSpec
from fabric.core.values.units import JSON
from fabric.core.workspace_policy.policy import WorkspacePolicy
from tests.fabric.core.fabrics import lone, tree

PAY = {"kind": "http", "target": "https://pay.example.com/charge"}
UNDONE = {**PAY, "effect": "irreversible"}
WAIVED = {**UNDONE, "approval": "waived", "deviation": "it is small"}


@dataclass(frozen=True)
class Case:
    """``path`` and ``says``: what is told at publication."""

    policy: Mapping[str, JSON]
    breaks: FabricSpec
    keeps: FabricSpec
    path: str
    says: str
    more: tuple[FabricSpec, ...] = field(default=())
    """Others that break it."""

    @property
    def read(self) -> WorkspacePolicy:
        return WorkspacePolicy.model_validate(self.policy)


def undoing(**fields: JSON) -> FabricSpec:
    """A tool that changes something, and the one that undoes it: the payment."""
    found = tree(roles=(), tools=("look",))
    found["tools"] = [
        {"name": "look", "kind": "http", "target": "https://a.example.com/x", "effect": "mutating", **fields},
        {"name": "pay", **PAY, "effect": "idempotent"},
    ]
    return FabricSpec.model_validate(found)


CASES: Mapping[str, Case] = {
    "irreversible": Case(
        {"irreversible": ["http:pay.example.com/*"]},
        lone(tool=PAY),
        lone(tool=UNDONE),
        "tools.0.effect",
        "is read_only, and the workspace's policy declares http:pay.example.com/charge irreversible (http:pay.example.com/*); declare it irreversible, or have an owner change the policy",
        (undoing(compensation="pay"),),
    ),
    "tools": Case(
        {"tools": ["http:crm.example.com/*"]},
        lone(tool=PAY),
        lone(tool={"kind": "http", "target": "https://crm.example.com/a"}),
        "tools.0.target",
        "reaches http:pay.example.com/charge, which is not among the tools that the workspace's policy allows; name one that is, or have an owner change the policy",
    ),
    "hosts": Case(
        {"hosts": ["*.crm.example.com"]},
        lone(tool=PAY),
        lone(tool={"kind": "http", "target": "https://eu.crm.example.com/a"}),
        "tools.0",
        "names host pay.example.com, which is not among those that the workspace's policy allows; name one that is, or have an owner change the policy",
    ),
    "waivers": Case(
        {"waivers": "nobody"},
        lone(tool=WAIVED),
        lone(tool=UNDONE),
        "tools.0.approval",
        "is waived, and the workspace's policy lets no one waive; take approval away, or have an owner change the policy",
    ),
    "four_eyes": Case(
        {"four_eyes": ["interactive"]},
        lone(tool=UNDONE),
        lone(tool=UNDONE, humans={"four_eyes": ["interactive"]}),
        "policy.humans.four_eyes",
        "lacks interactive, in which the workspace's policy wants four eyes; add it, leave the tier out of tiers.allowed, or have an owner change the policy",
    ),
    "caps": Case(
        {"caps": {"run_usd_micros": 400}},
        lone(),
        lone(budget={"run_usd_micros": 400}),
        "policy.budget.run_usd_micros",
        "is $10.00, and the workspace's policy lets a run of tier interactive spend $0.0004; lower it, or have an owner change the policy",
    ),
    "limits": Case(
        {"limits": {"turns": 2}},
        lone(),
        lone(limits={"turns": 2}),
        "policy.limits.turns",
        "is 25, and the workspace's policy allows 2 at most (limits.turns); lower it, or have an owner change the policy",
    ),
    "protections": Case(
        {"protections": ["loop_detector", "credentials"]},
        lone(loop_detector={"detectors": ["repeated_cycle"]}),
        lone(),
        "policy.loop_detector.detectors",
        "leaves out identical calls, near-identical calls, same call in a row, same answer, nothing new in a row, near-identical calls in the long run, nothing but errors, same words before calls, and the workspace's policy keeps every loop detector on (protections); leave it out, or have an owner change the policy",
    ),
}
"""By field of the policy; total by test."""
