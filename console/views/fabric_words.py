"""A fabric in words and pictures' parts: what its pages say about agents, stages, limits and rungs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from django.conf import settings

from console.templatetags.figures import span, thousands, usd
from fabric.adapters.providers.prices import price_of
from fabric.adapters.tools.registry import BUILTINS, builtin_of
from fabric.core.cost import Price
from fabric.core.decision_table import (
    COUNTED_PER,
    DEFAULT_TABLE,
    Accompaniment,
    CountScope,
    Ladder,
    Reaction,
    Rung,
    table_with,
)
from fabric.core.flow import Stage
from fabric.core.spec import AgentSpec, FabricSpec, ModelSpec, ToolSpec
from fabric.core.taxonomy import FailureType, Tier
from fabric.selectors.limits import Limit, LimitGroup, Unit

# -- effects -----------------------------------------------------------------------------------------------------------

EFFECTS: Mapping[str, tuple[str, str, str]] = {
    "read_only": ("read-only", "ok", "check"),
    "idempotent": ("idempotent", "info", "replan"),
    "mutating": ("mutating", "warn", "edit"),
    "irreversible": ("irreversible", "danger", "alert"),
}
"""Word, tone and icon of what a tool does to the world; total over ``ToolSpec.effect``, by test."""

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
        return self.model.model or settings.FABRIC_MODEL or "the installation's (FABRIC_MODEL)"

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
    tools: tuple[tuple[ToolSpec, str, str, str], ...]
    """Each with the word, tone and icon of its effect."""


def agents_of(spec: FabricSpec) -> list[AgentLine]:
    """The agents in the fabric's order."""
    models = {model.name: _model(model) for model in spec.models}
    roles: dict[str, list[str]] = {}
    for field, name in spec.topology.roles().items():
        role = "worker" if field.startswith("workers.") else field
        if role not in roles.setdefault(name, []):
            roles[name].append(role)
    return [
        AgentLine(
            agent,
            tuple(roles.get(agent.name, ())),
            models[agent.model],
            tuple((spec.tool(name), *EFFECTS[spec.tool(name).effect]) for name in agent.tools),
        )
        for agent in spec.agents
    ]


def _model(model: ModelSpec) -> ModelLine:
    known = price_of(model, default_model=settings.FABRIC_MODEL, default_url=settings.FABRIC_MODEL_URL)
    return ModelLine(model, known)


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
    """The tools in the fabric's order."""
    return [
        ToolLine(tool, *EFFECTS[tool.effect], tuple(agent.name for agent in spec.agents if tool.name in agent.tools))
        for tool in spec.tools
    ]


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
    return [
        StageLine(Stage.PLAN, named.planner or fixed, named.planner is None, "a plan with exit criteria", tuple(_plan(spec))),
        StageLine(Stage.FAN_OUT, ", ".join(named.workers), False, "one summary a branch", ()),
        StageLine(Stage.FAN_IN, named.aggregator or "the engine joins the summaries", named.aggregator is None, "an aggregate", (f"fan-in: {enough}", *_citations(spec))),
        StageLine(Stage.VALIDATE, named.critic or "the gates alone", named.critic is None, "the aggregate, checked", tau if named.critic else ()),
        StageLine(Stage.FINALIZE, named.finalizer or "the aggregate is the answer", named.finalizer is None, "the outcome", (*_length(spec), *_citations(spec))),
    ]  # fmt: skip


def _plan(spec: FabricSpec) -> Iterator[str]:
    yield "invariant: every brief goes to one of the workers"
    yield f"invariant: at most {spec.policy.limits.plan_branches} briefs"


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
    match limit.unit:
        case Unit.USD:
            return usd(value)
        case Unit.SECONDS:
            return span(round(value * 1_000_000))
        case Unit.MODE:
            return str(value).replace("_", " ")
        case Unit.SCORE:
            return f"{value:g}"
        case Unit.SHARE:
            return f"{100 * value:g} % {limit.unit}"
        case Unit.TIMES:
            return f"{value:g}×"
    number = thousands(value) if isinstance(value, int) else f"{value:g}"
    return f"{number} {limit.unit.removesuffix('s') if value == 1 else limit.unit}"


