"""The actor that every service and selector takes."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal

from fabric.core.people.roles import Right, has, holds_at, own_name, reached_places, read_place, roles_at


@dataclass(frozen=True, slots=True)
class Actor:
    """A person, a service account or the system itself, within one workspace."""

    name: str
    """Stable, human-readable name for journals and audit lines."""
    workspace_id: str
    kind: Literal["person", "service", "system"] = "person"
    roles: frozenset[str] = frozenset()
    """Roles of the actor; after ``at``, those that apply at one fabric."""
    via: str = ""
    """Credential that acts in the person's name, other than their own sign-in: ``token:NAME``."""
    behind: tuple[str, ...] = ()
    """Other people who created the actor's credential, such as a service account's token. They answer for its acts
    as for their own.
    """
    alone: bool = field(default=False, compare=False)
    """True if the actor is the only person who may sign in to the workspace."""
    signed_in_at: int = field(default=0, compare=False)
    """Instant of the person's last sign-in, microseconds since the epoch; 0: unknown, or no person."""
    drills_id: str = field(default="", compare=False)
    """Workspace in which this one's drills run; "": none, or not looked up with the actor."""
    fabrics: tuple[str, ...] = ()
    """Names of the fabrics to which its credential is confined; empty: not confined."""
    place: str = ""
    """The fabric at which it acts, after ``at``."""
    held: frozenset[str] = frozenset()
    """After ``at``: all roles of the actor, with their places."""

    @property
    def reach(self) -> tuple[str, ...] | None:
        """Places that its roles let it see, in the form of ``fabric.core.people.roles``; None: the whole workspace."""
        return None if self.kind == "system" else reached_places(self.held or self.roles)

    @property
    def narrow(self) -> bool:
        """True if there are fabrics that the actor does not see."""
        return bool(self.fabrics) or self.reach is not None

    @property
    def placed(self) -> bool:
        """True if the actor's rights differ between fabrics."""
        return bool(self.fabrics) or any(map(read_place, self.held or self.roles))

    def sees(self, fabric: str) -> bool:
        """Return True if the actor sees a fabric. Drilled drafts of a fabric belong to it."""
        fabric = own_name(fabric)
        return (not self.fabrics or fabric in self.fabrics) and (
            self.reach is None or any(holds_at(place, fabric) for place in self.reach)
        )

    def place_at(self, fabric: str) -> Actor:
        """Return the actor at one fabric, with the roles that apply there. An actor that does not see the fabric has no
        roles.
        """
        fabric = own_name(fabric)
        if not self.placed or self.place == fabric:
            return self
        held = self.held or self.roles
        return replace(
            self, roles=roles_at(held, fabric) if self.sees(fabric) else frozenset(), held=held, place=fabric
        )

    def may(self, right: Right) -> bool:
        """Return True if a role carries this right, at the actor's fabric or else in the whole workspace. The
        installation itself has every right.

        A token that is confined to some fabrics has no right about the workspace.
        """
        return self.kind == "system" or ((not self.fabrics or bool(self.place)) and has(self.roles, right))

    def may_somewhere(self, right: Right) -> bool:
        """Return True if a role carries this right at some fabric, or everywhere."""
        held = self.held or self.roles
        return self.kind == "system" or has({word.partition("@")[0] for word in held}, right)


def may(actor: Actor, right: Right, fabric: str) -> bool:
    """Return True if the actor has this right at a fabric. Every door and service uses this check."""
    return actor.place_at(fabric).may(right)
