"""What the simulator keeps of a run's changes to the world, counted anew from the facts alone."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(slots=True)
class Change:
    """One call that changes the world, under its key."""

    tool: str
    effect: str
    carry_over: bool
    status: str = "open"
    asked: bool = False
    """A person was asked about its stuck compensation."""
    answer: str = ""
    """What came of that: a verb, or ``expired``."""
    doubted: bool = False
    """An attempt before the last one may have been executed."""
    epoch: str = ""
    """Of what earlier tries and children did, the epoch of the run that has it now."""
    brief: int | None = None
    """Likewise which of its briefs it was done for; None: it is the run's own, or was for none."""
    in_team: bool = False
    """A team did it, in a child of the run's or below a slice."""

    @property
    def doubtful(self) -> bool:
        """Whether nobody knows if it was executed."""
        return self.status in ("open", "unknown")

    @property
    def standing(self) -> bool:
        """Whether it has, or may have, changed the world, and nothing was done about that."""
        return self.doubtful or self.status == "executed"

    @property
    def unwound(self) -> bool:
        """Whether it was come to when its run was unwound."""
        return self.status.startswith("compensation_")

    @property
    def undone(self) -> bool:
        """Whether it is not there any more."""
        return self.status in ("compensation_answered", "compensation_by_hand")


@dataclass(slots=True)
class Changes:
    """All of a run's, in the order of their newest intent."""

    by_key: dict[str, Change] = field(default_factory=dict)
    intended: dict[str, tuple[str, int]] = field(default_factory=dict)
    """Key and attempt by command id."""
    undoing: str = ""
    out: bool = False
    """A compensation is out."""
    purpose: str = ""
    approved: set[str] = field(default_factory=set)
    """Irreversible calls, by command id, that a person let pass."""
    items: dict[str, Any] = field(default_factory=dict)
    """Questions about changes: kind and scope by id."""
    terminated: bool = False

    def newest(self) -> str:
        """The key of what must be undone next; empty: nothing."""
        keys = [key for key, one in self.by_key.items() if one.standing]
        if self.purpose == "replan":
            keys = [key for key in keys if not self.by_key[key].carry_over]
        return keys[-1] if keys else ""
