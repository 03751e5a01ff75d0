"""Describes a fabric in words: its tools, agents, stages and limits."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from django.conf import settings

from console.templatetags.figures import span, thousands, usd
from console.templatetags.marks import EFFECTS
from fabric.core.schema.limits import Unit
from fabric.core.spec.fabric import FabricSpec
from fabric.core.spec.policies.budgets import AgentBudget
from fabric.core.spec.policies.decision_table import Reaction
from fabric.core.spec.policies.fallbacks import chain
from fabric.core.spec.policies.gates import OracleCheck
from fabric.core.spec.policies.loop_limits import find_names
from fabric.core.spec.stages import cells_in_force
from fabric.core.spec.tools import ToolSpec
from fabric.core.spec.tree import AgentSpec, ModelSpec
from fabric.core.state.judges import GROUNDING_CRITIC, PLAN_CRITIC, is_scored, list_judges
from fabric.core.texts.templates import read_host
from fabric.core.values.cost import Price
from fabric.core.values.flow import Stage
from fabric.core.values.taxonomy import FailureType, Tier
from fabric.selectors.fabrics.limits import LimitGroup, LimitInForce
from fabric.services.installation import facts as here
from fabric.tools.runner import BUILTINS, find_builtin

# -- tools -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ToolLine:
    """A tool, and the agents that may propose it."""

    tool: ToolSpec
    word: str
    tone: str
    icon: str
    users: tuple[str, ...]

    @property
    def model_description(self) -> str:
        """Return the description that a model gets of the tool: the fabric's words, else the built-in's own."""
        own = BUILTINS.get(find_builtin(self.tool)) if self.tool.kind == "builtin" else None
        return self.tool.description or (own.description if own else "")


def list_tools(spec: FabricSpec) -> list[ToolLine]:
    """Return the tools in the fabric's order, then those of its memories that an agent names."""
    named = {name for agent in spec.agents for name in agent.tools}
    return [
        ToolLine(tool, *EFFECTS[tool.effect], tuple(agent.name for agent in spec.agents if tool.name in agent.tools))
        for tool in spec.all_tools
        if tool.kind != "memory" or tool.name in named
    ]


# -- agents ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ModelLine:
    """A model and its price."""

    model: ModelSpec
    price: Price | None
    """Price; None if unknown, so that its calls are refused."""

    @property
    def id_words(self) -> str:
        """Return the provider's id of the model, or say that the operator's is taken."""
        if self.model.provider == "scripted":
            return "scripted, no model"
        own = self.model.model or (settings.FABRIC_MODEL if self.model.provider == "openai" else self.model.name)
        return own or "the installation's (FABRIC_MODEL)"

    @property
    def source(self) -> str:
        """Return the source of the price."""
        return "the fabric's own price" if self.model.price else "offline price list"


@dataclass(frozen=True, slots=True)
class AgentLine:
    """An agent with the texts of its row."""

    agent: AgentSpec
    roles: tuple[str, ...]
    """Roles of the agent; empty if it is used nowhere."""
    model: ModelLine
    tools: tuple[ToolLine, ...]
    fallbacks: tuple[ModelLine, ...] = ()
    """Fallbacks of its model, nearest first."""
    needs: tuple[str, ...] = ()
    """Capabilities that a fallback model needs."""
    own: AgentBudget | None = None
    """Caps of the agent itself; None without any."""

    @property
    def output_schema(self) -> str:
        """Return the schema of its data, as its author would write it in JSON."""
        return json.dumps(self.agent.output_schema, ensure_ascii=False, indent=2)


def list_agents(spec: FabricSpec) -> list[AgentLine]:
    """Return the agents in the fabric's order."""
    models = {model.name: _model(model) for model in spec.models}
    named = {model.name: model.fallbacks for model in spec.models}
    tools = {line.tool.name: line for line in list_tools(spec)}
    roles: dict[str, list[str]] = {}
    judging = {field: "oracle" if "oracle" in field else "grounding critic" for field in spec.judge_agents}
    for field, name in (spec.topology.roles() | spec.judge_agents).items():
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
    """Return the role that a field of a topology gives to its agent."""
    whole, _, inner = field.rpartition(".topology.")
    listed = inner.partition(".")[0]
    role = LISTED.get(listed) or inner.replace("_", " ")
    return f"{role} in the team of {whole.removeprefix('teams.')}" if whole else role


def _model(model: ModelSpec) -> ModelLine:
    return ModelLine(model, here.installation().price(model))


# -- stages ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class StageLine:
    """One of the five stages: its workers, and the checks of its gates in their order."""

    stage: Stage
    who: str
    by_engine: bool
    """True if no model works there."""
    passes_on: str
    before: tuple[str, ...]
    checks: tuple[str, ...]
    confidence: str
    """Consequence of the score after the post-gate; empty if no score is given."""


