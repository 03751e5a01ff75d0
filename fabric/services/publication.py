"""What every fabric must have before it can be published (semantics.md 8): a table of rules, each naming the field that it is about.

Deadlines, hop, recursion and retry limits, the gates and the loop detectors have defaults that are always in force. So these rules ask for
what no default can give: money, prices, people. And they ask for what an author could switch off by a number.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

from fabric.adapters.gate_evaluators import gate_problems
from fabric.adapters.providers.keys import origin_text
from fabric.adapters.providers.prices import Operator, address_of, price_of
from fabric.adapters.providers.wire import origin
from fabric.adapters.tools import registry
from fabric.adapters.tools.outbound import Gate
from fabric.adapters.tools.permits import NOTHING, Permits
from fabric.core import spec_persona
from fabric.core.cost import Price
from fabric.core.decision_table import DEFAULT_TABLE, Accompaniment, Ladder, Reaction
from fabric.core.fallbacks import chain
from fabric.core.graph.registry import BUILT_IN, Registry
from fabric.core.key_caps import KeyCap
from fabric.core.spec import FabricSpec, ModelSpec
from fabric.core.spec_stages import OwnCell, cells_in_force
from fabric.core.taxonomy import FailureType, Tier
from fabric.core.workspace_policy.policy import NOTHING as NO_POLICY
from fabric.core.workspace_policy.policy import WorkspacePolicy
from fabric.services import (
    publication_breakers,
    publication_callables,
    publication_effects,
    publication_fallbacks,
    publication_graphs,
    publication_limits,
    publication_mcp,
    publication_memories,
    publication_models,
    publication_never,
    publication_outputs,
    publication_people,
    publication_policy,
    publication_retries,
    publication_stages,
    publication_teams,
    publication_weak,
)
from fabric.services.fabric_yaml import Problem
from fabric.services.publication_judges import judge_problems
from fabric.services.publication_limits import LIMITS

REPLANS_MAX = 2
"""semantics.md 1: at most two replans a stage."""


@dataclass(frozen=True, slots=True)
class Installation:
    """What publication knows of where the fabric will run."""

    gate: Gate
    permits: Permits = NOTHING
    default_model: str = ""
    """FABRIC_MODEL, and below FABRIC_MODEL_URL: for models that name neither."""
    default_url: str = ""
    urls: Mapping[str, str] | None = None
    """The operator's addresses of the other providers, by provider."""
    providers: frozenset[str] = frozenset()
    """Names of the provider adapters; empty: not known, and not checked."""
    held: frozenset[str] | None = None
    """Users who may be asked, and the roles that they have; None: not known, and not checked."""
    people: Mapping[str, frozenset[str]] | None = None
    """The same by person; None: not known, and not checked."""

    registry: Registry = BUILT_IN
    """Conditions and targets of graphs that are registered here."""

    extra_body: frozenset[str] = frozenset()
    """Fields that the operator lets fabrics send to a model's endpoint (FABRIC_EXTRA_BODY)."""
    below_list: frozenset[str] = frozenset()
    """Models whose own price may be below the list's (FABRIC_BELOW_LIST_PRICE)."""
    policy: WorkspacePolicy = NO_POLICY
    """The workspace's."""
    key_caps: tuple[KeyCap, ...] = ()
    """Caps of keys: the operator's (FABRIC_KEY_CAPS), and the workspace's."""

    @property
    def operator(self) -> Operator:
        """What the operator says of models."""
        return Operator(self.default_model, self.default_url, self.urls or {}, self.below_list)

    def caps_of(self, model: ModelSpec) -> tuple[KeyCap, ...]:
        """The caps of the keys at a model's endpoint: the operator's, then the workspace's."""
        if not self.key_caps:
            return ()
        found = origin(address_of(model, self.operator))
        at = origin_text(found) if found else ""
        return tuple(one for one in self.key_caps if one.origin == at)

    def operator_for(self, model: ModelSpec) -> Operator:
        """What the operator says of a model: where its key has a cap, no price is below the list's."""
        return replace(self.operator, below_list=frozenset()) if self.caps_of(model) else self.operator

    def price(self, model: ModelSpec) -> Price | None:
        """What a model costs here; None when nobody says."""
        return price_of(model, self.operator_for(model))


