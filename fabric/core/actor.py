"""Who acts: every service and selector takes one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


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
