"""A fabric in words: what its pages say about tools, agents, stages and limits."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from django.conf import settings

from console.templatetags.figures import span, thousands, usd
from console.templatetags.marks import EFFECTS
from fabric.adapters.tools.registry import BUILTINS, builtin_of
from fabric.core.agent_budgets import AgentBudget
from fabric.core.cost import Price
from fabric.core.decision_table import Reaction
from fabric.core.fallbacks import chain
from fabric.core.flow import Stage
from fabric.core.gates import OracleCheck
from fabric.core.judges import GROUNDING_CRITIC, PLAN_CRITIC, judges_of, scored
from fabric.core.loop_names import names_of
from fabric.core.spec import AgentSpec, FabricSpec, ModelSpec
from fabric.core.spec_stages import cells_in_force
from fabric.core.spec_tools import ToolSpec
from fabric.core.taxonomy import FailureType, Tier
from fabric.core.templates import host_of
from fabric.selectors.limits import Limit, LimitGroup, Unit
from fabric.services import here

# -- tools -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ToolLine:
    """A tool, and which agents may propose it."""

    tool: ToolSpec
    word: str
    tone: str
    icon: str
    users: tuple[str, ...]

    @property
    def told(self) -> str:
        """What a model is told that it does: the fabric's words, else the built-in's own."""
        own = BUILTINS.get(builtin_of(self.tool)) if self.tool.kind == "builtin" else None
        return self.tool.description or (own.description if own else "")


def tools_of(spec: FabricSpec) -> list[ToolLine]:
    """The tools in the fabric's order, then those of its memories that an agent names."""
    named = {name for agent in spec.agents for name in agent.tools}
    return [
        ToolLine(tool, *EFFECTS[tool.effect], tuple(agent.name for agent in spec.agents if tool.name in agent.tools))
        for tool in spec.all_tools
        if tool.kind != "memory" or tool.name in named
    ]


# -- agents ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ModelLine:
    """A model with what it costs here."""

    model: ModelSpec
    price: Price | None
    """None: nobody says, so its calls are refused."""

    @property
    def shown(self) -> str:
        """The provider's id of it, or that the operator's is taken."""
        if self.model.provider == "scripted":
            return "scripted, no model"
        own = self.model.model or (settings.FABRIC_MODEL if self.model.provider == "openai" else self.model.name)
        return own or "the installation's (FABRIC_MODEL)"

    @property
    def source(self) -> str:
        """Who says so."""
        return "the fabric's own price" if self.model.price else "offline price list"


@dataclass(frozen=True, slots=True)
class AgentLine:
    """An agent with everything that its row says."""

    agent: AgentSpec
    roles: tuple[str, ...]
    """Empty: it is used nowhere."""
    model: ModelLine
    tools: tuple[ToolLine, ...]
    stand_ins: tuple[ModelLine, ...] = ()
    """The chain of fallbacks of its model, nearest first."""
    needs: tuple[str, ...] = ()
    """What a stand-in has to be capable of."""
    own: AgentBudget | None = None
    """Caps that it has of its own."""

    @property
    def output_schema(self) -> str:
        """The schema of its data, as its author would write it in JSON."""
        return json.dumps(self.agent.output_schema, ensure_ascii=False, indent=2)


def agents_of(spec: FabricSpec) -> list[AgentLine]:
    """The agents in the fabric's order."""
    models = {model.name: _model(model) for model in spec.models}
    named = {model.name: model.fallbacks for model in spec.models}
    tools = {line.tool.name: line for line in tools_of(spec)}
    roles: dict[str, list[str]] = {}
    judging = {field: "oracle" if "oracle" in field else "grounding critic" for field in spec.judging}
    for field, name in (spec.topology.roles() | spec.judging).items():
        role = judging.get(field) or _role(field)
        if role not in roles.setdefault(name, []):
            roles[name].append(role)
    return [
        AgentLine(
            agent,
            tuple(roles.get(agent.name, ())),
            models[agent.model],
            tuple(tools[name] for name in agent.tools),
            tuple(models[name] for name in chain(named, agent.model)),
            tuple(sorted(spec.needs(agent))),
            spec.policy.budget.agents.get(agent.name),
        )
        for agent in spec.agents
    ]


