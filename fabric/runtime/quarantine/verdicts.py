"""Puts a run that may not be driven into quarantine. Pure: the rows follow from the claim alone.

1. Suspects are runs that were claimed at least twice without progress. One of them may be what kills its workers. A
   worker's death counts against every run that it owned. So a worker owns one suspect at a time, beside runs that are
   no suspects. A run that kills its workers is then quarantined alone, and its neighbours make progress.
2. A run is quarantined if it was claimed more often without progress than its policy lets it, or if its journal is
   damaged. Neither is folded here: the worker must not meet once more what is wrong with them. So the rows are chained
   to where the run's *row* says that its journal ends, and the row is marked, not projected.
3. A person then says: try again (the count starts anew), or abort. Nothing else moves a quarantined run but a cancel or
   a terminate. A run that cannot be brought to its end is ended where it stands. Its possible cost is charged at worst
   case, and its possible changes are named. Its known children have to stop (``unfolded_claims.py``).
4. The parent of a quarantined child gets a message, and opens the same review. A child that ends without being folded
   costs its parent what was reserved for it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from fabric.core import events as ev
from fabric.core.child_runs.children import ACTOR, REASON_CHARS
from fabric.core.decision.work import EmittedFact
from fabric.core.events.child_inputs import ChildEnded, ChildStuck
from fabric.core.events.commands import Outgoing, Tell
from fabric.core.events.envelope import Event, JournalRow, to_row
from fabric.core.events.inputs import INBOX, CancelRequested, DecisionMade, InboxInput, NewerInput, TerminateRequested
from fabric.core.evolve.lifecycle import state_before_quarantine
from fabric.core.handlers.control import TERMINATED
from fabric.core.reviews.agreement import not_theirs
from fabric.core.spec.policies.limits import Limits
from fabric.core.spec.policies.people import ONWARD_TO
from fabric.core.state.context import CompiledFabric
from fabric.core.state.run import OpenReview
from fabric.core.values.fingerprint import content_ref, digest, encode
from fabric.core.values.flow import FORMAT, RunState
from fabric.core.values.frozen import value
from fabric.runtime.journal import batches as outgoing
from fabric.runtime.journal import projection
from fabric.runtime.ports.batch_parts import RunMark, SettledBy, Settlement
from fabric.runtime.ports.journal import Batch, ClaimedRun, InboxItem
from fabric.runtime.quarantine import unfolded_claims as unfolded

CLAIMS_MAX = Limits().claims_without_progress
"""Claims without progress where a run's policy cannot be read; N is allowed, N+1 is not
(docs/specification/README.md).
"""
DUE_US = 24 * 3600 * 1_000_000
"""Time to answer: one day. Nothing happens automatically after it: a run that kills its owners stays away."""
WAKES_QUARANTINED = 2
"""``wakes`` of the inputs that a quarantined run is claimed for. They are a cancel, a terminate, and the answer to its
own review. Any other must not wake it.
"""
ROLE = "reviewer"
VERBS = ("approve", "reject")
_ENDS = ("run_quarantined", "run_released_from_quarantine", "run_ended")
Answer = DecisionMade | CancelRequested | TerminateRequested


@value()
class _Mail:
    """Inputs that a quarantined run reads, each row once. Others wait for its release, answers to its other reviews
    too.
    """

    answers: tuple[tuple[InboxItem, Answer], ...]
    unreadable: tuple[InboxItem, ...]
    """Inputs that are marked as read without use; otherwise they would have the run claimed again and again."""
    format: int
    """Format that an owner must be able to read, if it is newer than this program's; else 0. Later rows wait for it."""


def verdict(
    claimed: ClaimedRun,
    now: int,
    *,
    damage: str = "",
    compiled: CompiledFabric | None = None,
    reads: Callable[[bytes], InboxInput] = INBOX.validate_json,
    format: int = FORMAT,
) -> Batch | None:
    """Return the batch that replaces driving a claimed run, which releases it; None: the run is driven.

    ``now``: microseconds since the epoch. ``damage``: fault of the journal, a sentence without its full stop, or
    ``""``. ``compiled``: the run's revision, if readable. ``reads`` and ``format`` are the program, as in
    ``driver.RunDriver``.
    """
    quarantined = _is_quarantined(claimed)
    if not quarantined and not damage and claimed.claims <= _limit(compiled):
        return None
    pen = _Pen(claimed, now, "" if compiled is None else compiled.spec.name)
    if quarantined:
        review, mail = unfolded.quarantine_review(claimed), _mail(claimed, reads, format)
        if review is not None:
            return _apply_answer(pen, claimed, review, mail, damage or unfolded.damage(claimed))
        # Its review cannot be read any more: another is opened, and answers to it count no longer.
        consumed = [item for item, _ in mail.answers]
        return _put_away(pen, claimed, damage or "its own review cannot be read", compiled, consumed)
    return _put_away(pen, claimed, damage, compiled, ())


