"""What the types of a fabric cannot say of their places: which names a field refers to, what is code, labels and units. Total over the places by test.

A place is a dotted path in which ``*`` stands for a position or a key: ``agents.*.model``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from fabric.selectors.limits import Unit

Kind = Literal[
    "name", "text", "prose", "code", "integer", "number", "usd", "boolean", "choice", "reference", "picks", "order", "lines", "numbers", "json",
    "group", "items", "table",
]  # fmt: skip
"""How a place is edited. ``picks``: any of some, ``order``: several of some in order; ``group``: named fields, ``items``: a list of groups,
``table``: groups by key."""

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
"""What stands before the places of a team's topology."""
OF_STAGE = "stages.*."
"""What stands before the policy's places where one stage has a value of its own."""
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
"""Places that hold names, and the list whose names they are. ``**`` stands for conditions within conditions, as deep as they go."""
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
"""Of those with several names, where their order says something."""
KINDS: Mapping[str, Kind] = {
    "gates.policies.*.text": "code",
    "gates.invariants.*.expression": "code",
    "gates.oracle.*.expression": "code",
    "gates.guardrails.*.patterns.*.pattern": "code",
    "tools.*.approve_when": "code",
    "safe_fallback": "prose",
    "agents.*.name": "name",
    "models.*.name": "name",
    "tools.*.name": "name",
    "mcp_servers.*.name": "name",
    "memories.*.name": "name",
}
"""Places that are edited otherwise than their type says."""
LABELS: Mapping[str, str] = {
    "name": "Name",
    "models.*.model": "Model id",
    "models.*.base_url": "Endpoint",
    "models.*.context_tokens": "Context window",
    "models.*.price.input_usd_per_mtok": "Price of input",
    "models.*.price.output_usd_per_mtok": "Price of output",
    "models.*.price.cached_usd_per_mtok": "Price of cached input",
    "models.*.price.cache_write_usd_per_mtok": "Price of cache writes",
    "models.*.price.reasoning_usd_per_mtok": "Price of reasoning",
    "models.*.price.audio_in_usd_per_mtok": "Price of audio in",
    "models.*.price.audio_out_usd_per_mtok": "Price of audio out",
    "models.*.structured_output": "Answers held to a schema",
    "models.*.tool_calls": "Takes tool calls",
    "models.*.cheaper": "Cheaper stand-in",
    "tools.*.timeout_s": "Timeout",
    "tools.*.usd_per_call": "Price of one call",
    "tools.*.target": "Target",
    "tools.*.places": "Where arguments travel",
    "tools.*.headers_from": "Headers from the environment",
    "mcp_servers.*.args": "Arguments, one a line",
    "mcp_servers.*.variables": "Environment variables, one a line",
    "mcp_servers.*.headers_from": "Headers from the environment",
    "mcp_servers.*.url": "Address",
    "mcp_servers.*.timeout_s": "Timeout of one call",
    "mcp_servers.*.connect_s": "Timeout of the greeting",
    "mcp_servers.*.result_bytes": "Result, at most",
    "agents.*.output_schema": "Schema of its data",
    "tools.*.approve_when": "A person is asked when, CEL",
    "tools.*.hands_over": "Its result may hand over",
    "tools.*.ends_turn": "A call of it ends the turn",
    "tools.*.capabilities": "Capabilities that calling it takes, one a line",
    "agents.*.persona.allowed_capabilities": "Allowed capabilities, one a line",
    "agents.*.persona.denied_capabilities": "Denied capabilities, one a line",
    "agents.*.max_output_tokens": "Output, at most",
    "agents.*.calls": "How it calls tools",
    "memories.*.conflicts": "Two writes of one key at once",
    "agents.*.inline_document_chars": "Of each document, in the prompt",
    "tiers.default": "Tier of a run that asks for none",
    "tiers.allowed": "Tiers that a run may ask for",
    "example": "Example request",
    "safe_fallback": "Static answer",
    "topology.kind": "How the workers work together",
    "topology.procedure.*.agent": "Worker",
    "topology.procedure.*.reads": "Reads the artifacts of items",
    "topology.plan.goal": "Goal of the plan",
    "topology.transitions.*.when": "If",
    "topology.transitions.*.then": "Then",
    "topology.transitions.*.order": "Order",
    "topology.initial_speaker": "Speaks first",
    "topology.max_visits": "Turns of single workers, at most",
    "topology.goal_target": "Goes on with, where a goal is not met",
    "topology.transitions.*.restart": "Begins the conversation anew",
    "topology.retry_targets": "Retry targets of single workers",
    "topology.retry_target": "Failures lead back to",
    "topology.fallback_retry_target": "Else to",
    "topology.retry_targets.*.retry_target": "Leads back to",
    "topology.retry_targets.*.fallback_retry_target": "Else to",
    "topology.max_turns": "Turns, at most",
    "topology.context": "Context variables at the beginning",
    "topology.default_target": "Target where no rule holds",
    "topology.ttl_s": "Closed after",
    "topology.first": "Has the request first",
    "topology.passes": "Who may pass on to whom",
    "topology.plan.briefs.*.agent": "Worker",
    "topology.plan.exit_criteria": "Exit criteria, one a line",
    "topology.rounds": "Rounds",
    "topology.critics": "Critics of the sides",
    "topology.teams.*.run_usd_micros": "Own cap of money",
    "topology.teams.*.run_tokens": "Own cap of tokens",
    "gates.max_outcome_chars": "Longest answer",
    "gates.unguarded": "Why credentials may pass",
    "gates.unscreened": "Why results are not screened",
    "gates.citations": "Citations",
    "gates.grounding": "Grounding level",
    "gates.guardrails.*.places": "Where it looks",
    "gates.guardrails.*.rules": "Shipped rules",
    "gates.invariants.*.expression": "Condition, CEL",
    "gates.invariants.*.message": "Said when it does not hold",
    "gates.policies.*.text": "Policy, Cedar",
    "gates.oracle.*.expression": "Condition, CEL",
    "gates.oracle.*.message": "Said when it does not hold",
    "gates.oracle.*.http.url": "Address",
    "gates.oracle.*.http.timeout_s": "Timeout of one attempt",
    "decision_table.*.*.deviation": "Why it may be laxer",
    "policy.budget.agents.*.usd_micros": "Own cap of money",
    "policy.budget.stages.*.usd_micros": "Own cap of money",
    "policy.budget.stages.*.tokens": "Own cap of tokens",
    "policy.budget.agents.*.tokens": "Own cap of tokens",
    "policy.breakers_deviation": "Why no breaker stands in front of a provider",
    "policy.breakers.*.scope": "Stands in front of",
    "policy.breakers.*.only": "Only these",
    "policy.breakers.*.cooldown_s": "Cooldown",
    "policy.breakers.*.half_open_max": "Probes at once",
    "policy.breakers.*.success_threshold": "Probes to close it",
    "policy.breakers.*.max_trips": "Trips until it stops for good",
    "policy.breakers.*.reset_on_success": "Closing forgets trips",
    "policy.breakers.*.on_open": "Fallback while it is open",
    "policy.breakers.*.signals.*.names": "Counts",
    "policy.breakers.*.signals.*.window_s": "Window",
    "policy.breakers.*.signals.*.min_calls": "Judged from",
    "policy.retry_layers.stages.*.fallback_retry_target": "Retry target after that",
    "policy.retry_layers.stages.*.max_retries": "Node retries",
    "policy.retry_layers.stages.*.allow_partial": "A gap may stay",
}
"""Labels that are not the field's name in words; those of the policy are in ``LIMITS``."""
UNITS: Mapping[str, str] = {
    "policy.budget.agents.*.usd_micros": str(Unit.USD),
    "policy.budget.stages.*.usd_micros": str(Unit.USD),
    "policy.budget.stages.*.tokens": str(Unit.TOKENS),
    "policy.budget.agents.*.tokens": str(Unit.TOKENS),
    "topology.teams.*.run_usd_micros": str(Unit.USD),
    "topology.teams.*.run_tokens": str(Unit.TOKENS),
    "policy.breakers.*.cooldown_s": "s",
    "policy.breakers.*.signals.*.window_s": "s",
    "policy.breakers.*.signals.*.min_calls": "calls",
    "models.*.context_tokens": "tokens",
    "topology.ttl_s": "s",
    "topology.max_visits.*": str(Unit.VISITS),
    "topology.expectations.*.seconds": "s",
    "models.*.price.input_usd_per_mtok": "$ per million tokens",
    "models.*.price.output_usd_per_mtok": "$ per million tokens",
    "models.*.price.cached_usd_per_mtok": "$ per million tokens",
    "models.*.price.cache_write_usd_per_mtok": "$ per million tokens",
    "models.*.price.reasoning_usd_per_mtok": "$ per million tokens",
    "models.*.price.audio_in_usd_per_mtok": "$ per million tokens",
    "models.*.price.audio_out_usd_per_mtok": "$ per million tokens",
    "tools.*.timeout_s": "s",
    "tools.*.usd_per_call": "$ a call",
    "mcp_servers.*.timeout_s": "s",
    "mcp_servers.*.connect_s": "s",
    "mcp_servers.*.result_bytes": "bytes",
    "agents.*.max_output_tokens": "tokens",
    "agents.*.inline_document_chars": "characters",
    "gates.max_outcome_chars": "characters",
    "gates.oracle.*.http.timeout_s": "s",
}


EXTRA_FIELDS: Mapping[str, tuple[str, ...]] = {"policy.breakers": ("preset",)}
"""Fields that an author may write and that are gone once a fabric is read: a breaker may be a preset and what differs from it."""


KIND_WORDS: Mapping[str, str] = {
    "supervisor": "supervisor: all briefs at once, then joined",
    "hierarchical": "hierarchical: workers may lead teams of their own",
    "handoff": "peer handoff: one works, and passes on to another",
    "debate": "debate: sides propose and criticise in rounds",
    "sop": "procedure: one item after the other",
    "graph": "graph: rules say who speaks next",
}
"""What each kind of topology is, in a few words."""
