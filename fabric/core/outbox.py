"""What leaves a run with its batch, written in the same transaction: child runs that begin, inputs for other runs of the family."""

from __future__ import annotations

from fabric.core.child_inputs import ChildEnded, ChildRequested, ChildStuck, ChildWaits
from fabric.core.frozen import value
from fabric.core.inputs import CancelRequested, DecisionMade, PauseRequested, ResumeRequested, TerminateRequested

Down = CancelRequested | TerminateRequested | PauseRequested | ResumeRequested | DecisionMade
Up = ChildWaits | ChildStuck | ChildEnded


@value(kw_only=True)
class Spawn:
    """A child run begins, on its parent's revision, tier, queue, priority and session."""

    run_id: str
    title: str
    seed: int
    given: ChildRequested


@value(kw_only=True)
class Tell:
    """An input for a parent or a child; exactly once, by its id."""

    run_id: str
    given: Down | Up


Outgoing = Spawn | Tell
