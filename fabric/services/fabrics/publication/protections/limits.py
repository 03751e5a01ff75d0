"""Publication rules for limits, windows and deadlines that cannot take effect as written
(docs/specification/publication.md).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator

from fabric.core.mechanisms import loop_detector, stall_watchdog
from fabric.core.spec.fabric import FabricSpec
from fabric.core.spec.policies.budgets import amount_words
from fabric.core.spec.tree import AgentSpec, ModelSpec
from fabric.core.values.cost import Price, worst_input_tokens
from fabric.core.values.flow import Stage
from fabric.services.fabrics.yaml.document import FabricProblem


def branches(spec: FabricSpec, where: object) -> Iterator[FabricProblem]:
    """Yield a problem for a fixed plan beyond the limit of a fan-out."""
    plan, limits = spec.topology.plan, spec.policy.limits
    briefs = len(plan.briefs) if plan else 0
    made = spec.topology.count_briefs()
    if made > limits.plan_branches:
        sentence = (
            f"its parts add up to {made} briefs, more than policy.limits.plan_branches ({limits.plan_branches}) allows"
        )
        yield FabricProblem("topology.workers", f"{sentence}; shorten it or raise the limit")
    for field in ("plan_branches", "sub_agents_alive", "sub_agents_spawned"):
        if briefs > getattr(limits, field):
            sentence = (
                f"the fixed plan has {briefs} briefs, more than policy.limits.{field} ({getattr(limits, field)}) allows"
            )
            yield FabricProblem("topology.plan.briefs", f"{sentence}; shorten the plan or raise the limit")


_WINDOWS = ("identical_window", "period_window", "long_window")
OFF = "which would switch the detector off; lower it"


def _detectors(spec: FabricSpec, where: object) -> Iterator[FabricProblem]:
    """Yield a problem for each threshold above its window, which can never be reached."""
    loops, kept = spec.policy.loop_detector, loop_detector.KEPT
    found = []
    if loops.identical_threshold > loops.identical_window:
        sentence = f"{loops.identical_threshold} equal calls among the last {loops.identical_window} can never be"
        found.append(("identical_threshold", sentence))
    if loops.long_threshold > loops.long_window:
        sentence = f"{loops.long_threshold} equal calls among the last {loops.long_window} can never be"
        found.append(("long_threshold", sentence))
    if 2 * loops.period_repeats > loops.period_window:
        sentence = f"{loops.period_repeats} repetitions do not fit into the last {loops.period_window} turns"
        found.append(("period_repeats", sentence))
    if loops.said_threshold > loops.said_window:
        sentence = f"{loops.said_threshold} equal announcements in the last {loops.said_window} turns can never be"
        found.append(("said_threshold", sentence))
    if loops.said_window > loop_detector.ANSWERS_KEPT:
        sentence = f"{loops.said_window} is more than the {loop_detector.ANSWERS_KEPT} turns whose words are remembered"
        found.append(("said_window", sentence))
    for field in (*_WINDOWS, "consecutive_threshold", "stale_threshold", "failing_threshold", "ag2_threshold"):
        if (given := getattr(loops, field)) > kept:
            yield FabricProblem(
                f"policy.loop_detector.{field}",
                f"{given} is more than the {kept} calls of a step that are remembered, {OFF}",
            )
    if loops.answer_threshold > loop_detector.ANSWERS_KEPT:
        sentence = f"{loops.answer_threshold} is more than the {loop_detector.ANSWERS_KEPT} answers of a branch that are remembered"
        found.append(("answer_threshold", sentence))
    for field, sentence in found:
        yield FabricProblem(f"policy.loop_detector.{field}", f"{sentence}, {OFF}")


def quorum(spec: FabricSpec, where: object) -> Iterator[FabricProblem]:
    """Yield a problem for a quorum that no plan can meet: it would fail every run."""
    k, limits, plan = spec.policy.fan_in.k, spec.policy.limits, spec.topology.plan
    most = len(plan.briefs) if plan else limits.plan_branches
    if k is not None and k > most:
        whose = "the fixed plan has" if plan else "policy.limits.plan_branches allows"
        yield FabricProblem("policy.fan_in.k", f"a quorum of {k} can never be met, {whose} {most} briefs; lower it")


def _reminders(spec: FabricSpec, where: object) -> Iterator[FabricProblem]:
    humans = spec.policy.humans
    if humans.reminder_at >= humans.onward_at:
        sentence = f"{humans.reminder_at:g} is not before onward_at ({humans.onward_at:g}), so no reminder would come first; lower it"
        yield FabricProblem("policy.humans.reminder_at", sentence)


def _deadlines(spec: FabricSpec, where: object) -> Iterator[FabricProblem]:
    """Yield a problem for each inner deadline that is longer than the outer one."""
    for tier, given in spec.policy.deadlines.items():
        for inner, outer in (("call_s", "stage_s"), ("stage_s", "run_s")):
            if getattr(given, inner) > getattr(given, outer):
                sentence = f"{getattr(given, inner):g} s is longer than {outer} ({getattr(given, outer):g} s); lower it"
                yield FabricProblem(f"policy.deadlines.{tier}.{inner}", sentence)


def _silence(spec: FabricSpec, where: object) -> Iterator[FabricProblem]:
    """Yield a problem where a single call may take longer than the watchdog's stall time. A call under way does not
    keep the watchdog off.
    """
    if spec.policy.stall_watchdog.after_s is not None:
        return
    for tier in spec.tiers.allowed:
        call_s = spec.policy.deadlines_of(tier).call_s
        window = stall_watchdog.window_s(spec.policy, tier)
        if call_s > window:
            sentence = (
                f"a call may take {call_s:g} s in tier {tier}, and {window:g} s without an event are taken for a stall; "
                "lower call_s, raise stage_s, or set policy.stall_watchdog.after_s (seconds; 0: off)"
            )
            yield FabricProblem(f"policy.deadlines.{tier}.call_s", sentence)


def _tokens(spec: FabricSpec, where: object) -> Iterator[FabricProblem]:
    """Yield a problem for each agent whose answer may exceed its token limit. It is never called, because its worst
    case does not fit.
    """
    budget = spec.policy.budget
    own = {name: given.tokens for name, given in budget.agents.items() if given.tokens is not None}
    caps: list[tuple[str, int | None, tuple[AgentSpec, ...]]] = [("run_tokens", budget.run_tokens, spec.agents)]
    staged = [name for name, one in budget.stages.items() if one.tokens is not None]
    caps += [("stage_tokens", None if len(staged) == len(Stage) else budget.stage_tokens, spec.agents)]
    caps += [(f"stages.{name}.tokens", one.tokens, list_agents(spec, name)) for name, one in budget.stages.items()]
    caps.append(("agent_tokens", budget.agent_tokens, tuple(one for one in spec.agents if one.name not in own)))
    caps += [(f"agents.{name}.tokens", cap, (spec.agent(name),)) for name, cap in own.items()]
    for field, cap, whose in caps:
        most = max(whose, key=lambda agent: agent.max_output_tokens, default=None)
        if cap is not None and most is not None and most.max_output_tokens >= cap:
            sentence = (
                f"agent {most.name} may answer with {most.max_output_tokens:,} tokens (max_output_tokens), so that no call of it fits into {cap:,}; "
                "raise this, or lower that"
            )
            yield FabricProblem(f"policy.budget.{field}", sentence)


def money(
    spec: FabricSpec, used: Collection[str], price_of: Callable[[ModelSpec], Price | None]
) -> Iterator[FabricProblem]:
    """Yield a problem for each cap below one call of an agent, which is then never called. It names the agent with
    the dearest call.
    """
    for field, cap, whose in _caps(spec, used):
        worst = [
            (price.worst_cost(_least_input(agent), agent.max_output_tokens), agent)
            for agent in whose
            if (price := price_of(spec.model(agent.model))) is not None
        ]
        dearest, agent = max(worst, key=lambda one: one[0], default=(0, None))
        if agent is not None and cap is not None and dearest > cap:
            sentence = (
                f"{amount_words(cap, 'usd_micros')} is less than one call of agent {agent.name} may take: "
                f"its instructions and {agent.max_output_tokens:,} tokens of its answer are {amount_words(dearest, 'usd_micros')}, so that it is never asked; "
                "raise this, or lower max_output_tokens"
            )
            yield FabricProblem(f"policy.budget.{field}", sentence)
            continue
        names = {name for one in whose for name in one.tools}
        priced = [tool for tool in spec.tools if tool.name in names and cap is not None and tool.price_usd_micros > cap]
        if priced and cap is not None:
            sentence = (
                f"{amount_words(cap, 'usd_micros')} is less than one call of tool {priced[0].name} costs, "
                f"{amount_words(priced[0].price_usd_micros, 'usd_micros')}, so that it is never called; raise this"
            )
            yield FabricProblem(f"policy.budget.{field}", sentence)


def _least_input(agent: AgentSpec) -> int:
    """Return the least number of tokens that is reserved for an agent's prompt."""
    return worst_input_tokens(len(agent.instructions.encode()))


