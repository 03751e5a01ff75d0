"""The ports: what the engine asks of the world, as Protocols, and the values that cross them.

Two implementations of each exist and pass the same contract tests: the real ones in ``fabric/adapters`` and the in-memory ones in
``simulator/kernel``. Instants are microseconds since the epoch, UTC; durations are seconds; money is micro-dollars.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from typing import Any, Literal, Protocol

from fabric.core.envelope import Row
from fabric.core.flow import RunState
from fabric.core.frozen import value
from fabric.core.inputs import CallFailed, ModelReplied, ToolCall, ToolFinished
from fabric.core.spec import ModelSpec, ToolSpec
from fabric.core.taxonomy import Tier

JSON = Any

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
    priority: Literal["critical", "high", "normal", "low"]
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
    documents: tuple[Document, ...] = ()


@value()
class Document:
    """An attached text document."""

    name: str
    text: str


@value()
class InboxItem:
    """One visible, unconsumed inbox row of a run."""

    run_id: str
    input_id: str
    body: bytes


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
    """The whole journal in order; empty for a run that never started."""
    inbox: tuple[InboxItem, ...]
    """Visible, unconsumed inputs in order of arrival."""
    taken_over: bool
    """True: the previous owner did not release it (it died, or was fenced out)."""


@value(kw_only=True)
class EscalationChange:
    """The projection of an escalation event, written in the same batch. ``decided_at`` None: opened; else closed."""

    escalation_id: str
    step_id: str
    item: str
    reason: str
    failure_type: str
    stage: str
    required_role: str
    verbs: tuple[str, ...]
    digest: str
    due_at: int
    opened_at: int
    content: bytes
    """JSON of what the person is shown; empty on closing."""
    decided_at: int | None = None
    verb: str = ""
    decided_by: str = ""
    by_system: bool = False


@value(kw_only=True)
class RunColumns:
    """The run row's projection after the batch: what lists filter on."""

    state: RunState
    stage: str
    epoch: int
    cost_usd_micros: int
    tokens: int
    reason: str = ""
    recovered: bool = False
    truncated: bool = False
    started_at: int | None = None
    ended_at: int | None = None
    deadline_at: int = 0


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
    columns: RunColumns
    consumed: tuple[str, ...] = ()
    """``input_id`` of the inbox rows that this batch consumes. One that is no longer there unconsumed refuses the batch."""
    escalations: tuple[EscalationChange, ...] = ()
    wake_at: int | None = None
    """When the run is due again once released; None: only an inbox row wakes it."""
    release: bool = False
    """True: the run is given back with this batch (waiting or ended)."""

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
    """An inbox row it consumed was withdrawn or consumed. Discard and load again."""


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

    def create(self, run: NewRun) -> tuple[str, bool]:
        """Inserts a run and its first inbox row. Returns ``(run id, created)``; with a known start key the run that has it, False."""
        ...

    def put_input(self, run_id: str, input_id: str, body: bytes, *, delay_s: float = 0.0) -> bool:
        """Inserts an inbox row, visible after ``delay_s``. False: that input id was there already (nothing changes)."""
        ...

    def register(self, incarnation: str, *, lease_s: float) -> None:
        """Announces a worker incarnation and its lease."""
        ...

    def beat(self, incarnation: str, *, lease_s: float) -> bool:
        """Renews the lease. False: the incarnation is unknown or was retired; it must stop."""
        ...

    def retire(self, incarnation: str) -> None:
        """Ends the lease at once: a clean stop, or the successor of a process known to be dead."""
        ...

    def claim(self, incarnation: str, *, limit: int, queues: Sequence[str], again: Sequence[str] = ()) -> list[Claimed]:
        """Takes up to ``limit`` runs that are due, nudged or orphaned, bumping each fence, and loads them.

        ``again``: runs that may be this incarnation's own without its knowing; those that are, are taken anew.
        """
        ...

    def inbox(self, incarnation: str) -> list[InboxItem]:
        """Visible, unconsumed inputs of the runs that this incarnation owns."""
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


# -- models and tools --------------------------------------------------------------------------------------------------


@value()
class ChatMessage:
    """One rendered message. ``calls`` are the assistant's proposals; ``call_id`` names the call a tool message answers."""

    role: Literal["system", "user", "assistant", "tool"]
    text: str
    calls: tuple[ToolCall, ...] = ()
    call_id: str = ""
    tool: str = ""


@value(kw_only=True)
class ToolOffer:
    """A tool as it is offered to a model."""

    name: str
    description: str
    parameters: Mapping[str, JSON]


@value(kw_only=True)
class ModelRequest:
    """One attempt at one model call, rendered and ready to send."""

    command_id: str
    attempt: int
    run_id: str
    trace_id: str
    span_id: str
    agent: str
    model: ModelSpec
    messages: tuple[ChatMessage, ...]
    tools: tuple[ToolOffer, ...]
    output: str
    """Name of the wanted shape in ``payloads.AGENT_OUTPUT``."""
    output_schema: Mapping[str, JSON] | None
    """None: plain text is wanted."""
    max_output_tokens: int
    idempotency_key: str
    deadline_at: int


@value(kw_only=True)
class ToolRequest:
    """One attempt at one tool call."""

    command_id: str
    attempt: int
    run_id: str
    trace_id: str
    span_id: str
    tool: ToolSpec
    args: Mapping[str, JSON]
    idempotency_key: str
    deadline_at: int
    documents: Callable[[], tuple[Document, ...]]


class ModelPort(Protocol):
    """Asks a model once. No hidden retry, a hard end at the deadline, every failure a ``CallFailed``; never raises but on cancellation."""

    async def ask(self, request: ModelRequest) -> ModelReplied | CallFailed:
        """One attempt."""
        ...


class ToolPort(Protocol):
    """Runs a tool once. A tool's own error is a ``ToolFinished`` with ``error``; ``CallFailed`` is for what the model cannot mend."""

    async def run(self, request: ToolRequest) -> ToolFinished | CallFailed:
        """One attempt."""
        ...


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
