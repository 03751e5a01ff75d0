"""Who acts: every service and selector takes one."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal

from fabric.core.reach import holds_at, own_name, place_of, reached, roles_at
from fabric.core.roles import Right, has


@dataclass(frozen=True, slots=True)
class Actor:
    """A person, a service account or the system itself, within one workspace."""

    name: str
    """Stable, human-readable; stands in journals and audit lines."""
    workspace_id: str
    kind: Literal["person", "service", "system"] = "person"
    roles: frozenset[str] = frozenset()
    """Those that are held; after ``at`` those that hold at one fabric."""
    via: str = ""
    """What acts in the name, where it is not the person's own sign-in: ``token:NAME``."""
    behind: tuple[str, ...] = ()
    """Who made what it acts with, such as the token of a service account, where that was somebody else: they answer for it as for their own."""
    alone: bool = field(default=False, compare=False)
    """Whether nobody else may sign in to the workspace."""
    signed_in_at: int = field(default=0, compare=False)
    """When the person last signed in, microseconds since the epoch; 0: that is not known, or no person did."""
    drills_id: str = field(default="", compare=False)
    """The workspace in which the drills of this one run, where it was looked up with the actor; empty: there is none, or nobody looked."""
    fabrics: tuple[str, ...] = ()
    """The fabrics to which what it acts with is confined, by name; empty: to none."""
    place: str = ""
    """The fabric at which it acts, after ``at``."""
    held: frozenset[str] = frozenset()
    """After ``at``: the roles that are held, with their places."""

    @property
    def reach(self) -> tuple[str, ...] | None:
        """The places that its roles let it see, as ``fabric.core.reach`` writes them; None: the whole workspace."""
        return None if self.kind == "system" else reached(self.held or self.roles)

    @property
    def narrow(self) -> bool:
        """Whether there are fabrics that it does not see."""
        return bool(self.fabrics) or self.reach is not None

    @property
    def placed(self) -> bool:
        """Whether what it may do is not the same at every fabric."""
        return bool(self.fabrics) or any(map(place_of, self.held or self.roles))

    def sees(self, fabric: str) -> bool:
        """Returns True where the actor sees a fabric. Drilled drafts of a fabric belong to it."""
        fabric = own_name(fabric)
        return (not self.fabrics or fabric in self.fabrics) and (
            self.reach is None or any(holds_at(place, fabric) for place in self.reach)
        )

    def at(self, fabric: str) -> Actor:
        """The same at one fabric, with the roles that hold there; none where it does not see it."""
        fabric = own_name(fabric)
        if not self.placed or self.place == fabric:
            return self
        held = self.held or self.roles
        return replace(
            self, roles=roles_at(held, fabric) if self.sees(fabric) else frozenset(), held=held, place=fabric
        )

    def may(self, right: Right) -> bool:
        """Whether one of the roles carries this right: at the fabric at which it acts, else in the whole workspace. What the installation does by itself, it may.

        Whose token is confined to some fabrics may nothing that is about the workspace.
        """
        return self.kind == "system" or ((not self.fabrics or bool(self.place)) and has(self.roles, right))

    def may_somewhere(self, right: Right) -> bool:
        """Whether one of the roles carries this right at some fabric, or everywhere."""
        held = self.held or self.roles
        return self.kind == "system" or has({word.partition("@")[0] for word in held}, right)


def may(actor: Actor, right: Right, fabric: str) -> bool:
    """Whether somebody has this right at a fabric: the one question that every door and service asks."""
    return actor.at(fabric).may(right)
