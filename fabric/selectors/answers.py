"""What was answered to a question: by the journal, or by an answer that is still on its way to the run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from django.db.models import QuerySet

from fabric.core.actor import Actor
from fabric.core.budget_caps import NamedCap
from fabric.core.inputs import INBOX, DecisionMade
from fabric.core.text import clean_text
from fabric.core.words import instant_exact
from fabric.models import Escalation, Inbox
from fabric.runtime.ports import TAKEN_BACK
from fabric.selectors.contents import UNREAD, line_for, shown
from fabric.selectors.escalations import EscalationView, escalation_get
from fabric.selectors.reach import seen_by

Fate = Literal["waiting", "taken", "taken_back"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """Who answered what, and when (microseconds since the epoch, UTC)."""

    verb: str
    decided_by: str
    decided_at: int
    by_system: bool
    """The question expired and its declared answer was taken, or it was withdrawn."""
    message: str | None = None
    """What was said with it; None: that is not known any more."""
    edited: Any = None
    """What was put in place of what was shown, where it was edited."""
    cap_usd_micros: int | None = None
    """What the run may spend from then on, where it was named."""
    caps: tuple[NamedCap, ...] = ()
    """Other caps of the run, as they are from then on."""
    model: str = ""
    """The model that answers in place of the one that failed, where it was named."""
    tool: str = ""
    """The tool that is called in place of the one that was shown, where it was named."""
    takes_at: int | None = None
    """From when on its run takes it; None: it has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SentAnswer:
    """An answer that somebody sent, as the inbox has it. Instants are microseconds since the epoch, UTC."""

    input_id: str
    fate: Fate
    sent_at: int
    takes_at: int
    """From when on its run takes it; until it has, the answer can be taken back."""
    decision: DecisionMade | None
    """None: its content was erased."""
    reads: bool = True
    """True: the reader may read the words that came with it."""

    @property
    def told(self) -> Answer:
        """The same as what was answered."""
        assert self.decision is not None, "what waits was not erased"
        given = self.decision
        return Answer(
            verb=given.verb,
            decided_by=given.actor,
            decided_at=self.sent_at,
            by_system=False,
            message=line_for(given.message, reads=self.reads),
            edited=_edited(given, reads=self.reads),
            cap_usd_micros=given.cap_usd_micros,
            caps=given.caps,
            model=given.model,
            tool=given.tool,
            takes_at=self.takes_at,
        )


def input_id(escalation_id: str, number: int) -> str:
    """Id of the input that carries an answer. ``number``: how many answers to this question were settled before."""
    return f"{_prefix(escalation_id)}{number}"


def escalation_answer(actor: Actor, escalation_id: str) -> Answer | None:
    """The answer a question has; None while nobody has given one. Refused not_found."""
    return answer_of(escalation_get(actor, escalation_id))


def answer_of(item: EscalationView) -> Answer | None:
    """The answer that a question has, as it was read; None while nobody has given one. A ticket has none: it is closed, not answered."""
    if item.ticket:
        return None
    sent = answers_sent(item)
    if item.decided_at is None:
        return next((one.told for one in sent if one.fate == "waiting"), None)
    given = [one.decision for one in reversed(sent) if one.fate == "taken" and one.decision is not None]
    said = [one for one in given if (one.actor, one.verb) == (item.decided_by, item.verb)]
    return Answer(
        verb=item.verb,
        decided_by=item.decided_by,
        decided_at=item.decided_at,
        by_system=item.by_system,
        message=line_for(said[0].message, reads=item.reads) if said else None,
        edited=_edited(said[0], reads=item.reads) if said else None,
        cap_usd_micros=said[0].cap_usd_micros if said else None,
        caps=said[0].caps if said else (),
        model=said[0].model if said else "",
        tool=said[0].tool if said else "",
    )


def answers_sent(item: EscalationView) -> list[SentAnswer]:
    """All answers that were sent to a question, in order; at most one of them waits."""
    return answers_to([item])[item.id]


