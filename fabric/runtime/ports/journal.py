"""Ports of the journal: the engine's demands on the stores, as Protocols, and the values that cross them.

Those in ``fabric/stores`` and those in ``simulator/stores/memory`` pass one set of contract tests. Instants are
microseconds since the epoch, UTC; durations are seconds; money is micro-dollars.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Literal, Protocol

from fabric.core.audit.lines import AuditEntry
from fabric.core.events.envelope import JournalRow, find_last_seq
from fabric.core.people.eligibility import Person
from fabric.core.people.roles import held_in, roles_at
from fabric.core.values.fingerprint import ZERO_HASH
from fabric.core.values.flow import FORMAT
from fabric.core.values.frozen import value
from fabric.core.values.taxonomy import Tier
from fabric.runtime.ports.batch_parts import (
    Entries,
    FamilyCaps,
    Reservation,
    ReviewChange,
    RunColumns,
    RunMark,
    Send,
    Settlement,
    Snapshot,
)

Priority = Literal["critical", "high", "normal", "low"]
ANNOUNCED_S = 60.0
"""Seconds before its time at which an owner is announced an input."""
TAKEN_BACK = -2
"""``consumed_seq`` of an input that was withdrawn: no journal ends there."""
CLAIM_ROWS = 20_000
"""Most journal rows that one claim reads; the most urgent run is read whatever its size."""

# -- the journal store ------------------------------------------------------------------------------------------------


@value(kw_only=True)
class NewRun:
    """A run to be inserted, with its first inbox row, in one transaction."""

    run_id: str
    workspace_id: str
    revision_id: str
    """Row id of the pinned, published revision."""
    tier: Tier
    queue: str
    """The worker pool it waits for; ``default``."""
    priority: Priority
    session_key: str
    """Runs that share one belong to one session; "": the run is its own."""
    start_key: str
    """The caller's idempotency key for starting; "": none. Unique in the workspace."""
    seed: int
    trace_id: str
    title: str
    """First line of the request, for lists."""
    deadline_at: int
    input_id: str
    input_body: bytes
    """``inputs.INBOX.dump_json(RunRequested(...))``."""
    requested_by: str = ""
    caused_by: tuple[str, ...] = ()  # As in ``RunRequested``.
    trace_context: str = ""
    """Trace of the caller, or of the root's caller (``Caller.pack``); "": none."""
    documents: tuple[Document, ...] = ()
    """Documents of the run; a child has none of its own and reads its root's."""
    labels: tuple[tuple[str, str], ...] = ()
    """Keys and values; a child has none of its own and shows its root's."""
    format: int = 1
    """Format of the run and its first input: see ``JournalStore.claim``."""
    parent_run_id: str | None = None
    parent_command: str = ""
    """Id of the parent's command that it answers."""
    root_run_id: str | None = None
    """The run that all its ancestors descend from; None without a parent."""
    cap_usd_micros: int | None = None
    """Its reservation from its parent's budget; None: it has no parent."""
    origin_run_id: str | None = None
    """The run that it was forked from, at event ``origin_seq``."""
    origin_seq: int | None = None


@value()
class Document:
    """An attached document as text. Marks in the text say where its pages, sheets and rows begin
    (``fabric.core.texts.places``).
    """

    name: str
    text: str
    origin: str = ""
    """The file that it was read from (``fabric.runtime.ports.batch_parts``); "": it was given as text."""


@value()
class Standing:
    """Author of an answer, with their roles in the run's workspace when the store was read. For drills' hidden
    workspace, the roles are those of the workspace that the drills belong to.
    """

    name: str
    roles: str | None
    """Roles as the members' table has them; None: no member, or none who decides."""

    def person(self, fabric: str) -> Person:
        """Return the author for judging an answer to a fabric's review: with the roles that apply at that fabric."""
        return Person(name=self.name, roles=roles_at(held_in(self.roles or ""), fabric), member=self.roles is not None)