LISTED = {"workers": "worker", "critics": "critic of the sides"}
"""Roles that several agents may have."""


def _role(field: str) -> str:
    """What a field of a topology makes of the agent that it names."""
    whole, _, inner = field.rpartition(".topology.")
    listed = inner.partition(".")[0]
    role = LISTED.get(listed) or inner.replace("_", " ")
    return f"{role} in the team of {whole.removeprefix('teams.')}" if whole else role


def _model(model: ModelSpec) -> ModelLine:
    return ModelLine(model, here.installation().price(model))


# -- stages ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class StageLine:
    """One of the five stages: who works there, and what its gates ask, in the order in which they ask it."""

    stage: Stage
    who: str
    by_engine: bool
    """Whether no model works there."""
    passes_on: str
    before: tuple[str, ...]
    checks: tuple[str, ...]
    confidence: str
    """What follows the post-gate where somebody gives a score; empty: nobody does."""


PASSES_ON: Mapping[Stage, str] = {
    Stage.PLAN: "a plan with exit criteria",
    Stage.FAN_OUT: "one summary a branch",
    Stage.FAN_IN: "an aggregate",
    Stage.VALIDATE: "the aggregate, checked",
    Stage.FINALIZE: "the outcome",
}
"""What each stage hands on, in words; total, by test."""


def stages_of(spec: FabricSpec) -> list[StageLine]:
    """The five stages in order."""
    named = spec.topology
    fixed = "" if named.plan is None else f"the fixed plan, {len(named.plan.briefs)} briefs"
    return [
        _stage(spec, Stage.PLAN, named.planner, fixed),
        _stage(spec, Stage.FAN_OUT, ", ".join(named.workers), ""),
        _stage(spec, Stage.FAN_IN, named.aggregator, "the engine joins the summaries"),
        _stage(spec, Stage.VALIDATE, named.critic, "the gates alone"),
        _stage(spec, Stage.FINALIZE, named.finalizer, "the aggregate is the answer"),
    ]


def _stage(spec: FabricSpec, stage: Stage, agents: str | None, instead: str) -> StageLine:
    after = (check for part in CHECKS for check in part(spec, stage))
    before = _before(spec, stage)
    confidence = (
        f"confidence: a score below tau, {spec.policy.of_stage(stage).tau:g}, is put to a person"
        if scored(spec, stage)
        else ""
    )
    return StageLine(
        stage, agents or instead, agents is None, PASSES_ON[stage], tuple(before), tuple(after), confidence
    )


def _before(spec: FabricSpec, stage: Stage) -> Iterator[str]:
    yield "schema of what it is given"
    names = _policy_names(spec)
    yield f"policy: entering is permitted by the fabric's policies ({names})" if names else NO_POLICY
    yield "budget: something is left of it"
    if stage is not Stage.PLAN:
        yield "what the stage before must have passed on"


NO_POLICY = "policy: the fabric has none, so that nothing is denied"


def _schema(spec: FabricSpec, stage: Stage) -> Iterator[str]:
    yield "schema of what it passes on"
    if stage is Stage.PLAN:
        yield "schema: every brief goes to one of the workers"
        yield f"schema: at most {spec.policy.limits.plan_branches} briefs"
    if stage is Stage.FAN_IN:
        fan_in = spec.policy.fan_in
        enough = {"all": "every branch must succeed", "best_effort": "whatever came back is enough"}
        yield f"fan-in: {enough.get(fan_in.mode, f'{fan_in.k} branches must succeed')}"


def _policy(spec: FabricSpec, stage: Stage) -> Iterator[str]:
    names = _policy_names(spec)
    groups = [one for one in spec.gates.guarded if stage in one.places]
    named = [name for one in groups for name in (*one.rules, *(pattern.name for pattern in one.patterns))]
    if names:
        yield f"policy: permitted by the fabric's policies ({names})"
    if named:
        yield f"guardrails: nothing of {', '.join(dict.fromkeys(named))}"
    if not names and not named:
        yield NO_POLICY


def _policy_names(spec: FabricSpec) -> str:
    return ", ".join(one.name for one in spec.gates.policies or ())


