"""What the driver is stepped with, and what it asks its interpreter to do: two closed unions."""

from __future__ import annotations

from fabric.core.commands import Command
from fabric.core.frozen import value
from fabric.core.inputs import Result
from fabric.runtime.ports import Batch, Claimed, InboxItem

# -- happenings --------------------------------------------------------------------------------------------------------


@value()
class Taken:
    """The run was claimed: fold its journal, go on."""

    claimed: Claimed
    incarnation: str


@value()
class Committed:
    """Everything up to ``seq`` is durable."""

    seq: int


@value()
class Refused:
    """A batch was not written: somebody else owns the run, or an input was withdrawn. State in memory is void."""

    reason: str


@value()
class Due:
    """The instant of the last ``WakeAt`` has come."""


@value()
class Arrived:
    """An inbox row became visible."""

    item: InboxItem


@value()
class Answered:
    """A port came back."""

    result: Result


Happening = Taken | Committed | Refused | Due | Arrived | Answered

# -- effects -----------------------------------------------------------------------------------------------------------


@value()
class Append:
    """Write this batch; step with ``Committed`` or ``Refused``."""

    batch: Batch


@value()
class Perform:
    """Its intent is durable: do it. Step a call's answer with ``Answered``."""

    command: Command


@value()
class WakeAt:
    """Step with ``Due`` at this instant (microseconds since the epoch); it replaces the one before. None: not needed."""

    at: int | None


@value()
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
