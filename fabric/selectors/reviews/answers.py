"""Reads answers to a review: from the journal, or still on their way to the run.

A review takes an answer if no other is on its way to the run, and its time is not over by the run's own rule.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from django.db.models import Q, QuerySet

from fabric.core.events.inputs import INBOX, DecisionMade
from fabric.core.people.actor import Actor
from fabric.core.reviews.reviews import NEVER_LATE, is_late
from fabric.core.spec.policies.budgets import NamedCap
from fabric.core.texts.text import clean_text
from fabric.core.values.words import instant_exact
from fabric.models import Inbox, Review
from fabric.runtime.ports.journal import TAKEN_BACK
from fabric.selectors.contents import UNREAD, line_for, mask_content
from fabric.selectors.database_time import StoreNow, store_now
from fabric.selectors.reach import match_visible
from fabric.selectors.reviews.lookup import get_review
from fabric.selectors.reviews.review_view import ReviewView

Fate = Literal["waiting", "taken", "taken_back"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewAnswer:
    """An answer with its author and time (microseconds since the epoch, UTC)."""

    verb: str
    decided_by: str
    decided_at: int
    by_system: bool
    """The review expired and its declared answer was taken, or it was withdrawn."""
    message: str | None = None
    """Message of the answer; None: no longer known."""
    edited: Any = None
    """Content that replaces the shown one, where it was edited."""
    cap_usd_micros: int | None = None
    """New cap of the run, where one was named."""
    caps: tuple[NamedCap, ...] = ()
    """Other caps of the run from then on."""
    model: str = ""
    """Fallback for the failed model, where one was named."""
    tool: str = ""
    """Tool that replaces the shown one, where one was named."""
    takes_at: int | None = None
    """Time from which its run takes it; None: it has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SentAnswer:
    """An answer as the inbox has it. Instants are microseconds since the epoch, UTC."""

    input_id: str
    fate: Fate
    sent_at: int
    takes_at: int
    """Time from which its run takes it; until then, the answer can be taken back."""
    decision: DecisionMade | None
    """None: its content was erased."""
    reads: bool = True
    """True: the reader may read its message."""

    @property
    def review_answer(self) -> ReviewAnswer:
        """Return this as an answer to the review."""
        assert self.decision is not None, "what waits was not erased"
        given = self.decision
        return ReviewAnswer(
            verb=given.verb,
            decided_by=given.actor,
            decided_at=self.sent_at,
            by_system=False,
            message=line_for(given.message, reads=self.reads),
            edited=_read_edit(given, reads=self.reads),
            cap_usd_micros=given.cap_usd_micros,
            caps=given.caps,
            model=given.model,
            tool=given.tool,
            takes_at=self.takes_at,
        )


def input_id(review_id: str, number: int) -> str:
    """Return the id of an answer's input. ``number``: number of earlier answers to this review that were settled."""
    return f"{_prefix(review_id)}{number}"


def get_answer(actor: Actor, review_id: str) -> ReviewAnswer | None:
    """Return the answer to a review; None while it has none. Raises Refused not_found."""
    return find_answer(get_review(actor, review_id))


def find_answer(item: ReviewView) -> ReviewAnswer | None:
    """Return the answer to a review that was read already; None while it has none. A follow-up has none: it is closed,
    not answered.
    """
    if item.follow_up:
        return None
    sent = answers_sent(item)
    if item.decided_at is None:
        return next((one.review_answer for one in sent if one.fate == "waiting"), None)
    given = [one.decision for one in reversed(sent) if one.fate == "taken" and one.decision is not None]
    said = [one for one in given if (one.actor, one.verb) == (item.decided_by, item.verb)]
    return ReviewAnswer(
        verb=item.verb,
        decided_by=item.decided_by,
        decided_at=item.decided_at,
        by_system=item.by_system,
        message=line_for(said[0].message, reads=item.reads) if said else None,
        edited=_read_edit(said[0], reads=item.reads) if said else None,
        cap_usd_micros=said[0].cap_usd_micros if said else None,
        caps=said[0].caps if said else (),
        model=said[0].model if said else "",
        tool=said[0].tool if said else "",
    )


def answers_sent(item: ReviewView) -> list[SentAnswer]:
    """Return all answers that were sent to a review, in order; at most one of them waits."""
    return answers_to([item])[item.id]


def answers_to(items: Iterable[ReviewView]) -> Mapping[str, list[SentAnswer]]:
    """Return the sent answers to several reviews of one workspace, by review id, in one query."""
    asked = {_prefix(item.id): item for item in items}
    found: dict[str, list[SentAnswer]] = {item.id: [] for item in asked.values()}
    if not asked:
        return found
    one = next(iter(asked.values()))
    rows = Inbox.objects.filter(workspace_id=one.workspace_id, run_id__in={item.run_id for item in asked.values()})
    for row in rows.filter(input_id__startswith=_prefix("")[:-1]).order_by("created_at", "input_id"):
        item = asked.get(row.input_id[: row.input_id.rindex(":") + 1])
        if item is not None and item.run_id == row.run_id:
            found[item.id].append(_sent_answer(row, reads=item.reads))
    return found