def _invariants(spec: FabricSpec, stage: Stage) -> Iterator[str]:
    limit = spec.gates.max_outcome_chars
    if stage is Stage.FINALIZE and limit is not None:
        yield f"invariant: at most {limit:,} characters"
    for one in spec.gates.invariants or ():
        if one.stage is stage:
            yield f"invariant: {one.name}"


def _grounding(spec: FabricSpec, stage: Stage) -> Iterator[str]:
    gates = spec.gates
    if stage not in (Stage.FAN_IN, Stage.FINALIZE):
        return
    if gates.citations != "off" or gates.grounding is not None:
        yield "grounding: every cited document is attached"
    if gates.citations == "required":
        yield "grounding: at least one attached document is cited"
    if gates.matches_sources:
        yield "grounding: every quoted passage is in its source"
    if gates.grounding == "numbers":
        yield "grounding: every number is in a source or an answer of a tool, or follows from them"


def _judges(spec: FabricSpec, stage: Stage) -> Iterator[str]:
    for judge in judges_of(spec, stage):
        if judge.name == PLAN_CRITIC:
            yield f"critic: {judge.agent} accepts the plan before it goes out"
        elif judge.name == GROUNDING_CRITIC:
            yield f"grounding critic: {judge.agent} finds each statement founded"
    if stage is Stage.FINALIZE:
        yield from (f"oracle: {one.name}, {asked(one)}" for one in spec.gates.oracle or ())


def asked(check: OracleCheck) -> str:
    """Whom a check of the oracle asks."""
    if check.critic:
        return f"judged by {check.critic}"
    if check.http:
        return f"asked of {host_of(check.http.url)}"
    return f"asked of tool {check.tool}" if check.tool else "by its expression"


def falling_back(spec: FabricSpec) -> list[tuple[FailureType, Tier]]:
    """The cells, of the tiers that a run may pick, that end with the fabric's static answer, or surface where it has none."""
    asked = Reaction.SAFE_FALLBACK
    cells = [one for one in cells_in_force(spec) if any(rung.reaction is asked for rung in one.ladder.rungs)]
    return list(dict.fromkeys((one.failure, one.tier) for one in cells))


CHECKS: tuple[Callable[[FabricSpec, Stage], Iterator[str]], ...] = (_schema, _policy, _invariants, _grounding, _judges)
"""What a post-gate asks, in the gate's order (semantics.md 1)."""


# -- limits ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class LimitLine:
    """One limit as a row."""

    limit: Limit
    value: str
    default: str
    meaning: str
    """Empty where the row before says the same."""

    @property
    def path(self) -> list[str]:
        """The limit's path in parts: a narrow column breaks it between them, not within a word."""
        return self.limit.path.split(".")


def limit_lines(group: LimitGroup) -> list[LimitLine]:
    """A group's limits as rows; what several mean together is said once."""
    lines: list[LimitLine] = []
    said = ""
    for limit in group.limits:
        meaning = "" if limit.meaning == said else limit.meaning
        said = limit.meaning
        lines.append(LimitLine(limit, limit_value(limit, limit.value), limit_value(limit, limit.default), meaning))
    return lines


def limit_value(limit: Limit, value: Any) -> str:
    """A limit's value, or its default, with its unit; sentences a line each, with names as they are."""
    if value is None or value == "":
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    match limit.unit:
        case Unit.USD:
            return usd(value)
        case Unit.SECONDS:
            return span(round(value * 1_000_000))
        case Unit.MODE:
            if limit.path == "loop_detector.detectors":
                return names_of(value)
            several = isinstance(value, tuple | frozenset)
            return (", ".join(sorted(value)) or "none" if several else str(value)).replace("_", " ")
        case Unit.SENTENCES:
            return "\n".join(value) or "none"
        case Unit.SCORE:
            return f"{value:g}"
        case Unit.SHARE:
            return f"{100 * value:g} % {limit.unit}"
        case Unit.TIMES:
            return f"{value:g}×"
    number = thousands(value) if isinstance(value, int) else f"{value:g}"
    return f"{number} {limit.unit.removesuffix('s') if value == 1 else limit.unit}"
