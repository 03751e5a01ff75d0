"""Tables of the memory store: rows of runs with inbox, journal and snapshot, of incarnations, and of families."""

from __future__ import annotations

from dataclasses import dataclass, field

from fabric.core.events.envelope import JournalRow
from fabric.core.values.fingerprint import ZERO_HASH
from fabric.core.values.flow import TERMINAL, RunState
from fabric.runtime.ports.batch_parts import FamilyCaps, ReviewChange, RunColumns, Snapshot, names_text
from fabric.runtime.ports.journal import ClaimedRun, InboxItem, NewRun, StoredRow
from fabric.stores.rows import ANNOUNCED_US, PRIORITIES, LoadedRun


@dataclass(slots=True)
class InputRow:
    """An input of a run; ``consumed_seq`` None: it waits."""

    input_id: str
    body: bytes
    created_at: int
    visible_at: int
    consumed_seq: int | None = None
    wakes: int = 1
    format: int = 1
    order: int = 0
    """Order among the inputs of all runs."""


@dataclass(slots=True)
class RunRow:
    """A run with its journal and its inbox."""

    new: NewRun
    wake_at: int | None
    columns: RunColumns
    format: int
    rows: list[JournalRow] = field(default_factory=list)
    stored: list[StoredRow] = field(default_factory=list)
    """Journal rows as a claiming worker reads them."""
    inbox: list[InputRow] = field(default_factory=list)
    head: bytes = ZERO_HASH
    last_seq: int = 0
    fence: int = 0
    incarnation: str | None = None
    claims: int = 0
    snapshot: Snapshot | None = None

    @property
    def urgency(self) -> tuple[int, str]:
        """Return the sort key of claims; the lowest first."""
        return PRIORITIES.index(self.new.priority), self.new.run_id

    @property
    def over(self) -> bool:
        """Return True if it has ended."""
        return self.columns.state in TERMINAL

    def due(self, now: int, format: int) -> bool:
        """Return True if it is time to claim it, provided that it has no owner."""
        quarantined = self.columns.state is RunState.QUARANTINED
        if not quarantined and self.wake_at is not None and self.wake_at <= now:
            return True
        return any(
            item.consumed_seq is None and item.visible_at <= now and item.wakes > quarantined and item.format <= format
            for item in self.inbox
        )

    def next_due(self, now: int) -> list[int]:
        """Return the instants at which it is due for a claim. Inputs that its owner can see already are left out."""
        released = self.incarnation is None
        quarantined = self.columns.state is RunState.QUARANTINED
        due = [self.wake_at] if released and self.wake_at is not None and not quarantined else []
        return due + [
            item.visible_at
            for item in self.inbox
            if not self.over
            and item.consumed_seq is None
            and (released or item.visible_at > now)
            and item.wakes > quarantined
        ]

    def from_snapshot(self, digest: str) -> Snapshot | None:
        """Return its snapshot if a program of that digest can read it, else None."""
        return self.snapshot if digest and self.snapshot is not None and self.snapshot.digest == digest else None

    def size(self, digest: str) -> int:
        """Return the number of rows that a claim reads."""
        snapshot = self.from_snapshot(digest)
        return self.last_seq - (snapshot.seq - len(snapshot.refs) if snapshot else 0)

    def take(
        self,
        incarnation: str,
        now: int,
        digest: str,
        *,
        fabric_id: str,
        capped: bool,
        policy_number: int = 0,
        cut: bool = False,
    ) -> ClaimedRun:
        """Give the run to an incarnation, with everything needed to go on. ``cut``: see ``Claimed``."""
        orphaned = self.incarnation is not None
        self.incarnation = incarnation
        self.fence += 1
        self.claims += 1
        new, snapshot, waiting = self.new, self.from_snapshot(digest), [item for _, _, item in self.list_waiting(now)]
        loaded = LoadedRun(snapshot=snapshot)
        loaded.rows = [row for row in self.stored if snapshot is None or row.seq > snapshot.seq]
        loaded.kept = [] if snapshot is None else [row for row in self.stored if row.seq in snapshot.refs]
        loaded.inbox = [item for item in waiting if not item.announced]
        loaded.announced = [item for item in waiting if item.announced]
        return loaded.build_claim(
            *(new.run_id, self.fence, new.revision_id, new.trace_id, new.seed, new.tier, orphaned),
            *(self.claims, self.last_seq, self.head, self.format, new.workspace_id, new.queue, new.session_key),
            *(new.parent_run_id, new.parent_command, fabric_id, new.requested_by, names_text(new.caused_by)),
            *(new.trace_context, capped, policy_number),
            priority=self.urgency[0],
            cut=cut,
            at=now,
        )

    def list_waiting(self, now: int) -> list[tuple[int, int, InboxItem]]:
        """Return the unconsumed inputs that are due or nearly due, each after its sort key."""
        return [
            (
                item.created_at,
                item.order,
                InboxItem(
                    self.new.run_id,
                    item.input_id,
                    item.body,
                    item.visible_at,
                    item.visible_at > now,
                    item.format,
                    sent_at=item.created_at,
                ),
            )
            for item in sorted(self.inbox, key=lambda item: (item.created_at, item.order))
            if item.consumed_seq is None and item.visible_at <= now + ANNOUNCED_US
        ]


@dataclass(slots=True)
class IncarnationRow:
    """A worker's life."""

    lease_until: int
    token: int = 0
    retired: bool = False
    refused_writes: int = 0


@dataclass(slots=True)
class FamilyRow:
    """The runs that descend from one root, counted."""

    caps: FamilyCaps
    alive: int = 0
    spawned: int = 0


@dataclass(slots=True)
class Tables:
    """All tables."""

    runs: dict[str, RunRow] = field(default_factory=dict)
    live: dict[str, RunRow] = field(default_factory=dict)
    """Runs that have not ended."""
    start_keys: dict[tuple[str, str], str] = field(default_factory=dict)
    incarnations: dict[str, IncarnationRow] = field(default_factory=dict)
    families: dict[str, FamilyRow] = field(default_factory=dict)
    reviews: dict[str, tuple[str, ReviewChange]] = field(default_factory=dict)
    arrivals: int = 0

    def insert(self, new: NewRun, now: int) -> None:
        """Insert a run with its first input."""
        columns = RunColumns(
            state=RunState.QUEUED, stage="", epoch=0, cost_usd_micros=0, tokens=0, deadline_at=new.deadline_at
        )
        run = self.runs[new.run_id] = self.live[new.run_id] = RunRow(new, now, columns, new.format)
        self.arrive(run, InputRow(new.input_id, new.input_body, now, now, format=new.format))

    def arrive(self, run: RunRow, item: InputRow) -> None:
        """Insert an input of a run; an ended run's input is closed at once."""
        self.arrivals += 1
        item.order = self.arrivals
        item.consumed_seq = run.last_seq if run.over else None
        run.inbox.append(item)


def store_row(row: JournalRow) -> StoredRow:
    """Return a row as a store returns it."""
    return StoredRow(row.seq, row.kind, row.version, row.header, row.payload, row.payload_hash, row.hash)