def _put_away(
    pen: _Pen, claimed: ClaimedRun, damage: str, compiled: CompiledFabric | None, consumed: Sequence[InboxItem]
) -> Batch:
    limit = _limit(compiled)
    what = f"its journal is damaged: {damage}" if damage else f"it was claimed {claimed.claims} times without progress"
    reason = f"The run is quarantined: {what}."
    pen.write(ev.RunQuarantined(reason=reason, claims=claimed.claims, damage=damage))
    shown = {
        "item": "quarantine",
        "stage": pen.stage,
        "message": reason,
        "limit": limit,
        "observed": claimed.claims,
        "unit": "claims without progress",
        "problems": [damage] if damage else [],
        "approve": "the run continues from its journal with a fresh count of claims",
        "reject": "the run is aborted",
        "expiry": "nothing happens automatically",
    }
    number = pen.seq + 1
    opened = ev.ReviewOpened(
        review_id=digest(claimed.run_id, "review", number)[:16],
        item="quarantine",
        reason=reason,
        failure_type=None,
        stage=pen.stage,
        step_id="",
        scope="run",
        required_role=ROLE,
        verbs=VERBS,
        digest=digest(claimed.revision_id, content_ref(encode(shown)), claimed.run_id, number),
        remind_at=pen.now + DUE_US // 2,
        onward_at=pen.now + 3 * DUE_US // 4,
        due_at=pen.now + DUE_US,
        on_expiry="nothing",
        # The person who started it does not let it go on, unless that person is alone.
        barred=tuple(who for who in dict.fromkeys((claimed.requested_by, *claimed.caused_by)) if who),
        reviewers=() if compiled is None else compiled.spec.reviewers,
        onward_to=ONWARD_TO if compiled is None else compiled.spec.policy.humans.onward_to,
    )
    pen.write(opened, shown)
    pen.tell_parent("stuck", ChildStuck, stuck=True, reason=reason, review_id=opened.review_id, digest=opened.digest)
    return pen.batch(RunMark(state=RunState.QUARANTINED, reason=reason[:500]), consumed, wake_at=None)


def _limit(compiled: CompiledFabric | None) -> int:
    return CLAIMS_MAX if compiled is None else compiled.spec.policy.limits.claims_without_progress


# -- answers ---------------------------------------------------------------------------------------------------------


def _apply_answer(pen: _Pen, claimed: ClaimedRun, review: ev.ReviewOpened, mail: _Mail, damage: str) -> Batch:
    """The first answer that counts ends the quarantine; whatever else was said of it is journaled as ignored. Who wants
    the run stopped is heard by the run that goes on.
    """
    mark, wake_at = RunMark(state=RunState.QUARANTINED, reason=review.reason[:500]), None
    for item in mail.unreadable:
        pen.input_id = item.input_id
        pen.write(ev.InputIgnored(input_kind="unknown", reason="it cannot be read"))
    consumed, begun = list(mail.unreadable), unfolded.find_ending(claimed)
    for item, answer in mail.answers:
        if mark.ended_at is not None:
            break  # Nothing happens to a run that has ended.
        if wake_at is not None and not isinstance(answer, DecisionMade):
            continue  # It is no answer to the review, and holds for the run as it goes on: who takes that does as it says.
        pen.input_id = item.input_id
        consumed.append(item)
        refused = _explain_refusal(review, item, answer, pen.fabric, over=wake_at is not None)
        if refused:
            pen.write(ev.InputIgnored(input_kind=answer.kind, reason=refused))
            continue
        state, reason = _close_review(pen, review, answer, item)
        if state is None:
            pen.release(answer.actor)
            mark, wake_at = RunMark(state=_find_earlier_state(claimed)), pen.now
        elif damage or begun is not None or not unfolded.has_started(claimed):
            # It cannot be folded, could not even be brought to its end, or has nothing to end.
            what = damage or (
                "it could not be brought to its end" if unfolded.has_started(claimed) else "it never started"
            )
            # An earlier decision stands: the run ends sooner, not otherwise.
            state, reaction = (begun.state, begun.reaction) if begun is not None else (state, _REACTION[answer.kind])
            mark = _ended_blindly(pen, claimed, review, state, reaction, f"{reason} ({what})")
        else:
            pen.release(answer.actor)
            ending = ev.RunEnding(state=state, reaction=_REACTION[answer.kind], reason=reason)
            pen.write(ending)
            mark, wake_at = RunMark(state=state_before_quarantine(True, ending)), pen.now
    if mail.format and mark.ended_at is None:
        wake_at = pen.now  # For readers of the row.
    return pen.batch(mark, consumed, wake_at, mail.format if mark.ended_at is None else 0)


