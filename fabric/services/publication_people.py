"""An escalation path for every cell that can escalate, with someone in it (semantics.md 8)."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from fabric.core import releases
from fabric.core.decision_table import Reaction, Rung
from fabric.core.eligibility import Asked, Person, is_asked, wanted
from fabric.core.saga import MUTATES
from fabric.core.spec import FabricSpec
from fabric.core.spec_stages import OwnCell, cells_in_force
from fabric.core.spec_tools import ToolSpec
from fabric.core.taxonomy import FailureType, Tier

REVIEWER = Rung(reaction=Reaction.ESCALATE).role
"""The role of whoever the fabric names in ``reviewers``: a cell that says nothing else asks them."""

ASKS = "ask_person"
"""The built-in tool that asks a person."""
NAMED = 10
"""Most names that a sentence lists."""


def without_reviewers(spec: FabricSpec) -> Iterator[tuple[str, str]]:
    """``(path, sentence)`` where something is put to a person and the fabric names nobody."""
    if spec.reviewers:
        return
    asked = list(dict.fromkeys(f"{cell.failure} in tier {cell.tier}" for cell, _, _ in _asking(spec)))
    asked += _beside_cells(spec)
    if asked:
        more = f" (and {len(asked) - 1} more)" if len(asked) > 1 else ""
        yield "reviewers", f"is empty, but {asked[0]}{more} is put to a person; name users or roles who answer"


def _beside_cells(spec: FabricSpec) -> list[str]:
    """What is put to the fabric's reviewers without a cell that says so."""
    asked = []
    if spec.topology.critic or spec.topology.plan_critic or spec.judging:
        asked.append("a critic's score below tau")
    named = {name for agent in spec.agents for name in agent.tools if not spec.in_journal(name)}
    changing = [
        tool for tool in spec.all_tools if tool.effect in MUTATES and (tool.kind != "memory" or tool.name in named)
    ]
    asked += [f"a change by {tool.name} of which nobody knows" for tool in changing]
    return asked + [f"a call of {name} of which its rule says so" for name in spec.asking]


def without_role(spec: FabricSpec, held: frozenset[str]) -> Iterator[tuple[str, str]]:
    """``(path, sentence)`` for every cell that a run may reach and that asks for somebody who is not there. ``held``: the users here and their roles."""
    there = _some(sorted(held))
    if spec.reviewers and held.isdisjoint(spec.reviewers):
        names = ", ".join(repr(name) for name in spec.reviewers)
        yield (
            "reviewers",
            f"names {names}, and nobody here is or has that, so no question would be answered; name one of: {there}",
        )
    for cell, n, rung in _asking(spec):
        own, path = cell.own, cell.path
        if rung.role not in (REVIEWER, *held):
            whose = "" if own else " (the default table says so)"
            sentence = f"asks for {rung.role!r}{whose}, and nobody here is or has that; give somebody the role, or name one in the cell that there is: {there}"
            yield f"{path}.rungs.{n}.role" if own else path, sentence
        elif cell.failure is FailureType.UNSAFE_OUTPUT and _holds_back(spec) and releases.ROLE not in held:
            sentence = f"puts outputs that a gate held back to a person, and only the role {releases.ROLE!r} lets one pass, which nobody here has"
            yield path, f"{sentence}; give somebody the role, or let the cell end without a person"


def too_few(spec: FabricSpec, people: Mapping[str, frozenset[str]]) -> Iterator[tuple[str, str]]:
    """``(path, sentence)`` for each group of people in which two have to agree where there are not two. ``people``: their names, and the roles of each."""
    onward = spec.policy.humans.onward_to
    found = set()
    for cell, _, rung in _asking(spec):
        failure, tier = cell.failure, cell.tier
        asked = Asked(required_role=rung.role, reviewers=spec.reviewers, onward=True, onward_to=onward)
        could = _who_could(asked, people)
        whom = ", ".join(wanted(asked))
        if failure is FailureType.UNSAFE_OUTPUT and _holds_back(spec):
            could = [name for name in could if releases.ROLE in people[name]]
            whom = f"{whom}, with the role {releases.ROLE}"
        if tier not in spec.policy.humans.four_eyes or len(could) > 1 or (tier, whom) in found:
            continue
        found.add((tier, whom))
        yield _alone(tier, f"{failure} asks {whom}", could)
    yield from _too_few_reviewers(spec, people, frozenset(found))


