"""Defines parts of a batch besides the journal's rows.

They are projections that lists and pages read, inputs for other runs, a snapshot, and shared money. A document that was
read from a file has a description of that file and of the reading, for the column beside its text.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from enum import StrEnum
from typing import Any

from fabric.core.texts.places import PlaceMap, drop_marks
from fabric.core.values.flow import RunState
from fabric.core.values.frozen import replace, value


@value(kw_only=True)
class ReviewChange:
    """The projection of a review's event, written in the batch of that event. Fields at their default leave the
    row's names, numbers and content unchanged.
    """

    review_id: str
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
    """JSON of the review's content."""
    decided_at: int | None = None
    verb: str = ""
    decided_by: str = ""
    by_system: bool = False
    alone: bool = False
    """True if the decider was the only person who may sign in there."""
    approvals: int = 1
    """Number of people who have to agree."""
    asked: tuple[str, ...] = ()
    """Roles and users who may answer from the beginning."""
    onward_to: tuple[str, ...] = ()
    """People who may answer too, once the review was passed on."""
    barred: tuple[str, ...] = ()
    """People who may only reject."""
    remind_at: int = 0
    onward_at: int = 0
    reminded: bool = False
    onward: bool = False
    """True if the review was passed on."""
    agreed: tuple[str, ...] = ()
    """People who have agreed to exactly the present content. With a digest (an edit has one) the list replaces the
    row's.
    """
    proposed_by: str = ""
    """Author of the content, who may not approve it. With a digest, "" means that there is none."""
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
        """True if the change opens a new review."""
        return bool(self.item)

    def then(self, later: ReviewChange) -> ReviewChange:
        """Return the review after a later change of it, as the stores change its row."""
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
"""Columns of a review's row, besides its id, its workspace and its run."""
CLOSING = ("decided_at", "verb", "decided_by", "by_system", "alone")
"""Columns that the end of a review sets."""


def names_text(names: Iterable[str]) -> str:
    """Return names for a column: each between two line ends, so that a query can find one; "" for none."""
    found = [name.replace("\n", " ") for name in names]
    return "\n{}\n".format("\n".join(found)) if found else ""


def list_names(text: str) -> tuple[str, ...]:
    """Return the names in such a column."""
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
    cause: str = ""
    """Cause of the failure that ended or last troubled it; "": none did."""
    failure: str = ""
    """Row of the decision table that it met last; "": none."""
    fired: str = ""
    """Short names of the protections that fired (``names_text``)."""
    breakers: str = ""
    """Breakers that refused its calls, as ``scope:name`` (``names_text``)."""
    unconfirmed_usd_micros: int = 0
    """Part of the cost that no bill confirms."""
    spent_on: str = ""
    """JSON of micro-dollars by name, under ``agent`` and ``model``; "" before the first call."""
    started_at: int | None = None
    ended_at: int | None = None
    deadline_at: int = 0


@value(kw_only=True)
class RunMark:
    """Stands for ``RunColumns`` where the owner cannot fold the journal. The run's cost so far is in the row."""

    state: RunState
    reason: str = ""
    ended_at: int | None = None
    recovered: bool | None = None
    """None, here and below: the row's stays."""
    truncated: bool | None = None
    charged_usd_micros: int = 0
    """Amount added to the run's cost in its row: the worst case of calls that will never be settled."""
    charged_tokens: int = 0
    spent_on: str | None = None


@value(kw_only=True)
class Send:
    """An input for another run, inserted with the batch; once, by ``(run_id, input_id)``. A run that has ended gets
    none.
    """

    run_id: str
    input_id: str
    body: bytes
    wakes: int = 1
    """See ``JournalStore.put_input``."""
    delay_s: float = 0.0
    format: int = 1


@value(kw_only=True)
class FamilyCaps:
    """Most runs that may descend from one root. The caps of the family's first spawn stay in force."""

    alive: int
    """Most runs at one time, without the root itself."""
    spawned: int
    """Most runs in all."""


@value(kw_only=True)
class Snapshot:
    """A run's state after the fold up to ``seq``: loading begins there. Losing it costs only time."""

    seq: int
    digest: str
    """Digest of the program that can read ``state``; no other program receives it."""
    head: bytes
    """Chain hash of event ``seq``."""
    state: bytes
    refs: tuple[int, ...] = ()
    """Seqs, up to ``seq``, of the events whose payloads the state still needs."""


# -- shared budgets --------------------------------------------------------------------------------------------------


@value(kw_only=True)
class Reservation:
    """The worst case of one attempt at one call, out of one grant. A call under several scopes has one in each."""

    run_id: str
    command_id: str
    attempt: int
    grant_id: str
    usd_micros: int


class SettledBy(StrEnum):
    """Grounds on which a reservation was settled at its amount."""

    ANSWERED = "answered"
    """The call reported its cost."""
    NOT_SENT = "not_sent"
    """The call was never sent, and costs nothing."""
    UNKNOWN = "unknown"
    """The call's outcome is unknown: charged at its worst case."""
    REAPED = "reaped"
    """The process with the grant died with the call open: charged at its worst case, for good."""


@value(kw_only=True)
class Settlement:
    """The cost of an attempt, for each grant that it was reserved from."""

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


EXCERPT_CHARS = 160


@value()
class Origin:
    """An attached file. ``bytes`` and ``sha256`` (64 hex digits) are of the file itself, not of the text that was
    read.
    """

    kind: str
    """Kind of file in people's words: ``PDF``, ``text``."""
    bytes: int
    sha256: str
    characters: int = 0
    """Characters of the text that was read, its marks included."""
    pages: int = 0
    sheets: tuple[str, ...] = ()
    rows: int = 0
    """Rows of all sheets together."""
    notes: tuple[str, ...] = ()
    """Notes for the person who attached it, a clause each."""

    def as_json(self) -> str:
        """Return the text for a store's row and ``Document.origin``."""
        kept = {name: getattr(self, name) for name in self.__struct_fields__}  # type: ignore[attr-defined]
        return json.dumps(kept, ensure_ascii=False)

    def words(self) -> str:
        """Return the reading in words: ``PDF, 12 pages, 34,120 characters``."""
        counted = (("page", self.pages), ("sheet", len(self.sheets)), ("row", self.rows))
        counts = [f"{count:,} {noun}{'' if count == 1 else 's'}" for noun, count in counted if count]
        return ", ".join([self.kind, *counts, f"{self.characters:,} characters"])


def origin_from(kind: str, file: bytes, text: str, notes: tuple[str, ...]) -> Origin:
    """Return the origin of a text that was read from a file. It has the file's digest, and the pages, sheets and rows
    of the text's marks.
    """
    of = PlaceMap(text)
    digest = hashlib.sha256(file).hexdigest()
    return Origin(kind, len(file), digest, len(text), of.pages, of.sheets, of.rows, notes)


def find_origin(kept: str) -> Origin | None:
    """Return the origin in a store's row; None for a document given as text, or from before origins were stored."""
    if not kept:
        return None
    read = json.loads(kept)
    return Origin(**read | {"sheets": tuple(read["sheets"]), "notes": tuple(read["notes"])})


def excerpt(text: str) -> str:
    """Return the beginning of a document, without its marks, in one line."""
    begin = " ".join(drop_marks(text[: 4 * EXCERPT_CHARS]).split())
    return begin if len(begin) <= EXCERPT_CHARS else f"{begin[: EXCERPT_CHARS - 3].rstrip()}..."
