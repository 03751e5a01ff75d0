"""Who acts: every service and selector takes one."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from fabric.core.roles import Right, has


@dataclass(frozen=True, slots=True)
class Actor:
    """A person, a service account or the system itself, within one workspace."""

    name: str
    """Stable, human-readable; stands in journals and audit lines."""
    workspace_id: str
    kind: Literal["person", "service", "system"] = "person"
    roles: frozenset[str] = frozenset()
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

    def may(self, right: Right) -> bool:
        """Whether one of the roles carries this right. What the installation does by itself, it may."""
        return self.kind == "system" or has(self.roles, right)