@value()
class InboxItem:
    """One unconsumed inbox row of a run."""

    run_id: str
    input_id: str
    body: bytes
    visible_at: int = 0
    announced: bool = False
    """True: its time has not come by the store's clock. It may still be withdrawn, and is not consumed yet."""
    format: int = 1
    standing: Standing | None = None  # Author of an answer to a review.
    sent_at: int = 0  # The time when it was inserted, by the store's clock; 0: not known.


@value()
class StoredRow:
    """One journal row as read back. ``payload`` is None when there was none or it was erased."""

    seq: int
    kind: str
    version: int
    header: bytes
    payload: bytes | None
    payload_hash: bytes
    hash: bytes

    @property
    def last_seq(self) -> int:
        """Return the seq of the row's last event."""
        return find_last_seq(self.seq, self.header)


@value()
class ClaimedRun:
    """A run that this incarnation now owns under ``fence``, with all that is needed to go on."""

    run_id: str
    fence: int
    revision_id: str
    trace_id: str
    seed: int
    tier: Tier
    rows: tuple[StoredRow, ...]
    """The journal in order, after the snapshot where there is one; empty for a run that never started."""
    inbox: tuple[InboxItem, ...]
    """Visible, unconsumed inputs in order of arrival."""
    taken_over: bool
    """True: the previous owner did not release it (it died, or was fenced out)."""
    claims: int = 1
    """Claims since the run last made progress, this one among them."""
    last_seq: int = 0
    """Last seq by the run's row."""
    head: bytes = ZERO_HASH
    """Chain hash of the last event by the run's row."""
    format: int = 1
    snapshot: Snapshot | None = None
    kept: tuple[StoredRow, ...] = ()
    """The rows that ``snapshot.refs`` names, in order."""
    announced: tuple[InboxItem, ...] = ()
    """Inputs that become visible within ``ANNOUNCED_S``, in order of arrival."""
    workspace_id: str = ""
    queue: str = "default"
    priority: Priority = "normal"
    session_key: str = ""
    parent_run_id: str | None = None
    parent_command: str = ""  # See ``NewRun``.
    fabric_id: str = ""
    capped: bool = False
    """True if its workspace had a budget when it was claimed; a first budget applies to later claims only."""
    policy_number: int = 0  # Version of its workspace's policy when it was claimed; 0: none.
    cut: bool = False
    """True: others that were due as well were left to the next claim, since one reads only ``CLAIM_ROWS``."""
    requested_by: str = ""
    """Person or account that started it, or its root."""
    caused_by: tuple[str, ...] = ()  # As in ``RunRequested``.
    trace_context: str = ""  # See ``NewRun``.
    documents: tuple[Document, ...] | None = None
    """Its attached documents, if its gates need their texts; None: not read."""
    at: int = 0
    """Instant of the claim by the store's clock. Anything due by then is due for its owner, despite the owner's own
    clock.
    """


