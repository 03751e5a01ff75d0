"""What a batch writes beside the journal's rows: projections that lists and pages read, inputs for other runs, a snapshot, shared money."""

from __future__ import annotations

from enum import StrEnum

from fabric.core.flow import RunState
from fabric.core.frozen import value


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
class RunMark:
    """In place of ``RunColumns`` by an owner that cannot fold the journal: what the run cost so far is in the row."""

    state: RunState
    reason: str = ""
    ended_at: int | None = None
    recovered: bool | None = None
    """None, here and below: the row's stays."""
    truncated: bool | None = None
    charged_usd_micros: int = 0
    """Added to what the row says that the run cost: the worst case of what nobody will settle any more."""
    charged_tokens: int = 0


@value(kw_only=True)
class Send:
    """An input for another run, inserted with the batch; once, by ``(run_id, input_id)``. A run that has ended gets none."""

    run_id: str
    input_id: str
    body: bytes
    wakes: int = 1
    """See ``JournalStore.put_input``."""
    delay_s: float = 0.0
    format: int = 1


@value(kw_only=True)
class FamilyCaps:
    """How many runs may descend from one root. What the family's first spawn brings holds for it."""

    alive: int
    """At one time, without the root itself."""
    spawned: int
    """In all."""


@value(kw_only=True)
class Snapshot:
    """A run's state as its journal folds up to ``seq``: loading begins there. Losing it costs time, nothing else."""

    seq: int
    digest: str
    """Which program can read ``state``; no other is given it."""
    head: bytes
    """Chain hash of event ``seq``."""
    state: bytes
    refs: tuple[int, ...] = ()
    """Seqs, up to ``seq``, of the events whose payloads the state still needs."""


# -- shared budgets ----------------------------------------------------------------------------------------------------


@value(kw_only=True)
class Reservation:
    """The worst case of one attempt at one call, out of one grant. A call under several scopes has one in each."""

    run_id: str
    command_id: str
    attempt: int
    grant_id: str
    usd_micros: int


class SettledBy(StrEnum):
    """Why a reservation stands at what it was settled at."""

    ANSWERED = "answered"
    """The call told what it cost."""
    NOT_SENT = "not_sent"
    """It was never sent, and costs nothing."""
    UNKNOWN = "unknown"
    """Its outcome is not known: charged at the worst case."""
    REAPED = "reaped"
    """The process that held the grant died with the call open: charged at the worst case, for good."""


@value(kw_only=True)
class Settlement:
    """What an attempt cost, for each grant that it was reserved from."""

    run_id: str
    command_id: str
    attempt: int
    usd_micros: int | None
    """None: the worst case, as reserved."""
    reason: SettledBy


@value(kw_only=True)
class Entries:
    """One run's reservations and settlements of one batch: written whole or not at all."""

    run_id: str
    reserved: tuple[Reservation, ...] = ()
    settled: tuple[Settlement, ...] = ()