PASSES_ON: Mapping[Stage, str] = {
    Stage.PLAN: "a plan with exit criteria",
    Stage.FAN_OUT: "one summary a branch",
    Stage.FAN_IN: "an aggregate",
    Stage.VALIDATE: "the aggregate, checked",
    Stage.FINALIZE: "the outcome",
}
"""Product of each stage, in words; total, by test."""


def list_stages(spec: FabricSpec) -> list[StageLine]:
    """Return the five stages in order."""
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
    before = _list_earlier_checks(spec, stage)
    confidence = (
        f"confidence: a score below the needed score, {spec.policy.of_stage(stage).tau:g}, goes to a person"
        if is_scored(spec, stage)
        else ""
    )
    return StageLine(
        stage, agents or instead, agents is None, PASSES_ON[stage], tuple(before), tuple(after), confidence
    )


def _list_earlier_checks(spec: FabricSpec, stage: Stage) -> Iterator[str]:
    yield "schema of what it is given"
    names = _policy_names(spec)
    yield f"policy: entering is permitted by the fabric's policies ({names})" if names else NO_POLICY
    yield "budget: something is left of it"
    if stage is not Stage.PLAN:
        yield "stage: the one before passed on its result"


NO_POLICY = "policy: none, so nothing is denied"


def _schema(spec: FabricSpec, stage: Stage) -> Iterator[str]:
    yield "schema of what it passes on"
    if stage is Stage.PLAN:
        yield "schema: every brief goes to one of the workers"
        yield f"schema: at most {spec.policy.limits.plan_branches} briefs"
    if stage is Stage.FAN_IN:
        fan_in = spec.policy.fan_in
        enough = {"all": "every branch must succeed", "best_effort": "any result is enough"}
        yield f"fan-in: {enough.get(fan_in.mode, f'{fan_in.k} branches must succeed')}"


def _policy(spec: FabricSpec, stage: Stage) -> Iterator[str]:
    names = _policy_names(spec)
    groups = [one for one in spec.gates.guardrails_in_force if stage in one.places]
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


def _describe_grounding(spec: FabricSpec, stage: Stage) -> Iterator[str]:
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
    for judge in list_judges(spec, stage):
        if judge.name == PLAN_CRITIC:
            yield f"critic: {judge.agent} accepts the plan before it goes out"
        elif judge.name == GROUNDING_CRITIC:
            yield f"grounding critic: {judge.agent} finds each statement founded"
    if stage is Stage.FINALIZE:
        yield from (f"oracle: {one.name}, {name_judge(one)}" for one in spec.gates.oracle or ())


def name_judge(check: OracleCheck) -> str:
    """Return the judge of an oracle's check."""
    if check.critic:
        return f"judged by {check.critic}"
    if check.http:
        return f"asked of {read_host(check.http.url)}"
    return f"asked of tool {check.tool}" if check.tool else "by its expression"


def falling_back(spec: FabricSpec) -> list[tuple[FailureType, Tier]]:
    """Return the cells of allowed tiers that end with the fabric's static answer, or surface where it has none."""
    asked = Reaction.SAFE_FALLBACK
    cells = [one for one in cells_in_force(spec) if any(rung.reaction is asked for rung in one.ladder.rungs)]
    return list(dict.fromkeys((one.failure, one.tier) for one in cells))


CHECKS: tuple[Callable[[FabricSpec, Stage], Iterator[str]], ...] = (
    _schema,
    _policy,
    _invariants,
    _describe_grounding,
    _judges,
)
"""Checks of a post-gate, in the gate's order (docs/specification/stages.md)."""


# -- limits ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class LimitLine:
    """One limit as a row."""

    limit: LimitInForce
    value: str
    default: str

    @property
    def path(self) -> list[str]:
        """Return the limit's path in parts: a narrow column breaks it between them, not within a word."""
        return self.limit.path.split(".")


def limit_lines(group: LimitGroup) -> list[LimitLine]:
    """Return a group's limits as rows."""
    return [LimitLine(one, limit_value(one, one.value), limit_value(one, one.default)) for one in group.limits]


def limit_value(limit: LimitInForce, value: Any) -> str:
    """Return a limit's value, or its default, with its unit. Sentences and names stand in a line each."""
    if value is None or value == "":
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if limit.path == "loop_detector.detectors":
        return find_names(value)
    match limit.unit:
        case None if isinstance(value, str):
            return value.replace("_", " ")
        case None:
            return "\n".join(value) or "none"
        case Unit.USD | Unit.USD_A_MINUTE:
            return usd(value) if limit.unit is Unit.USD else f"{usd(value)} a minute"
        case Unit.SECONDS:
            return span(round(value * 1_000_000))
        case Unit.SCORE:
            return f"{value:g}"
        case Unit.SHARE:
            return f"{100 * value:g} % {limit.unit}"
        case Unit.TIMES:
            return f"{value:g}×"
    number = thousands(value) if isinstance(value, int) else f"{value:g}"
    return f"{number} {limit.unit.removesuffix('s') if value == 1 else limit.unit}"
