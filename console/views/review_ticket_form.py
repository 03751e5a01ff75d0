"""What can be done with a ticket, as its page offers it: closing it, and closing it with a run that goes on from an event of the ticket's run."""

from __future__ import annotations

from dataclasses import dataclass

from django import forms

from fabric import wiring
from fabric.core.actor import Actor
from fabric.core.roles import Right, holders
from fabric.core.words import words
from fabric.selectors.errors import Refused
from fabric.selectors.escalations import EscalationView
from fabric.selectors.review_evidence import Evidence
from fabric.services.forks import Origin, fork_origin
from fabric.services.tickets import may_close

CLOSE, FORK = "close", "fork"
SEQ_MAX = 2**31 - 1
NO_EVENT = "Give the number of an event of the run, such as 12."


class TicketForm(forms.Form):
    """What became of a ticket. What the note may be is the service's to say."""

    message = forms.CharField(strip=True, required=False)
    how = forms.ChoiceField(
        choices=[(CLOSE, CLOSE), (FORK, FORK)],
        required=False,
        error_messages={"invalid_choice": "Close the ticket, with a run that goes on or without one."},
    )
    """Which button; empty: the form was sent by a key."""
    seq = forms.IntegerField(
        required=False,
        min_value=1,
        max_value=SEQ_MAX,
        error_messages={"invalid": NO_EVENT, "min_value": NO_EVENT, "max_value": NO_EVENT},
    )

    def clean(self) -> dict[str, object]:
        """A run goes on from an event."""
        cleaned = super().clean() or {}
        if cleaned.get("how") == FORK and cleaned.get("seq") is None and "seq" not in self.errors:
            self.add_error("seq", "Say from which event the new run goes on.")
        return cleaned


@dataclass(frozen=True, slots=True)
class Closing:
    """How a ticket may be closed by whoever looks."""

    form: TicketForm
    may: bool
    """Whether this person may close it."""
    seq: int
    """The event that a new run would go on from, where nobody says another one."""
    keeps: str
    """What a new run keeps and does anew, one sentence; empty: none can be started."""
    no_fork: str
    """Why none can be started, one sentence; empty: one can."""


def closing_of(actor: Actor, item: EscalationView, known: Evidence, form: TicketForm | None) -> Closing:
    """What its page offers. ``form``: what was sent and could not be taken."""
    seq = known.seq or known.run.last_seq
    form = form or TicketForm(initial={"seq": seq})
    may = may_close(actor, item)
    if not actor.may(Right.RUN):
        return Closing(form, may, seq, "", f"Starting a run is for {holders(Right.RUN)}.")
    try:
        origin = fork_origin(store=wiring.store(), actor=actor, run_id=item.run_id, seq=seq)
    except Refused as refusal:
        return Closing(form, may, seq, "", refusal.message)
    return Closing(form, may, seq, _keeps(origin), "")


def _keeps(origin: Origin) -> str:
    point = origin.point
    kept = [words(stage) for stage, _ in point.stages]
    if point.branches:
        kept.append(f"{len(point.branches)} done branch{'es' if len(point.branches) != 1 else ''}")
    assert point.stage is not None  # ``fork_origin`` refuses a run that was through.
    anew = f"does {words(point.stage)} and what follows anew"
    return f"It keeps {', '.join(kept)} and {anew}." if kept else f"It keeps nothing and {anew}."