@dataclass(frozen=True, slots=True)
class Deviation:
    """A cell that is laxer than required, and the author's reason for it."""

    path: str
    what: str
    reason: str


Rule = Callable[[FabricSpec, Installation], Iterator[Problem]]


def publication_problems(spec: FabricSpec, installation: Installation | None = None) -> list[Problem]:
    """What keeps a fabric from being published, in the order of the rules; empty when nothing does."""
    where = installation or Installation(Gate())
    return [problem for rule in RULES for problem in rule(spec, where)]


# -- tools, agents ----------------------------------------------------------------------------------------------------


def _tools(spec: FabricSpec, where: Installation) -> Iterator[Problem]:
    for n, tool in enumerate(spec.tools):
        for sentence in registry.problems(tool, where.gate, where.permits):
            yield Problem(f"tools.{n}", sentence)


def _tool_users(spec: FabricSpec, where: Installation) -> Iterator[Problem]:
    for n, agent in enumerate(spec.agents):
        if agent.tools and not spec.model(agent.model).tool_calls:
            sentence = f"agent {agent.name!r} has tools, but model {agent.model!r} takes no tool calls; take one of the two away"
            yield Problem(f"agents.{n}.tools", sentence)


def _judges(spec: FabricSpec, where: Installation) -> Iterator[Problem]:
    for path, sentence in judge_problems(spec, where.gate):
        yield Problem(path, sentence)


def _stand_ins(spec: FabricSpec, where: Installation) -> Iterator[Problem]:
    yield from publication_fallbacks.incapable(spec)


def _on_open(spec: FabricSpec, where: Installation) -> Iterator[Problem]:
    yield from publication_fallbacks.missing(spec)


def _breakers(spec: FabricSpec, where: Installation) -> Iterator[Problem]:
    yield from publication_breakers.overlapping(spec)
    for path, sentence in publication_retries.unguarded(spec):
        yield Problem(path, sentence)


def _gates(spec: FabricSpec, where: Installation) -> Iterator[Problem]:
    for path, sentence in gate_problems(spec):
        yield Problem(path, sentence)
    yield from publication_never.holding(spec)


def _retries(spec: FabricSpec, where: Installation) -> Iterator[Problem]:
    for path, sentence in publication_retries.problems(spec):
        yield Problem(path, sentence)


# -- the decision table ------------------------------------------------------------------------------------------------


def _people(spec: FabricSpec, where: Installation) -> Iterator[Problem]:
    found = [*publication_people.without_reviewers(spec)]
    if where.held is not None:
        found += publication_people.without_role(spec, where.held)
    if where.people is not None:
        found += publication_people.too_few(spec, where.people)
    for path, sentence in found:
        yield Problem(path, sentence)


def _replans(spec: FabricSpec, where: Installation) -> Iterator[Problem]:
    limit = spec.policy.limits.replans_per_stage
    cells = (cell.ladder for cell in spec.cells)
    if limit > REPLANS_MAX and not any(cell.deviation and replans(cell) > REPLANS_MAX for cell in cells):
        sentence = f"{limit} replans a stage, where at most {REPLANS_MAX} are allowed"
        yield Problem(
            "policy.limits.replans_per_stage",
            f"{sentence}; lower it, or give the cell that needs more a `deviation` with the reason",
        )


def _fallbacks(spec: FabricSpec, where: Installation) -> Iterator[Problem]:
    """A cell of the author's own that says safe_fallback has something to fall back to."""
    for cell in _falling_back(spec):
        if cell.own:
            sentence = "says safe_fallback, and the fabric has no static answer; give it one in safe_fallback, or let the cell say surface"
            yield Problem(cell.path, sentence)