def answers_to(items: Iterable[EscalationView]) -> Mapping[str, list[SentAnswer]]:
    """The same for several questions of one workspace, by their ids, in one query."""
    asked = {_prefix(item.id): item for item in items}
    found: dict[str, list[SentAnswer]] = {item.id: [] for item in asked.values()}
    if not asked:
        return found
    one = next(iter(asked.values()))
    rows = Inbox.objects.filter(workspace_id=one.workspace_id, run_id__in={item.run_id for item in asked.values()})
    for row in rows.filter(input_id__startswith=_prefix("")[:-1]).order_by("created_at", "input_id"):
        item = asked.get(row.input_id[: row.input_id.rindex(":") + 1])
        if item is not None and item.run_id == row.run_id:
            found[item.id].append(_sent(row, reads=item.reads))
    return found


def _edited(given: DecisionMade, *, reads: bool) -> Any:
    """The content that an answer puts in place. A reader without the right sees its size alone."""
    return shown(given.edited) if reads or given.edited is None else UNREAD


def _sent(row: Inbox, *, reads: bool) -> SentAnswer:
    fate: Fate = "taken_back" if row.consumed_seq == TAKEN_BACK else "waiting" if row.consumed_seq is None else "taken"
    raw = bytes(row.body)  # Retention leaves a row without what it said.
    given = INBOX.validate_json(raw) if raw else None
    assert given is None or isinstance(given, DecisionMade)
    return SentAnswer(
        input_id=row.input_id, fate=fate, sent_at=row.created_at, takes_at=row.visible_at, decision=given, reads=reads
    )


def answers_waiting(items: Iterable[EscalationView]) -> Mapping[str, Answer]:
    """Returns the answers that their runs have not taken yet, by the ids of the questions: at most one statement."""
    sent = answers_to([item for item in items if item.open])
    return {name: one.told for name, given in sent.items() for one in given[-1:] if one.fate == "waiting"}


def answered(item: EscalationView, given: Answer, now: int) -> str:
    """Returns who answered a question, when, and how long the answer can be undone, one sentence. ``now``: microseconds since the epoch, UTC."""
    when = instant_exact(given.decided_at)
    if given.verb == "withdrawn":
        said = f"was withdrawn at {when}: {given.decided_by}"
    elif given.by_system:
        said = f"was decided by the system at {when}: {given.verb}, since nobody answered in time"
    else:
        said = f"was answered by {given.decided_by} at {when}: {given.verb}"
    if item.open and item.approvals > 1 and given.verb in ("approve", "edit"):
        said += "; a second person is asked as soon as the run has taken that"
    undo = undoing(given, now)
    return f"item {item.id} {said}{'; ' if undo else ''}{undo}"


def undoing(given: Answer, now: int) -> str:
    """Returns who can undo an answer, and how long; empty: its run has taken it. ``now``: microseconds since the epoch, UTC."""
    if given.takes_at is None:
        return ""
    if given.takes_at > now:
        return f"{given.decided_by} can undo it until {instant_exact(given.takes_at)}, then its run takes it"
    return f"its run has not taken it yet, and {given.decided_by} can undo it until it does"


def answers_settled(actor: Actor, escalation_id: str) -> int:
    """How many answers to a question its run has taken, or were taken back. What the run took and left open, it refused."""
    named = clean_text(escalation_id)[0]
    run = Escalation.objects.filter(seen_by(actor, Escalation), id=named).values("run_id")
    return _answers(actor.workspace_id, named).filter(run_id__in=run, consumed_seq__isnull=False).count()


def _answers(workspace_id: str, escalation_id: str) -> QuerySet[Inbox]:
    return Inbox.objects.filter(workspace_id=workspace_id, input_id__startswith=_prefix(escalation_id))


def _prefix(escalation_id: str) -> str:
    return f"decision:{escalation_id}:"
