"""Publication rules for the people and agents who judge: reviewers and judges (docs/specification/stages.md).

No author judges their own work, and an oracle calls nothing that changes the world.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from fabric.core.people.eligibility import Person, ReviewAsked, is_asked
from fabric.core.spec.cells import OwnCell
from fabric.core.spec.fabric import FabricSpec
from fabric.core.spec.policies.decision_table import Reaction, Rung
from fabric.core.spec.policies.gates import OracleCheck
from fabric.core.spec.stages import cells_in_force
from fabric.core.spec.tools import ToolSpec
from fabric.core.state import let_pass
from fabric.core.texts import templates
from fabric.core.values.saga import MUTATES
from fabric.core.values.taxonomy import FailureType, Tier
from fabric.core.values.words import words
from fabric.http.transport import Gate

REVIEWER = Rung(reaction=Reaction.ESCALATE).role
"""Role of the people in ``reviewers``: a cell without a role of its own asks them."""

ASKS = "ask_person"
"""The built-in tool that asks a person."""
NAMED = 10
"""Largest number of names in a sentence."""


def find_missing_reviewers(spec: FabricSpec) -> Iterator[tuple[str, str]]:
    """Yield ``(path, sentence)`` where the fabric asks a person and names no reviewers."""
    if spec.reviewers:
        return
    asked = list(dict.fromkeys(f"{cell.failure} in tier {cell.tier}" for cell, _, _ in _list_asking_rungs(spec)))
    asked += _beside_cells(spec)
    if asked:
        more = f" (and {len(asked) - 1} more)" if len(asked) > 1 else ""
        yield "reviewers", f"is empty, but {asked[0]}{more} goes to a person; name users or roles who answer"


def _beside_cells(spec: FabricSpec) -> list[str]:
    """Return the occasions on which the fabric's reviewers are asked although no cell names them."""
    asked = []
    if spec.topology.critic or spec.topology.plan_critic or spec.judge_agents:
        asked.append("a critic's score below the needed score")
    named = {name for agent in spec.agents for name in agent.tools if not spec.in_journal(name)}
    changing = [
        tool for tool in spec.all_tools if tool.effect in MUTATES and (tool.kind != "memory" or tool.name in named)
    ]
    asked += [f"a change by {tool.name} with an unknown outcome" for tool in changing]
    return asked + [f"a call that the rule of {name} asks about" for name in spec.asking_rules]


def find_missing_role(spec: FabricSpec, held: frozenset[str]) -> Iterator[tuple[str, str]]:
    """Yield ``(path, sentence)`` for every reachable cell that asks a user or role that does not exist. ``held``:
    existing users and their roles.
    """
    there = _some(sorted(held))
    if spec.reviewers and held.isdisjoint(spec.reviewers):
        names = ", ".join(repr(name) for name in spec.reviewers)
        yield (
            "reviewers",
            f"names {names}, but no member is or has that, so no review would be answered; name one of: {there}",
        )
    late = spec.policy.humans.time_role
    if late and late not in (REVIEWER, *held):
        sentence = f"asks for {late!r}, but no member is or has that; give a member the role, or name one of: {there}"
        yield "policy.humans.time_role", sentence
    for cell, n, rung in _list_asking_rungs(spec):
        own, path = cell.own, cell.path
        if rung.role not in (REVIEWER, *held):
            whose = "" if own else " (the default table says so)"
            sentence = f"asks for {rung.role!r}{whose}, but no member is or has that; give a member the role, or name an existing one in the cell: {there}"
            yield f"{path}.rungs.{n}.role" if own else path, sentence
        elif cell.failure is FailureType.UNSAFE_OUTPUT and _holds_back(spec) and let_pass.ROLE not in held:
            sentence = f"asks a person about blocked outputs; only the role {let_pass.ROLE!r} can approve those, and no member has it"
            yield path, f"{sentence}; give a member the role, or let the cell end without a person"