def _falling_back(spec: FabricSpec) -> list[OwnCell]:
    """The cells in force that say safe_fallback while there is none."""
    if spec.safe_fallback is not None:
        return []
    asked = Reaction.SAFE_FALLBACK
    return [cell for cell in cells_in_force(spec) if any(rung.reaction is asked for rung in cell.ladder.rungs)]


def _deviations(spec: FabricSpec, where: Installation) -> Iterator[Problem]:
    for path, what, ladder in _lax_cells(spec):
        if not ladder.deviation.strip():
            yield Problem(path, f"{what}; follow it, or give the cell a `deviation` with the reason")


def deviations(spec: FabricSpec) -> list[Deviation]:
    """The cells, tools and limits that are laxer than required, with their reasons."""
    cells = [Deviation(path, what, ladder.deviation.strip()) for path, what, ladder in _lax_cells(spec)]
    what = "it is called without a person's approval, although it cannot be undone"
    tools = [
        Deviation(f"tools.{n}.approval", what, tool.deviation.strip())
        for n, tool in enumerate(spec.tools)
        if tool.approval == "waived"
    ]
    gates = [
        Deviation(path, off, reason)
        for path, off, reason in (
            ("gates.unguarded", "its outcome is not searched for credentials", spec.gates.unguarded),
            ("gates.unscreened", "results are not screened for instructions before a change", spec.gates.unscreened),
        )
        if reason
    ]
    return cells + tools + gates + [Deviation(*lax) for lax in publication_retries.laxer(spec)]


def _lax_cells(spec: FabricSpec) -> Iterator[tuple[str, str, Ladder]]:
    for cell in spec.cells:
        for what in _lax(cell.failure, cell.tier, cell.ladder):
            yield cell.path, what, cell.ladder


def _lax(failure: FailureType, tier: Tier, ladder: Ladder) -> Iterator[str]:
    """How a cell is laxer than semantics.md 3 requires, a sentence each without its remedy."""
    required, last = DEFAULT_TABLE[failure, tier], ladder.rungs[-1]
    if replans(ladder) > REPLANS_MAX:
        yield f"it replans {replans(ladder)} times, where at most {REPLANS_MAX} are allowed"
    blocks = any(Accompaniment.BLOCK in rung.with_ for rung in required.rungs)
    if blocks and not all(Accompaniment.BLOCK in rung.with_ for rung in ladder.rungs):
        yield "it lets the payload through, where each rung must block it"
    if tier is not Tier.HIGH_STAKES:
        return
    for rung in ladder.rungs:
        if rung.reaction in _SOFT:
            yield f"it uses {rung.reaction}, which is not allowed in high-stakes"
    if replans(ladder) > replans(required):
        yield "it plans anew without a person's word, which is not allowed in high-stakes"
    if _times(ladder, Reaction.RETRY) > (most := _times(required, Reaction.RETRY)):
        yield f"it retries {_times(ladder, Reaction.RETRY)} times in high-stakes, where at most {most} are allowed"
    if last.reaction not in (Reaction.ESCALATE, Reaction.ABORT, Reaction.HALT):
        yield f"it ends with {last.reaction}, where high-stakes ends with escalate, abort or halt"
    elif failure is FailureType.DEADLOCK and last.reaction is not Reaction.ESCALATE:
        yield f"it ends with {last.reaction}, where a deadlock in high-stakes must go to a person"


_SOFT = (Reaction.INJECT, Reaction.FALLBACK_MODEL, Reaction.CHEAPER_MODEL)
"""Rungs that change what was asked or who answers without a person's word."""


def replans(ladder: Ladder) -> int:
    """How often a cell replans."""
    return _times(ladder, Reaction.REPLAN)


