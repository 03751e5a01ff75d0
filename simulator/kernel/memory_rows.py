"""The memory store's tables: a row a run with its inbox, journal and snapshot, a row an incarnation, a row a family."""

from __future__ import annotations

from dataclasses import dataclass, field

from fabric.adapters.journal_rows import ANNOUNCED_US, PRIORITIES, Loaded
from fabric.core.envelope import Row
from fabric.core.fingerprint import ZERO_HASH
from fabric.core.flow import TERMINAL, RunState
from fabric.runtime.batch_parts import EscalationChange, FamilyCaps, RunColumns, Snapshot, names_text
from fabric.runtime.ports import Claimed, InboxItem, NewRun, StoredRow


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
    """Among those of all runs."""


@dataclass(slots=True)
class RunRow:
    """A run with its journal and its inbox."""

    new: NewRun
    wake_at: int | None
    columns: RunColumns
    format: int
    rows: list[Row] = field(default_factory=list)
    stored: list[StoredRow] = field(default_factory=list)
    """The same rows as whoever claims the run reads them."""
    inbox: list[InputRow] = field(default_factory=list)
    head: bytes = ZERO_HASH
    last_seq: int = 0
    fence: int = 0
    incarnation: str | None = None
    claims: int = 0
    snapshot: Snapshot | None = None

    @property
    def urgency(self) -> tuple[int, str]:
        """What claims go by; the lowest first."""
        return PRIORITIES.index(self.new.priority), self.new.run_id

    @property
    def over(self) -> bool:
        """Whether it has ended."""
        return self.columns.state in TERMINAL

    def due(self, now: int, format: int) -> bool:
        """Whether it is time to claim it, while nobody owns it."""
        quarantined = self.columns.state is RunState.QUARANTINED
        if not quarantined and self.wake_at is not None and self.wake_at <= now:
            return True
        return any(
            item.consumed_seq is None and item.visible_at <= now and item.wakes > quarantined and item.format <= format
            for item in self.inbox
        )

    def next_due(self, now: int) -> list[int]:
        """When something of it is due for somebody: what its owner can see already is the owner's business."""
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
        """Its snapshot, where a program of that digest can read it."""
        return self.snapshot if digest and self.snapshot is not None and self.snapshot.digest == digest else None

    def size(self, digest: str) -> int:
        """How many rows are read with it."""
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
    ) -> Claimed:
        """Hands it to an incarnation, with all that is needed to go on. ``cut``: see ``Claimed``."""
        orphaned = self.incarnation is not None
        self.incarnation = incarnation
        self.fence += 1
        self.claims += 1
        new, snapshot, waiting = self.new, self.from_snapshot(digest), [item for _, _, item in self.waiting(now)]
        loaded = Loaded(snapshot=snapshot)
        loaded.rows = [row for row in self.stored if snapshot is None or row.seq > snapshot.seq]
        loaded.kept = [] if snapshot is None else [row for row in self.stored if row.seq in snapshot.refs]
        loaded.inbox = [item for item in waiting if not item.announced]
        loaded.announced = [item for item in waiting if item.announced]
        return loaded.claimed(
            *(new.run_id, self.fence, new.revision_id, new.trace_id, new.seed, new.tier, orphaned),
            *(self.claims, self.last_seq, self.head, self.format, new.workspace_id, new.queue, new.session_key),
            *(new.parent_run_id, new.parent_command, fabric_id, new.requested_by, names_text(new.caused_by), capped),
            policy_number,
            priority=self.urgency[0],
            cut=cut,
            at=now,
        )

    def waiting(self, now: int) -> list[tuple[int, int, InboxItem]]:
        """The unconsumed inputs whose time has come or is near, each after what it is sorted by."""
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
    """All of it."""

    runs: dict[str, RunRow] = field(default_factory=dict)
    live: dict[str, RunRow] = field(default_factory=dict)
    """Those that have not ended."""
    start_keys: dict[tuple[str, str], str] = field(default_factory=dict)
    incarnations: dict[str, IncarnationRow] = field(default_factory=dict)
    families: dict[str, FamilyRow] = field(default_factory=dict)
    escalations: dict[str, tuple[str, EscalationChange]] = field(default_factory=dict)
    arrivals: int = 0

    def insert(self, new: NewRun, now: int) -> None:
        """A run with its first input."""
        columns = RunColumns(
            state=RunState.QUEUED, stage="", epoch=0, cost_usd_micros=0, tokens=0, deadline_at=new.deadline_at
        )
        run = self.runs[new.run_id] = self.live[new.run_id] = RunRow(new, now, columns, new.format)
        self.arrive(run, InputRow(new.input_id, new.input_body, now, now, format=new.format))

    def arrive(self, run: RunRow, item: InputRow) -> None:
        """An input of a run; of one that has ended it is closed at once."""
        self.arrivals += 1
        item.order = self.arrivals
        item.consumed_seq = run.last_seq if run.over else None
        run.inbox.append(item)


def stored(row: Row) -> StoredRow:
    """A row as a store gives it back."""
    return StoredRow(row.seq, row.kind, row.version, row.header, row.payload, row.payload_hash, row.hash)
