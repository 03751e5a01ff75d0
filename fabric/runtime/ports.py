"""The ports: what the engine asks of the world, as Protocols, and the values that cross them.

Those in ``fabric/adapters`` and those in ``simulator/kernel``, in memory, pass the same contract tests. Instants are microseconds since the epoch, UTC; durations are seconds; money is micro-dollars.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any, Literal, Protocol

from fabric.core.audit import AuditEntry
from fabric.core.eligibility import Person
from fabric.core.envelope import Row
from fabric.core.fingerprint import ZERO_HASH
from fabric.core.flow import FORMAT
from fabric.core.frozen import value
from fabric.core.reach import roles_at
from fabric.core.roles import held_in
from fabric.core.taxonomy import Tier
from fabric.runtime.batch_parts import (
    Entries,
    EscalationChange,
    FamilyCaps,
    Reservation,
    RunColumns,
    RunMark,
    Send,
    Settlement,
    Snapshot,
)

JSON = Any
Priority = Literal["critical", "high", "normal", "low"]
ANNOUNCED_S = 60.0
"""How long before its time an owner is told of an input."""
TAKEN_BACK = -2
"""``consumed_seq`` of an input that was withdrawn: no journal ends there."""
CLAIM_ROWS = 20_000
"""How many journal rows one claim reads at most; the most urgent run is read whatever its size."""

# -- the journal store -------------------------------------------------------------------------------------------------


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
    """Runs that share one belong to one session; empty: the run is its own."""
    start_key: str
    """The caller's idempotency key for starting; empty: none. Unique in the workspace."""
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
    documents: tuple[Document, ...] = ()
    """A child has none of its own: it is shown its root's."""
    format: int = 1
    """Of the run and its first input: see ``JournalStore.claim``."""
    parent_run_id: str | None = None
    parent_command: str = ""
    """Id of the parent's command that it answers."""
    root_run_id: str | None = None
    """The run that all its ancestors descend from; None without a parent."""
    cap_usd_micros: int | None = None
    """What it may cost, of its parent's budget."""
    origin_run_id: str | None = None
    """The run that it was forked from, at event ``origin_seq``."""
    origin_seq: int | None = None


@value()
class Document:
    """An attached document as text. Marks in the text say where its pages, sheets and rows begin (``fabric.core.places``)."""

    name: str
    text: str
    origin: str = ""
    """The file that it was read from (``fabric.runtime.origin``); empty: it was given as text."""


@value()
class Standing:
    """Who gives an answer, and what they held in the run's workspace when the store was asked. Of drills' hidden workspace: in the one whose drills they are."""

    name: str
    roles: str | None
    """As the table of members has them; None: they are no member, or none who decides."""

    def person(self, fabric: str) -> Person:
        """The same as whoever judges an answer to a question of a fabric wants it: with the roles that hold there."""
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
    standing: Standing | None = None  # Of an answer to a question: who gives it.
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


@value()
class Claimed:
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
    """The journal's end as the run's row has it."""
    head: bytes = ZERO_HASH
    """Chain hash of the last event as the run's row has it."""
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
    """Whether its workspace had a budget when it was claimed: the first one holds for what is claimed from then on."""
    policy_number: int = 0  # The version of its workspace's policy when it was claimed; 0: it had none.
    cut: bool = False
    """True: others that were due as well were left to the next claim, since one reads only ``CLAIM_ROWS``."""
    requested_by: str = ""
    """Who started it, or its root."""
    caused_by: tuple[str, ...] = ()  # As in ``RunRequested``.
    documents: tuple[Document, ...] | None = None
    """Its attached documents, where its gates ask for their texts; None: not read."""
    at: int = 0
    """When it was claimed, by the store's clock: what was due by that is due for its owner, whatever its own clock says."""


@value(kw_only=True)
class Batch:
    """What one run has ready: written whole or not at all, on condition that ``fence`` and ``last_seq`` are still the row's."""

    run_id: str
    fence: int
    last_seq: int
    """The row's before this batch; the first row has ``last_seq + 1``. A batch without rows may still consume, wake or release."""
    rows: tuple[Row, ...]
    head: bytes
    """Chain hash after the batch."""
    columns: RunColumns | RunMark | None
    """None: the row's stay as they are, as of an owner that gives back what it cannot read."""
    consumed: tuple[str, ...] = ()
    """``input_id`` of the inbox rows that this batch consumes. One that is no longer there unconsumed refuses the batch."""
    standings: tuple[tuple[str, Standing], ...] = ()
    """By ``input_id``, what answers among those were judged on. One that is not so any more refuses the batch, as if the input were gone: it is judged anew."""
    escalations: tuple[EscalationChange, ...] = ()
    wake_at: int | None = None
    """When the run is due again once released; None: only an inbox row wakes it."""
    release: bool = False
    """True: the run is given back with this batch (waiting or ended)."""
    children: tuple[NewRun, ...] = ()
    """Runs that begin with this batch, all of one root. One that is there already is left as it is."""
    caps: FamilyCaps | None = None
    """Given with children."""
    sends: tuple[Send, ...] = ()
    snapshot: Snapshot | None = None
    """Takes the place of the one before."""
    format: int = 0
    """The run's is raised to it, never lowered."""
    reserved: tuple[Reservation, ...] = ()
    """What its calls take of this process's grants. One that is not open any more refuses the batch."""
    settled: tuple[Settlement, ...] = ()

    @property
    def entries(self) -> Entries:
        """What it has for shared budgets."""
        return Entries(run_id=self.run_id, reserved=self.reserved, settled=self.settled)

    @property
    def new_seq(self) -> int:
        """The journal's end after the batch."""
        return self.last_seq + len(self.rows)


