"""A fabric in words: what its pages say about tools, agents, stages and limits."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from django.conf import settings

from console.templatetags.figures import span, thousands, usd
from fabric.adapters.tools.registry import BUILTINS, builtin_of
from fabric.core.cost import Price
from fabric.core.fallbacks import chain
from fabric.core.flow import Stage
from fabric.core.gates import OracleCheck
from fabric.core.spec import AgentSpec, FabricSpec, ModelSpec, ToolSpec
from fabric.core.templates import host_of
from fabric.selectors.limits import Limit, LimitGroup, Unit
from fabric.services import here

# -- tools -----------------------------------------------------------------------------------------------------------

EFFECTS: Mapping[str, tuple[str, str, str]] = {
    "read_only": ("read-only", "ok", "check"),
    "idempotent": ("idempotent", "info", "replan"),
    "mutating": ("mutating", "warn", "edit"),
    "irreversible": ("irreversible", "danger", "alert"),
}
"""Word, tone and icon of what a tool does to the world; total over ``ToolSpec.effect``, by test."""


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


def agents_of(spec: FabricSpec) -> list[AgentLine]:
    """The agents in the fabric's order."""
    models = {model.name: _model(model) for model in spec.models}
    named = {model.name: model.fallbacks for model in spec.models}
    tools = {line.tool.name: line for line in tools_of(spec)}
    roles: dict[str, list[str]] = {}
    judging = {field: "oracle" if "oracle" in field else "grounding critic" for field in spec.judging}
    for field, name in (spec.topology.roles() | spec.judging).items():
        role = "worker" if field.startswith("workers.") else judging.get(field, field.replace("_", " "))
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
        )
        for agent in spec.agents
    ]


def _model(model: ModelSpec) -> ModelLine:
    return ModelLine(model, here.installation().price(model))


# -- stages ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class StageLine:
    """One of the five stages: who works there, and what its gates ask."""

    stage: Stage
    who: str
    by_engine: bool
    """Whether no model works there."""
    passes_on: str
    checks: tuple[str, ...]
    """What its post-gate asks beyond the schema, in order."""


def stages_of(spec: FabricSpec) -> list[StageLine]:
    """The five stages in order."""
    named = spec.topology
    fan_in = spec.policy.fan_in
    enough = {"all": "every branch must succeed", "best_effort": "whatever came back is enough"}.get(
        fan_in.mode, f"{fan_in.k} branches must succeed"
    )
    fixed = "" if named.plan is None else f"the fixed plan, {len(named.plan.briefs)} briefs"
    tau = (f"confidence: the critic's score is at least tau, {spec.policy.tau:g}; below, a person is asked",)
    asked = tuple(_policies(spec))
    fan_in_checks = (f"fan-in: {enough}", *asked, *_citations(spec), *_grounding_critic(spec))
    grounded = _grounding_critic(spec)
    oracle = tuple(f"oracle: {one.name}, {_asked(one)}" for one in spec.gates.oracle or ())
    outcome_checks = (*asked, *_length(spec), *_citations(spec), *(grounded if named.finalizer else ()), *oracle)
    validate_checks = (*asked, *(tau if named.critic else ()))
    return [
        _stage(Stage.PLAN, named.planner, fixed, "a plan with exit criteria", *_plan(spec)),
        _stage(Stage.FAN_OUT, ", ".join(named.workers), "", "one summary a branch", *asked),
        _stage(Stage.FAN_IN, named.aggregator, "the engine joins the summaries", "an aggregate", *fan_in_checks),
        _stage(Stage.VALIDATE, named.critic, "the gates alone", "the aggregate, checked", *validate_checks),
        _stage(Stage.FINALIZE, named.finalizer, "the aggregate is the answer", "the outcome", *outcome_checks),
    ]


def _stage(stage: Stage, agents: str | None, instead: str, passes_on: str, *checks: str) -> StageLine:
    return StageLine(stage, agents or instead, agents is None, passes_on, checks)


def _plan(spec: FabricSpec) -> Iterator[str]:
    yield "schema: every brief goes to one of the workers"
    yield f"schema: at most {spec.policy.limits.plan_branches} briefs"
    yield from _policies(spec)
    if spec.topology.plan_critic:
        yield f"critic: {spec.topology.plan_critic} accepts the plan before it goes out"


def _grounding_critic(spec: FabricSpec) -> tuple[str, ...]:
    critic = spec.gates.grounding_critic
    return (f"grounding critic: {critic} finds each statement founded",) if critic else ()


def _asked(check: OracleCheck) -> str:
    """Whom a check of the oracle asks."""
    if check.critic:
        return f"judged by {check.critic}"
    if check.http:
        return f"asked of {host_of(check.http.url)}"
    return f"asked of tool {check.tool}" if check.tool else "by its expression"


def _policies(spec: FabricSpec) -> Iterator[str]:
    if spec.gates.policies:
        names = ", ".join(one.name for one in spec.gates.policies)
        yield f"policy: permitted by the fabric's policies ({names})"


def _length(spec: FabricSpec) -> Iterator[str]:
    if spec.gates.max_outcome_chars is not None:
        yield f"invariant: at most {spec.gates.max_outcome_chars:,} characters"


def _citations(spec: FabricSpec) -> Iterator[str]:
    if spec.gates.citations != "off":
        yield "grounding: every cited document is attached"
    if spec.gates.citations == "required":
        yield "grounding: at least one attached document is cited"


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
    """A limit's value, or its default, with its unit."""
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    match limit.unit:
        case Unit.USD:
            return usd(value)
        case Unit.SECONDS:
            return span(round(value * 1_000_000))
        case Unit.MODE:
            several = isinstance(value, tuple | frozenset)
            return (", ".join(sorted(value)) or "none" if several else str(value)).replace("_", " ")
        case Unit.SCORE:
            return f"{value:g}"
        case Unit.SHARE:
            return f"{100 * value:g} % {limit.unit}"
        case Unit.TIMES:
            return f"{value:g}×"
    number = thousands(value) if isinstance(value, int) else f"{value:g}"
    return f"{number} {limit.unit.removesuffix('s') if value == 1 else limit.unit}"
