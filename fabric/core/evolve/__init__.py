"""Applies events to a run: ``evolve(run, event) -> run``. The fold of the journal is the run.

``evolve`` reads an event's header and nothing else: no clock, no content, no rules. One function a kind, in one
table, total by test. Mechanisms have their own state in ``Run.guards``, which each folds itself (``mechanisms``).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from fabric.core.events.envelope import Event
from fabric.core.evolve import calls, children, control, conversation, decisions, lifecycle, saga
from fabric.core.evolve.parts import Evolve
from fabric.core.mechanisms import branch_key, observe
from fabric.core.state.run import Run
from fabric.core.values.frozen import replace, stamp

EVOLVE: Mapping[str, Evolve] = {
    **lifecycle.TABLE,
    **calls.TABLE,
    **conversation.TABLE,
    **decisions.TABLE,
    **control.TABLE,
    **saga.TABLE,
    **children.TABLE,
}
"""The table: one function a kind."""
FORGETS = frozenset({"step_opened", "replanned"})
"""Kinds after which steps are gone for good. A mechanism's state of such a step goes too, so that a long run's state
does not grow.
"""


def evolve(run: Run, event: Event) -> Run:
    """Return the run after ``event``. Raises KeyError for a kind without a row, which the totality test rules out."""
    fact = event.fact
    changed = EVOLVE[fact.kind](run, event, fact)
    guards = observe(run.guards, event)
    if fact.kind in FORGETS:
        gone = run.steps.keys() - changed.steps.keys()
        gone |= {branch_key(step) for step in run.steps} - {branch_key(step) for step in changed.steps}
        guards = {key: state for key, state in guards.items() if key.partition("/")[2] not in gone}
    if changed is run:
        size = run.content_bytes + event.content_bytes
        return replace(run, seq=event.seq, at=event.at, guards=guards, content_bytes=size)
    if event.content_bytes:
        stamp(changed, "content_bytes", run.content_bytes + event.content_bytes)
    stamp(changed, "seq", event.seq)
    stamp(changed, "at", event.at)
    stamp(changed, "guards", guards)
    return changed


def fold(run: Run, events: Iterable[Event]) -> Run:
    """Return the run after all of ``events``."""
    for event in events:
        run = evolve(run, event)
    return run
