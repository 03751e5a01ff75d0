"""Questions to people: the open ones, and one with what the person is shown."""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from django.db.models import QuerySet

from fabric.core.actor import Actor
from fabric.core.fingerprint import encode
from fabric.core.flow import RunState
from fabric.core.text import clean_text
from fabric.models import Escalation
from fabric.models.escalations import OPEN, TICKET
from fabric.runtime.batch_parts import LISTS, names_of
from fabric.selectors.contents import line_for, may_read, shown, title_for, unread
from fabric.selectors.cursors import behind
from fabric.selectors.errors import Refused
from fabric.selectors.families import descendants_of
from fabric.selectors.reach import seen_by
from fabric.selectors.review_asked import may_answer

JSON = Any
OPEN_MAX = 500
TOLD = (
    *("agent", "tool", "compensation", "expiry", "mechanism", "cause", "rule"),
    *("observed", "limit", "unit", "spent_usd_micros", "cap_usd_micros"),
)
"""Of what a question shows: names, numbers and words of the program's own. Everybody is told them, and what each answer does."""


@dataclass(frozen=True, kw_only=True)
class EscalationView:
    """One question. Instants are microseconds since the epoch, UTC."""

    id: str
    workspace_id: str
    run_id: str
    run_title: str
    run_state: str
    fabric_name: str
    tier: str
    """The run's."""
    revision_id: str
    """The one that the run pinned."""
    step_id: str
    item: str
    """``failure``, ``post_stage``, ``pre_action``, ``quarantine``, ``compensation``, ``child`` or ``ticket``."""
    reason: str
    failure_type: str
    stage: str
    required_role: str
    verbs: tuple[str, ...]
    """What may be answered."""
    digest: str
    """Over what approval releases; a decision names it."""
    opened_at: int
    due_at: int
    given: dict[str, JSON] = field(repr=False)
    """The subject of the question, byte for byte. Answers are checked against it, and the role safety may have it revealed."""
    decided_at: int | None
    verb: str
    decided_by: str
    by_system: bool
    approvals: int = 1
    """How many people have to agree."""
    asked: tuple[str, ...] = ()
    """The roles and users who may answer from the beginning, in the order in which they are said."""
    onward_to: tuple[str, ...] = ()
    """Who may as well once it was passed on."""
    barred: tuple[str, ...] = ()
    """Who may do no more than reject."""
    agreed: tuple[str, ...] = ()
    """Who has agreed to exactly what is asked about now, of two who have to."""
    proposed_by: str = ""
    """Who wrote what is asked about, where somebody else has to let it pass."""
    remind_at: int = 0
    onward_at: int = 0
    reminded: bool = False
    onward: bool = False
    """Whether it was passed on."""
    score: float | None = None
    """What the critic gave, where confidence is why it is asked..."""
    tau: float | None = None
    """...and the least that passes."""
    revealed: bool = False
    """Whether somebody had shown what is withheld of it (``services.reveals``)."""
    reads: bool = True
    """True: the reader has the right to contents, or the review asks the reader."""

    @cached_property
    def content(self) -> dict[str, JSON]:
        """The content of the review. Credentials are masked until revealed; a reader without the right sees its size alone."""
        if not self.reads:
            named = {name: self.given[name] for name in (*TOLD, *self.verbs) if name in self.given}
            return named | unread(len(encode(self.given)))
        found: dict[str, JSON] = self.given if self.revealed else shown(self.given)
        return found

    @cached_property
    def withheld(self) -> bool:
        """Whether some of it is masked."""
        return self.reads and not self.revealed and self.content != self.given

    @property
    def second_wanted(self) -> bool:
        """Whether one has agreed and another one is waited for."""
        return self.open and len(self.agreed) < self.approvals and bool(self.agreed)

    @property
    def ticket(self) -> bool:
        """Whether it parks nothing: its run has ended."""
        return self.item == TICKET

    @property
    def open(self) -> bool:
        """Whether it waits for an answer."""
        return self.decided_at is None

    @property
    def held(self) -> bool:
        """Whether its run is quarantined for something else: until that is over it takes no answer to this."""
        return self.run_state == RunState.QUARANTINED and self.item != "quarantine"

    @property
    def cursor(self) -> str:
        """What ``escalations_open`` takes as ``after`` to go on after this question."""
        return f"{self.due_at}.{self.id}"


