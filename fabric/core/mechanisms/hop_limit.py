"""Limits counts: hops, recursion, turns, visits and sub-agents (S0 "Hop Limit And Recursion Limit", S1 "Node visit
limits"; docs/specification/protections.md).

Stops: endless handoffs (5), nesting (8 levels, root = 1), turns of one step (25), agents alive (16) and spawned (64),
visits of one stage (off unless set). All are limits: N pass, the N+1st trips. Agents are counted over the whole
family of runs. A child run receives a part of what its parent may still start; that part counts as started until the
child has ended and returned the rest. Does not stop: a loop within the limits (the loop detector does).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Any, cast

from fabric.core.mechanisms.contract import Proposal, ProposalKind, Scope, View
from fabric.core.spec.policies.limits import Limits as Config
from fabric.core.values.flow import Stage
from fabric.core.values.frozen import replace, value
from fabric.core.values.taxonomy import PASS, Cause, Details, Evidence, FailureClass, Trip, Verdict
from fabric.core.values.words import count

if TYPE_CHECKING:
    from fabric.core.events.envelope import Event
    from fabric.core.spec.fabric import FabricSpec
    from fabric.core.spec.policies.flow_policy import FlowPolicy
    from fabric.core.state.run import Run

NAME = "hop_limit"
TITLE = "Hop, turn and sub-agent limits"
STOPS = "endless handoffs, nesting, turns, visits and sub-agents"
PAGE = "docs/specification/protections.md"
CLASSES = (FailureClass.INTER_AGENT, FailureClass.VERIFICATION)
SETTINGS: tuple[str, ...] = (
    "limits.hops",
    "limits.recursion",
    "limits.turns",
    "limits.calls_per_turn",
    "limits.plan_branches",
    "limits.max_node_visits",
    "limits.max_visits",
    "limits.visits_preset",
    "limits.sub_agents_alive",
    "limits.sub_agents_spawned",
    "limits.fan_out_inline_max",
)
UNCOUNTED = ""
SCOPE = Scope.RUN
APPLIES_TO: frozenset[ProposalKind] = frozenset({"model", "spawn", "handoff", "nest", "visit"})
OBSERVES: frozenset[str] = frozenset(
    {"stage_entered", "step_opened", "turn_opened", "handed_off", "child_spawned", "child_answered"}
)
STEERING = "You have reached the number of turns you may take. Answer with what you have."


@value()
class State:
    """Counts over the whole run, replans included."""

    hops: int = 0
    spawned: int = 0
    visits: Mapping[str, int] = field(default_factory=dict)
    """Visits by node: a stage, or an agent whose turns a graph leads to (``agent_node``)."""


def config(policy: FlowPolicy) -> Config:
    """Return this mechanism's part of the policy."""
    return policy.limits


def observe(state: State, event: Event) -> State:
    """Count handoffs and agents of a fan-out; a child as many as it may start, until it has ended."""
    fact: Any = event.fact
    if fact.kind == "child_answered":
        return replace(state, spawned=state.spawned - fact.agents_back) if fact.agents_back else state
    if fact.kind == "child_spawned":
        # Its step counted as one agent: a slice's first, or the nested run's worker, whose own agents are added.
        more = fact.agents_spawned if fact.purpose == "nested" else max(len(fact.briefs), fact.agents_spawned) - 1
        return replace(state, spawned=state.spawned + more) if more else state
    if fact.kind == "handed_off":
        return replace(state, hops=state.hops + 1)
    if fact.kind == "turn_opened":  # An agent that speaks again is no further one.
        state = replace(state, spawned=state.spawned + 1) if fact.first else state
        return _count_visit(state, agent_node(fact.agent)) if fact.chooses else state
    if fact.kind == "stage_entered":
        state = _count_visit(state, fact.stage)
    if fact.stage != "fan_out":
        return state
    opened = len(fact.agents) if fact.kind == "stage_entered" else 1
    return replace(state, spawned=state.spawned + opened)


def _count_visit(state: State, node: str) -> State:
    return replace(state, visits={**state.visits, node: state.visits.get(node, 0) + 1})


def agent_node(name: str) -> str:
    """Return the name of an agent as a node; no stage has such a name."""
    return f"agent:{name}"


def check(config: Config, state: State, proposal: Proposal, view: View) -> Verdict:
    """Refuse the first count over its limit."""
    for cause, limit, observed, unit, scope in _counts(config, state, proposal, view):
        if observed > limit:
            message = _limit_sentence(unit, observed, limit, scope, proposal)
            evidence = Evidence(limit, observed, unit, scope or "run", details=_lineage(proposal, view.run))
            return Trip(NAME, cause, evidence, message, STEERING if cause is Cause.TURN_LIMIT else "")
    return PASS


SENTENCES: Mapping[str, str] = {
    "turns": "agent {agent} has used up its turns (limit {limit})",
    "visits": "{node} has been reached as often as it may be in one run (limit {limit})",
    "hops": "agents have handed over as often as they may in one run (limit {limit})",
    "levels": "teams may reach level {limit}, and this one would be on level {observed}",
    "agents alive": "{observed} agents would work at once, and {whose} may have {limit}",
    "agents spawned": "{observed} agents would have been started, and {whose} may start {limit}",
}
"""The sentence of each limit, by the name of its count."""


def _limit_sentence(unit: str, observed: int, limit: int, scope: str, proposal: Proposal) -> str:
    whose = "this run, with its part of its family's agents," if scope == "family" else "the run"
    node = scope.replace("stage:", "stage ").replace("agent:", "agent ")
    return SENTENCES[unit].format(agent=proposal.agent, node=node, limit=limit, observed=observed, whose=whose)


