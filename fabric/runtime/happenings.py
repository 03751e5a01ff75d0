"""Happenings that step the driver, and effects that its interpreter carries out: two closed unions."""

from __future__ import annotations

from fabric.core.breaker.passing import Gate, GateFinding
from fabric.core.budgets.grants import Need, Refusal, TokenGiven, TokenWant, Want
from fabric.core.events.commands import Command
from fabric.core.events.inputs import CallStreamed, Result
from fabric.core.values.frozen import value
from fabric.runtime.journal.loader import JournalDamage
from fabric.runtime.ports.journal import Batch, ClaimedRun, InboxItem

# -- happenings --------------------------------------------------------------------------------------------------------


@value()
class Taken:
    """The run was claimed: fold its journal, go on."""

    claimed: ClaimedRun
    incarnation: str
    family_full: bool = False
    """True: the children that this process wanted to spawn for it were refused (``Written.FAMILY_FULL``)."""


@value()
class Committed:
    """A batch committed: everything up to ``seq`` is durable."""

    seq: int


@value()
class BatchRefused:
    """A batch was not written: another worker owns the run, or an input was withdrawn. State in memory is void."""

    reason: str


@value()
class Due:
    """The instant of the last ``WakeAt`` has come."""


@value()
class Arrived:
    """An inbox row became visible, or will within a minute: the store announces it."""

    item: InboxItem


@value()
class PortAnswered:
    """A port came back."""

    result: Result


@value()
class Streamed:
    """A call is complete in an answer that is still streaming in."""

    given: CallStreamed


@value()
class Draining:
    """The process stops: inputs are recorded, nothing more is issued, and the run is released once no call is out."""


@value()
class CutShort:
    """The process ends now: calls that are out are interrupted, and the run is released. ``unsent``: ``(command id,
    attempt)`` of calls that never went out.
    """

    unsent: frozenset[tuple[str, int]] = frozenset()


@value()
class Granted:
    """A ``Need`` was met, now or a moment ago: look again. For a retry token, ``given`` has the levels that it left."""

    want: Want | TokenWant
    given: TokenGiven = TokenGiven()


@value()
class Denied:
    """A ``Need`` was refused."""

    want: Want | TokenWant
    refusal: Refusal


Happening = (
    Taken | Committed | BatchRefused | Due | Arrived | Streamed | PortAnswered | Draining | CutShort | Granted | Denied
)

# -- effects -----------------------------------------------------------------------------------------------------------


@value()
class Append:
    """Write this batch; step with ``Committed`` or ``Refused``."""

    batch: Batch


@value()
class Perform:
    """Execute the command, since its intent is durable. Step with ``Answered`` once it has an answer."""

    command: Command


@value()
class WakeAt:
    """Step with ``Due`` at this instant (microseconds since the epoch); it replaces the one before. None: not
    needed.
    """

    at: int | None


@value()
class Release:
    """The driver is finished: drop it. The run's row is free if the last batch released it, or belongs to another
    worker.
    """

    reason: str


@value()
class OpenBreakers:
    """Asks the host to count a fast run or a judged output. It opens the breakers whose threshold the count reaches. It
    needs no answer.
    """

    gates: tuple[Gate, ...]
    judged: tuple[GateFinding, ...] = ()


@value()
class Quarantine:
    """The run's journal cannot be read on. Drop the driver, issue nothing, and hand the run over to quarantine with
    the damage.
    """

    damage: JournalDamage
    claimed: ClaimedRun | None = None
    """The claim, if nothing has been written since: ``quarantine.verdict`` writes after it."""


Effect = Append | Perform | WakeAt | Release | OpenBreakers | Quarantine | Need
"""``Need``: step with ``Granted`` or ``Denied`` for each of its wants; other happenings are taken in meanwhile."""

__all__ = [
    "Append",
    "Arrived",
    "BatchRefused",
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
    "PortAnswered",
    "Quarantine",
    "Release",
    "Streamed",
    "Taken",
    "WakeAt",
]