@value(kw_only=True)
class Batch:
    """The pending rows of one run, written whole or not at all. The condition: ``fence`` and ``last_seq`` are still the
    row's.
    """

    run_id: str
    fence: int
    last_seq: int
    """Last seq of the run's row before this batch; the first row has ``last_seq + 1``. A batch without rows may
    still consume, wake or release.
    """
    rows: tuple[JournalRow, ...]
    head: bytes
    """Chain hash after the batch."""
    columns: RunColumns | RunMark | None
    """New columns of the run's row; None: unchanged, such as when an owner releases a run that it cannot read."""
    consumed: tuple[str, ...] = ()
    """``input_id`` of the inbox rows that this batch consumes. If one is missing or consumed, the batch is refused."""
    standings: tuple[tuple[str, Standing], ...] = ()
    """Authors with the roles on which the answers among those were judged, by ``input_id``. A change since then
    refuses the batch as if the input were gone: it is judged anew.
    """
    reviews: tuple[ReviewChange, ...] = ()
    wake_at: int | None = None
    """Instant at which the run is due again once released; None: only an inbox row wakes it."""
    release: bool = False
    """True: the run is released with this batch (waiting or ended)."""
    children: tuple[NewRun, ...] = ()
    """Runs that begin with this batch, all of one root. An existing one stays unchanged."""
    caps: FamilyCaps | None = None
    """Caps on the family, with a batch that spawns children."""
    sends: tuple[Send, ...] = ()
    snapshot: Snapshot | None = None
    """Takes the place of the one before."""
    format: int = 0
    """The run's is raised to it, never lowered."""
    reserved: tuple[Reservation, ...] = ()
    """Amounts that its calls take of this process's grants. A grant that is no longer open refuses the batch."""
    settled: tuple[Settlement, ...] = ()

    @property
    def entries(self) -> Entries:
        """Return its entries for shared budgets."""
        return Entries(run_id=self.run_id, reserved=self.reserved, settled=self.settled)

    @property
    def new_seq(self) -> int:
        """The journal's end after the batch."""
        return self.rows[-1].last_seq if self.rows else self.last_seq


class BatchFate(StrEnum):
    """Fate of a batch."""

    COMMITTED = "committed"
    FENCED = "fenced"
    """Fence or last_seq differed from the row's: another worker owns the run, or the batch was written before.
    Discard the state.
    """
    INPUT_GONE = "input_gone"
    """An inbox row that it consumed was withdrawn or consumed, or an author's roles have changed since they were
    judged. Discard the state and load again.
    """
    FAMILY_FULL = "family_full"
    """Its children would exceed the family's caps. Discard the state and load again."""
    GRANT_GONE = "grant_gone"
    """A grant it reserves from is not open any more. Discard, forget the grant and load again."""


class InputWithdrawn(StrEnum):
    """Result of withdrawing an input."""

    GONE = "gone"
    """The input was withdrawn now."""
    TOO_LATE = "too_late"
    """Its run has consumed it, or ended."""
    UNKNOWN = "unknown"
    """There is no such input: it never came, or was withdrawn before."""


@value()
class Head:
    """Position of a run's row, which tells the fate of an unknown commit."""

    fence: int
    last_seq: int
    head: bytes


class StoreUnavailable(Exception):
    """The database did not answer, refused, or is read-only. ``unknown`` is true when a commit may have happened."""

    def __init__(self, message: str, *, unknown: bool = False) -> None:
        super().__init__(message)
        self.unknown = unknown