def _read_edit(given: DecisionMade, *, reads: bool) -> Any:
    """Return the replacing content of an answer. A reader without the right sees its size alone."""
    return mask_content(given.edited) if reads or given.edited is None else UNREAD


def _sent_answer(row: Inbox, *, reads: bool) -> SentAnswer:
    fate: Fate = "taken_back" if row.consumed_seq == TAKEN_BACK else "waiting" if row.consumed_seq is None else "taken"
    raw = bytes(row.body)  # Retention leaves a row without its content.
    given = INBOX.validate_json(raw) if raw else None
    assert given is None or isinstance(given, DecisionMade)
    return SentAnswer(
        input_id=row.input_id, fate=fate, sent_at=row.created_at, takes_at=row.visible_at, decision=given, reads=reads
    )


def answers_waiting(items: Iterable[ReviewView]) -> Mapping[str, ReviewAnswer]:
    """Return the answers that their runs have not taken yet, by review id: at most one statement."""
    sent = answers_to([item for item in items if item.open])
    return {name: one.review_answer for name, given in sent.items() for one in given[-1:] if one.fate == "waiting"}


def answered_sentence(item: ReviewView, given: ReviewAnswer, now: int) -> str:
    """Return one sentence with an answer's author, its time, and the rest of the time to undo it. ``now``:
    microseconds since the epoch, UTC.
    """
    when = instant_exact(given.decided_at)
    if given.verb == "withdrawn":
        said = f"was withdrawn at {when}: {given.decided_by}"
    elif given.by_system:
        said = f"was decided by the system at {when}: {given.verb}, because no one answered in time"
    else:
        said = f"was answered by {given.decided_by} at {when}: {given.verb}"
    if item.open and item.approvals > 1 and given.verb in ("approve", "edit"):
        said += "; a second person is asked when the run has used it"
    undo = describe_undo(given, now)
    return f"review {item.id} {said}{'; ' if undo else ''}{undo}"


def describe_undo(given: ReviewAnswer, now: int) -> str:
    """Return the person who can undo an answer, and the rest of the time; empty: its run has taken it. ``now``:
    microseconds since the epoch, UTC.
    """
    if given.takes_at is None:
        return ""
    if given.takes_at > now:
        return f"{given.decided_by} can undo it until {instant_exact(given.takes_at)}, then its run takes it"
    return f"its run has not taken it yet, and {given.decided_by} can undo it until it does"


def answers_settled(actor: Actor, review_id: str) -> int:
    """Return the number of answers that the run has taken or that were taken back. An answer that leaves the review
    open was refused.
    """
    named = clean_text(review_id)[0]
    run = Review.objects.filter(match_visible(actor, Review), id=named).values("run_id")
    return _answers(actor.workspace_id, named).filter(run_id__in=run, consumed_seq__isnull=False).count()


def _answers(workspace_id: str, review_id: str) -> QuerySet[Inbox]:
    return Inbox.objects.filter(workspace_id=workspace_id, input_id__startswith=_prefix(review_id))


def _prefix(review_id: str) -> str:
    return f"decision:{review_id}:"


def is_over(item: ReviewView, now: int | None = None) -> bool:
    """Return True where an answer to an open review comes too late. ``now``: microseconds since the epoch, UTC;
    None: the database's clock.
    """
    if not item.open or item.item in NEVER_LATE:
        return False
    return is_late(item.item, item.due_at, store_now() if now is None else now)


def match_in_time() -> Q:
    """Return the condition on reviews that are not overdue."""
    return Q(item__in=sorted(NEVER_LATE)) | Q(due_at__gt=StoreNow())


def takes_none(item: ReviewView, waiting: ReviewAnswer | None, now: int) -> str:
    """Return the reason why an open review takes no answer at all, in one sentence; empty: it takes one.

    ``waiting``: the answer that is on its way to its run. ``now``: microseconds since the epoch, UTC.
    """
    if waiting is not None:
        return answered_sentence(item, waiting, now)
    return too_late(item) if is_over(item, now) else ""


def takes_none_now(item: ReviewView) -> str:
    """Return why a review takes no answer at all, as the database has it now. Empty: it takes one."""
    return takes_none(item, answers_waiting([item]).get(item.id), store_now())


def too_late(item: ReviewView) -> str:
    """Return the reason why an overdue review takes no answer, one sentence."""
    expiry = str(item.content.get("expiry") or "rejected by the system")
    return f"review {item.id} was due at {instant_exact(item.due_at)}, and an answer comes too late: {expiry}"
