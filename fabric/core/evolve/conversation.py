"""Folds conversations: the chosen speakers, and the clocks."""

from __future__ import annotations

from collections.abc import Mapping

from fabric.core import events as ev
from fabric.core.events.envelope import Event
from fabric.core.evolve.parts import Evolve
from fabric.core.graph.state import SpeakerReason
from fabric.core.state.run import Run, Talk
from fabric.core.values.frozen import replace


def _speaker_chosen(run: Run, event: Event, fact: ev.SpeakerChosen) -> Run:
    talk = replace(
        run.talk,
        turns=fact.turn,
        speaker=fact.speaker,
        closed=fact.close_reason,
        context_ref=event.content_ref,
        written=(),
        due_at=0,
        fired=(),
        begun=fact.turn if fact.why is SpeakerReason.RESTART else run.talk.begun,
    )
    return replace(run, talk=talk)


def _turn_overdue(run: Run, event: Event, fact: ev.TurnOverdue) -> Run:
    return replace(run, talk=replace(run.talk, due_at=fact.due_at, fired=(*run.talk.fired, fact.place)))


def _person_said(run: Run, event: Event, fact: ev.PersonSaid) -> Run:
    return replace(run, talk=replace(run.talk, waiting=(*run.talk.waiting, event.content_ref)))


def _context_written(run: Run, event: Event, fact: ev.ContextWritten) -> Run:
    if fact.in_turn:
        return replace(run, talk=replace(run.talk, written=(*run.talk.written, (event.content_ref, fact.after))))
    return replace(run, talk=replace(run.talk, context_ref=event.content_ref))


def stop_clocks(talk: Talk, at: int) -> Talk:
    """Return a conversation with its clocks stopped from now on, if they were running."""
    return talk if talk.stopped_at or not talk.due_at else replace(talk, stopped_at=at)


def start_clocks(talk: Talk, at: int) -> Talk:
    """Return the talk with running clocks; the time that it was stopped does not count."""
    if not talk.stopped_at:
        return talk
    waited = at - talk.stopped_at
    return replace(
        talk,
        stopped_at=0,
        opened_at=talk.opened_at + waited,
        turn_at=talk.turn_at + waited,
        due_at=talk.due_at + waited if talk.due_at else 0,
    )


TABLE: Mapping[str, Evolve] = {
    "speaker_chosen": _speaker_chosen,
    "turn_overdue": _turn_overdue,
    "person_said": _person_said,
    "context_written": _context_written,
}
