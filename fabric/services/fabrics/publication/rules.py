"""Lists the rules that every fabric must pass before its publication, each with its field
(docs/specification/publication.md).

Deadlines, hop, recursion and retry limits, the gates and the loop detectors have defaults that are always in force. So
these rules require what no default can give: money, prices, people. And they require what an author could switch off by
a number. Rules of the workspace's policy name the people who may change it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from fabric.core.graph.registry import BUILT_IN
from fabric.core.spec import personas
from fabric.core.spec.cells import OwnCell
from fabric.core.spec.fabric import FabricSpec
from fabric.core.spec.policies.decision_table import DEFAULT_TABLE, Accompaniment, Ladder, Reaction
from fabric.core.spec.policies.fallbacks import chain
from fabric.core.spec.stages import cells_in_force
from fabric.core.spec.tree import ModelSpec
from fabric.core.values.cost import Price
from fabric.core.values.taxonomy import FailureType, Tier
from fabric.core.workspace_policy.rules import list_broken_rules
from fabric.http.transport import Gate
from fabric.policies.gates import gate_problems
from fabric.services.fabrics.publication import models as publication_models
from fabric.services.fabrics.publication import outputs as publication_outputs
from fabric.services.fabrics.publication import tools as publication_effects
from fabric.services.fabrics.publication import topologies as publication_teams
from fabric.services.fabrics.publication.protections import dead_paths as publication_never
from fabric.services.fabrics.publication.protections import fallbacks as publication_fallbacks
from fabric.services.fabrics.publication.protections import limits as publication_limits
from fabric.services.fabrics.publication.protections import reviewers as publication_people
from fabric.services.fabrics.publication.protections import weaknesses as publication_weak
from fabric.services.fabrics.publication.protections.limits import LIMITS
from fabric.services.fabrics.publication.protections.reviewers import judge_problems
from fabric.services.fabrics.yaml.document import FabricProblem
from fabric.services.installation.facts import InstallationFacts
from fabric.tools import runner as registry


def find_policy_problems(spec: FabricSpec, where: InstallationFacts) -> Iterator[FabricProblem]:
    """Yield a problem for everything that the workspace's policy forbids."""
    for path, sentence in () if where.policy.says_nothing else list_broken_rules(spec, where.policy):
        yield FabricProblem(path, sentence)


REPLANS_MAX = 2
"""docs/specification/stages.md: at most two replans a stage."""


@dataclass(frozen=True, slots=True)
class Deviation:
    """A cell that is laxer than required, and the author's reason for it."""

    path: str
    what: str
    reason: str


Rule = Callable[[FabricSpec, InstallationFacts], Iterator[FabricProblem]]


def publication_problems(spec: FabricSpec, installation: InstallationFacts | None = None) -> list[FabricProblem]:
    """Return the problems that keep a fabric from being published, in the order of the rules."""
    where = installation or InstallationFacts(Gate())
    return [problem for rule in RULES for problem in rule(spec, where)]


# -- tools, agents ----------------------------------------------------------------------------------------------------


def _tools(spec: FabricSpec, where: InstallationFacts) -> Iterator[FabricProblem]:
    for n, tool in enumerate(spec.tools):
        for sentence in registry.problems(tool, where.gate, where.permits):
            yield FabricProblem(f"tools.{n}", sentence)


def _tool_users(spec: FabricSpec, where: InstallationFacts) -> Iterator[FabricProblem]:
    for n, agent in enumerate(spec.agents):
        if agent.tools and not spec.model(agent.model).tool_calls:
            sentence = f"agent {agent.name!r} has tools, but model {agent.model!r} takes no tool calls; take one of the two away"
            yield FabricProblem(f"agents.{n}.tools", sentence)


def _judges(spec: FabricSpec, where: InstallationFacts) -> Iterator[FabricProblem]:
    for path, sentence in judge_problems(spec, where.gate):
        yield FabricProblem(path, sentence)


def _fallback_models(spec: FabricSpec, where: InstallationFacts) -> Iterator[FabricProblem]:
    yield from publication_fallbacks.incapable(spec)


def _find_open_problems(spec: FabricSpec, where: InstallationFacts) -> Iterator[FabricProblem]:
    yield from publication_fallbacks.find_unknown_fallbacks(spec)


