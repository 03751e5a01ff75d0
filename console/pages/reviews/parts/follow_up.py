"""Offers the ways to close a follow-up: alone, or with a new run from an event of its run."""

from __future__ import annotations

from dataclasses import dataclass

from django import forms

from fabric.composition import engine as wiring
from fabric.core.people.actor import Actor
from fabric.core.people.roles import Right, holders
from fabric.core.values.words import words
from fabric.selectors.errors import Refused
from fabric.selectors.reviews.evidence.review_evidence import ReviewEvidence
from fabric.selectors.reviews.review_view import ReviewView
from fabric.services.reviews.follow_ups import may_close
from fabric.services.runs.forks import ForkOrigin, fork_origin

CLOSE, FORK = "close", "fork"
SEQ_MAX = 2**31 - 1
NO_EVENT = "Give the number of an event of the run, such as 12."


class FollowUpForm(forms.Form):
    """Form that closes a follow-up. The service validates the note."""

    message = forms.CharField(strip=True, required=False)
    how = forms.ChoiceField(
        choices=[(CLOSE, CLOSE), (FORK, FORK)],
        required=False,
        error_messages={"invalid_choice": "Close the follow-up, with or without a new run."},
    )
    """Value of the button; empty if the form was sent by a key."""
    seq = forms.IntegerField(
        required=False,
        min_value=1,
        max_value=SEQ_MAX,
        error_messages={"invalid": NO_EVENT, "min_value": NO_EVENT, "max_value": NO_EVENT},
    )

    def clean(self) -> dict[str, object]:
        """Check that a form that starts a run names an event."""
        cleaned = super().clean() or {}
        if cleaned.get("how") == FORK and cleaned.get("seq") is None and "seq" not in self.errors:
            self.add_error("seq", "Give the event that the new run continues from.")
        return cleaned


@dataclass(frozen=True, slots=True)
class Closing:
    """Ways in which the viewer may close a follow-up."""

    form: FollowUpForm
    may: bool
    """True if this person may close it."""
    seq: int
    """Sequence number of the event from which a new run goes on by default."""
    keeps: str
    """Sentence that says what a new run keeps and repeats; empty if no run can be started."""
    no_fork: str
    """Sentence that says why no run can be started; empty if one can."""


def build_closing(actor: Actor, item: ReviewView, known: ReviewEvidence, form: FollowUpForm | None) -> Closing:
    """Return the ways to close a follow-up. ``form``: the refused form, if one was sent."""
    seq = known.seq or known.run.last_seq
    form = form or FollowUpForm(initial={"seq": seq})
    may = may_close(actor, item)
    if not actor.may(Right.RUN):
        return Closing(form, may, seq, "", f"Starting a run is for {holders(Right.RUN)}.")
    try:
        origin = fork_origin(store=wiring.store(), actor=actor, run_id=item.run_id, seq=seq)
    except Refused as refusal:
        return Closing(form, may, seq, "", refusal.message)
    return Closing(form, may, seq, _keeps(origin), "")


def _keeps(origin: ForkOrigin) -> str:
    point = origin.point
    kept = [words(stage) for stage, _ in point.stages]
    if point.branches:
        kept.append(f"{len(point.branches)} done branch{'es' if len(point.branches) != 1 else ''}")
    assert point.stage is not None  # ``fork_origin`` refuses a run that was through.
    anew = f"does {words(point.stage)} and what follows anew"
    return f"It keeps {', '.join(kept)} and {anew}." if kept else f"It keeps nothing and {anew}."