def _times(ladder: Ladder, reaction: Reaction) -> int:
    return sum(rung.times or 0 for rung in ladder.rungs if rung.reaction is reaction)


RULES: tuple[Rule, ...] = (
    publication_models.prices,
    publication_models.not_below_list,
    publication_models.caps,
    publication_models.endpoints,
    publication_models.sendable_options,
    publication_effects.ways_back,
    publication_effects.priced_errands,
    _tools,
    publication_callables.named_functions,
    publication_mcp.mcp_servers,
    publication_memories.memory_values,
    _tool_users,
    _stand_ins,
    _on_open,
    _breakers,
    _judges,
    publication_graphs.unsound_graphs,
    publication_outputs.typed_outputs,
    publication_outputs.planned_calls,
    publication_teams.in_teams,
    _gates,
    *LIMITS,
    publication_stages.of_limits,
    _replans,
    _retries,
    _people,
    _fallbacks,
    _deviations,
    publication_policy.within_policy,
)
"""Every rule, in the order in which problems are told."""


def _own_price(model: ModelSpec) -> Price | None:
    """The price that the fabric states for a model."""
    return None if model.price is None else model.price.price()


def publication_warnings(spec: FabricSpec, installation: Installation | None = None) -> list[Problem]:
    """What an author probably did not mean, but may: what is described and never used."""
    agents = {*spec.topology.roles().values(), *spec.judging.values()}
    used_models = {agent.model for agent in spec.agents if agent.name in agents}
    fallbacks = {model.name: model.fallbacks for model in spec.models}
    cheaper = {model.name: (model.cheaper,) if model.cheaper else () for model in spec.models}
    ways = {name: (*fallbacks[name], *cheaper[name]) for name in fallbacks}
    used_models |= {other for name in used_models for other in chain(ways, name)}
    used_tools = {tool for agent in spec.agents if agent.name in agents for tool in agent.tools}
    used_tools |= {back for tool in spec.tools for back in (tool.compensation, tool.reconcile) if back}
    used_tools |= {check.tool for check in spec.gates.oracle or () if check.tool}
    found = [*publication_memories.unused(spec, used_tools), *publication_mcp.unused(spec)]
    for field, items, used in (
        ("agents", spec.agents, agents),
        ("models", spec.models, used_models),
        ("tools", spec.tools, used_tools),
    ):
        for n, item in enumerate(items):
            if item.name not in used:
                found.append(Problem(f"{field}.{n}", f"{field[:-1]} {item.name!r} is used nowhere"))
    found += publication_limits.money(spec, agents, _own_price if installation is None else installation.price)
    found += publication_teams.everywhere(spec, publication_never.briefed, publication_outputs.warnings)
    found += publication_graphs.warnings(spec, BUILT_IN if installation is None else installation.registry)
    found += [Problem(path, sentence) for path, sentence in spec_persona.doubtful(spec)]
    notes = (*publication_weak.weakened(spec), *publication_stages.notes(spec))
    found += [Problem(path, sentence) for path, sentence in notes]
    if installation is not None and installation.people is not None:
        doubts = publication_people.doubtful(spec, installation.people)
        found += [Problem(path, sentence) for path, sentence in doubts]
    for cell in _falling_back(spec):
        sentence = f"is not given, so {cell.failure} in tier {cell.tier} ends the run, or its branch, as failed: the caller of a failed run reads why and gets a partial result at most; give a text where callers need one"
        found.append(Problem("safe_fallback", sentence))
    named = [(f"policy.deadlines.{tier}", tier) for tier in spec.policy.deadlines]
    named += [(cell.path, cell.tier) for cell in spec.cells]
    for stage, own in spec.policy.stages.items():
        named += [(f"policy.stages.{stage}.deadlines.{tier}", tier) for tier in own.deadlines]
    found += [Problem(path, f"no run can pick tier {tier}") for path, tier in named if tier not in spec.tiers.allowed]
    return found