def too_few(spec: FabricSpec, people: Mapping[str, frozenset[str]]) -> Iterator[tuple[str, str]]:
    """Yield ``(path, sentence)`` for each tier that needs two approvers where fewer can answer a review. ``people``:
    roles by name.
    """
    lacking: dict[Tier, dict[str, list[str]]] = {}
    for tier, occasion, could in (*_list_cell_reviewers(spec, people), *_list_other_reviewers(spec, people)):
        if len(could) < 2:
            occasions = lacking.setdefault(tier, {}).setdefault(f"only {could[0]}" if could else "no member", [])
            occasions.append(occasion)
    for tier, by_person in lacking.items():
        who = "; ".join(f"{name} can answer {_some(list(dict.fromkeys(many)))}" for name, many in by_person.items())
        sentence = f"{tier.replace('_', '-')} needs two approvers, and {who}; invite a second person, or take the tier out of four_eyes"
        yield "policy.humans.four_eyes", sentence


def _list_cell_reviewers(
    spec: FabricSpec, people: Mapping[str, frozenset[str]]
) -> Iterator[tuple[Tier, str, list[str]]]:
    """Yield the tier, the failure and the people who can answer, for each cell that two people have to answer."""
    for cell, _, rung in _list_asking_rungs(spec):
        if cell.tier not in spec.policy.humans.four_eyes:
            continue
        could, role = _who_could(_ask_reviewers(spec, rung.role), people), rung.role
        if cell.failure is FailureType.UNSAFE_OUTPUT and _holds_back(spec):
            could, role = [name for name in could if let_pass.ROLE in people[name]], let_pass.ROLE
        yield cell.tier, f"{words(cell.failure)}{'' if role == REVIEWER else f' ({role})'}", could
        if cell.failure is FailureType.COST_OVERRUN and (late := spec.policy.humans.time_role):
            yield cell.tier, f"a passed deadline ({late})", _who_could(_ask_reviewers(spec, late), people)


def _list_other_reviewers(
    spec: FabricSpec, people: Mapping[str, frozenset[str]]
) -> Iterator[tuple[Tier, str, list[str]]]:
    """Yield the same for the reviews that no cell opens. Tools open such reviews too."""
    occasions = [*_beside_cells(spec), *(f"what {tool.name} asks" for tool in spec.all_tools if _may_ask(tool))]
    could = _who_could(_ask_reviewers(spec, REVIEWER), people)
    for tier in spec.policy.humans.four_eyes:
        if tier in spec.tiers.allowed:
            yield from ((tier, occasion, could) for occasion in occasions)


def _ask_reviewers(spec: FabricSpec, role: str) -> ReviewAsked:
    return ReviewAsked(
        required_role=role, reviewers=spec.reviewers, onward=True, onward_to=spec.policy.humans.onward_to
    )


def _may_ask(tool: ToolSpec) -> bool:
    """Return True if a tool or its server may open a review in the middle of a call."""
    return tool.kind == "mcp" or (tool.kind == "builtin" and tool.target == ASKS)


def _who_could(asked: ReviewAsked, people: Mapping[str, frozenset[str]]) -> list[str]:
    return sorted(name for name, roles in people.items() if is_asked(asked, Person(name=name, roles=roles)))


def find_single_approver(spec: FabricSpec) -> Iterator[tuple[str, str]]:
    """Yield ``(path, sentence)`` where one person alone lets calls out that cannot be undone."""
    tools = [tool.name for tool in spec.all_tools if tool.effect == "irreversible"]
    if tools and Tier.HIGH_STAKES in spec.tiers.allowed and Tier.HIGH_STAKES not in spec.policy.humans.four_eyes:
        sentence = f"one person alone approves calls of {_some(tools)}, which cannot be undone"
        yield "policy.humans.four_eyes", f"{sentence}; write [high_stakes], so that two people approve them"


