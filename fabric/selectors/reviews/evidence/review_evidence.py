"""Collects evidence for a review's decision besides its content: the gates that stopped the run, and the run's state.

A text's claim without a source comes with its sentence, and the nearest passage of the attached documents.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from typing import Any

from fabric.core.events import ReactionDecided, TripRecord
from fabric.core.events.envelope import UnknownEvent, from_row
from fabric.core.mechanisms import budget, find_state
from fabric.core.people.actor import Actor
from fabric.core.spec.fabric import FabricSpec
from fabric.core.state.run import Run, clocks_stopped
from fabric.core.values.flow import Stage
from fabric.core.values.saga import find_by_key, undo_order
from fabric.core.values.taxonomy import Cause
from fabric.core.values.words import count, words
from fabric.models import Attachment, Event
from fabric.selectors.reviews.evidence.box import build_box
from fabric.selectors.reviews.evidence.rows import Asked, EvidenceBox
from fabric.selectors.reviews.review_view import ReviewView
from fabric.selectors.runs.events.explanations import in_words
from fabric.selectors.runs.events.moments import Moment, moment_at
from fabric.selectors.runs.lookup import RunView, run_get
from fabric.selectors.workspaces.policies import spec_under

NEAR = 64
"""Number of events before a review within which its decision lies: in between its branches are parked."""
CONFIDENCE = "confidence"


@dataclass(frozen=True, slots=True)
class GateStep:
    """One check of a stage's gate, in the gate's order."""

    name: str
    result: str
    """The gate's recorded result: ``events.parts.Check.result``."""
    note: str = ""


@dataclass(frozen=True, slots=True)
class PendingUndo:
    """A compensation before a bad end."""

    tool: str
    compensation: str
    """Compensating tool; empty: the change cannot be undone."""
    status: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewEvidence:
    """Circumstances of a review. Instants are microseconds since the epoch, UTC; money is micro-dollars. Parts that
    cannot be folded are left out.
    """

    run: RunView
    spec: FabricSpec
    seq: int = 0
    """Number of the event that opened the review; 0: not found."""
    remind_at: int
    onward_at: int
    round: int = 1
    folded: bool = False
    """True if the following figures are known."""
    spent_usd_micros: int = 0
    cap_usd_micros: int = 0
    replans: int = 0
    replans_max: int = 0
    clock_left_us: int | None = None
    """Rest of the run's time while its clocks stand still; None: they run."""
    trip: TripRecord | None = None
    numbers: str = ""
    """Numbers of the trip in one sentence, with the cycle where there is one."""
    gates: tuple[GateStep, ...] = ()
    undo: tuple[PendingUndo, ...] = ()
    """Compensations of a rejection that ends the run, in their order."""
    box: EvidenceBox = field(default_factory=EvidenceBox)
    """Events and numbers behind the review, by its mechanism."""

    @property
    def left_usd_micros(self) -> int:
        """Return the amount that the run may still spend."""
        return max(0, self.cap_usd_micros - self.spent_usd_micros)

    @property
    def replans_left(self) -> int:
        """Return the number of replans left in the review's stage."""
        return max(0, self.replans_max - self.replans)


def build_evidence(actor: Actor, item: ReviewView) -> ReviewEvidence:
    """Return everything about a review that its own row lacks. Raises Refused not_found."""
    run = run_get(actor, item.run_id)
    moment = moment_at(actor, run.id, run.last_seq)
    spec = spec_under(run.revision_id, run.workspace_id, moment.run.policy if moment else 0, run.tier)
    seq, fact = moment.reviews.get(item.id, (0, None)) if moment else (0, None)
    humans, due = spec.policy.humans, item.due_at - item.opened_at
    decided = _find_decision(item, seq) if item.reads else None
    trip = decided.cause if decided else None
    known: dict[str, Any] = {} if moment is None else _figures(moment, spec, item.stage)
    asked = Asked(
        item=item,
        run=run,
        spec=spec,
        moment=moment,
        seq=seq or run.last_seq + 1,
        details=trip.evidence.details if trip else item.content.get("details", {}),
    )
    return ReviewEvidence(
        run=run,
        spec=spec,
        seq=seq,
        remind_at=item.remind_at or item.opened_at + int(due * humans.reminder_at),
        onward_at=item.onward_at or item.opened_at + int(due * humans.onward_at),
        round=fact.round if fact else 1,
        trip=trip,
        numbers=in_words(trip) if trip else "",
        gates=tuple(_gates(decided)) if decided else (),
        box=build_box(asked),
        **known,
    )