def _breakers(spec: FabricSpec, where: InstallationFacts) -> Iterator[FabricProblem]:
    yield from publication_fallbacks.find_overlaps(spec)
    for path, sentence in publication_weak.find_unguarded(spec):
        yield FabricProblem(path, sentence)


def _gates(spec: FabricSpec, where: InstallationFacts) -> Iterator[FabricProblem]:
    for path, sentence in gate_problems(spec):
        yield FabricProblem(path, sentence)
    yield from publication_never.find_false_conditions(spec)


def _retries(spec: FabricSpec, where: InstallationFacts) -> Iterator[FabricProblem]:
    for path, sentence in publication_weak.problems(spec):
        yield FabricProblem(path, sentence)


# -- the decision table ------------------------------------------------------------------------------------------------


def _people(spec: FabricSpec, where: InstallationFacts) -> Iterator[FabricProblem]:
    found = [*publication_people.find_missing_reviewers(spec)]
    if where.held is not None:
        found += publication_people.find_missing_role(spec, where.held)
    if where.people is not None:
        found += publication_people.too_few(spec, where.people)
    for path, sentence in found:
        yield FabricProblem(path, sentence)


def _replans(spec: FabricSpec, where: InstallationFacts) -> Iterator[FabricProblem]:
    limit = spec.policy.limits.replans_per_stage
    cells = (cell.ladder for cell in spec.cells)
    if limit > REPLANS_MAX and not any(cell.deviation and replans(cell) > REPLANS_MAX for cell in cells):
        sentence = f"{limit} replans a stage, where at most {REPLANS_MAX} are allowed"
        yield FabricProblem(
            "policy.limits.replans_per_stage",
            f"{sentence}; lower it, or give the cell that needs more a `deviation` with the reason",
        )


def _fallbacks(spec: FabricSpec, where: InstallationFacts) -> Iterator[FabricProblem]:
    """Yield a problem for each cell of the author's own with safe_fallback but without a fallback."""
    for cell in _falling_back(spec):
        if cell.own:
            sentence = "says safe_fallback, and the fabric has no static answer; give it one in safe_fallback, or let the cell say surface"
            yield FabricProblem(cell.path, sentence)


def _falling_back(spec: FabricSpec) -> list[OwnCell]:
    """Return the cells in force with safe_fallback while there is no fallback."""
    if spec.safe_fallback is not None:
        return []
    asked = Reaction.SAFE_FALLBACK
    return [cell for cell in cells_in_force(spec) if any(rung.reaction is asked for rung in cell.ladder.rungs)]


def _deviations(spec: FabricSpec, where: InstallationFacts) -> Iterator[FabricProblem]:
    for path, what, ladder in _lax_cells(spec):
        if not ladder.deviation.strip():
            yield FabricProblem(path, f"{what}; follow it, or give the cell a `deviation` with the reason")


def deviations(spec: FabricSpec) -> list[Deviation]:
    """Return the cells, tools and limits that are laxer than required, with their reasons."""
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
    return cells + tools + gates + [Deviation(*lax) for lax in publication_weak.laxer(spec)]


def _lax_cells(spec: FabricSpec) -> Iterator[tuple[str, str, Ladder]]:
    for cell in spec.cells:
        for what in _lax(cell.failure, cell.tier, cell.ladder):
            yield cell.path, what, cell.ladder


def _lax(failure: FailureType, tier: Tier, ladder: Ladder) -> Iterator[str]:
    """Yield a sentence without remedy for each way in which a cell is laxer than
    docs/specification/decision-table.md requires.
    """
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
        yield "it replans without a review, which is not allowed in high-stakes"
    if (retries := _times(ladder, Reaction.RETRY)) > (most := _times(required, Reaction.RETRY)):
        times = f"{retries} times" if retries > 1 else "once"
        yield f"it retries {times} in high-stakes, where at most {most} are allowed"
    if last.reaction not in (Reaction.ESCALATE, Reaction.ABORT, Reaction.HALT):
        yield f"it ends with {last.reaction}, where high-stakes ends with escalate, abort or halt"
    elif failure is FailureType.DEADLOCK and last.reaction is not Reaction.ESCALATE:
        yield f"it ends with {last.reaction}, where a deadlock in high-stakes must go to a person"