def doubtful(spec: FabricSpec, people: Mapping[str, frozenset[str]]) -> Iterator[tuple[str, str]]:
    """Yield ``(path, sentence)`` for each reviewer who does not exist, and for edits that no member could approve.
    ``people``: as for ``too_few``.
    """
    held = frozenset(word for name, roles in people.items() for word in (name, *roles))
    for n, name in enumerate(spec.reviewers):
        if name not in held:
            yield (
                f"reviewers.{n}",
                f"{name!r} is no member here and no role that a member has, so the others answer alone",
            )
    if Tier.HIGH_STAKES not in spec.tiers.allowed or Tier.HIGH_STAKES in spec.policy.humans.four_eyes:
        return
    asked = ReviewAsked(required_role=REVIEWER, reviewers=spec.reviewers)
    could = _who_could(asked, people)
    if len(could) == 1 < len(people):
        sentence = f"asks {could[0]} alone, and in tier {Tier.HIGH_STAKES} a second person has to approve an edit"
        yield "reviewers", f"{sentence}; until the review is passed on, {could[0]} approves, responds or rejects"


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return f"{', '.join(names[:NAMED])}{more}" if names else "no member"


def _holds_back(spec: FabricSpec) -> bool:
    return bool(spec.gates.guardrails_in_force or spec.gates.policies or spec.screened)


def _list_asking_rungs(spec: FabricSpec) -> Iterator[tuple[OwnCell, int, Rung]]:
    """Yield the rungs in force that ask a person, in the permitted tiers."""
    for cell in cells_in_force(spec):
        for n, rung in enumerate(cell.ladder.rungs):
            if rung.reaction is Reaction.ESCALATE:
                yield cell, n, rung


def judge_problems(spec: FabricSpec, gate: Gate) -> Iterator[tuple[str, str]]:
    """Yield ``(path, sentence)`` for every judge of its own work, and for every check that cannot be made as
    written.
    """
    topology = spec.topology
    yield from _author("topology.critic", topology.critic, _list_aggregate_judged(spec), "score")
    planners = {topology.planner: "is the planner", topology.handover: "may plan where the run is handed over"}
    yield from _author("topology.plan_critic", topology.plan_critic, planners, "judge")
    writers = _list_aggregate_judged(spec) | _list_outcome_judged(spec)
    critic = spec.gates.grounding_critic
    yield from _author("gates.grounding_critic", critic, writers, "judge")
    if critic is not None and spec.gates.grounding is None:
        sentence = "stands on top of a grounding level, and there is none; give gates.grounding"
        yield "gates.grounding_critic", f"agent {critic!r} {sentence}"
    for n, check in enumerate(spec.gates.oracle or ()):
        path = f"gates.oracle.{n}"
        yield from _author(f"{path}.critic", check.critic, writers, "judge")
        yield from _askable(spec, gate, path, check)


def _list_aggregate_judged(spec: FabricSpec) -> dict[str | None, str]:
    topology = spec.topology
    if topology.aggregator is not None:
        return {topology.aggregator: "is the aggregator"}
    return dict.fromkeys(topology.workers, "is one of the workers, whose summaries the engine joins")


def _list_outcome_judged(spec: FabricSpec) -> dict[str | None, str]:
    return {} if spec.topology.finalizer is None else {spec.topology.finalizer: "is the finalizer"}


def _author(field: str, name: str | None, wrote: dict[str | None, str], does: str) -> Iterator[tuple[str, str]]:
    if name is not None and name in wrote:
        yield field, f"agent {name!r} {wrote[name]}, and would {does} what it wrote itself; name another agent"


def _askable(spec: FabricSpec, gate: Gate, path: str, check: OracleCheck) -> Iterator[tuple[str, str]]:
    if check.tool is not None and (effect := spec.tool(check.tool).effect) != "read_only":
        sentence = f"tool {check.tool!r} is {effect}; an oracle asks and changes nothing, so name a read_only tool"
        yield f"{path}.tool", sentence
    for problem in _once(templates.problems_in(check.arguments or {})):
        yield f"{path}.arguments", problem
    if check.http is None:
        return
    url = check.http.url
    for problem in _once(templates.problems(url)):
        yield f"{path}.http.url", problem
    if not templates.read_host(url):
        yield (
            f"{path}.http.url",
            "is no address with a fixed host; write https://host/path, and places behind the host alone",
        )
    elif problem := gate.problem(templates.PLACE.sub("x", url)):
        yield f"{path}.http.url", problem


def _once(found: Sequence[str]) -> list[str]:
    return list(dict.fromkeys(found))