def _too_few_reviewers(
    spec: FabricSpec, people: Mapping[str, frozenset[str]], told: Collection[tuple[Tier, str]]
) -> Iterator[tuple[str, str]]:
    """The same of the questions beside cells, and of those that tools ask. ``told``: tiers, and whom they ask, of which it was said."""
    asking = [*_beside_cells(spec), *(f"what {tool.name} asks" for tool in spec.all_tools if _may_ask(tool))]
    onward = spec.policy.humans.onward_to
    asked = Asked(required_role=REVIEWER, reviewers=spec.reviewers, onward=True, onward_to=onward)
    could, whom = _who_could(asked, people), ", ".join(wanted(asked))
    for tier in spec.policy.humans.four_eyes:
        if asking and len(could) < 2 and tier in spec.tiers.allowed and (tier, whom) not in told:
            yield _alone(tier, f"{asking[0]} is put to {whom}", could)


def _alone(tier: Tier, where: str, could: Sequence[str]) -> tuple[str, str]:
    there = f"only {could[0]} is or has that" if could else "nobody here is or has that"
    sentence = f"has two people agree in tier {tier}, and where {where}, {there}"
    return "policy.humans.four_eyes", f"{sentence}; invite or name a second person, or leave the tier out"


def _may_ask(tool: ToolSpec) -> bool:
    """Whether a tool, or its server, may put a question to a person in the middle of a call."""
    return tool.kind == "mcp" or (tool.kind == "builtin" and tool.target == ASKS)


def _who_could(asked: Asked, people: Mapping[str, frozenset[str]]) -> list[str]:
    return sorted(name for name, roles in people.items() if is_asked(asked, Person(name=name, roles=roles)))


def doubtful(spec: FabricSpec, people: Mapping[str, frozenset[str]]) -> Iterator[tuple[str, str]]:
    """``(path, sentence)`` for each reviewer whom nobody here is, and for edits that nobody could approve. ``people``: as for ``too_few``."""
    held = frozenset(word for name, roles in people.items() for word in (name, *roles))
    for n, name in enumerate(spec.reviewers):
        if name not in held:
            yield (
                f"reviewers.{n}",
                f"{name!r} is no member here and no role that a member has, so the others answer alone",
            )
    if Tier.HIGH_STAKES not in spec.tiers.allowed or Tier.HIGH_STAKES in spec.policy.humans.four_eyes:
        return
    asked = Asked(required_role=REVIEWER, reviewers=spec.reviewers)
    could = _who_could(asked, people)
    if len(could) == 1 < len(people):
        sentence = f"asks {could[0]} alone, and in tier {Tier.HIGH_STAKES} a second person has to approve an edit"
        yield "reviewers", f"{sentence}; until somebody else is asked, {could[0]} approves, responds or rejects"


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return f"{', '.join(names[:NAMED])}{more}" if names else "nobody at all"


def _holds_back(spec: FabricSpec) -> bool:
    return bool(spec.gates.guarded or spec.gates.policies or spec.screened)


def _asking(spec: FabricSpec) -> Iterator[tuple[OwnCell, int, Rung]]:
    """The rungs in force that ask a person, in the tiers that a run may pick."""
    for cell in cells_in_force(spec):
        for n, rung in enumerate(cell.ladder.rungs):
            if rung.reaction is Reaction.ESCALATE:
                yield cell, n, rung