class JournalStore(Protocol):
    """Durable runs. Every method is one short transaction, thread-safe, and raises StoreUnavailable when the
    database is away. Leases are compared on the store's own clock, never on a caller's.
    """

    def create(self, run: NewRun, *, audit: AuditEntry | None = None) -> tuple[str, bool]:
        """Insert a run and its first inbox row, with the ``audit`` line about it. Returns ``(run id, created)``;
        with a known start key the run that has it, False.

        Raises StartStopped (``fabric.stores.errors``) while new runs are stopped, in that same transaction. Child runs
        are part of a run that was started, and go on.
        """
        ...

    def put_input(
        self,
        run_id: str,
        input_id: str,
        body: bytes,
        *,
        delay_s: float = 0.0,
        format: int = 1,
        wakes: int = 1,
        audit: AuditEntry | None = None,
    ) -> bool:
        """Insert an inbox row, visible after ``delay_s``, with the ``audit`` line about it. False: that input id was
        there already (nothing changes). ``wakes``: 0 it is seen when the run is claimed for something else, 1 it
        is a reason to claim the run, 2 a quarantined one too.
        """
        ...

    def withdraw_input(self, run_id: str, input_id: str, *, audit: AuditEntry | None = None) -> InputWithdrawn:
        """Withdraw an inbox row that is not consumed yet, and write the ``audit`` line about it. The row stays, and
        its id is not free again.
        """
        ...

    def hasten_input(self, run_id: str, input_id: str, *, audit: AuditEntry | None = None) -> bool:
        """Make an inbox row visible now whose time is yet to come, with the ``audit`` line about it. False: there is
        none (nothing changes).
        """
        ...

    def register(self, incarnation: str, *, lease_s: float, token: int = 0) -> None:
        """Announce a worker incarnation and its lease. ``token``: an incarnation of this name with another token is
        refused.
        """
        ...

    def now(self) -> int:
        """Return the store's clock: microseconds since the epoch."""
        ...

    def beat(self, incarnation: str, *, lease_s: float, refused: int = 0) -> int:
        """Renew the lease; return the store's clock, microseconds since the epoch. 0: the incarnation is unknown or
        was retired; it must stop.

        ``refused``: how many of its batches have been refused as another's since it was announced.
        """
        ...

    def retire(self, incarnation: str) -> None:
        """End the lease at once: a clean stop, or the successor of a process known to be dead."""
        ...

    def claim(
        self,
        incarnation: str,
        *,
        limit: int,
        queues: Sequence[str],
        format: int = FORMAT,
        again: Sequence[str] = (),
        steady: bool = True,
        digest: str = "",
    ) -> list[ClaimedRun]:
        """Claim up to ``limit`` runs that are due, nudged or orphaned, raise each fence, and load them. Higher priority
        comes first, then the lower id.

        - ``format``: the highest that the caller reads; runs above it are left to others.
        - ``again``: runs that may belong to this incarnation without its knowledge; those that do are claimed anew.
        - ``steady`` False: the store's clock may have jumped, so a lapsed lease proves nothing, and only runs of a
          retired incarnation are orphaned.
        - ``digest``: the snapshots that the caller reads; a journal with another one, or none, is loaded whole.

        Fewer than ``limit`` are claimed if their rows would be more than ``CLAIM_ROWS``. Of
        suspects (``suspects.is_suspect``) the caller owns one at a time; the others stay due.
        """
        ...

    def owned_by(self, incarnation: str) -> Sequence[str]:
        """Return the runs whose rows name this incarnation as their owner, in order of their ids."""
        ...

    def inbox(self, incarnation: str) -> list[InboxItem]:
        """Return the unconsumed inputs of the runs that this incarnation owns, visible or announced, in order of
        arrival.
        """
        ...

    def write(self, batches: Sequence[Batch]) -> list[BatchFate]:
        """Write the batches in one transaction, each on its own condition; returns their fates in order.

        At most one batch a run. Raises StoreUnavailable with ``unknown`` set when the COMMIT's fate is not known.
        """
        ...

    def heads(self, run_ids: Sequence[str]) -> Mapping[str, Head]:
        """Return the positions of those runs' rows."""
        ...

    def journal(self, run_id: str, *, after: int = 0, limit: int | None = None) -> list[StoredRow]:
        """Return the rows with ``seq > after`` in order; ``seq`` is that of a row's first event."""
        ...

    def documents(self, run_id: str) -> tuple[Document, ...]:
        """Return the run's attached documents, in the order they were attached."""
        ...

    def next_due_s(self) -> float | None:
        """Return the seconds until the next released run or inbox row becomes due. 0 or less: now. None: nothing is
        scheduled.
        """
        ...


# -- time and nudges -------------------------------------------------------------------------------------------------


class Clock(Protocol):
    """The time."""

    def now(self) -> int:
        """Return microseconds since the epoch, UTC."""
        ...


class Nudge(Protocol):
    """Sends notices that may get lost: to hosts about work, to open pages about new events. Never raises."""

    def wake(self, run_id: str) -> None:
        """Announce to a host that something is due."""
        ...

    def announce(self, run_seqs: Mapping[str, int]) -> None:
        """Announce the new ends of these runs' journals."""
        ...