def list_agents(spec: FabricSpec, stage: Stage) -> tuple[AgentSpec, ...]:
    """Return the agents that a stage calls first, without its teams' and without those that take over."""
    named = spec.topology
    by_stage: dict[Stage, tuple[str | None, ...]] = {
        Stage.PLAN: (named.planner,),
        Stage.FAN_OUT: named.hands(),
        Stage.FAN_IN: (named.aggregator,),
        Stage.VALIDATE: (named.critic,),
        Stage.FINALIZE: (named.finalizer,),
    }
    return tuple(spec.agent(name) for name in by_stage[stage] if name is not None)


def _caps(spec: FabricSpec, used: Collection[str]) -> Iterator[tuple[str, int | None, Collection[AgentSpec]]]:
    """Yield each cap on money as field, cap, and the agents whose calls it covers."""
    budget = spec.policy.budget
    agents = [agent for agent in spec.agents if agent.name in used]
    own = {name: given.usd_micros for name, given in budget.agents.items() if given.usd_micros is not None}
    yield "run_usd_micros", budget.run_usd_micros, agents
    yield "call_usd_micros", budget.call_usd_micros, agents
    yield "fabric_hour_usd_micros", budget.fabric_hour_usd_micros, agents
    yield "agent_usd_micros", budget.agent_usd_micros, [agent for agent in agents if agent.name not in own]
    for name, cap in own.items():
        yield f"agents.{name}.usd_micros", cap, [agent for agent in agents if agent.name == name]
    for stage in Stage:
        named = budget.stages.get(stage)
        if named is not None and named.usd_micros is not None:
            yield f"stages.{stage}.usd_micros", named.usd_micros, list_agents(spec, stage)


OF_STAGES: tuple[Callable[[FabricSpec, object], Iterator[FabricProblem]], ...] = (_detectors, _deadlines, _silence)
"""Rules that are also checked for each stage with values of its own."""
LIMITS: tuple[Callable[[FabricSpec, object], Iterator[FabricProblem]], ...] = (
    branches,
    _detectors,
    quorum,
    _reminders,
    _deadlines,
    _silence,
    _tokens,
)
"""All rules, in the order in which problems are reported."""
