"""Facts of places that a fabric's schema cannot give: the list that a field refers to, choices, code, and labels.

A place is a dotted path in which ``*`` stands for a position or a key: ``agents.*.model``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from console.forms.controls.kinds import Kind
from console.forms.controls.rows import Column
from fabric.core.values.flow import Stage
from fabric.core.values.units import JSON
from fabric.policies.guardrails.rules import RULES
from fabric.services.installation import facts as here

_TOPOLOGY: Mapping[str, str] = {
    "topology.planner": "agents",
    "topology.workers": "agents",
    "topology.aggregator": "agents",
    "topology.critic": "agents",
    "topology.plan_critic": "agents",
    "topology.finalizer": "agents",
    "topology.handover": "agents",
    "topology.critics": "agents",
    "topology.judge": "agents",
    "topology.plan.briefs.*.agent": "agents",
    "topology.procedure.*.agent": "agents",
    "topology.initial_speaker": "agents",
    "topology.initiator": "agents",
    "topology.transitions.*.then.agent": "agents",
    "topology.transitions.*.when.**.agent": "agents",
    "topology.transitions.*.when.**.tool": "tools",
    "topology.default_target.agent": "agents",
    "topology.first": "agents",
    "topology.passes.*": "agents",
    "topology.goal_target": "agents",
    "topology.retry_target": "agents",
    "topology.fallback_retry_target": "agents",
    "topology.retry_targets.*.retry_target": "agents",
    "topology.retry_targets.*.fallback_retry_target": "agents",
}
TEAM = "topology.teams.*."
"""The beginning of the places of a team's topology."""
REFERS: Mapping[str, str] = {
    "agents.*.model": "models",
    "agents.*.tools": "tools",
    "models.*.fallbacks": "models",
    "models.*.cheaper": "models",
    "tools.*.compensation": "tools",
    "tools.*.reconcile": "tools",
    **_TOPOLOGY,
    **{f"{TEAM}{place}": listed for place, listed in _TOPOLOGY.items()},
    "gates.oracle.*.tool": "tools",
    "gates.oracle.*.critic": "agents",
    "gates.grounding_critic": "agents",
    "policy.goal_gates.nodes": "agents",
}
"""Places that hold names, and the list whose names they are. ``**`` stands for conditions within conditions, as deep as
they go.
"""
_KEYED = ("topology.retry_targets", "topology.max_visits", "topology.passes")
KEYED: Mapping[str, str] = {
    "policy.budget.agents": "agents",
    "topology.teams": "agents",
    **dict.fromkeys(_KEYED, "agents"),
    **dict.fromkeys((f"{TEAM}{place}" for place in _KEYED), "agents"),
}
"""Tables whose keys are names, and the list whose names they are."""
SPARE = frozenset({"policy.stages", "policy.stages.*.deadlines"})
"""Tables whose entries say nothing once they are empty, and go then."""
ORDERED = frozenset({"models.*.fallbacks", "topology.workers", f"{TEAM}topology.workers"})
"""Places with several names whose order matters."""
KINDS: Mapping[str, Kind] = {
    "gates.policies.*.text": "code",
    "gates.invariants.*.expression": "code",
    "gates.oracle.*.expression": "code",
    "gates.guardrails.*.patterns.*.pattern": "code",
    "tools.*.approve_when": "code",
    "tools.*.parameters": "parameters",
    "safe_fallback": "prose",
    "agents.*.name": "name",
    "models.*.name": "name",
    "tools.*.name": "name",
    "mcp_servers.*.name": "name",
    "memories.*.name": "name",
}
"""Places that are edited otherwise than their type says."""
COLUMNS: Mapping[str, tuple[Column, Column]] = {
    "headers_from": (Column("Header", "Authorization"), Column("Variable", "CRM_TOKEN")),
    "places": (
        Column("Argument", "customer"),
        Column(
            "Where it travels",
            options=(("path", "path"), ("query", "query"), ("header", "header"), ("body", "whole body")),
        ),
    ),
}
"""The columns of names with values, by the field's name."""
LABELS: Mapping[str, str] = {
    "name": "Name",
    "models.*.model": "Model id",
    "models.*.base_url": "Endpoint",
    "models.*.structured_output": "Structured output",
    "models.*.tool_calls": "Tool calls",
    "models.*.cheaper": "Cheaper model",
    "tools.*.target": "Target",
    "tools.*.places": "Where arguments travel",
    "tools.*.headers_from": "Headers from variables",
    "mcp_servers.*.args": "Arguments, one a line",
    "mcp_servers.*.variables": "Environment variables, one a line",
    "mcp_servers.*.headers_from": "Headers from variables",
    "mcp_servers.*.url": "Address",
    "agents.*.output_schema": "Schema of its data",
    "tools.*.approve_when": "Needs a review when, CEL",
    "tools.*.hands_over": "Its result may hand over",
    "tools.*.ends_turn": "A call of it ends the turn",
    "tools.*.capabilities": "Required capabilities, one per line",
    "agents.*.persona.allowed_capabilities": "Allowed capabilities, one a line",
    "agents.*.persona.denied_capabilities": "Denied capabilities, one a line",
    "agents.*.calls": "How it calls tools",
    "memories.*.conflicts": "Two writes of one key at once",
    "tiers.default": "Default tier",
    "tiers.allowed": "Allowed tiers",
    "example": "Example request",
    "safe_fallback": "Static answer",
    "topology.kind": "How the workers work together",
    "topology.procedure.*.agent": "Worker",
    "topology.procedure.*.reads": "Reads the artifacts of items",
    "topology.plan.goal": "Goal of the plan",
    "topology.transitions.*.when": "If",
    "topology.transitions.*.then": "Then",
    "topology.initial_speaker": "Speaks first",
    "topology.goal_target": "Continue with, if a goal is not met",
    "topology.transitions.*.restart": "Start the conversation over",
    "topology.retry_targets": "Retry targets of single workers",
    "topology.retry_target": "Failures lead back to",
    "topology.fallback_retry_target": "Else to",
    "topology.retry_targets.*.retry_target": "Leads back to",
    "topology.retry_targets.*.fallback_retry_target": "Else to",
    "topology.context": "Context variables at the beginning",
    "topology.default_target": "Target without a matching rule",
    "topology.first": "Has the request first",
    "topology.passes": "Allowed handovers",
    "topology.plan.briefs.*.agent": "Worker",
    "topology.plan.exit_criteria": "Exit criteria, one a line",
    "topology.critics": "Critics of the sides",
    "gates.unguarded": "Why credentials may pass",
    "gates.unscreened": "Why results are not screened",
    "gates.citations": "Citations",
    "gates.grounding": "Grounding level",
    "gates.guardrails.*.places": "Where it looks",
    "gates.guardrails.*.rules": "Built in rules",
    "gates.invariants.*.expression": "Condition, CEL",
    "gates.invariants.*.message": "Message when it fails",
    "gates.policies.*.text": "Policy, Cedar",
    "gates.oracle.*.expression": "Condition, CEL",
    "gates.oracle.*.message": "Message when it fails",
    "gates.oracle.*.http.url": "Address",
}
"""The labels of places whose field has no title and whose name says too little. No limit is among them, by test."""

