"""What the driver is stepped with, and what it asks its interpreter to do: two closed unions."""

from __future__ import annotations

from dataclasses import dataclass

from fabric.core.commands import Command
from fabric.core.inputs import Result
from fabric.runtime.ports import Batch, Claimed, InboxItem

# -- happenings --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Taken:
    """The run was claimed: fold its journal, go on."""

    claimed: Claimed
    incarnation: str


@dataclass(frozen=True, slots=True)
class Committed:
    """Everything up to ``seq`` is durable."""

    seq: int


@dataclass(frozen=True, slots=True)
class Refused:
    """A batch was not written: somebody else owns the run, or an input was withdrawn. State in memory is void."""

    reason: str


@dataclass(frozen=True, slots=True)
class Due:
    """The instant of the last ``WakeAt`` has come."""


@dataclass(frozen=True, slots=True)
class Arrived:
    """An inbox row became visible."""

    item: InboxItem


@dataclass(frozen=True, slots=True)
class Answered:
    """A port came back."""

    result: Result


Happening = Taken | Committed | Refused | Due | Arrived | Answered

# -- effects -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Append:
    """Write this batch; step with ``Committed`` or ``Refused``."""

    batch: Batch


@dataclass(frozen=True, slots=True)
class Perform:
    """Its intent is durable: do it. Step a call's answer with ``Answered``."""

    command: Command


@dataclass(frozen=True, slots=True)
class WakeAt:
    """Step with ``Due`` at this instant (microseconds since the epoch); it replaces the one before. None: not needed."""

    at: int | None


@dataclass(frozen=True, slots=True)
class Release:
    """Nothing more will come of this driver: drop it. The row is free when the last batch released it, or somebody else's."""

    reason: str


Effect = Append | Perform | WakeAt | Release

__all__ = [
    "Answered",
    "Append",
    "Arrived",
    "Committed",
    "Due",
    "Effect",
    "Happening",
    "Perform",
    "Refused",
    "Release",
    "Taken",
    "WakeAt",
]
