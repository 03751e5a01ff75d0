"""Everything that is wrong or doubtful with a fabric's text, each with its line, without publishing it."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from fabric.core.actor import Actor
from fabric.core.roles import Right
from fabric.services import here
from fabric.services.errors import Placed, Refused
from fabric.services.fabric_yaml import Problem, fabric_read
from fabric.services.fabrics import checked
from fabric.services.publication import deviations, publication_warnings
from fabric.services.rights import right_wanted
from fabric.services.workspaces import people_of


@dataclass(frozen=True, slots=True)
class PlacedDeviation:
    """Where a fabric is laxer than required, and its author's reason."""

    place: Placed
    reason: str


@dataclass(frozen=True, slots=True)
class Lint:
    """What was found."""

    origin: str
    name: str
    """The fabric's; empty: it could not be read."""
    digest: str
    problems: tuple[Placed, ...]
    """What keeps it from being published."""
    warnings: tuple[Placed, ...] = ()
    """What its author probably did not mean."""
    deviations: tuple[PlacedDeviation, ...] = ()

    @property
    def publishable(self) -> bool:
        """Whether it could be published as it is."""
        return not self.problems


def fabric_lint(*, actor: Actor, source: str, origin: str = "", providers: Collection[str] = ()) -> Lint:
    """Judges a text as its publication would. ``providers``: the provider adapters that there are. Raises Refused forbidden alone."""
    right_wanted(actor, Right.EDIT, "check fabrics", anywhere=True)
    try:
        read = fabric_read(source, origin=origin)
    except Refused as refused:
        return Lint(origin, "", "", refused.placed)
    spec = read.spec
    problems: tuple[Placed, ...] = ()
    where = here.installation(people=people_of(actor.workspace_id, spec.name), workspace_id=actor.workspace_id)
    try:
        checked(actor, read, providers)
    except Refused as refused:
        problems = refused.placed
    return Lint(
        origin=origin,
        name=spec.name,
        digest=spec.digest(),
        problems=problems,
        warnings=tuple(read.placed(one) for one in publication_warnings(spec, where)),
        deviations=tuple(
            PlacedDeviation(read.placed(Problem(one.path, one.what)), one.reason) for one in deviations(spec)
        ),
    )