_COLUMNS = (
    *(
        "id",
        "workspace_id",
        "run_id",
        "run__title",
        "run__state",
        "run__fabric__name",
        "run__tier",
        "run__revision_id",
        "step_id",
        "item",
        "reason",
        "failure_type",
        "stage",
    ),
    *(
        "required_role",
        "verbs",
        "digest",
        "opened_at",
        "due_at",
        "content",
        "decided_at",
        "verb",
        "decided_by",
        "by_system",
    ),
    *("approvals", "proposed_by", "remind_at", "onward_at", "reminded", "onward", "score", "tau", *LISTS),
)


def escalations_open(
    actor: Actor,
    run_id: str | None = None,
    *,
    family: bool = False,
    limit: int = OPEN_MAX,
    after: str | None = None,
) -> list[EscalationView]:
    """The workspace's open questions, or one run's, the most urgent first; at most 500. ``after``: the cursor of the last one seen.

    ``family``: also those of the runs below it, of its teams and slices, at every level. Refused invalid for an unknown cursor.
    """
    rows = Escalation.objects.filter(seen_by(actor, Escalation), decided_at__isnull=True)
    if run_id is not None:
        named = clean_text(run_id)[0]
        rows = rows.filter(run_id__in=[named, *descendants_of(actor, named)] if family else [named])
    if after is not None:
        rows = rows.filter(behind(after, "due_at"))
    return views_of(actor, rows.order_by("due_at", "id"), max(1, min(limit, OPEN_MAX)))


def escalations_new(actor: Actor, shown: Collection[str], *, after: str | None, down_to: str | None, most: int) -> int:
    """How many open questions belong on a page of the list and are not among the ids ``shown``; at most ``most``.

    The page lies behind the cursor ``after`` and goes down to the cursor of its last question; None: it is open on that side. Refused
    invalid for an unknown cursor.
    """
    rows = Escalation.objects.filter(seen_by(actor, Escalation), OPEN)
    if after is not None:
        rows = rows.filter(behind(after, "due_at"))
    if down_to is not None:
        rows = rows.exclude(behind(down_to, "due_at", field="down"))
    return rows.exclude(id__in=shown).values("id")[:most].count()


def escalations_due(actor: Actor, ids: Collection[str]) -> dict[str, tuple[int, bool]]:
    """Of those questions, when each is due (microseconds since the epoch) and whether it waits for an answer; unknown ones are left out."""
    rows = Escalation.objects.filter(seen_by(actor, Escalation), id__in=ids)
    found = rows.values_list("id", "due_at", "decided_at")
    return {row_id: (due_at, decided_at is None) for row_id, due_at, decided_at in found}


def escalations_named(actor: Actor, ids: Collection[str]) -> list[EscalationView]:
    """Those questions, open or answered; unknown ones are left out."""
    rows = Escalation.objects.filter(seen_by(actor, Escalation), id__in=ids)
    return views_of(actor, rows.order_by("due_at", "id"))


def views_of(actor: Actor, rows: QuerySet[Escalation], most: int | None = None) -> list[EscalationView]:
    """Rows as they are shown to somebody, in their order; at most so many."""
    return [_view(actor, row) for row in rows.values(*_COLUMNS)[:most]]


def escalation_get(actor: Actor, escalation_id: str) -> EscalationView:
    """One question, open or answered. Refused not_found."""
    named = clean_text(escalation_id)[0]
    row = Escalation.objects.filter(seen_by(actor, Escalation), id=named).values(*_COLUMNS).first()
    if row is None:
        message = f"there is no item {escalation_id[:80]!r} in this workspace; look at the open ones"
        raise Refused(message, code="not_found", field="escalation")
    return _view(actor, row)


def _view(actor: Actor, row: dict[str, Any]) -> EscalationView:
    own = {name: row[name] for name in _COLUMNS if "__" not in name}
    own |= {name: names_of(row[name]) for name in LISTS}
    own["verbs"] = tuple(verb for verb in row["verbs"].split(",") if verb)
    own["given"] = json.loads(bytes(own.pop("content")) or b"{}")
    run = {"run_title": row["run__title"], "run_state": row["run__state"], "fabric_name": row["run__fabric__name"]}
    run["tier"] = row["run__tier"]
    run["revision_id"] = row["run__revision_id"]
    item = EscalationView(**own, **run)
    if may_read(actor, item.fabric_name) or may_answer(item, actor):
        return replace(item, reason=line_for(item.reason, reads=True))
    title = title_for(item.run_title, reads=False)
    return replace(item, reads=False, reason=line_for(item.reason, reads=False), run_title=title)
