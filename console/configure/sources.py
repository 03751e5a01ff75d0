"""What may be picked at a place whose answers are neither in its type nor one list of the draft: value and word, by place."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from console.configure.places import TEAM
from fabric.core.flow import Stage
from fabric.guardrails.rules import RULES
from fabric.services import here

JSON = Any
Source = Callable[[JSON], tuple[tuple[str, str], ...]]
"""From what the draft says to what may be picked: values, each with a word."""


def _shipped_rules(tree: JSON) -> tuple[tuple[str, str], ...]:
    return tuple((rule.name, f"{rule.name.replace('_', ' ')}: {rule.finds}") for rule in RULES)


def _goals(tree: JSON) -> tuple[tuple[str, str], ...]:
    """The stages, then the workers, then those of teams."""
    topology = _in(tree, "topology")
    teams = _in(topology, "teams")
    below = (_in(team, "topology") for team in (teams if isinstance(teams, dict) else {}).values())
    lists = (_in(one, "workers") for one in (topology, *below))
    named = [one for workers in lists if isinstance(workers, list) for one in workers if isinstance(one, str)]
    words = {str(stage): f"stage {stage.replace('_', '-')}" for stage in Stage} | {one: one for one in named}
    return tuple(words.items())


def _conditions(tree: JSON) -> tuple[tuple[str, str], ...]:
    return tuple((name, name) for name in here.graph_rules().conditions.names)


def _targets(tree: JSON) -> tuple[tuple[str, str], ...]:
    return tuple((name, name) for name in here.graph_rules().targets.names)


def _in(tree: JSON, name: str) -> JSON:
    return tree.get(name) if isinstance(tree, dict) else None


SOURCES: Mapping[str, Source] = {
    "gates.guardrails.*.rules": _shipped_rules,
    "policy.goal_gates.nodes": _goals,
    "topology.transitions.*.when.**.name": _conditions,
    "topology.transitions.*.then.name": _targets,
    "topology.default_target.name": _targets,
}
"""By place, ``**`` for conditions within conditions as in ``REFERS``. A place may be in ``REFERS`` as well: then what it names is renamed with the list that it is in."""


def source_of(place: str) -> Source | None:
    """What may be picked at a place, of a team's topology as of the fabric's; None: its type or a list of the draft says so."""
    place = place.removeprefix(TEAM)
    around, _, within = place.partition(".when.")
    return SOURCES.get(place) or SOURCES.get(f"{around}.when.**.{within.rpartition('.')[2]}")