_SOFT = (Reaction.INJECT, Reaction.FALLBACK_MODEL, Reaction.CHEAPER_MODEL)
"""Rungs that change the request or the answering agent without a person's approval."""


def replans(ladder: Ladder) -> int:
    """Return the number of replans in a cell's ladder."""
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
    publication_effects.named_functions,
    publication_effects.mcp_servers,
    publication_outputs.memory_values,
    _tool_users,
    _fallback_models,
    _find_open_problems,
    _breakers,
    _judges,
    publication_teams.unsound_graphs,
    publication_outputs.typed_outputs,
    publication_outputs.planned_calls,
    publication_teams.find_team_problems,
    _gates,
    *LIMITS,
    publication_weak.find_idle_limits,
    _replans,
    _retries,
    _people,
    _fallbacks,
    _deviations,
    find_policy_problems,
)
"""Every rule, in the order in which problems are reported."""


def _own_price(model: ModelSpec) -> Price | None:
    """Return the price that the fabric states for a model."""
    return None if model.price is None else model.price.price()


def publication_warnings(spec: FabricSpec, installation: InstallationFacts | None = None) -> list[FabricProblem]:
    """Return probable slips that do not stop a publication: parts that are described and never used."""
    agents = {*spec.topology.roles().values(), *spec.judge_agents.values()}
    used_models = {agent.model for agent in spec.agents if agent.name in agents}
    fallbacks = {model.name: model.fallbacks for model in spec.models}
    cheaper = {model.name: (model.cheaper,) if model.cheaper else () for model in spec.models}
    ways = {name: (*fallbacks[name], *cheaper[name]) for name in fallbacks}
    used_models |= {other for name in used_models for other in chain(ways, name)}
    used_tools = {tool for agent in spec.agents if agent.name in agents for tool in agent.tools}
    used_tools |= {back for tool in spec.tools for back in (tool.compensation, tool.reconcile) if back}
    used_tools |= {check.tool for check in spec.gates.oracle or () if check.tool}
    found = [
        *publication_outputs.warn_unused_memories(spec, used_tools),
        *publication_effects.warn_unused_servers(spec),
    ]
    for field, items, used in (
        ("agents", spec.agents, agents),
        ("models", spec.models, used_models),
        ("tools", spec.tools, used_tools),
    ):
        for n, item in enumerate(items):
            if item.name not in used:
                found.append(FabricProblem(f"{field}.{n}", f"{field[:-1]} {item.name!r} is used nowhere"))
    found += publication_limits.money(spec, agents, _own_price if installation is None else installation.price)
    found += publication_teams.everywhere(spec, publication_never.find_missing_briefs, publication_outputs.warnings)
    found += publication_teams.warnings(spec, BUILT_IN if installation is None else installation.registry)
    found += [FabricProblem(path, sentence) for path, sentence in personas.doubtful(spec)]
    found += [FabricProblem(path, sentence) for path, sentence in publication_people.find_single_approver(spec)]
    notes = (*publication_weak.find_weaknesses(spec), *publication_weak.notes(spec))
    found += [FabricProblem(path, sentence) for path, sentence in notes]
    if installation is not None and installation.people is not None:
        doubts = publication_people.doubtful(spec, installation.people)
        found += [FabricProblem(path, sentence) for path, sentence in doubts]
    for cell in _falling_back(spec):
        sentence = f"is not given, so {cell.failure} in tier {cell.tier} ends the run, or its branch, as failed: the caller of a failed run reads why and gets a partial result at most; give a text where callers need one"
        found.append(FabricProblem("safe_fallback", sentence))
    named = [(f"policy.deadlines.{tier}", tier) for tier in spec.policy.deadlines]
    named += [(cell.path, cell.tier) for cell in spec.cells]
    for stage, own in spec.policy.stages.items():
        named += [(f"policy.stages.{stage}.deadlines.{tier}", tier) for tier in own.deadlines]
    found += [
        FabricProblem(path, f"no run can pick tier {tier}") for path, tier in named if tier not in spec.tiers.allowed
    ]
    return found