def _counts(config: Config, state: State, proposal: Proposal, view: View) -> list[tuple[Cause, int, int, str, str]]:
    if proposal.kind == "model":
        if proposal.final:
            return []
        return [(Cause.TURN_LIMIT, config.turns, proposal.turn, "turns", f"step:{proposal.step_id}")]
    if proposal.kind == "visit":
        return _visits(config, state, proposal, view)
    if proposal.kind == "handoff":
        if proposal.by_rule:
            return []  # A graph limits those moves itself: max_turns, visits.
        return [(Cause.HOP_LIMIT, config.hops, state.hops + 1, "hops", "")]
    nesting = (Cause.RECURSION_LIMIT, config.recursion, proposal.depth, "levels", "")
    if proposal.kind == "nest":
        return [nesting]
    alive, spawned = caps(config, view.run)
    whose = "" if view.run.family.lineage is None else "family"
    more = proposal.promised + proposal.branches
    return [
        nesting,
        (Cause.SUB_AGENT_CAP, alive, count_working(view.run) - proposal.replaced + more, "agents alive", whose),
        (Cause.SUB_AGENT_CAP, spawned, state.spawned + _count_waiting(view.run) + more, "agents spawned", whose),
    ]


def _count_waiting(run: Run) -> int:
    """Return the agents of a fan-out that start again once their waits are over. They are allowed, and not counted as
    started yet.
    """
    return sum(1 for key in run.timers if key in run.steps and run.steps[key].stage == "fan_out")


def caps(config: Config, run: Run) -> tuple[int, int]:
    """Return the most agents of a family at work at once, and in all. The policy's limits count, for a child at most
    its parent's grant.
    """
    lineage, alive, spawned = run.family.lineage, config.sub_agents_alive, config.sub_agents_spawned
    if lineage is None:
        return alive, spawned
    return _least(alive, lineage.agents_alive), _least(spawned, lineage.agents_spawned)


def agents_left(run: Run, spec: FabricSpec) -> int:
    """Return the number of agents that a run may still start; at least one, since a plan needs a brief."""
    limits, state = spec.policy.limits, cast(State, run.guards.get(NAME, State()))
    alive, spawned = caps(limits, run)
    return max(1, min(alive - count_working(run), spawned - state.spawned - _count_waiting(run)))


def too_many_briefs(run: Run, spec: FabricSpec, briefs: int) -> list[str]:
    """Return the trips of a plan of so many briefs, before it goes out; empty: none."""
    left, most = agents_left(run, spec), spec.policy.limits.plan_branches
    if briefs <= min(left, most):
        return []
    if most <= left:
        return [f"briefs: {briefs} of them, at most {most} are allowed (limits.plan_branches)"]
    whose = "this run" if run.family.lineage is None else "this team, by its part of the whole run's agents,"
    set_in = "limits.sub_agents_alive and limits.sub_agents_spawned"
    return [f"briefs: {briefs} of them, and {whose} may start {count(left, 'more agent')} ({set_in}); hand out fewer"]


def _least(limit: int, given: int | None) -> int:
    return limit if given is None else min(limit, given)


def count_working(run: Run) -> int:
    """Return the agents at work in a run and below it. Each child counts with as many as it may have at once."""
    own = sum(1 for step in run.steps.values() if step.stage == "fan_out" and step.status == "active")
    below = (child.fact for child in run.family.alive.values() if not child.let_go)
    return own + sum(max(len(fact.briefs), fact.agents_alive) for fact in below)


DRY_RUN_VISITS = 10
"""Default visits of a node in a dry run (S1)."""


def visits_allowed(config: Config, node: str, *, dry_run: bool = False) -> int | None:
    """Return the number of visits allowed for a node; None: no limit. The node's own limit beats the graph's, which
    beats a dry run's.
    """
    return _limit_visits(config, (config.max_visits or {}).get(Stage(node)), dry_run=dry_run)


def _limit_visits(config: Config, own: int | None, *, dry_run: bool) -> int | None:
    limit = own if own is not None else config.max_node_visits
    if limit is None:
        return DRY_RUN_VISITS if dry_run else None
    return limit - 1 if config.visits_preset == "fabro" else limit


def _visits(config: Config, state: State, proposal: Proposal, view: View) -> list[tuple[Cause, int, int, str, str]]:
    if proposal.agent:
        own = view.spec.topology.visits_of(proposal.agent)
        node, scope = agent_node(proposal.agent), f"agent:{proposal.agent}"
        limit = _limit_visits(config, own, dry_run=proposal.dry_run)
    else:
        node, scope = proposal.stage, f"stage:{proposal.stage}"
        limit = visits_allowed(config, proposal.stage, dry_run=proposal.dry_run)
    if limit is None:
        return []
    return [(Cause.VISIT_LIMIT, limit, state.visits.get(node, 0) + 1, "visits", scope)]


def _lineage(proposal: Proposal, run: Run) -> dict[str, Any]:
    found = {"agent": proposal.agent, "step": proposal.step_id, "depth": proposal.depth, "branches": proposal.branches}
    return found | ancestry(run)


def ancestry(run: Run) -> Details:
    """Return the ancestry of a run for a trip's evidence: the run, its parent, the spawning command, and the root."""
    lineage = run.family.lineage
    if lineage is None:
        return {"run": run.id}
    return {
        "run": run.id,
        "parent": lineage.parent_run_id,
        "spawned_by": lineage.parent_command,
        "root": lineage.root_run_id,
    }