# -- the decision table ------------------------------------------------------------------------------------------------

REACTIONS: Mapping[Reaction, tuple[str, str]] = {
    Reaction.HALT: ("halt", "lock"),
    Reaction.ABORT: ("abort", "block"),
    Reaction.ESCALATE: ("escalate", "human"),
    Reaction.SURFACE: ("surface", "surface"),
    Reaction.TERMINATE: ("terminate", "stop"),
    Reaction.REPLAN: ("replan", "replan"),
    Reaction.HANDOVER: ("handover", "handover"),
    Reaction.SAFE_FALLBACK: ("safe fallback", "recov"),
    Reaction.FALLBACK_MODEL: ("fallback model", "swap"),
    Reaction.CHEAPER_MODEL: ("cheaper model", "swap"),
    Reaction.WAIT_FOR_BREAKER: ("wait for breaker", "wait"),
    Reaction.INJECT: ("inject", "inject"),
    Reaction.RETRY: ("retry", "retry"),
}
"""Word and icon of each reaction; total over ``Reaction``, by test."""

ACCOMPANIED: Mapping[Accompaniment, str] = {
    Accompaniment.BLOCK: "block",
    Accompaniment.ALERT: "alert",
    Accompaniment.TICKET: "ticket",
}
"""Words for what goes with a reaction; total, by test."""

PER: Mapping[CountScope, str] = {
    CountScope.CALL: "a call",
    CountScope.STEP: "a step",
    CountScope.STAGE: "a stage",
    CountScope.UNBOUNDED: "",
}
"""What a rung's uses are counted for; total, by test."""


@dataclass(frozen=True, slots=True)
class RungLine:
    """One rung as it is drawn."""

    words: str
    icon: str
    times: int | None
    per: str
    last: bool


@dataclass(frozen=True, slots=True)
class Cell:
    """One cell of the table: its ladder, and what it differs in."""

    tier: Tier
    rungs: tuple[RungLine, ...]
    standard: str
    """The default ladder in words, where this one is another; empty: it is the default."""
    deviation: str
    """Why it may be laxer than required."""


@dataclass(frozen=True, slots=True)
class Row:
    """One failure type with its three cells."""

    failure: FailureType
    cells: tuple[Cell, ...]


def table_of(spec: FabricSpec) -> list[Row]:
    """The decision table in force: 8 rows of 3 cells."""
    table = table_with(spec.decision_table)
    return [Row(failure, tuple(_cell(failure, tier, table[failure, tier]) for tier in Tier)) for failure in FailureType]


def _cell(failure: FailureType, tier: Tier, ladder: Ladder) -> Cell:
    default = DEFAULT_TABLE[failure, tier]
    changed = ladder.rungs != default.rungs
    return Cell(tier, rungs_of(ladder), spoken_ladder(default) if changed else "", ladder.deviation.strip())


def rungs_of(ladder: Ladder) -> tuple[RungLine, ...]:
    """A ladder's rungs, the last one marked."""
    return tuple(_rung(rung, rung is ladder.rungs[-1]) for rung in ladder.rungs)


def _rung(rung: Rung, last: bool) -> RungLine:
    word, icon = REACTIONS[rung.reaction]
    if rung.reaction is Reaction.ESCALATE and rung.role != "reviewer":
        word = f"{word} to {rung.role}"
    if rung.critic:
        word = f"{word} with critic"
    parts = [ACCOMPANIED[one] for one in rung.with_]
    blocks = Accompaniment.BLOCK in rung.with_
    return RungLine(
        " + ".join([*parts, word]), "lock" if blocks else icon, rung.times, PER[COUNTED_PER[rung.reaction]], last
    )


def spoken_ladder(ladder: Ladder) -> str:
    """A ladder on one line: ``retry ×2 → escalate``."""
    return " → ".join(f"{rung.words} ×{rung.times}" if rung.times else rung.words for rung in rungs_of(ladder))