def _figures(moment: Moment, spec: FabricSpec, stage: str) -> dict[str, Any]:
    run = moment.run
    stopped = clocks_stopped(run)
    here = Stage(stage) if stage in set(Stage) else run.stage
    return {
        "folded": True,
        "spent_usd_micros": moment.spent_usd_micros,
        "cap_usd_micros": budget.cap(spec.policy.budget, find_state(run.guards, budget)),
        "replans": run.replans.get(here, 0),
        "replans_max": spec.policy.limits.replans_per_stage,
        "clock_left_us": stopped[0] if stopped else None,
        "undo": tuple(_undo(run)),
    }


def _undo(run: Run) -> Iterable[PendingUndo]:
    for key in undo_order(run.saga.mutations, replan=False):
        if one := find_by_key(run.saga, key):
            yield PendingUndo(one.tool, one.compensation, one.status)


def _find_decision(item: ReviewView, seq: int) -> ReactionDecided | None:
    """Return the decision that led to a review: the last earlier one with its reason; None: there is none."""
    rows = Event.objects.filter(run_id=item.run_id, seq__lt=seq, seq__gte=seq - NEAR, kind="reaction_decided")
    for stored in rows.order_by("-seq").values_list("seq", "kind", "version", "header") if seq else ():
        try:
            fact: Any = from_row(stored[0], stored[1], stored[2], bytes(stored[3])).fact
        except (UnknownEvent, ValueError):
            continue
        decided: ReactionDecided = fact
        if decided.cause.message == item.reason:
            return decided
    return None


def _gates(decided: ReactionDecided) -> Iterable[GateStep]:
    """Yield the checks of the refusing gate, in their order; none, where no gate stopped the run."""
    gate = decided.gate
    for check in gate.checks if gate is not None else ():
        note = "" if check.result in ("passed", "failed") else words(check.result)
        if check.result == "failed":
            note = count(len(check.problems), "problem")
            if check.name == CONFIDENCE:
                note = f"{decided.cause.evidence.observed}, needed {decided.cause.evidence.limit}"
        yield GateStep(check.name, check.result, note)


CLAIMS_MAX = 2
"""Number of shown claims; the list of problems has all."""
AROUND = 160
"""Characters of the sentence on either side."""
TEXT_MAX = 200_000
"""Characters of one document that are searched."""
PASSAGES_MAX = 2_000
NEAR_ENOUGH = 0.3
"""Least likeness of a passage that is shown, 0 to 1."""
_NUMBER = re.compile(r"text: (\S.*?) is in no source")
_QUOTE = re.compile(r'text: "(.+)" stands in no source')
_ENDS = re.compile(r"(?<=[.!?])\s+|\n+")


@dataclass(frozen=True, slots=True)
class UnsourcedClaim:
    """One claim: its sentence in three parts, and the nearest passage."""

    head: str
    mark: str
    tail: str
    document: str = ""
    source: str = ""
    """Empty: nothing in the documents is near."""


def list_claims(item: ReviewView) -> list[UnsourcedClaim]:
    """Return the claims that grounding refused, where that caused the review. ``item``: as the actor saw it."""
    shown = item.content.get("payload")
    text = shown.get("text") if isinstance(shown, dict) else None
    if item.content.get("cause") != Cause.GROUNDING or not isinstance(text, str):
        return []
    found: list[UnsourcedClaim] = []
    for problem in item.content.get("problems", ()):
        match = _QUOTE.search(str(problem)) or _NUMBER.search(str(problem))
        at = text.find(match[1]) if match else -1
        if match and at >= 0 and len(found) < CLAIMS_MAX:
            found.append(_claim(item.run_id, text, at, len(match[1])))
    return found


def _claim(run_id: str, text: str, at: int, length: int) -> UnsourcedClaim:
    begins = max((m.end() for m in _ENDS.finditer(text, max(0, at - AROUND), at)), default=max(0, at - AROUND))
    ends = _ENDS.search(text, at + length, at + length + AROUND)
    end = ends.start() if ends else min(len(text), at + length + AROUND)
    document, source = _nearest(run_id, text[begins:end])
    return UnsourcedClaim(text[begins:at], text[at : at + length], text[at + length : end], document, source)


def _nearest(run_id: str, sentence: str) -> tuple[str, str]:
    likeness = SequenceMatcher(autojunk=False)
    likeness.set_seq2(sentence.lower())
    best = (NEAR_ENOUGH, "", "")
    for name, passage in _passages(run_id):
        likeness.set_seq1(passage.lower())
        if likeness.real_quick_ratio() > best[0] and likeness.quick_ratio() > best[0]:
            best = max(best, (likeness.ratio(), name, passage))
    return best[1], best[2]


def _passages(run_id: str) -> Iterator[tuple[str, str]]:
    left = PASSAGES_MAX
    for name, text in Attachment.objects.filter(run_id=run_id).order_by("position").values_list("name", "text"):
        for passage in _ENDS.split(text[:TEXT_MAX]):
            if passage.strip() and left > 0:
                left -= 1
                yield name, passage.strip()[: 2 * AROUND]
