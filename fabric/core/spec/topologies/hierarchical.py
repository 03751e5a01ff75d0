"""Declares a supervisor whose workers may lead teams, and the money of each team (docs/specification/topologies.md)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Literal

from pydantic import Field

from fabric.core.schema.limits import Unit, declare_limit
from fabric.core.schema.parts import Name, SpecGroup
from fabric.core.schema.topology import PlannedTopology, TopologySpec
from fabric.core.spec.topologies.single import Single


class Team(SpecGroup):
    """The team of a worker that leads one. For each brief of its leader it has a run of its own, with this topology."""

    topology: Single = Field(description="How the team works together. Its workers may lead teams as well.")
    run_usd_micros: Annotated[int, Field(ge=0)] | None = declare_limit(
        None,
        "Money of the team",
        Unit.USD,
        "One run of the team may spend at most this much of the money reserved for it. None: all of it.",
        stops="a call that may need more is refused",
        source="docs/specification/budgets.md",
    )
    run_tokens: Annotated[int, Field(ge=1)] | None = declare_limit(
        None,
        "Tokens of the team",
        Unit.TOKENS,
        "One run of the team may use at most this many of the tokens reserved for it, input and output together. None: all of them.",
        stops="a call that may need more is refused",
        source="docs/specification/budgets.md",
    )


class HierarchicalTopology(PlannedTopology):
    """A supervisor whose workers may be supervisors: each of ``teams`` is led by the worker it is named after
    (docs/specification/topologies.md).
    """

    kind: Literal["hierarchical"] = Field(
        default="hierarchical", description="Kind of the topology: workers of a supervisor may lead teams."
    )
    teams: Annotated[dict[Name, Team], Field(min_length=1, max_length=64)] = Field(
        description="Teams by the worker that leads them; the worker is of the fabric or of another team."
    )

    def roles(self) -> dict[str, str]:
        """Agent name by the field that names it, those of teams with their paths."""
        found = super().roles()
        for lead, team in self.teams.items():
            found |= {f"teams.{lead}.topology.{field}": name for field, name in team.topology.roles().items()}
        return found

    def in_json(self) -> Iterator[str]:
        """Return the agents of its teams."""
        for lead, team in self.teams.items():
            yield from (f"teams.{lead}.topology.{field}" for field in team.topology.in_json())

    def every(self) -> tuple[TopologySpec, ...]:
        """The topology itself, then those of its teams in their order."""
        return (self, *(team.topology for team in self.teams.values()))

    def list_all_workers(self) -> tuple[str, ...]:
        """Its workers and those of its teams, each once."""
        below = (name for team in self.teams.values() for name in team.topology.workers)
        return tuple(dict.fromkeys((*self.workers, *below)))

    def hands(self) -> tuple[str, ...]:
        """Its workers that lead no team and work in none."""
        elsewhere = {*self.teams, *(name for team in self.teams.values() for name in team.topology.workers)}
        return tuple(name for name in self.workers if name not in elsewhere)

    def list_misplaced(self) -> Iterator[str]:
        """Yield the problems of its teams, with members that cannot lead or be led."""
        yield from super().list_misplaced()
        for lead, team in self.teams.items():
            yield from (f"teams.{lead}.topology.{told}" for told in team.topology.list_misplaced())
            if lead not in self.list_all_workers():
                sentence = f"{lead!r} is a worker of neither the fabric nor a team, so this team gets no work"
                yield f"teams.{lead}: {sentence}; make it one, or leave the team out"
            for n, name in enumerate(team.topology.workers):
                if name in self.teams and not isinstance(team.topology, PlannedTopology):
                    sentence = f"{name!r} leads a team, and a team hears nothing of the turns before it"
                    yield f"teams.{lead}.topology.workers.{n}: {sentence}; name a worker that leads none"
        for circle in self._circles():
            way = " -> ".join((*circle, circle[0]))
            yield f"teams.{circle[0]}: the team leads back to itself ({way}); name workers that do not"

    def levels(self) -> Mapping[str, int]:
        """The deepest level on which each team works, by its lead; the run itself works on the first."""
        found: dict[str, int] = {}
        reached: tuple[str, ...] = self.workers
        for level in range(2, len(self.teams) + 2):
            found |= {lead: level for lead in reached if lead in self.teams}
            reached = tuple(dict.fromkeys(name for lead in reached for name in self._list_led(lead)))
        return found

    def _list_led(self, lead: str) -> tuple[str, ...]:
        return self.teams[lead].topology.workers if lead in self.teams else ()

    def _circles(self) -> Iterator[tuple[str, ...]]:
        """Yield each circle of teams that lead each other once, in its shortest form."""
        told: set[str] = set()
        for lead in self.teams:
            way = self._way_back(lead)
            if way and not told & set(way):
                told |= set(way)
                yield way

    def _way_back(self, lead: str) -> tuple[str, ...]:
        ways: list[tuple[str, ...]] = [(lead,)]
        seen = {lead}
        for way in ways:
            for name in self._list_led(way[-1]):
                if name == lead:
                    return way
                if name in self.teams and name not in seen:
                    seen.add(name)
                    ways.append((*way, name))
        return ()