KIND_WORDS: Mapping[str, str] = {
    "supervisor": "supervisor: all briefs at once, then joined",
    "hierarchical": "hierarchical: workers may lead teams of their own",
    "handoff": "peer handoff: one works, and passes on to another",
    "debate": "debate: sides propose and criticise in rounds",
    "sop": "procedure: one item after the other",
    "graph": "graph: rules choose the next speaker",
}
"""Each kind of topology in a few words."""


Source = Callable[[JSON], tuple[tuple[str, str], ...]]
"""From what the draft says to what may be picked: values, each with a word."""


def _shipped_rules(tree: JSON) -> tuple[tuple[str, str], ...]:
    return tuple((rule.name, f"{rule.name.replace('_', ' ')}: {rule.finds}") for rule in RULES)


def _goals(tree: JSON) -> tuple[tuple[str, str], ...]:
    """The stages, then the workers, then those of teams."""
    topology = _in(tree, "topology")
    teams = _in(topology, "teams")
    below = (_in(team, "topology") for team in (teams if isinstance(teams, dict) else {}).values())
    lists = (_in(one, "workers") for one in (topology, *below))
    named = [one for workers in lists if isinstance(workers, list) for one in workers if isinstance(one, str)]
    words = {str(stage): f"stage {stage.replace('_', '-')}" for stage in Stage} | {one: one for one in named}
    return tuple(words.items())


def _conditions(tree: JSON) -> tuple[tuple[str, str], ...]:
    return tuple((name, name) for name in here.graph_rules().conditions.names)


def _targets(tree: JSON) -> tuple[tuple[str, str], ...]:
    return tuple((name, name) for name in here.graph_rules().targets.names)


def _in(tree: JSON, name: str) -> JSON:
    return tree.get(name) if isinstance(tree, dict) else None


SOURCES: Mapping[str, Source] = {
    "gates.guardrails.*.rules": _shipped_rules,
    "policy.goal_gates.nodes": _goals,
    "topology.transitions.*.when.**.name": _conditions,
    "topology.transitions.*.then.name": _targets,
    "topology.default_target.name": _targets,
}
"""By place, ``**`` for conditions within conditions as in ``REFERS``. A place may be in ``REFERS`` as well: then what
it names is renamed with the list that it is in.
"""


def source_of(place: str) -> Source | None:
    """Return the source of a place's choices, also within a team; None where schema or draft have them."""
    place = place.removeprefix(TEAM)
    around, _, within = place.partition(".when.")
    return SOURCES.get(place) or SOURCES.get(f"{around}.when.**.{within.rpartition('.')[2]}")