def _ended_blindly(
    pen: _Pen, claimed: ClaimedRun, review: ev.ReviewOpened, state: RunState, reaction: str, why: str
) -> RunMark:
    """End the row where it stands, with the reason and what is left. Notify its parent, and stop its children."""
    left = unfolded.read_leftovers(claimed)
    for other in sorted(set(left.reviews) - {review.review_id}):
        pen.write(ev.ReviewWithdrawn(review_id=other, reason="the run is ending"))
    if left.stays:
        pen.write(ev.UnwindingOmitted(reason="the run cannot continue", stays=left.stays))
        why = f"{why}; not undone: {', '.join(left.stays)}"
    pen.write(ev.RunEnded(state=state, reason=why, reaction=reaction))
    started = unfolded.has_started(claimed)
    cost = None if started else 0
    fields = {"reason": why[:REASON_CHARS], "cost_usd_micros": cost, "tokens": cost, "changed_world": started}
    pen.tell_parent("child", ChildEnded, state=state, **fields)
    pen.stop_children(left.children, why)
    pen.settle(left.granted)
    return RunMark(
        state=state,
        reason=why[:500],
        ended_at=pen.now,
        recovered=False,
        truncated=False,
        charged_usd_micros=left.charged_usd_micros,
        charged_tokens=left.charged_tokens,
        spent_on=left.spent_on,
    )


_REACTION = {"decision_made": "reject", "cancel_requested": "cancel", "terminate_requested": TERMINATED}


def _close_review(pen: _Pen, review: ev.ReviewOpened, answer: Answer, item: InboxItem) -> tuple[RunState | None, str]:
    """Closes the review; gives back the state that the run shall end in (None: it goes on) and why."""
    if isinstance(answer, CancelRequested):
        pen.write(ev.CancelAccepted(actor=answer.actor, reason=answer.reason))
        pen.write(ev.ReviewWithdrawn(review_id=review.review_id, reason="the run is ending"))
        return RunState.CANCELLED, answer.reason or f"cancelled by {answer.actor}"
    if isinstance(answer, TerminateRequested):
        pen.write(ev.TerminateAccepted(actor=answer.actor, reason=answer.reason))
        pen.write(ev.ReviewWithdrawn(review_id=review.review_id, reason="the run is ending"))
        return RunState.ABORTED, f"terminated by {answer.actor}" + (f": {answer.reason}" if answer.reason else "")
    said = {"message": answer.message} if answer.message else None
    roles = () if item.standing is None else tuple(sorted(item.standing.person(pen.fabric).roles))
    fact = ev.ReviewDecided(review_id=review.review_id, verb=answer.verb, actor=answer.actor, roles=roles)
    pen.write(fact, said)
    if answer.verb == "approve":
        return None, ""
    message = f": {answer.message}" if answer.message else ""
    return RunState.ABORTED, f"{answer.actor} rejected it{message} ({review.reason})"


def _explain_refusal(review: ev.ReviewOpened, item: InboxItem, answer: Answer, fabric: str, *, over: bool) -> str:
    if over:
        return "the quarantine was ended at the same time"
    if not isinstance(answer, DecisionMade):
        return ""
    if answer.review_id != review.review_id:
        return "the review was answered before, withdrawn, or never asked"
    if answer.digest != review.digest:
        return "the decision was about other content (its digest differs)"
    if answer.verb not in review.verbs:
        return f"{answer.verb} is not possible here; possible are: {', '.join(review.verbs)}"
    return not_theirs(OpenReview(review), answer, None if item.standing is None else item.standing.person(fabric))


# -- what the journal and the inbox say ------------------------------------------------------------------------------


def _is_quarantined(claimed: ClaimedRun) -> bool:
    """Return True if the journal's last word is the quarantine. With a missing row behind it, the run may have ended
    there.

    Rows before a snapshot do not matter: no quarantined run gets a snapshot.
    """
    word = next((n for n, row in enumerate(reversed(claimed.rows)) if row.kind in _ENDS), None)
    if word is None:
        return False
    last = claimed.rows[len(claimed.rows) - 1 - word]
    return last.kind == "run_quarantined" and last.seq + word == claimed.last_seq


def _find_earlier_state(claimed: ClaimedRun) -> RunState:
    return state_before_quarantine(unfolded.has_started(claimed), unfolded.find_ending(claimed))


