"""What a batch writes beside the journal's rows: projections that lists and pages read, inputs for other runs, a snapshot, shared money."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import Any

from fabric.core.flow import RunState
from fabric.core.frozen import replace, value


@value(kw_only=True)
class EscalationChange:
    """The projection of an escalation event, written in the same batch. What a change says nothing of stays as the row has it: names and numbers
    at their default, and content that is empty.
    """

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
    """JSON of what the person is shown."""
    decided_at: int | None = None
    verb: str = ""
    decided_by: str = ""
    by_system: bool = False
    alone: bool = False
    """Whether who decided was the one person who may sign in there."""
    approvals: int = 1
    """How many people have to agree."""
    asked: tuple[str, ...] = ()
    """The roles and users who may answer from the beginning..."""
    onward_to: tuple[str, ...] = ()
    """...and who may as well once it was passed on."""
    barred: tuple[str, ...] = ()
    """Who may do no more than reject."""
    remind_at: int = 0
    onward_at: int = 0
    reminded: bool = False
    onward: bool = False
    """Whether it was passed on."""
    agreed: tuple[str, ...] = ()
    """Who has agreed to exactly what is asked about now. With a digest, and an edit has one, nobody but these."""
    proposed_by: str = ""
    """Who wrote what is asked about, and may not approve it; with a digest, nobody where it is empty."""
    score: float | None = None
    tau: float | None = None

    @property
    def row(self) -> dict[str, Any]:
        """The columns of the table, by their names (``COLUMNS``)."""
        listed = {name: names_text(getattr(self, name)) for name in LISTS}
        plain = {name: getattr(self, name) for name in COLUMNS if name not in listed}
        return {**plain, **listed, "verbs": ",".join(self.verbs), "stage": str(self.stage)}

    @property
    def opens(self) -> bool:
        """Whether it is a question that was not there before."""
        return bool(self.item)

    def then(self, later: EscalationChange) -> EscalationChange:
        """The question as it stands after a later change of it: what the stores do to its row."""
        edited = bool(later.digest)
        return replace(
            self,
            digest=later.digest or self.digest,
            content=later.content or self.content,
            agreed=later.agreed if edited or later.agreed else self.agreed,
            proposed_by=later.proposed_by if edited else self.proposed_by,
            reminded=self.reminded or later.reminded,
            onward=self.onward or later.onward,
            **({name: getattr(later, name) for name in CLOSING} if later.decided_at is not None else {}),
        )


LISTS = ("asked", "onward_to", "barred", "agreed")
"""Columns of names (``names_text``)."""
COLUMNS = (
    *("step_id", "item", "reason", "failure_type", "stage", "required_role", "verbs", "digest", "opened_at", "due_at"),
    *("content", "decided_at", "verb", "decided_by", "by_system", "alone", "approvals", "remind_at", "onward_at"),
    *("reminded", "onward", "proposed_by", "score", "tau", *LISTS),
)
"""The columns of a question's row, beside its id, its workspace and its run."""
CLOSING = ("decided_at", "verb", "decided_by", "by_system", "alone")
"""What a question's end says of it."""


def names_text(names: Iterable[str]) -> str:
    """Names as a column holds them: each between two line ends, so that one is found by those; empty for none."""
    found = [name.replace("\n", " ") for name in names]
    return "\n{}\n".format("\n".join(found)) if found else ""


def names_of(text: str) -> tuple[str, ...]:
    """The names in such a column."""
    return tuple(name for name in text.split("\n") if name)


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
