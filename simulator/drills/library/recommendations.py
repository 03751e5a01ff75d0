"""Recommends scenarios for a fabric: one table says which of its parts each scenario tries.

A recommended scenario strikes something that this fabric has and others lack. So a scenario that suits every fabric is
never recommended; the groups of the library list it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from fabric.core.spec.fabric import FabricSpec
from fabric.core.spec.topologies.conversation import is_conversation
from fabric.core.values.taxonomy import Tier
from simulator.drills.library.selectors import ScenarioView

RECOMMENDED_MAX = 8
"""Number of recommended scenarios at most."""


class Trait(StrEnum):
    """A part of a fabric that a scenario tries."""

    IRREVERSIBLE = "irreversible"
    UNDOABLE = "undoable"
    TIER = "tier"
    CRITIC = "critic"
    HANDOFF = "handoff"
    PLANNER = "planner"
    WORKERS = "workers"
    CITATIONS = "citations"
    FALLBACK = "fallback"
    TOOLS = "tools"
    ANY = "any"
    """Every fabric has it: the scenario is not recommended."""


def _tools_of(spec: FabricSpec, effect: str) -> str:
    return next((tool.name for tool in spec.tools if tool.effect == effect), "")


def _find_irreversible(spec: FabricSpec) -> str:
    name = _tools_of(spec, "irreversible")
    return f"{name} cannot be undone, so a person is asked" if name else ""


def _find_undoable(spec: FabricSpec) -> str:
    name = next((tool.name for tool in spec.tools if tool.effect == "mutating" and tool.compensation), "")
    return f"{name} changes something and is undone after a failure" if name else ""


def _find_tier(spec: FabricSpec) -> str:
    people = {Tier.BATCH: "its runs wait long for people", Tier.HIGH_STAKES: "people decide about its failures"}
    return "two people have to agree" if spec.policy.humans.four_eyes else people.get(spec.tiers.default, "")


def _find_critic(spec: FabricSpec) -> str:
    return f"{spec.topology.critic} judges its answers" if getattr(spec.topology, "critic", None) else ""


def _find_handoff(spec: FabricSpec) -> str:
    return "its agents pass the request on" if spec.topology.kind == "handoff" else ""


def _find_planner(spec: FabricSpec) -> str:
    return f"{spec.topology.planner} plans its work" if getattr(spec.topology, "planner", None) else ""


def _find_workers(spec: FabricSpec) -> str:
    count = 0 if is_conversation(spec.topology) else len(spec.topology.workers)
    return f"{count} workers share its work" if count > 1 else ""


def _find_citations(spec: FabricSpec) -> str:
    return "its answers have to cite" if spec.gates.citations != "off" else ""


def _find_fallback(spec: FabricSpec) -> str:
    return "" if any(model.fallbacks for model in spec.models) else "no other model answers when its provider fails"


def _find_tool(spec: FabricSpec) -> str:
    declared = {tool.name for tool in spec.tools}
    offered = (name for worker in spec.topology.workers for name in spec.agent(worker).tools)
    name = next((name for name in offered if name in declared), "")
    return f"its agents call {name}" if name else ""


WHY: Mapping[Trait, Callable[[FabricSpec], str]] = {
    Trait.IRREVERSIBLE: _find_irreversible,
    Trait.UNDOABLE: _find_undoable,
    Trait.TIER: _find_tier,
    Trait.CRITIC: _find_critic,
    Trait.HANDOFF: _find_handoff,
    Trait.PLANNER: _find_planner,
    Trait.WORKERS: _find_workers,
    Trait.CITATIONS: _find_citations,
    Trait.FALLBACK: _find_fallback,
    Trait.TOOLS: _find_tool,
    Trait.ANY: lambda spec: "",
}
"""Returns why a fabric's part recommends its scenarios, one phrase; empty if the fabric lacks the part.

The worst harm comes first. Total over ``Trait``, by test.
"""

TRIES: Mapping[Trait, tuple[str, ...]] = {
    Trait.IRREVERSIBLE: ("person-edits", "person-double-click"),
    Trait.UNDOABLE: ("effect-answer-lost", "undoing-fails", "effect-refused"),
    Trait.TIER: ("person-is-silent", "person-too-late", "person-rejects"),
    Trait.CRITIC: ("critic-is-unsure",),
    Trait.HANDOFF: ("handovers-to-and-fro", "handovers-round-three", "handovers-with-news"),
    Trait.PLANNER: ("plan-for-unknown-worker", "agents-without-end", "plan-in-prose", "same-brief-twice", "supervisor-stuck"),
    Trait.WORKERS: ("branches-fail",),
    Trait.CITATIONS: ("answer-cites-nothing",),
    Trait.FALLBACK: ("provider-outage", "endpoint-down"),
    Trait.TOOLS: (
        "tool-hangs", "tool-instructs", "tool-loop-of-one", "tool-error", "tool-adapter-fails", "tool-arguments-cut-off",
        "tool-flood", "tool-loop-in-other-words", "tool-loop-of-two", "tool-loop-of-three", "tool-slow",
        "tool-that-is-not-there", "search-without-finding",
    ),
    Trait.ANY: (
        "answer-cut-by-filter", "answer-cut-off", "answer-empty", "answer-of-another-shape", "answer-slips-once",
        "answer-with-nul", "answer-withheld", "clock-skew", "commit-landed", "commit-lost", "cost-spike-by-price",
        "cost-spike-by-tokens", "database-away", "inputs-doubled", "messages-doubled", "messages-lost",
        "model-bills-a-hang", "model-hangs", "model-trickles", "rate-limit-storm", "rate-limit-then-healthy",
        "slow-answers", "stream-drops", "web-page-for-an-answer", "worker-crashes", "worker-dies-at-an-instant",
        "worker-is-a-zombie",
    ),
}  # fmt: skip
"""Scenarios that try each part, the best first. Each built-in scenario stands in one row, by test."""


@dataclass(frozen=True, slots=True)
class Recommendation:
    """A scenario for a fabric. ``why``: one phrase."""

    view: ScenarioView
    why: str


def recommend_scenarios(spec: FabricSpec, known: Sequence[ScenarioView]) -> list[Recommendation]:
    """Return at most ``RECOMMENDED_MAX`` scenarios that try what this fabric has, the worst harm first.

    Each part gives its best scenario before any gives a second one. A scenario that is not for the fabric's default
    tier is left out.
    """
    by_name = {one.name: one for one in known if one.scenario and spec.tiers.default in one.scenario.tiers}
    found: list[tuple[int, int, Recommendation]] = []
    for harm, (trait, explain) in enumerate(WHY.items()):
        if why := explain(spec):
            views = [by_name[name] for name in TRIES[trait] if name in by_name]
            found += [(turn, harm, Recommendation(view, why)) for turn, view in enumerate(views)]
    return [one for _, _, one in sorted(found, key=lambda each: each[:2])[:RECOMMENDED_MAX]]