class Written(StrEnum):
    """What became of a batch."""

    COMMITTED = "committed"
    FENCED = "fenced"
    """Fence or last_seq were not the row's: somebody else owns the run, or it was written before. Discard and let go."""
    INPUT_GONE = "input_gone"
    """An inbox row it consumed was withdrawn or consumed, or whoever answered does not hold any more what they were judged on. Discard and load again."""
    FAMILY_FULL = "family_full"
    """Its children would be more than the family's caps allow. Discard and load again."""
    GRANT_GONE = "grant_gone"
    """A grant it reserves from is not open any more. Discard, forget the grant and load again."""


class Withdrawn(StrEnum):
    """What became of an input that was to be taken back."""

    GONE = "gone"
    """It was taken back now."""
    TOO_LATE = "too_late"
    """Its run has consumed it, or ended."""
    UNKNOWN = "unknown"
    """There is none: it never came, or was taken back before."""


@value()
class Head:
    """Where a run's row stands: to learn what became of an unknown commit."""

    fence: int
    last_seq: int
    head: bytes


class StoreUnavailable(Exception):
    """The database did not answer, refused, or is read-only. ``unknown`` is true when a commit may have happened."""

    def __init__(self, message: str, *, unknown: bool = False) -> None:
        super().__init__(message)
        self.unknown = unknown


class JournalStore(Protocol):
    """Durable runs. Every method is one short transaction, thread-safe, and raises StoreUnavailable when the database is away.
    Leases are compared on the store's own clock, never on a caller's.
    """

    def create(self, run: NewRun, *, audit: AuditEntry | None = None) -> tuple[str, bool]:
        """Inserts a run and its first inbox row, with the ``audit`` line that it is. Returns ``(run id, created)``; with a known start key the run that has it, False."""
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
        """Inserts an inbox row, visible after ``delay_s``, with the ``audit`` line that it is. False: that input id was there already (nothing changes).
        ``wakes``: 0 it is seen when the run is claimed for something else, 1 it is a reason to claim the run, 2 a quarantined one too.
        """
        ...

    def withdraw_input(self, run_id: str, input_id: str, *, audit: AuditEntry | None = None) -> Withdrawn:
        """Takes back an inbox row that nobody has consumed, with the ``audit`` line that it is. The row stays, and its id is not free again."""
        ...

    def hasten_input(self, run_id: str, input_id: str, *, audit: AuditEntry | None = None) -> bool:
        """Makes an inbox row visible now whose time is yet to come, with the ``audit`` line that it is. False: there is none (nothing changes)."""
        ...

    def register(self, incarnation: str, *, lease_s: float, token: int = 0) -> None:
        """Announces a worker incarnation and its lease. ``token``: whoever announces the same name with another is refused."""
        ...

    def now(self) -> int:
        """The store's clock: microseconds since the epoch."""
        ...

    def beat(self, incarnation: str, *, lease_s: float, refused: int = 0) -> int:
        """Renews the lease; the store's clock, microseconds since the epoch. 0: the incarnation is unknown or was retired; it must stop.

        ``refused``: how many of its batches have been refused as another's since it was announced.
        """
        ...

    def retire(self, incarnation: str) -> None:
        """Ends the lease at once: a clean stop, or the successor of a process known to be dead."""
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
    ) -> list[Claimed]:
        """Takes up to ``limit`` runs that are due, nudged or orphaned, bumping each fence, and loads them: by priority, then by id.

        ``format``: the highest that the caller reads; what is above it is left to others. ``again``: runs that may be this incarnation's own
        without its knowing; those that are, are taken anew. ``steady`` False: the store's clock may have jumped, so a lease that has
        lapsed proves nothing, and only what a retired incarnation owned is orphaned. ``digest``: whose snapshots the caller reads; with
        another's, or none, a journal is loaded whole. Fewer than ``limit`` are taken when their rows would be more than ``CLAIM_ROWS``. Of runs
        that were claimed again and again without progress as many are taken as ``suspects.admitted`` says; the others are as due as before.
        """
        ...

    def owned_by(self, incarnation: str) -> Sequence[str]:
        """The runs whose rows name this incarnation as their owner, in order of their ids."""
        ...

    def inbox(self, incarnation: str) -> list[InboxItem]:
        """Unconsumed inputs of the runs that this incarnation owns, in order of arrival: the visible and the announced ones."""
        ...

    def write(self, batches: Sequence[Batch]) -> list[Written]:
        """Writes the batches in one transaction, each on its own condition; returns their fates in order.

        At most one batch a run. Raises StoreUnavailable with ``unknown`` set when the COMMIT's fate is not known.
        """
        ...

    def heads(self, run_ids: Sequence[str]) -> Mapping[str, Head]:
        """Where those runs stand."""
        ...

    def journal(self, run_id: str, *, after: int = 0, limit: int | None = None) -> list[StoredRow]:
        """Rows with ``seq > after`` in order."""
        ...

    def documents(self, run_id: str) -> tuple[Document, ...]:
        """The run's attached documents, in the order they were attached."""
        ...

    def next_due_s(self) -> float | None:
        """Seconds until the next released run or inbox row becomes due (0 or less: now); None: nothing is scheduled."""
        ...


# -- time and nudges ----------------------------------------------------------------------------------------------------


class Clock(Protocol):
    """The time."""

    def now(self) -> int:
        """Microseconds since the epoch, UTC."""
        ...


class Nudge(Protocol):
    """Lossy "there is more to read": for hosts (``wake``) and for watching pages (``told``). Never raises."""

    def wake(self, run_id: str) -> None:
        """Something is due for a host."""
        ...

    def told(self, run_seqs: Mapping[str, int]) -> None:
        """These runs' journals now reach these seqs."""
        ...
