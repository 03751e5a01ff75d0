"""What the driver is stepped with, and what it asks its interpreter to do: two closed unions."""

from __future__ import annotations

from fabric.core.breaker.passing import Gate, Judged
from fabric.core.commands import Command
from fabric.core.frozen import value
from fabric.core.grants import Given, Need, Refusal, TokenWant, Want
from fabric.core.inputs import CallStreamed, Result
from fabric.runtime.loading import Damage
from fabric.runtime.ports import Batch, Claimed, InboxItem

# -- happenings --------------------------------------------------------------------------------------------------------


@value()
class Taken:
    """The run was claimed: fold its journal, go on."""

    claimed: Claimed
    incarnation: str
    family_full: bool = False
    """True: the children that this process wanted to spawn for it were refused (``Written.FAMILY_FULL``)."""


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
    """An inbox row became visible, or will within a minute: the store announces it."""

    item: InboxItem


@value()
class Answered:
    """A port came back."""

    result: Result


@value()
class Streamed:
    """A call is whole of an answer that is still coming in."""

    given: CallStreamed


@value()
class Draining:
    """The process stops: what comes in is recorded, nothing more is issued, and the run is released once nothing of it is out."""


@value()
class CutShort:
    """The process ends now: what is out is interrupted, and the run is released. ``unsent``: ``(command id, attempt)`` of what never went out."""

    unsent: frozenset[tuple[str, int]] = frozenset()


@value()
class Granted:
    """What a ``Need`` asked for is there by now, or was a moment ago: look again. Of a retry token: it was given, and ``given`` says what it left."""

    want: Want | TokenWant
    given: Given = Given()


@value()
class Denied:
    """What a ``Need`` asked for will not be given."""

    want: Want | TokenWant
    refusal: Refusal


Happening = Taken | Committed | Refused | Due | Arrived | Streamed | Answered | Draining | CutShort | Granted | Denied

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


@value()
class OpenBreakers:
    """A run spent too fast, or a gate judged an output: count that, and open the breakers whose threshold it reaches. Nothing is to be answered."""

    gates: tuple[Gate, ...]
    judged: tuple[Judged, ...] = ()


@value()
class Quarantine:
    """The run cannot be read on: nothing more will come of this driver, and nothing may be done on the word of its journal. Drop it, and
    hand the run over to quarantine with what was found.
    """

    damage: Damage
    claimed: Claimed | None = None
    """What was claimed, where nothing has been written since: ``quarantine.verdict`` writes behind it."""


Effect = Append | Perform | WakeAt | Release | OpenBreakers | Quarantine | Need
"""``Need``: step with ``Granted`` or ``Denied`` for each of its wants; meanwhile whatever else comes is taken in as ever."""

__all__ = [
    "Answered",
    "Append",
    "Arrived",
    "Committed",
    "CutShort",
    "Denied",
    "Draining",
    "Due",
    "Effect",
    "Granted",
    "Happening",
    "Need",
    "OpenBreakers",
    "Perform",
    "Quarantine",
    "Refused",
    "Release",
    "Streamed",
    "Taken",
    "WakeAt",
]
