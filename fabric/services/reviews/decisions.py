"""Answers reviews. A decision is an input to the run; the run's owner decides and journals what follows.

1. A review takes one answer. The inbox picks it among simultaneous ones: all aim at one row, inserted once.
2. The row is named by the review and by the number of answers that were settled before (taken by the run, or taken
   back).
3. Until the run takes it, its author may take it back, or let it count at once; the inbox decides who was first.
4. One answer to several similar reviews is bound to the content of each, and has a result for each.
5. Decisions are exported with their authors: members their own, and readers of the audit stream all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fabric.core.audit.lines import Act, AuditEntry
from fabric.core.events.inputs import INBOX, DecisionMade
from fabric.core.people.actor import Actor
from fabric.core.people.eligibility import STOPS
from fabric.core.people.roles import Right, holders
from fabric.core.spec.policies.budgets import NamedCap
from fabric.core.spec.policies.people import UNDO_S
from fabric.core.texts.text import clean_text
from fabric.core.values.frozen import replace
from fabric.core.values.taxonomy import Tier
from fabric.core.values.units import JSON
from fabric.runtime.ports.journal import InputWithdrawn, JournalStore, Nudge
from fabric.runtime.quarantine.verdicts import WAKES_QUARANTINED
from fabric.selectors.database_time import store_now
from fabric.selectors.reviews.answers import (
    ReviewAnswer,
    SentAnswer,
    answered_sentence,
    answers_sent,
    answers_settled,
    find_answer,
    input_id,
)
from fabric.selectors.reviews.decisions.history import DecisionLines, HistoryFilter
from fabric.selectors.reviews.history import names
from fabric.selectors.reviews.lookup import get_review, list_named_reviews
from fabric.selectors.reviews.review_view import ReviewView
from fabric.services.acts import audit_entry, audit_record
from fabric.services.errors import Refused, store_answers
from fabric.services.reviews.answer_checks import (
    EDITED_BYTES_MAX,
    MESSAGE_CHARS_MAX,
    find_edit,
    fresh_enough,
    may_decide,
    possible,
    read_message,
)
from fabric.services.reviews.assignments import assignment_release, assignment_restore
from fabric.services.reviews.follow_ups import close_follow_up

__all__ = [
    "ALL_MEMBERS",
    "BULK_MAX",
    "EDITED_BYTES_MAX",
    "MESSAGE_CHARS_MAX",
    "VERBS",
    "BulkItem",
    "BulkResult",
    "decide_reviews",
    "decisions_export",
    "may_export_all",
]


UNDO_S_MAX = 60.0
TRIES = 5
"""Largest number of tries of an answer that met another one. The other was then undone, or refused by the run."""
BUSY = "review {} is being answered by others at this moment; look at it again"


@dataclass(frozen=True, slots=True)
class DecisionTaken:
    """A recorded answer. ``created`` False: this person gave this answer before."""

    run_id: str
    review_id: str
    verb: str
    created: bool
    second_wanted: bool = False
    """True if a second person has to agree before the answer takes effect."""


@dataclass(frozen=True, slots=True)
class DecisionUndone:
    """An answer that does not count. ``recorded`` False: it had been taken back before."""

    run_id: str
    review_id: str
    verb: str
    message: str
    recorded: bool


def decide_review(
    *,
    store: JournalStore,
    nudge: Nudge,
    actor: Actor,
    review_id: str,
    verb: str,
    message: str = "",
    digest: str = "",
    edited: JSON = None,
    cap_usd_micros: int | None = None,
    caps: Sequence[NamedCap] = (),
    model: str = "",
    tool: str = "",
    undo_s: float = 0.0,
    assignment_lease: int = 0,
) -> DecisionTaken:
    """Record a person's answer and wake the run's host.

    1. ``digest``: of the shown content, or at least its first 8 characters; a rejection needs none.
    2. ``edited``: with ``edit``, content that replaces the shown one. ``tool``: with ``edit`` of a call, a tool to
       call instead; empty: the shown one.
    3. ``cap_usd_micros``: with ``approve`` of a cost overrun, most that the run may spend in all. ``caps``: other
       caps that the review names (its ``takes_caps``).
    4. ``model``: with ``approve`` of a failed call, the named model.
    5. ``undo_s``: seconds in which the answer may be taken back. ``assignment_lease``: lease
       under which it is given; 0: none in particular.

    A repeated answer of one person is one decision, also once the run has taken it. Raises Refused: not_found,
    forbidden, invalid, too_large, conflict, unavailable.
    """
    may_decide(actor)
    given = DecisionMade(
        input_id="",
        review_id=review_id,
        verb=verb,  # type: ignore[arg-type]
        actor=actor.name,
        digest=digest,
        message=read_message(message),
        edited=find_edit(verb, edited),
        cap_usd_micros=cap_usd_micros,
        caps=tuple(caps),
        model=model,
        tool=tool,
    )
    for _ in range(TRIES):
        if (taken := _try(store, nudge, actor, given, undo_s, assignment_lease)) is not None:
            return taken
    raise Refused(BUSY.format(review_id[:80]), code="unavailable", field="review")


def _try(
    store: JournalStore, nudge: Nudge, actor: Actor, given: DecisionMade, undo_s: float, assignment_lease: int
) -> DecisionTaken | None:
    """Send an answer to the review as it is now. None: another answer came first, and no worker has read it yet."""
    # Counted before the review is read: an answer that the run takes in between is met at the insert, not passed
    # over.
    number = answers_settled(actor, given.review_id)
    item = get_review(actor, given.review_id)
    if item.follow_up and given.verb in item.verbs:
        # It parks nothing: its answer is the note with which it is closed.
        closed = close_follow_up(actor=actor, review_id=item.id, note=given.message)
        return DecisionTaken(item.run_id, item.id, given.verb, closed.created)
    mine = replace(given, input_id=input_id(item.id, number), review_id=item.id, digest=_digest(item, given))
    if (before := find_answer(item)) is not None and not _same(item, before, mine):
        raise _answered_refusal(item, before)
    if before is not None or _was_counted(item, mine):
        return _finish_decision(nudge, item, mine, created=False)
    possible(actor, item, mine, assignment_lease)
    if not _put(store, actor, item, mine, undo_s):
        return None
    assignment_release(actor=actor, review_id=item.id)
    taken = _finish_decision(nudge, item, mine, created=True)
    _counts(actor, mine)
    return taken


def _digest(item: ReviewView, given: DecisionMade) -> str:
    """Return the whole digest, where the answer has the beginning of the review's present one. A rejection needs
    none.
    """
    unnamed = not given.digest and given.verb in STOPS
    return item.digest if unnamed or names(given.digest, item.digest) else given.digest


def _finish_decision(nudge: Nudge, item: ReviewView, mine: DecisionMade, *, created: bool) -> DecisionTaken:
    nudge.wake(item.run_id)
    return DecisionTaken(item.run_id, item.id, mine.verb, created, second_wanted=_wants_second(item, mine))


def _wants_second(item: ReviewView, mine: DecisionMade) -> bool:
    """Return True if the review stays open after this answer, as far as is known before its run takes it."""
    if mine.verb == "edit":
        return item.approvals > 1 or item.tier == Tier.HIGH_STAKES
    return mine.verb == "approve" and len({*item.agreed, mine.actor}) < item.approvals


def _was_counted(item: ReviewView, mine: DecisionMade) -> bool:
    """Return True if the run took this very answer and left the review open. It was the first of two approvals, or a
    proposal.
    """
    if mine.actor not in item.agreed and mine.actor not in (item.proposed_by, item.given.get("edited_by")):
        return False
    same = ("verb", "actor", "digest", "message", "edited", "cap_usd_micros", "caps", "model", "tool")
    taken = [one.decision for one in answers_sent(item) if one.fate == "taken" and one.decision is not None]
    return bool(taken) and all(getattr(taken[-1], name) == getattr(mine, name) for name in same)


def _put(store: JournalStore, actor: Actor, item: ReviewView, decision: DecisionMade, undo_s: float) -> bool:
    delay = min(max(undo_s, 0.0), UNDO_S_MAX)
    act = _build_audit_entry(actor, Act.DECISION_SENT, item, decision)
    wakes = WAKES_QUARANTINED if item.item == "quarantine" else 1
    body, format = INBOX.dump_json(decision), INBOX.format_of(decision)
    with store_answers():
        return store.put_input(
            item.run_id, decision.input_id, body, delay_s=delay, wakes=wakes, format=format, audit=act
        )


def undo_decision(
    *, store: JournalStore, nudge: Nudge, actor: Actor, review_id: str, answer_id: str = ""
) -> DecisionUndone:
    """Take back an answer that its run has not taken yet; the review is open again. It is the author's
    again if they had claimed it. Its author may, also repeatedly.

    ``answer_id``: the answer that the author saw; empty: the last one. Raises Refused: not_found, forbidden
    (another's answer), conflict (the run was faster, or there is nothing to take back), unavailable.
    """
    item, sent, given = _build_last(actor, review_id, answer_id)
    if sent.fate == "waiting":
        act = _build_audit_entry(actor, Act.DECISION_TAKEN_BACK, item, given)
        with store_answers():
            fate = store.withdraw_input(item.run_id, sent.input_id, audit=act)
        nudge.wake(item.run_id)
        if fate is InputWithdrawn.GONE:
            assignment_restore(actor=actor, review_id=item.id)
            return DecisionUndone(item.run_id, item.id, given.verb, given.message, recorded=True)
        item, sent, _ = _build_last(actor, review_id, sent.input_id)
    if sent.fate == "taken_back":
        return DecisionUndone(item.run_id, item.id, given.verb, given.message, recorded=False)
    raise _too_late(actor, item.id, "it can no longer be undone")


def hasten_decision(
    *, store: JournalStore, nudge: Nudge, actor: Actor, review_id: str, answer_id: str = ""
) -> DecisionTaken:
    """Let an answer count at once that could still be taken back. ``created`` False: there was nothing to wait for
    any more.

    ``answer_id`` and the errors: as for ``undo_decision``; conflict also for an answer that was taken back.
    """
    item, sent, given = _build_last(actor, review_id, answer_id)
    fresh_enough(actor, item)
    if sent.fate == "taken_back":
        message = f"you undid this answer to review {item.id}: answer again"
        raise Refused(message, code="conflict", field="review")
    act = _build_audit_entry(actor, Act.DECISION_HASTENED, item, given)
    with store_answers():
        hastened = sent.fate == "waiting" and store.hasten_input(item.run_id, sent.input_id, audit=act)
    nudge.wake(item.run_id)
    return DecisionTaken(item.run_id, item.id, given.verb, created=hastened)


def _build_last(actor: Actor, review_id: str, answer_id: str) -> tuple[ReviewView, SentAnswer, DecisionMade]:
    """Return the review and the meant answer. Raises Refused where there is none, or it is another person's."""
    may_decide(actor)
    item = get_review(actor, review_id)
    sent = [one for one in answers_sent(item) if one.input_id == answer_id or not answer_id]
    if not sent or sent[-1].decision is None:
        if not item.open:
            raise _too_late(actor, item.id, "there is nothing to take back")
        message = f"review {item.id} has no answer to undo"
        raise Refused(message, code="conflict", field="review")
    given = sent[-1].decision
    if given.actor != actor.name:
        message = f"review {item.id} was answered by {given.actor}: only who gave an answer takes it back, or lets it count at once"
        raise Refused(message, code="forbidden", field="actor")
    return item, sent[-1], given


def _too_late(actor: Actor, review_id: str, so: str) -> Refused:
    item = get_review(actor, review_id)  # Read after its answers: the run may have taken one in between.
    answer = find_answer(item)
    if actor.name in item.agreed:
        message = f"your answer on review {item.id} counts already, and a second person has to answer too; {so}"
        return Refused(message, code="conflict", field="review")
    if answer is None or item.open:
        message = f"the run refused this answer to review {item.id}, and the review is still open: answer again"
        return Refused(message, code="conflict", field="review")
    return Refused(f"{_answered_refusal(item, answer).message}; {so}", code="conflict", field="review")


def _build_audit_entry(actor: Actor, act: Act, item: ReviewView, given: DecisionMade) -> AuditEntry:
    more = {"item": item.id, "verb": given.verb, "digest": given.digest, "input_id": given.input_id}
    return audit_entry(actor=actor, act=act, subject=item.run_id, **more)


def _same(item: ReviewView, given: ReviewAnswer, mine: DecisionMade) -> bool:
    """Return True if the review already has this very answer."""
    if given.by_system or (given.decided_by, given.verb, item.digest) != (mine.actor, mine.verb, mine.digest):
        return False
    parts = ("message", "edited", "cap_usd_micros", "caps", "model", "tool")
    return given.message is None or all(getattr(given, name) == getattr(mine, name) for name in parts)


def _counts(actor: Actor, mine: DecisionMade) -> None:
    """Raise Refused for an answer that came too late: the review was closed while it was on its way."""
    item = get_review(actor, mine.review_id)
    given = None if item.open else find_answer(item)
    if given is not None and not _same(item, given, mine):
        raise _answered_refusal(item, given)


def _answered_refusal(item: ReviewView, given: ReviewAnswer) -> Refused:
    return Refused(answered_sentence(item, given, store_now()), code="conflict", field="review")


BULK_MAX = 50
VERBS = ("approve", "reject", "respond", "decline")
"""Verbs for several reviews at once: an edit is written for one."""


@dataclass(frozen=True, slots=True)
class BulkItem:
    """One of the reviews, with the digest that the person was shown."""

    review_id: str
    digest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BulkResult:
    """Result for one review: the recorded answer, or the reason why there is none."""

    review_id: str
    taken: DecisionTaken | None = None
    refused: Refused | None = None


def decide_reviews(
    *,
    store: JournalStore,
    nudge: Nudge,
    actor: Actor,
    items: Sequence[BulkItem],
    verb: str,
    message: str = "",
    undo: bool = False,
) -> list[BulkResult]:
    """Give one answer to each of at most 50 reviews of one fabric, kind and stage, in their order. High-stakes reviews
    and edits are refused.

    ``undo``: True lets each be taken back for as long as its tier allows. Raises Refused where nothing was done:
    forbidden, invalid, not_found.
    """
    may_decide(actor)
    tiers = {one.id: Tier(one.tier) for one in _alike(actor, items, verb)}
    results = []
    for one in items:
        try:
            taken = decide_review(
                store=store,
                nudge=nudge,
                actor=actor,
                review_id=one.review_id,
                verb=verb,
                message=message,
                digest=one.digest,
                undo_s=UNDO_S[tiers[one.review_id]] if undo and one.review_id in tiers else 0.0,
            )
            results.append(BulkResult(review_id=one.review_id, taken=taken))
        except Refused as refusal:
            results.append(BulkResult(review_id=one.review_id, refused=refusal))
    return results


def _alike(actor: Actor, items: Sequence[BulkItem], verb: str) -> list[ReviewView]:
    """Return the existing reviews. Raises Refused for those that cannot be answered together."""
    if verb not in VERBS:
        message = f"{verb[:40]!r} is not said to several reviews at once; possible are: {', '.join(VERBS)}"
        raise Refused(message, code="invalid", field="verb")
    if not items or len(items) > BULK_MAX:
        message = f"{len(items)} reviews were picked: pick at least one and at most {BULK_MAX}"
        raise Refused(message, code="invalid", field="items")
    ids = [clean_text(one.review_id)[0] for one in items]
    if len(set(ids)) < len(ids):
        raise Refused("a review was picked twice: pick each one once", code="invalid", field="items")
    if any(not one.digest for one in items):
        message = "each review is answered as it was shown: give the digest of each"
        raise Refused(message, code="invalid", field="items")
    found = list_named_reviews(actor, ids)
    if not found:
        raise Refused("none of these reviews is in this workspace", code="not_found", field="items")
    if any(one.tier == Tier.HIGH_STAKES for one in found):
        message = "high-stakes reviews are decided one by one: leave those out"
        raise Refused(message, code="invalid", field="items")
    if len({_kind(one) for one in found}) > 1:
        message = "only reviews of the same fabric, kind and stage are answered at one go: pick those that are alike"
        raise Refused(message, code="invalid", field="items")
    return found


def _kind(item: ReviewView) -> tuple[str, str, str]:
    return item.fabric_name, item.item, item.stage


ALL_MEMBERS = "*"
"""Subject of the audit line for an export of all people's decisions."""


def may_export_all(actor: Actor) -> bool:
    """Return True if the actor may export others' decisions too."""
    return actor.may(Right.AUDIT)


def decisions_export(*, actor: Actor, wanted: HistoryFilter, form: str) -> DecisionLines:
    """Return the lines of an export, and record it in the audit stream. ``form``: ``csv`` or ``ndjson``.

    Raises Refused: forbidden (others' decisions), invalid (an unknown form).
    """
    if wanted.by != actor.name and not may_export_all(actor):
        who = holders(Right.AUDIT)
        message = f"{actor.name} may export their own decisions and not those of others: that is for {who}; ask for by={actor.name}"
        raise Refused(message, code="forbidden", field="by")
    lines = DecisionLines(actor, wanted, form)
    kept = {"form": form, "since": wanted.since, "until": wanted.until}
    audit_record(actor=actor, act=Act.DECISIONS_EXPORTED, subject=wanted.by or ALL_MEMBERS, **kept)
    return lines