def _mail(claimed: ClaimedRun, reads: Callable[[bytes], InboxInput], format: int) -> _Mail:
    own = unfolded.own_reviews(claimed)
    # Where its review cannot be read, nor can be told whose an answer is: none is left to wake it.
    asked, left = unfolded.quarantine_review(claimed) is not None, unfolded.read_leftovers(claimed)
    answers: list[tuple[InboxItem, Answer]] = []
    unreadable: list[InboxItem] = []
    for item in claimed.inbox:
        try:
            given = reads(item.body)
        except NewerInput:
            return _Mail(tuple(answers), tuple(unreadable), max(item.format, format + 1))
        except ValueError:
            unreadable.append(item)
            continue
        if not isinstance(given, Answer):
            continue
        others = isinstance(given, DecisionMade) and asked and given.review_id not in own
        # One that answers nothing that is open would wake the run again and again: it is taken for this review's, and
        # refused.
        if others and (not left.whole or getattr(given, "review_id", "") in left.reviews):
            continue
        answers.append((item, given))
    return _Mail(tuple(answers), tuple(unreadable), 0)


class _Pen:
    """Writes behind what the run's row says is the journal's end."""

    def __init__(self, claimed: ClaimedRun, now: int, fabric: str) -> None:
        self._claimed = claimed
        self.fabric = fabric
        self.now = max(now, unfolded.last_at(claimed))
        self.stage = unfolded.stage(claimed)
        self.seq, self._head = claimed.last_seq, claimed.head
        self.input_id = ""
        self._rows: list[JournalRow] = []
        self._emitted: list[EmittedFact] = []
        self._outbox: list[Outgoing] = []
        self._settled: list[Settlement] = []

    def write(self, fact: ev.Fact, content: Mapping[str, object] | None = None) -> None:
        """One more row."""
        self.seq += 1
        raw = None if content is None else encode(content)
        ref, size = ("", 0) if raw is None else (content_ref(raw), len(raw))
        event = Event(self.seq, self.now, fact, self.input_id, ref, size)
        row = to_row(event, raw, self._head)
        self._head = row.hash
        self._rows.append(row)
        self._emitted.append(EmittedFact(event, raw))

    def release(self, actor: str) -> None:
        """Release the run from quarantine."""
        self.write(ev.RunReleasedFromQuarantine(actor=actor))
        self.tell_parent("stuck", ChildStuck, stuck=False)

    def tell_parent(self, what: str, kind: type[ChildStuck | ChildEnded], **said: Any) -> None:
        """An input for the parent, where the run is a child."""
        parent, command_id = self._claimed.parent_run_id, self._claimed.parent_command
        if parent is None:
            return
        input_id = f"{what}:{command_id}" if kind is ChildEnded else f"{what}:{command_id}:{self.seq}"
        given = kind(input_id=input_id, child_id=self._claimed.run_id, command_id=command_id, **said)
        self._outbox.append(Tell(run_id=parent, given=given))

    def stop_children(self, children: Mapping[str, str], reason: str) -> None:
        """Release the children, whose results no one takes in. ``children``: run ids by command id."""
        for command_id, child_id in children.items():
            given = CancelRequested(input_id=f"parent:{command_id}:cancel", actor=ACTOR, reason=reason[:REASON_CHARS])
            self._outbox.append(Tell(run_id=child_id, given=given))

    def settle(self, granted: Sequence[tuple[str, int]]) -> None:
        """Return the amounts that are still reserved of shared budgets, at the worst case. ``granted``: attempts, by
        command id.
        """
        self._settled += [
            Settlement(
                run_id=self._claimed.run_id,
                command_id=command_id,
                attempt=attempt,
                usd_micros=None,
                reason=SettledBy.UNKNOWN,
            )
            for command_id, attempt in granted
        ]

    def batch(self, mark: RunMark, consumed: Sequence[InboxItem], wake_at: int | None, format: int = 0) -> Batch:
        """Return the batch of all written events, which also releases the claim."""
        return Batch(
            run_id=self._claimed.run_id,
            fence=self._claimed.fence,
            last_seq=self._claimed.last_seq,
            rows=tuple(self._rows),
            head=self._head,
            columns=mark,
            consumed=tuple(item.input_id for item in consumed),
            standings=tuple((item.input_id, item.standing) for item in consumed if item.standing is not None),
            reviews=projection.review_changes(self._emitted),
            wake_at=wake_at,
            release=True,
            sends=outgoing.sends(self._outbox),
            settled=tuple(self._settled),
            format=format,
        )


SUSPECT_FROM = 2
"""Claims without progress that make a run a suspect: a single one may be bad luck."""
SUSPECTS_MAX = 1
"""Suspects that one worker owns at a time."""


def is_suspect(claims: int) -> bool:
    """Return True where a run with so many claims without progress, before the next one, is a suspect."""
    return claims >= SUSPECT_FROM


def count_admitted(owned: int) -> int:
    """Return how many suspects a worker may take that already owns ``owned`` of them without progress since."""
    return max(0, SUSPECTS_MAX - owned)
